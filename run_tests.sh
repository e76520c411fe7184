#!/usr/bin/env bash
# Builds and runs all tests that take minutes. tests/long.sh has the rest, among
# it all tests under the sanitizers: here run those that compile little and
# guard most.
# Ends with a line "N passed, N failed". A second run does what has changed.
#
# Real click logs and images are used where they are: in OARLOCK_DATA_DIR, or
# beside this folder in shared/data.
set -uo pipefail
cd "$(dirname "$0")"
source tests/report.sh

bazel/install_packages.sh || exit 1
if [ -z "${OARLOCK_DATA_DIR:-}" ] && [ -d ../shared/data ]; then
  OARLOCK_DATA_DIR=$(cd ../shared/data && pwd)
  export OARLOCK_DATA_DIR
fi

section "build"
check "bazel build //..." bazel build --noshow_progress //...

section "unit, conformance, fuzz replays"
bazel_tests //tests/...

section "layering"
check "folders include only what they may" python3 tests/layering/layering.py

section "bench: what it predicts, what it asks for"
python_tests tests/bench

section "system: processes, roles, failures"
export OARLOCK_BIN="$PWD/bazel-bin/cli/oarlock"
export OARLOCK_CTR="$PWD/bazel-bin/examples/ctr/train"
export OARLOCK_MNIST="$PWD/bazel-bin/examples/mnist/train"
export OARLOCK_CIFAR10="$PWD/bazel-bin/examples/cifar10/train"
export OARLOCK_RESNET="$PWD/bazel-bin/examples/resnet/train"
export OARLOCK_SCORE="$PWD/bazel-bin/examples/score/score"
export OARLOCK_INTEROP_PEER="$PWD/bazel-bin/tests/system/interop_peer"
export OARLOCK_COUNTING_WORKER="$PWD/bazel-bin/tests/stress/counting_worker"
export OARLOCK_COUNTING_TRAINER="$PWD/bazel-bin/tests/stress/counting_trainer"
export OARLOCK_REPLAY_ORACLE="$PWD/bazel-bin/tests/stress/replay_oracle"
export OARLOCK_FAULTY_PROXY="$PWD/bazel-bin/tests/stress/faulty_proxy"
python_tests tests/system

section "quick start and the README's commands"
check "./quickstart.sh" ./quickstart.sh
check "every sh block of README.md" python3 tests/readme/run_readme.py

section "address sanitizer: what parses, what is concurrent"
bazel_tests --config=asan $(cat tests/asan_targets.txt)

section "thread sanitizer: what is concurrent"
bazel_tests --config=tsan $(cat tests/tsan_targets.txt)

finish
