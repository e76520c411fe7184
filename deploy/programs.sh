#!/usr/bin/env bash
# Builds the programs and the library that packages carry, without CUDA whatever this machine
# has, in an output base of their own beside Bazel's usual one.
#
#   deploy/programs.sh build FOLDER [BAZEL FLAG...]   copies them, unstripped
#   deploy/programs.sh strip FROM TO [DEBUG]   copies them without symbols,
#                              which go into DEBUG by build id, as gdb looks,
#                              and links the examples' names to their program
#   deploy/programs.sh version   of base/process/version.h, the one place that says it
#   deploy/programs.sh epoch     the time of the commit, for SOURCE_DATE_EPOCH
set -euo pipefail
cd "$(dirname "$0")/.."

# Name of the program, and Bazel's target.
programs=(
  oarlock //cli:oarlock
  oarlock-examples //deploy:oarlock-examples
  oarlock-score //examples/score:score
  liboarlock.so.1 //capi:liboarlock.so.1
)
# What oarlock-examples is started as.
examples=(oarlock-cifar10 oarlock-ctr oarlock-mnist oarlock-resnet)

usage() {
  echo "programs: '$*' is no use of it; legal are build FOLDER [FLAG...]," \
    "strip FROM TO [DEBUG], version and epoch" >&2
  exit 2
}

# The server of $base is not needed any longer, its files are: for the next run.
end_apart() { bazel --output_base="$base" shutdown; }

build() {
  local folder=$1 names=() targets=() cache i bin
  shift
  for ((i = 0; i < ${#programs[@]}; i += 2)); do
    names+=("${programs[i]}")
    targets+=("${programs[i + 1]}")
  done
  mapfile -t cache < <(bazel/cache.sh)
  base=$(bazel info output_base)_package
  trap end_apart EXIT
  export OARLOCK_CUDA=0
  local apart=(bazel "--output_base=$base")
  "${apart[@]}" build --noshow_progress --symlink_prefix=/ "${cache[@]}" "$@" \
    "${targets[@]}"
  if ! grep -qx 'CUDA = False' "$base/external/cuda/toolkit.bzl"; then
    echo "programs: the build was to be without CUDA, and has:" >&2
    cat "$base/external/cuda/toolkit.bzl" >&2
    exit 1
  fi
  bin=$("${apart[@]}" info "${cache[@]}" "$@" bazel-bin)
  mkdir -p "$folder"
  for ((i = 0; i < ${#names[@]}; ++i)); do
    local path=${targets[i]#//}
    install -m 755 "$bin/${path/://}" "$folder/${names[i]}"
  done
}

strip_all() {
  local from=$1 to=$2 debug=${3:-} i name id symbols
  mkdir -p "$to"
  for ((i = 0; i < ${#programs[@]}; i += 2)); do
    name=${programs[i]}
    if [ -n "$debug" ]; then
      id=$(readelf -n "$from/$name" | awk '/Build ID:/ {print $3}')
      if [ -z "$id" ]; then
        echo "programs: $from/$name has no build id; link with --build-id" >&2
        exit 1
      fi
      symbols=$debug/.build-id/${id:0:2}/${id:2}.debug
      mkdir -p "${symbols%/*}"
      objcopy --only-keep-debug --compress-debug-sections \
        "$from/$name" "$symbols"
      chmod 644 "$symbols"
    fi
    strip -o "$to/$name" "$from/$name"
    chmod 755 "$to/$name"
  done
  for name in "${examples[@]}"; do ln -sf oarlock-examples "$to/$name"; done
}

case ${1:-} in
  build) [ $# -ge 2 ] || usage "$@"; build "${@:2}" ;;
  strip) [ $# -ge 3 ] && [ $# -le 4 ] || usage "$@"; strip_all "${@:2}" ;;
  version) sed -n 's/.*kOarlockVersion\[\] = "\(.*\)";/\1/p' base/process/version.h ;;
  epoch)
    if ! git log -1 --format=%ct 2>/dev/null; then stat -c %Y base/process/version.h; fi
    ;;
  *) usage "$@" ;;
esac
