#!/usr/bin/env bash
# Runs one file of Python tests: the program of each oarlock_py_test.
#
#   run_unittests.sh (debian | pypi) FILE
#
# debian: under Debian's Python, which sees packages of Debian alone. pypi:
# under OARLOCK_VENV_PYTHON, which tests/python/make_venv.sh prints; where that
# is not set under Debian's, and tests that want more skip.
set -euo pipefail

python=/usr/bin/python3
case ${1:-} in
  debian) ;;
  pypi) python=${OARLOCK_VENV_PYTHON:-$python} ;;
  *)
    echo "run_unittests: the Python is '${1:-}'; legal are debian and pypi" >&2
    exit 2
    ;;
esac
if [ ! -x "$python" ]; then
  echo "run_unittests: OARLOCK_VENV_PYTHON is '$python', which cannot be run;" \
    "set it to what tests/python/make_venv.sh prints, or to nothing" >&2
  exit 2
fi
# -I: nothing of the user's own packages and PYTHON variables counts.
exec "$python" -I -B tests/python/run_unittests.py "$2"
