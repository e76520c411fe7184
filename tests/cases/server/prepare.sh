#!/usr/bin/env bash
# Makes in the current folder what the scripts need, which run there: py/ (stubs
# of the wire), shim.so, data2/, tok.
# usage: O=.../oarlock [TREE=.../checkout] .../tests/cases/server/prepare.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
O=${O:?path of the binary}
TREE=${TREE:-$here/../../..}
mkdir -p py
py=$PWD/py
(cd "$TREE" && find proto -name '*.proto' -print0 |
  xargs -0 protoc -I. --python_out="$py")
gcc -shared -fPIC -O1 -o shim.so "$here/shim.c" -ldl
"$O" generate criteo --rows 400000 --files 4 --out data2 >/dev/null
head -c 32 /dev/urandom | base64 >tok
