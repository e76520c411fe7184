#!/usr/bin/env bash
# Puts everything that bench/gpu/run.sh needs into a folder (default build/gpu):
# programs, and the libraries of this machine that another may lack, in one
# archive; with OARLOCK_DATA_DIR the real rows, too. Copy it to a machine with a
# GPU, the driver and the CUDA toolkit; cuDNN and NCCL too, or what needs them is
# skipped.
#
#   bench/gpu/pack.sh [--from FOLDER] [TO]
#
# --from packs what lies built in FOLDER, a bazel-bin, and builds nothing.
set -euo pipefail
from=
if [ "${1:-}" = --from ]; then
  from=$(cd "${2:?pack: --from needs a folder}" && pwd)
  shift 2
fi
to=$(realpath -m "${1:-$(dirname "$0")/../../build/gpu}")
cd "$(dirname "$0")/../.."
max_mib=64
rows=criteo/criteo_kaggle_sample_137k.txt.xz

targets=(
  //bench/gpu:step_bench
  //cli:oarlock
  //tests/collective:communicator_conformance_test
  //tests/collective:gpu_communicator_test
  //tests/nn:image_operations_test
  //tests/nn:interaction_operations_test
  //tests/nn/backends:math_backend_losses_test
  //tests/nn/backends:math_backend_test
  //tests/nn/cuda:cuda_backend_test
  //tests/nn/cuda:gpu_test
  //tests/nn/cuda:replaying_device_test
  //tests/nn/cuda:rule_runner_test
)
if [ -z "$from" ]; then
  # One program each, not a hundred libraries.
  bazel build --noshow_progress --dynamic_mode=off "${targets[@]}"
  from=bazel-bin
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/lib"
for target in "${targets[@]}"; do
  path=${target#//}
  program=$from/${path/://}
  if [ ! -x "$program" ]; then
    echo "pack: no program $program; build $target" >&2
    exit 1
  fi
  install -m 755 "$program" "$stage/"
  libraries=$(ldd "$program")
  if grep 'not found' <<<"$libraries" >&2; then
    echo "pack: $program does not find these libraries here" >&2
    exit 1
  fi
  # What every Linux has stays out: the other machine's own is at least as new.
  awk '$3 ~ /^\// { print $3 }' <<<"$libraries" |
    { grep -v -E '/(ld-linux|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)[-.]' || true; } |
    xargs -r cp -L -u --no-preserve=mode -t "$stage/lib"
done
find "$stage" -type f -exec strip --strip-unneeded {} +
cp bench/gpu/{compare,torch_step,train}.py "$stage/"
install -D -m 644 bench/suite/mode_runs.py -t "$stage/suite"

rm -rf "$to"
mkdir -p "$to"
cp bench/gpu/run.sh "$to/"
# xz, which tar or python3 reads everywhere. XZ_OPT chooses another level.
tar -C "$stage" --owner=0 --group=0 -cf - . | xz -T0 >"$to/pack.tar.xz"
if [ -n "${OARLOCK_DATA_DIR:-}" ]; then
  install -D -m 644 "$OARLOCK_DATA_DIR/$rows" "$to/data/$rows"
else
  echo "pack: without OARLOCK_DATA_DIR no real rows; curves will be of generated ones"
fi

mib=$(du -sm --apparent-size "$to" | cut -f1)
if [ "$mib" -gt "$max_mib" ]; then
  echo "pack: $to has $mib MiB; at most $max_mib are meant" >&2
  exit 1
fi
echo "pack: $to, $mib MiB; there: ./run.sh"
