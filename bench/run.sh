#!/usr/bin/env bash
# The bench: builds what it needs, then measures. See bench/README.md.
#
#   bench/run.sh [--quick] [--only NAME] [--json FILE]
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //cli:oarlock //bench/sparse_table:all //bench/client:all \
  //bench/data:all //bench/wire:all //bench/collective:all \
  //bench/dense:dense_ceiling
exec python3 bench/suite/run.py "$@"
