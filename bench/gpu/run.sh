#!/usr/bin/env bash
# On a machine with a GPU, in the folder that bench/gpu/pack.sh has made: the
# conformance suite, compute-sanitizer, the speed of training steps beside
# PyTorch's where it is there, and whole training runs with servers on this
# machine's cores. Everything goes to the terminal and, with the tests' own logs,
# into the folder $OUT (default: out).
#
#   ./run.sh            all, some twenty minutes
#   ./run.sh tests      one part: tests, sanitizer, steps, kernels, torch, curves
#                       or training
#
# The real rows of the loss curves are those of OARLOCK_DATA_DIR.
set -uo pipefail
cd "$(dirname "$0")"
out=${OUT:-out}
mkdir -p "$out"
export LD_LIBRARY_PATH="$PWD/lib:${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64"
part=${1:-all}
failed=0

wants() { [ "$part" = all ] || [ "$part" = "$1" ]; }
# Runs a command with its output in a log; prints one line.
check() {
  local name=$1 log="$out/$1.log"
  shift
  if timeout 300 "$@" >"$log" 2>&1; then
    echo "ok      $name  $(grep -E 'PASSED|ERROR SUMMARY' "$log" | tail -1)"
  else
    echo "FAILED  $name, exit $?; the end of $log:"
    tail -20 "$log"
    failed=1
  fi
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ||
  { echo "run: no GPU that nvidia-smi knows" >&2; exit 1; }

if wants tests; then
  for test in gpu_test math_backend_test math_backend_losses_test \
      image_operations_test cuda_backend_test replaying_device_test \
      rule_runner_test; do
    check "$test" "./$test"
  done
  # Whether cuDNN was there, or why not: without it nothing fails.
  grep '^convolutions by' "$out/gpu_test.log"
  # Skipped tests would pass: there has to be something of the GPU's.
  grep -q 'OK.*/cuda' "$out/math_backend_test.log" ||
    { echo "FAILED  no test has used the GPU"; failed=1; }
fi

if wants sanitizer; then
  # Tests that end a process on purpose confuse it.
  for tool in memcheck racecheck initcheck; do
    check "sanitizer_$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 \
      ./math_backend_losses_test \
      --gtest_filter='*/cuda:*/cuda_bfloat16:-*LabelBeyond*'
  done
  check sanitizer_products compute-sanitizer --error-exitcode 9 \
    ./math_backend_test --gtest_filter='*Linear*/cuda*:*Bias*/cuda'
fi

if wants steps; then
  for model in ctr_dnn dlrm; do
    for batch in 512 2048 4096 16384 65536; do
      for numbers in float32 tf32 bfloat16; do
        ./step_bench --model "$model" --batch "$batch" --numbers "$numbers" |
          tee -a "$out/steps.txt" || failed=1
      done
      ./step_bench --model "$model" --batch "$batch" --optimizer adam |
        tee -a "$out/steps.txt" || failed=1
    done
    # What graphs save.
    ./step_bench --model "$model" --batch 4096 --numbers tf32 --no_graphs |
      tee -a "$out/steps.txt" || failed=1
  done
fi

if wants kernels; then
  for model in ctr_dnn dlrm; do
    for numbers in float32 bfloat16; do
      echo "== $model, batch 65536, $numbers"
      ./step_bench --kernels --model "$model" --batch 65536 \
        --numbers "$numbers" || failed=1
    done
  done | tee "$out/kernels.txt"
fi

if wants torch; then
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    python3 torch_step.py | tee "$out/torch.txt" || failed=1
    python3 torch_step.py --optimizer adam | tee -a "$out/torch.txt" || failed=1
  else
    echo "skipped torch: python3 has no PyTorch that sees a GPU"
  fi
fi

if wants curves; then
  ./train.py curves | tee "$out/curves.txt" || failed=1
fi

if wants training; then
  ./train.py speed | tee "$out/training.txt" || failed=1
fi
exit "$failed"
