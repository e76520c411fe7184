#!/usr/bin/env bash
# What takes longer than the gate may: ./run_tests.sh has the rest.
#
#   tests/long.sh [PART...]     all parts, or those named
#
# Each part takes at most 60 minutes on two free cores, and has a log in
# build/long: PART.log, begun with the commit and the CPU, ended with the result
# and the minutes. The last line is "N passed, N failed, N skipped", of cases.
parts='
asan_base     asan and ubsan: base, proto, optim, storage, sparse_table, fuzz
asan_server   asan and ubsan: cluster, pserver, integration, stress, launch, cli
asan_worker   asan and ubsan: worker, fleet, collective, examples
tsan_base     tsan: base, proto, optim, storage, sparse_table, fuzz
tsan_server   tsan: cluster, pserver, integration, stress, launch, cli
tsan_worker   tsan: worker, fleet, collective, examples
kills_servers servers killed 200 times, 40 over a faulty network
kills_workers workers and servers killed 200 times, 40 over a faulty network
jobs          5,000 jobs of flags drawn at random
sizes         500 jobs of sizes drawn at random; up to 8 GB of memory
calls         10 minutes of random calls of all services of a server
fuzz          a minute of libFuzzer for each parser
quality       AUC on real rows, local and distributed, three seeds
models        AUC of each model on real rows
no_toolkit    built without the CUDA toolkit
no_cudnn      built with a toolkit without cuDNN and NCCL
clang         everything but CUDA, built with clang
tidy_base     clang-tidy without findings: what servers and workers share
tidy_server   clang-tidy without findings: pserver, sparse_table, programs
tidy_worker   clang-tidy without findings: worker, fleet, collective
python        the Python client: 200 kills, 10^5 steps, Ctrl-C 10^4 times
python_asan   asan and ubsan: 10^6 calls of the C interface, and Ctrl-C 10^4 times
package       wheel and .deb, installed on bare systems
bench         benchmarks are built, and bench/run.sh --quick ends well
'
set -uo pipefail
cd "$(dirname "$0")/.."
source tests/report.sh

names=$(awk 'NF {print $1}' <<<"$parts")
for argument; do
  if ! grep -qx -- "$argument" <<<"$names"; then
    echo "long: there is no part '$argument'; legal are" $names >&2
    exit 2
  fi
done

