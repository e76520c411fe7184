#!/usr/bin/env bash
# The compile cache that all clones of this user share: Bazel's --disk_cache.
#
#   bazel/cache.sh          prints the flag, one line; nothing when it is off
#   bazel/cache.sh write    writes the flag into bazel/cache.bazelrc, which
#                           .bazelrc reads: every bazel command has it
#   bazel/cache.sh folder   prints the folder that holds all caches
#   bazel/cache.sh digest   prints what the folder's name is made of, hashed
#   bazel/cache.sh trim     removes what was not read for longest, down to
#                           OARLOCK_CACHE_MB (10000), and says what it kept
#
# It lies in ${XDG_CACHE_HOME:-$HOME/.cache}/oarlock/DIGEST. Headers of the
# system are no part of Bazel's keys, so DIGEST covers the compiler and the
# versions of all packages that this project names or that own a file under
# /usr/include. OARLOCK_CACHE=0 turns it off; CC is heeded as Bazel does.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  echo "cache: nothing is called '$1'; legal are write, folder, digest and" \
    "trim, or nothing" >&2
  exit 2
}

# Empty where no cache can lie.
folder() {
  local home=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
  if [ -z "$home" ]; then
    echo "cache: off, since neither XDG_CACHE_HOME nor HOME is set" >&2
    return
  fi
  echo "$home/oarlock"
}

# What lies under /usr/include/clang is read by clang alone, which is told by
# its own version: installing it leaves the cache of g++ as it is.
packages() {
  cat bazel/packages.txt
  local lists=/var/lib/dpkg/info
  if [ -d "$lists" ]; then
    (cd "$lists" && grep -lE '^/usr/include/([^c]|c[^l]|cl[^a])' -- *.list) |
      sed 's/\.list$//'
  fi
}

digest() {
  {
    "${CC:-g++}" -v 2>&1 | grep -v '^Found\|^Selected\|^Candidate'
    packages | grep -v '^#' | sort -u |
      xargs dpkg-query -W -f '${Package}:${Architecture} ${Version}\n' \
        2>/dev/null || true
  } | sha256sum | cut -c 1-16
}

flag() {
  if [ "${OARLOCK_CACHE:-1}" = 0 ]; then return; fi
  local root
  root=$(folder)
  if [ -z "$root" ]; then return; fi
  root=$root/$(digest)
  if ! mkdir -p "$root" 2>/dev/null || [ ! -w "$root" ]; then
    echo "cache: off, since $root cannot be written" >&2
    return
  fi
  echo "--disk_cache=$root"
}

case ${1:-flag} in
  flag) flag ;;
  write)
    line=$(flag)
    temporary=$(mktemp bazel/cache.bazelrc.XXXXXX)
    { echo "# Written by bazel/cache.sh."
      echo "${line:+build $line}"; } >"$temporary"
    mv "$temporary" bazel/cache.bazelrc
    ;;
  folder) folder ;;
  digest) digest ;;
  trim)
    root=$(folder)
    if [ -z "$root" ] || [ ! -d "$root" ]; then exit 0; fi
    exec /usr/bin/python3 -I bazel/trim_cache.py "$root" \
      --max_mb "${OARLOCK_CACHE_MB:-10000}"
    ;;
  *) usage "$1" ;;
esac
