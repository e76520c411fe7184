#!/usr/bin/env bash
# Installs what is missing of bazel/packages.txt and of the other lists that are
# named, as seen from the root of the repository. Needs root or sudo only when
# something is missing.
#
#   bazel/install_packages.sh [tests/fuzz/packages.txt...]
set -euo pipefail
cd "$(dirname "$0")/.."

lists=(bazel/packages.txt "$@")
for list in "${lists[@]}"; do
  if [ ! -f "$list" ] || [ ! -r "$list" ]; then
    echo "packages: no list '$list' can be read in $PWD; name it as seen from" \
      "there, for example tests/fuzz/packages.txt" >&2
    exit 2
  fi
done

missing=()
while read -r package; do
  if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
      grep -q 'install ok installed'; then
    missing+=("$package")
  fi
done < <(grep -hv '^#' -- "${lists[@]}")
if [ ${#missing[@]} -eq 0 ]; then
  echo "packages: all installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "packages: ${missing[*]} are missing; run this as root, or install sudo" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "packages: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" >/dev/null
