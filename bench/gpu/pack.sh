#!/usr/bin/env bash
# Puts everything that bench/gpu/run.sh needs into a folder (default
# build/gpu): programs, and the libraries of this machine that another may
# lack. Copy it to a machine with a GPU, the driver and the CUDA toolkit; cuDNN
# too, or convolutions go by patches.
set -euo pipefail
cd "$(dirname "$0")/../.."
to=${1:-build/gpu}
max_mib=64

targets=(
  //bench/gpu:step_bench
  //cli:oarlock
  //tests/worker/nn:math_backend_test
  //tests/worker/nn:math_backend_losses_test
  //tests/worker/nn:image_operations_test
  //tests/worker/nn/cuda:cuda_backend_test
  //tests/worker/nn/cuda:gpu_test
  //tests/worker/nn/cuda:replaying_device_test
  //tests/worker/nn/cuda:rule_runner_test
)
# One program each, not a hundred libraries.
bazel build --noshow_progress --dynamic_mode=off "${targets[@]}"

rm -rf "$to"
mkdir -p "$to/lib"
for target in "${targets[@]}"; do
  path=bazel-bin/${target#//}
  program=${path/://}
  install -m 755 "$program" "$to/"
  strip "$to/$(basename "$program")"
  # What every Linux has stays out: the other machine's own is at least as new.
  ldd "$program" | awk '$3 ~ /^\// { print $3 }' |
    grep -v -E '/(ld-linux|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)[-.]' |
    xargs -r cp -L -t "$to/lib"
done
cp bench/gpu/run.sh bench/gpu/torch_step.py bench/gpu/train.py "$to/"
install -D -m 644 bench/suite/mode_runs.py -t "$to/suite"

mib=$(du -sm "$to" | cut -f1)
if [ "$mib" -gt "$max_mib" ]; then
  echo "pack: $to has $mib MiB; at most $max_mib are meant" >&2
  exit 1
fi
echo "pack: $to, $mib MiB; there: ./run.sh"
