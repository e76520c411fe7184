#!/usr/bin/env bash
# Ctrl-C into every wait of the Python client, whose library is built with the
# address sanitizer: a write to an array that was dropped is a report.
#
#   tests/python/soak_asan.sh [N] [--seed SEED]     as soak.py interrupts
#
# The servers are plain. Sanitizer reports end the run with a code that is not 0.
set -euo pipefail
cd "$(dirname "$0")/../.."

bazel build --noshow_progress //cli:oarlock >&2
bazel build --noshow_progress --config=asan //capi:liboarlock.so.1 >&2
plain=$(bazel info bazel-bin 2>/dev/null)
asan=$(bazel info --config=asan bazel-bin 2>/dev/null)
python=$(tests/python/make_venv.sh)

# A folder that has both, as the package finds them.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/lib" "$home/bin"
ln -s "$asan/capi/liboarlock.so.1" "$home/lib"
ln -s "$plain/cli/oarlock" "$home/bin"

# Python itself never gives back all that it has; arrays that were dropped soon
# count as memory again.
OARLOCK_HOME=$home \
  LD_PRELOAD=$(gcc -print-file-name=libasan.so) \
  ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16 \
  "$python" -B tests/python/soak.py interrupts "$@"
