#!/usr/bin/env bash
# Builds the wheel: dist/oarlock-<version>-py3-none-manylinux_2_35_x86_64.whl,
# with the programs, the example programs and all libraries that they need. It
# computes on CPUs, the same whatever this machine has.
#
#   python/build_wheel.sh [--programs FOLDER] [--out FOLDER]
#
# --programs: stripped programs that deploy/programs.sh has made; by default
# they are built. --out: dist.
set -euo pipefail
# shellcheck source=deploy/package.sh
source "$(dirname "$0")/../deploy/package.sh"
begin_package build_wheel python/packages.txt "$@"

python=$(tests/python/make_venv.sh python/build_requirements.txt)
wheel=$(/usr/bin/python3 -I python/make_wheel.py --programs "$programs" \
  --version "$version" --venv "${python%/bin/*}" --out "$out")
/usr/bin/python3 -I python/third_party.py check "$wheel"
echo "wheel     $wheel, $(du -k --apparent-size "$wheel" | cut -f 1) KiB"
