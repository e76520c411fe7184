#!/usr/bin/env bash
# Runs clang-tidy over all product sources, or those of some folders, two at a
# time, again only where a source or a header of it changed. Takes long when
# nothing is known yet. First it shows that a planted fault is found.
#
#   tests/lint/tidy.sh [FOLDER...]
set -euo pipefail
cd "$(dirname "$0")/../.."
bazel/install_packages.sh tests/packages.txt tests/lint/packages.txt
python3 tests/lint/planted_tidy.py
exec python3 tests/lint/lint.py "${@/#/--under=}" tidy
