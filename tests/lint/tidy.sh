#!/usr/bin/env bash
# Runs clang-tidy over all product sources, two at a time, again only where a
# source or a header of it changed. Takes long when nothing is known yet. First
# it shows that a planted fault is found.
#
#   tests/lint/tidy.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ $# -ne 0 ]; then
  echo "tidy.sh: it takes no arguments, got '$1'; .clang-tidy has the checks" >&2
  exit 2
fi
bazel/install_packages.sh tests/packages.txt tests/lint/packages.txt
python3 tests/lint/planted_tidy.py
exec python3 tests/lint/lint.py tidy
