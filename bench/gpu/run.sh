#!/usr/bin/env bash
# On a machine with a GPU, in the folder that bench/gpu/pack.sh has made: the
# conformance suites, compute-sanitizer, the speed of training steps beside
# PyTorch's where it is there, and whole training runs with servers on this
# machine's cores. Everything goes to the terminal and, with the tests' own logs,
# into the folder $OUT (default: out). Exit code 1 if anything has failed; a goal
# of speed that is missed is said, and no failure.
#
#   ./run.sh                 all parts, under an hour
#   ./run.sh PART            one of: tests sanitizer steps kernels torch compare
#                            curves training
#   ./run.sh PART CHOICE     the same, of one model (ctr_dnn or dlrm), or of one
#                            tool of sanitizer (memcheck, racecheck, initcheck)
#
# A part ends within PART_LIMIT_S seconds (default 570); what it has not come to
# by then is a failure. torch and sanitizer may need a call for each choice.
# compare shows what steps and torch have measured.
#
# The real rows of the loss curves are those of OARLOCK_DATA_DIR, or else the
# pack's.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
readonly parts='tests sanitizer steps kernels torch compare curves training'
readonly models='ctr_dnn dlrm'
readonly tools='memcheck racecheck initcheck'
part=${1:-all}
choice=${2:-}
is_one_of() { [[ " $2 " == *" $1 "* ]]; }

if ! is_one_of "$part" "all $parts"; then
  echo "run: no part $part; legal are: all $parts" >&2
  exit 2
fi
choices=
case $part in
  sanitizer) choices=$tools ;;
  steps | kernels | torch | curves | training) choices=$models ;;
esac
if [ -n "$choice" ] && ! is_one_of "$choice" "$choices"; then
  echo "run: no choice $choice of $part; legal are: ${choices:-none}" >&2
  exit 2
fi

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ||
  { echo "run: no GPU that nvidia-smi knows" >&2; exit 1; }

# ---- What was packed ----

unpack() {
  local of
  of=$(cksum <pack.tar.xz) || return 1
  [ "$(cat unpacked/of 2>/dev/null)" = "$of" ] && return
  rm -rf unpacked
  mkdir unpacked
  tar -xJf pack.tar.xz -C unpacked 2>/dev/null ||
    python3 -c 'import tarfile; tarfile.open("pack.tar.xz").extractall("unpacked")' ||
    return 1
  echo "$of" >unpacked/of
}
unpack || { echo "run: pack.tar.xz cannot be unpacked: it needs tar with xz, or python3 with lzma" >&2; exit 1; }
readonly programs=$PWD/unpacked
out=${OUT:-out}
mkdir -p "$out"
if [ -z "${OARLOCK_DATA_DIR:-}" ] && [ -d data ]; then
  export OARLOCK_DATA_DIR=$PWD/data
fi

# cuDNN and NCCL may lie in the wheels of PyTorch alone.
wheel_folders() {
  python3 -c '
import pathlib, nvidia
for root in nvidia.__path__:
    for folder in sorted(pathlib.Path(root).glob("*/lib")):
        print(folder)' 2>/dev/null | paste -s -d :
}
cuda_home=${CUDA_HOME:-/usr/local/cuda}
# Of our own programs alone: python3 has libraries of the same names.
libraries=$programs/lib:${LD_LIBRARY_PATH:-}:$cuda_home/lib64:/usr/local/cuda/lib64:$(wheel_folders)
# No empty folder, which would be this one.
libraries=$(tr -s : <<<"$libraries")
libraries=${libraries%:}
own=(env "LD_LIBRARY_PATH=$libraries")
PATH=$PATH:$cuda_home/bin:/usr/local/cuda/bin

# ---- Running and judging ----

failed=0
fail() {
  echo "FAILED  $*"
  failed=1
}
# Begins a part, if it is wanted.
wants() {
  [ "$part" = all ] || [ "$part" = "$1" ] || return 1
  deadline=$((SECONDS + ${PART_LIMIT_S:-570}))
}
chosen() {  # chosen LEGAL: one, or all
  if [ -n "$choice" ]; then echo "$choice"; else echo "$1"; fi
}
# within SECONDS COMMAND...: ends it after so long, or with the part.
within() {
  local left=$((deadline - SECONDS))
  if [ "$left" -le 0 ]; then
    echo "not begun: the part's time is over; see ./run.sh PART CHOICE"
    return 124
  fi
  [ "$1" -lt "$left" ] && left=$1
  shift
  timeout -k 5 "$left" "$@"
}
# Runs a command with its output in a log; prints one line.
check() {
  local name=$1 limit=$2 log="$out/$1.log" status
  shift 2
  within "$limit" "$@" >"$log" 2>&1
  status=$?
  if [ "$status" -ne 0 ]; then
    fail "$name, exit $status; the end of $log:"
    tail -20 "$log"
  elif grep -q 'PASSED  \] 0 tests' "$log"; then
    fail "$name: no test was chosen, or all were skipped"
  else
    echo "ok      $name  $(grep -E 'PASSED|ERROR SUMMARY' "$log" | tail -1)"
  fi
  return "$status"
}
# show FILE COMMAND...: its output to the terminal and to the end of a file.
show() {
  local file="$out/$1" status what
  shift
  within 570 "$@" 2>&1 | tee -a "$file"
  status=${PIPESTATUS[0]}
  what=$*
  [ "$status" -eq 0 ] || fail "exit $status of ${what#"${own[*]} "}"
}

