#!/usr/bin/env bash
# Makes the virtual environment with what a list of pinned versions names, by
# default tests/python/requirements.txt, once, and prints the path of its Python.
#
#   export OARLOCK_VENV_PYTHON=$(tests/python/make_venv.sh)
#   tests/python/make_venv.sh python/build_requirements.txt
#
# It lies beside the compile cache, in ${XDG_CACHE_HOME:-$HOME/.cache}/oarlock,
# named after its contents and Debian's Python. Needs tests/packages.txt, and
# PyPI the first time.
set -euo pipefail

requirements=${1:-$(dirname "$0")/requirements.txt}
if [ $# -gt 1 ] || [ ! -f "$requirements" ]; then
  echo "make_venv: the arguments are '$*'; legal is one list that can be read," \
    "such as python/build_requirements.txt, or nothing" >&2
  exit 2
fi
# The user's own packages and pip settings that name folders stay out of it.
unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_USER VIRTUAL_ENV
digest=$({
  /usr/bin/python3 -I -VV
  grep -v '^#' "$requirements"
} | sha256sum | cut -c 1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/oarlock
venv=$folder/venv-$digest

# Complete once this is there.
mark=$venv/oarlock-complete
if [ ! -f "$mark" ]; then
  mkdir -p "$folder"
  # Two at a time make it one after the other.
  exec 9>"$folder/venv.lock"
  flock 9
  if [ ! -f "$mark" ]; then
    # Left by one that was interrupted.
    rm -rf "$venv"
    {
      /usr/bin/python3 -I -m venv "$venv"
      "$venv/bin/python3" -I -m pip install --quiet --no-deps \
        --disable-pip-version-check --no-cache-dir --only-binary :all: \
        --requirement "$requirements"
      "$venv/bin/python3" -I -m pip check
    } >&2
    touch "$mark"
  fi
fi
echo "$venv/bin/python3"
