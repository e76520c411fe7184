#!/usr/bin/env bash
# What takes longer than run_tests.sh may: quality on real rows with three
# seeds, builds without CUDA, all tests under the sanitizers, longer fuzzing.
# Ends with a line "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
source tests/report.sh

bazel/install_packages.sh tests/fuzz/packages.txt || exit 1
if [ -z "${OARLOCK_DATA_DIR:-}" ] && [ -d ../shared/data ]; then
  OARLOCK_DATA_DIR=$(cd ../shared/data && pwd)
  export OARLOCK_DATA_DIR
fi
export OARLOCK_BIN="$PWD/bazel-bin/cli/oarlock"
export OARLOCK_CTR="$PWD/bazel-bin/examples/ctr/train"
export OARLOCK_MNIST="$PWD/bazel-bin/examples/mnist/train"
export OARLOCK_CIFAR10="$PWD/bazel-bin/examples/cifar10/train"
export OARLOCK_SCORE="$PWD/bazel-bin/examples/score/score"
export OARLOCK_RESNET="$PWD/bazel-bin/examples/resnet/train"
export OARLOCK_COUNTING_WORKER="$PWD/bazel-bin/tests/stress/counting_worker"
export OARLOCK_COUNTING_TRAINER="$PWD/bazel-bin/tests/stress/counting_trainer"
export OARLOCK_REPLAY_ORACLE="$PWD/bazel-bin/tests/stress/replay_oracle"
export OARLOCK_FAULTY_PROXY="$PWD/bazel-bin/tests/stress/faulty_proxy"

section "build"
check "bazel build //..." bazel build --noshow_progress //...

section "quality on real rows"
check "AUC gates, local and distributed" python3 tests/quality/quality.py
check "AUC gates of all models" python3 tests/quality/models.py

section "servers and workers killed 200 times, 40 of them over a faulty network"
check "every push is applied once" env OARLOCK_KILLS=200 OARLOCK_FAULTY_S=120 \
  python3 -m unittest discover -s tests/system -p kill_test.py

section "fuzzing, a minute for each parser"
check "tests/fuzz/fuzz.sh 60" tests/fuzz/fuzz.sh 60

section "built without the CUDA toolkit, and without cuDNN and NCCL"
check "no toolkit" tests/without_cuda.sh toolkit
if tests/without_cuda.sh find >/dev/null; then
  check "a toolkit without cuDNN and NCCL" tests/without_cuda.sh cudnn
else
  echo "skipped  a toolkit without cuDNN and NCCL: there is no toolkit"
fi

section "all tests under the sanitizers"
bazel_tests --config=asan --config=ubsan //tests/...
bazel_tests --config=tsan //tests/...

finish