if wants tests; then
  for test in gpu_test math_backend_test math_backend_losses_test \
      image_operations_test interaction_operations_test cuda_backend_test \
      replaying_device_test rule_runner_test gpu_communicator_test \
      communicator_conformance_test; do
    check "$test" 300 "${own[@]}" "$programs/$test"
  done
  # Whether cuDNN and NCCL were there, or why not: without them nothing fails.
  grep -h '^convolutions by' "$out/gpu_test.log"
  grep -h '^no NCCL' "$out/gpu_communicator_test.log"
  # Skipped tests would pass: there has to be something of the GPU's.
  for test in math_backend_test math_backend_losses_test image_operations_test \
      interaction_operations_test cuda_backend_test rule_runner_test; do
    grep -q 'OK.*/cuda' "$out/$test.log" || fail "no test of $test has used the GPU"
  done
fi

# check of a test under a tool of compute-sanitizer. Tests that end a process on
# purpose confuse it.
sanitize() {  # sanitize TOOL NAME TEST FILTER
  check "sanitizer_$1_$2" 200 "${own[@]}" compute-sanitizer --tool "$1" \
    --error-exitcode 9 "$programs/$3" --gtest_filter="$4"
}
if wants sanitizer; then
  if ! command -v compute-sanitizer >/dev/null; then
    echo "skipped sanitizer: no compute-sanitizer on the path, in $cuda_home/bin or in /usr/local/cuda/bin"
  elif ! within 60 "${own[@]}" compute-sanitizer --error-exitcode 9 \
      "$programs/gpu_test" --gtest_filter='*SaysWhichGpu*' \
      >"$out/sanitizer.log" 2>&1 &&
      refused=$(grep -iE '(not|un)[- ]?supported' "$out/sanitizer.log"); then
    echo "skipped sanitizer: compute-sanitizer refuses the GPU: $(head -1 <<<"$refused")"
  else
    for tool in $(chosen "$tools"); do
      # Kernels of every kind, and those of graphs; convolutions as patches,
      # since what cuDNN does is not ours.
      sanitize "$tool" rules rule_runner_test \
        '*EveryRule*/cuda:*ManyTiles*/cuda'
      sanitize "$tool" interactions interaction_operations_test '*/cuda'
      sanitize "$tool" images image_operations_test \
        '*Pool*/cuda:*Norm*/cuda:*Bytes*/cuda:*Dropout*/cuda:*Convolution*/cuda_bfloat16'
      sanitize "$tool" losses math_backend_losses_test \
        '*/cuda:*/cuda_bfloat16:-*LabelBeyond*'
      sanitize "$tool" graphs cuda_backend_test '*/cuda*:-*TwoThreads*'
    done
    if [ -z "$choice" ] || [ "$choice" = memcheck ]; then
      sanitize memcheck products math_backend_test '*Linear*/cuda*:*Bias*/cuda'
    fi
  fi
fi

# A file for each model: two calls may measure them.
if wants steps; then
  for model in $(chosen "$models"); do
    to=steps_$model.txt
    : >"$out/$to"
    step=("${own[@]}" "$programs/step_bench" --model "$model")
    for batch in 512 2048 4096 16384 65536; do
      for numbers in float32 tf32 bfloat16; do
        show "$to" "${step[@]}" --batch "$batch" --numbers "$numbers"
      done
      show "$to" "${step[@]}" --batch "$batch" --optimizer adam
    done
    # What graphs save.
    show "$to" "${step[@]}" --batch 4096 --numbers tf32 --no_graphs
  done
fi

if wants kernels; then
  for model in $(chosen "$models"); do
    to=kernels_$model.txt
    : >"$out/$to"
    for numbers in float32 bfloat16; do
      echo "== $model, batch 65536, $numbers, Adam" | tee -a "$out/$to"
      show "$to" "${own[@]}" "$programs/step_bench" --kernels \
        --model "$model" --batch 65536 --numbers "$numbers" --optimizer adam
    done
  done
fi

if wants torch; then
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    for model in $(chosen "$models"); do
      to=torch_$model.txt
      : >"$out/$to"
      step=(python3 "$programs/torch_step.py" --model "$model")
      show "$to" "${step[@]}"
      show "$to" "${step[@]}" --numbers float32 --optimizer adam
    done
  else
    echo "skipped torch: python3 has no PyTorch that sees a GPU"
  fi
fi

if wants compare; then
  : >"$out/compare.txt"
  measured=()
  for file in "$out"/steps_*.txt "$out"/torch_*.txt; do
    [ -s "$file" ] && measured+=("$file")
  done
  if [[ "${measured[*]:-}" != *steps_*torch_* ]]; then
    echo "skipped compare: $out has not what both steps and torch have measured"
  else
    show compare.txt python3 "$programs/compare.py" "${measured[@]}"
  fi
fi

train() {  # train WHAT
  local model
  for model in $(chosen "$models"); do
    : >"$out/$1_$model.txt"
    show "$1_$model.txt" python3 "$programs/train.py" "$1" --models "$model" \
      --oarlock "$programs/oarlock" --libraries "$libraries"
  done
}
if wants curves; then train curves; fi
if wants training; then train speed; fi
exit "$failed"
