#!/usr/bin/env bash
# Makes a virtual environment of Debian's Python with what a file of pinned
# versions names, once: prints its folder, which lies beside the compile cache.
#
#   python/venv.sh python/build_requirements.txt
set -euo pipefail
if [ $# -ne 1 ] || [ ! -r "$1" ]; then
  echo "venv: no list '${1:-}' can be read; name one, for example" \
    "python/build_requirements.txt" >&2
  exit 2
fi
digest=$({ /usr/bin/python3 -V; cat "$1"; } | sha256sum | cut -c 1-16)
home=${XDG_CACHE_HOME:-$HOME/.cache}/oarlock
venv=$home/venv-$digest
if [ ! -e "$venv/complete" ]; then
  mkdir -p "$home"
  exec 9>"$home/venv.lock"
  flock 9
  if [ ! -e "$venv/complete" ]; then
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv" >&2
    "$venv/bin/pip" install -q --disable-pip-version-check --no-deps \
      -r "$1" >&2
    touch "$venv/complete"
  fi
fi
echo "$venv"
