#!/usr/bin/env bash
# The bench: builds what the rows need, then measures. See bench/README.md.
#
#   bench/run.sh [--quick] [--only NAME] [--turns N] [--peers FILE]
#                [--json FILE]
#
# Exit code 1: a row failed; 2: the command line is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
python=/usr/bin/python3
command -v "$python" >/dev/null || python=python3

for argument; do
  case $argument in
    -h | --help) exec "$python" bench/suite/run.py --help ;;
  esac
done
# Looks at the command line, too, before anything is built.
targets=$("$python" bench/suite/run.py --targets "$@")

cache=()
if [ -x bazel/cache.sh ]; then mapfile -t cache < <(bazel/cache.sh); fi
begin=$SECONDS
if [ -n "$targets" ]; then
  # shellcheck disable=SC2086 # one word is one target
  bazel build --noshow_progress "${cache[@]}" $targets
fi
echo "built in $((SECONDS - begin)) s"
exec "$python" bench/suite/run.py "$@"