base_tests=(//tests/base/... //tests/wire/... //tests/optim/...
  //tests/storage/... //tests/sparse_table/... //tests/fuzz/...
  //tests/flags/... //tests/data/...)
server_tests=(//tests/cluster/... //tests/coordinator/... //tests/checkpoint/...
  //tests/pserver/... //tests/client/... //tests/capi/... //tests/stress/...
  //tests/launch/... //tests/cli/...)
worker_tests=(//tests/nn/... //tests/models/... //tests/worker/...
  //tests/fleet/... //tests/collective/... //tests/examples/...)

# sanitized CONFIG... -- TARGETS...
sanitized() {
  local flags=()
  while [ "$1" != -- ]; do flags+=("--config=$1"); shift; done
  shift
  build "bazel build ${flags[*]} $*" "${flags[@]}" "$@"
  bazel_tests "${flags[@]}" "$@"
}

part_asan_base() { sanitized asan ubsan -- "${base_tests[@]}"; }
part_asan_server() { sanitized asan ubsan -- "${server_tests[@]}"; }
part_asan_worker() { sanitized asan ubsan -- "${worker_tests[@]}"; }
part_tsan_base() { sanitized tsan -- "${base_tests[@]}"; }
part_tsan_server() { sanitized tsan -- "${server_tests[@]}"; }
part_tsan_worker() { sanitized tsan -- "${worker_tests[@]}"; }
killed() {  # killed PATTERN
  build "bazel build" //tests/system:kill_test
  bazel_tests --test_env=OARLOCK_KILLS=200 --test_env=OARLOCK_FAULTS=16000 \
    --test_timeout=3600 --test_filter="$1" //tests/system:kill_test
}
part_kills_servers() { killed ServersKilledTest:ModelTest; }
part_kills_workers() { killed WorkersKilledTest; }
part_jobs() {  # 200 for each seed
  for seed in $(seq 25); do
    bazel_tests --test_arg="--gtest_random_seed=$seed" \
      //tests/integration:random_jobs_test
  done
}
part_sizes() {  # 5 for each seed
  for seed in $(seq 100); do
    bazel_tests --test_arg="--gtest_random_seed=$seed" \
      //tests/integration:random_sizes_test
  done
}
part_calls() {
  bazel_tests --test_env=OARLOCK_CALL_SECONDS=200 --test_timeout=900 \
    --test_arg="--gtest_random_seed=$(($(date +%s) % 99999 + 1))" \
    //tests/pserver:random_calls_test
}
part_fuzz() {
  check "packages" bazel/install_packages.sh tests/fuzz/packages.txt
  check "tests/fuzz/fuzz.sh 60" tests/fuzz/fuzz.sh 60
}
built_programs() {
  build "bazel build" //cli:oarlock //examples/ctr:train
  export OARLOCK_BIN="$PWD/bazel-bin/cli/oarlock"
  export OARLOCK_CTR="$PWD/bazel-bin/examples/ctr/train"
}
part_quality() {
  built_programs
  check "AUC gates, local and distributed" python3 tests/quality/quality.py
}
part_models() {
  built_programs
  check "AUC gates of all models" python3 tests/quality/models.py
}
part_no_toolkit() { check "no toolkit" tests/without_cuda.sh toolkit; }
part_no_cudnn() {
  if tests/without_cuda.sh find >/dev/null; then
    check "a toolkit without cuDNN and NCCL" tests/without_cuda.sh cudnn
  else
    echo "skipped  a toolkit without cuDNN and NCCL: there is no toolkit"
  fi
}
part_clang() {
  check "packages" bazel/install_packages.sh tests/fuzz/packages.txt
  check "a clang build of all but CUDA" tests/without_cuda.sh clang
}
tidied() {  # tidied FOLDER...
  check "packages" bazel/install_packages.sh tests/lint/packages.txt
  check "clang-tidy" tests/lint/tidy.sh "$@"
}
tidy_server=(coordinator checkpoint pserver client sparse_table cli launch
  deploy examples)
tidy_worker=(nn models worker fleet collective)
part_tidy_base() {
  tidied $(git ls-files '*.cc' | cut -d / -f 1 | sort -u |
    grep -vxF -f <(printf '%s\n' tests bench "${tidy_server[@]}" "${tidy_worker[@]}"))
}
part_tidy_server() { tidied "${tidy_server[@]}"; }
part_tidy_worker() { tidied "${tidy_worker[@]}"; }
venv_python() {
  OARLOCK_VENV_PYTHON=$(tests/python/make_venv.sh) && export OARLOCK_VENV_PYTHON
}
part_python() {
  check "tests/python/make_venv.sh" venv_python || return
  build "bazel build" //capi:liboarlock.so.1 //cli:oarlock \
    //tests/python:storm_test
  bazel_tests --test_env=OARLOCK_KILLS=200 --test_timeout=3600 \
    //tests/python:storm_test
  check "soak.py memory" "$OARLOCK_VENV_PYTHON" -B tests/python/soak.py memory
  check "soak.py interrupts" \
    "$OARLOCK_VENV_PYTHON" -B tests/python/soak.py interrupts
}
part_python_asan() {
  check "tests/python/make_venv.sh" venv_python || return
  build "bazel build //tests/capi:random_calls_test" --config=asan \
    --config=ubsan //tests/capi:random_calls_test
  bazel_tests --config=asan --config=ubsan --test_timeout=3600 \
    --test_env=OARLOCK_RANDOM_CALLS=1000000 //tests/capi:random_calls_test
  check "soak.py interrupts under asan" tests/python/soak_asan.sh
}
part_package() { check "package" tests/acceptance/package.sh; }
part_bench() {
  build "bazel build //bench/..." //bench/...
  check "bench/run.sh --quick" bench/run.sh --quick
}

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
mkdir -p build/long
# logged NAME FUNCTION: a part, with a log of its own.
logged() {
  local log=build/long/$1.log before=$SECONDS failures
  failures=$(grep -c '"verdict": "failed"' "$results" 2>/dev/null)
  {
    echo "commit $(git rev-parse HEAD)$(git diff --quiet HEAD || echo ' and what is not committed')"
    echo "cpu $cpu, $(nproc) cores; $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  } >"$log"
  "$2" > >(tee -a "$log") 2>&1
  local result=passed
  if [ "$(grep -c '"verdict": "failed"' "$results" 2>/dev/null)" != "$failures" ]
  then
    result=failed
  fi
  echo "result $result in $(((SECONDS - before) / 60)) min" | tee -a "$log"
}

begin_gate
check "packages" bazel/install_packages.sh tests/packages.txt || exit 1
bazel/cache.sh write
bazel/cache.sh trim
fresh=1
for name in ${@:-$names}; do
  section "$name"
  logged "$name" "part_$name"
done
finish
