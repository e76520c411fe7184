#!/usr/bin/env bash
# Builds and tests what machines without all of CUDA get, in output bases of its
# own beside Bazel's usual one, so that neither disturbs the other.
#
#   tests/without_cuda.sh toolkit   without the toolkit: everything is built;
#                                   the tests of nn
#   tests/without_cuda.sh cudnn     with a toolkit that has neither cuDNN nor
#                                   NCCL: nn/cuda and collective, and
#                                   their tests
#   tests/without_cuda.sh clang     the products and their tests without the
#                                   toolkit, built with clang
#   tests/without_cuda.sh find      whether there is a toolkit
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(dirname "$(bazel info output_base)")

# bazel_apart COMMAND ARGUMENTS...: in $base, and bazel-bin stays what it is.
bazel_apart() {
  bazel --output_base="$base" "$1" --noshow_progress --symlink_prefix=/ "${@:2}"
}
# As //..., which from another output base would follow the links of bazel-bin
# and so on.
all_targets() {
  local folder
  echo //:all
  for folder in */; do
    if [ ! -L "${folder%/}" ] && [ -n "$(find "$folder" -name BUILD -print -quit)" ]
    then
      echo "//${folder}..."
    fi
  done
}

# The server of $base is not needed any longer, its files are: for the next run.
end_apart() { bazel --output_base="$base" shutdown; }

# expect LINE...: what bazel/cuda.bzl has found, or the check checks nothing.
expect() {
  local line
  for line; do
    grep -qx "$line" "$base/external/cuda/toolkit.bzl" && continue
    echo "without_cuda: the build was to have $line, and has:" >&2
    cat "$base/external/cuda/toolkit.bzl" >&2
    return 1
  done
}

# The toolkit's folder, where bazel/cuda.bzl looks for it; none: status 1.
toolkit_home() {
  local nvcc home
  nvcc=$(command -v nvcc || true)
  for home in "${CUDA_HOME:-}" /usr/local/cuda \
      "${nvcc:+$(dirname "$(dirname "$(realpath "$nvcc")")")}"; do
    if [ -n "$home" ] && [ -x "$home/bin/nvcc" ] &&
        [ -f "$home/include/cublasLt.h" ] &&
        [ -f "$home/lib64/libcudart_static.a" ]; then
      echo "$home"
      return
    fi
  done
  return 1
}

# link_all FROM TO: a link in TO for everything in FROM.
link_all() {
  mkdir -p "$2"
  find -H "$1" -mindepth 1 -maxdepth 1 -exec ln -s -t "$2" {} +
}

case ${1:-} in
  toolkit)
    base=$root/oarlock_without_cuda
    trap end_apart EXIT
    export OARLOCK_CUDA=0
    bazel_apart build $(all_targets)
    expect 'CUDA = False' 'NCCL = False' 'CUDNN = False'
    bazel_apart test --test_output=errors //tests/nn/...
    ;;
  cudnn)
    home=$(toolkit_home) ||
      { echo "without_cuda: there is no CUDA toolkit" >&2; exit 1; }
    base=$root/oarlock_without_cudnn
    bare=$root/oarlock_toolkit_without_cudnn
    # Links alone.
    rm -rf "$bare"
    link_all "$home" "$bare"
    rm "$bare/include"
    link_all "$home/include" "$bare/include"
    rm -f "$bare"/include/{cudnn,nccl}*
    trap end_apart EXIT
    export CUDA_HOME=$bare
    unset OARLOCK_CUDA
    bazel_apart build //nn/cuda/... //collective/...
    expect 'CUDA = True' 'NCCL = False' 'CUDNN = False'
    bazel_apart test --test_output=errors \
      //tests/nn/... //tests/collective/...
    ;;
  clang)
    base=$root/oarlock_clang
    trap end_apart EXIT
    export OARLOCK_CUDA=0 CC=clang
    mapfile -t cache < <(bazel/cache.sh)
    bazel_apart build --keep_going --config=clang "${cache[@]}" \
      $(all_targets)
    expect 'CUDA = False'
    ;;
  find) toolkit_home ;;
  *)
    echo "without_cuda: nothing is called '${1:-}'; legal are toolkit, cudnn, clang and find" >&2
    exit 2
    ;;
esac
