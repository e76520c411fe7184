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
root=$(cd "$(dirname "$0")/.." && pwd)
programs= out=$root/dist
while [ $# -gt 0 ]; do
  if [ $# -lt 2 ]; then
    echo "build_wheel: '$1' wants a folder or is no flag; legal are" \
      "--programs FOLDER and --out FOLDER" >&2
    exit 2
  fi
  case $1 in
    --programs) programs=$(realpath "$2") ;;
    --out) out=$(realpath -m "$2") ;;
    *)
      echo "build_wheel: there is no flag '$1'; legal are --programs and" \
        "--out" >&2
      exit 2
      ;;
  esac
  shift 2
done
cd "$root"

bazel/install_packages.sh python/packages.txt
SOURCE_DATE_EPOCH=$(deploy/programs.sh epoch)
export SOURCE_DATE_EPOCH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -z "$programs" ]; then
  deploy/programs.sh build "$scratch/whole"
  programs=$scratch/stripped
  deploy/programs.sh strip "$scratch/whole" "$programs"
fi
python=$(tests/python/make_venv.sh python/build_requirements.txt)
wheel=$(/usr/bin/python3 -I python/make_wheel.py --programs "$programs" \
  --version "$(deploy/programs.sh version)" --venv "${python%/bin/*}" --out "$out")
/usr/bin/python3 -I python/third_party.py check "$wheel"
echo "wheel     $wheel, $(du -k --apparent-size "$wheel" | cut -f 1) KiB"
