#!/usr/bin/env bash
# Runs all unit and system tests again and again while each core is busy.
#
#   tests/soak.sh N [TARGETS...]   N runs of all tests, or of TARGETS
#   tests/soak.sh count            how often each test, as it is now, has passed
#
# Built once. Each run has a seed of its own, OARLOCK_SEED. build/soak/log.jsonl
# gets commit, seed, result and time of each test; tests/soak_counts.txt, which
# git knows, how often it passed and failed. A test's count begins anew where a
# source that it is made of has changed, so runs of different days add up.
set -uo pipefail
cd "$(dirname "$0")/.."
source tests/report.sh

runs=${1:-}
targets=("${@:2}")
if [ "$runs" = count ]; then
  exec /usr/bin/python3 -I tests/gate/soak.py count tests/soak_counts.txt
fi
if ! [[ $runs =~ ^[1-9][0-9]*$ ]]; then
  echo "soak: the number of runs is '$runs'; legal is 1 or more, or count" >&2
  exit 2
fi
if [ ${#targets[@]} -eq 0 ]; then targets=(//tests/...); fi

begin_gate
check "packages" bazel/install_packages.sh tests/packages.txt || exit 1
bazel/cache.sh write
build "bazel build" "${targets[@]}"
mkdir -p build/soak

busy=()
trap 'kill "${busy[@]}" 2>/dev/null' EXIT
for _ in $(seq "$(nproc)"); do
  (trap - EXIT; while :; do :; done) &
  busy+=($!)
done

commit=$(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD || echo +)
for run in $(seq "$runs"); do
  seed=$((RANDOM * 32768 + RANDOM))
  section "run $run of $runs, commit $commit, seed $seed"
  fresh=1
  test_flags=(--jobs=4 --local_test_jobs=4 --flaky_test_attempts=1
    "--test_env=OARLOCK_SEED=$seed")
  bazel_tests -- "${targets[@]}"
  /usr/bin/python3 -I tests/gate/soak.py add tests/soak_counts.txt \
    "$gate/bazel_test.json" build/soak/log.jsonl --commit "$commit" \
    --seed "$seed"
done
finish
