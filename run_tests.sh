#!/usr/bin/env bash
# The gate: what each change has to pass.
#
#   ./run_tests.sh [--all] [PART...]
#
# Parts, in this order, with what a user loses where one breaks, and the minutes
# it takes on two free cores: from nothing / with a warm compile cache.
#
parts='
packages    nothing can be built                                      1 / 0
build       there is no program                                      16 / 3
sources     the next change breaks what nobody looks at               1 / 1
unit        a part does not keep its contract                         2 / 2
system      jobs train wrongly, hang, or leave processes behind       4 / 4
readme      the first hour of a new user ends in an error             1 / 1
sanitizers  memory is corrupted, or threads race, now and then        7 / 1
'
# tests/long.sh has what takes longer: everything under the sanitizers, kills
# by the hundred, fuzzing, quality on real rows, other builds.
#
# By hand, results that Bazel has in this tree count, and so do checks whose
# inputs are unchanged: each is a line. With --all, or with CI=true in the
# environment, everything runs. The last line is
# "N passed, N failed, N skipped", of test cases and checks; a skip that
# tests/allowed_skips.txt does not name is a failure.
#
# Real click logs and images are used where they are: in OARLOCK_DATA_DIR, or
# beside this folder in shared/data.
set -uo pipefail
cd "$(dirname "$0")"
source tests/report.sh

names=$(awk 'NF {print $1}' <<<"$parts")
wanted=()
for argument; do
  case $argument in
    --all) fresh=1 ;;
    *)
      if ! grep -qx -- "$argument" <<<"$names"; then
        echo "run_tests: there is no part '$argument'; legal are --all and" \
          $names >&2
        exit 2
      fi
      wanted+=("$argument")
      ;;
  esac
done
if [ "${CI:-}" = true ]; then fresh=1; fi

# What the gate builds; benchmarks are built by tests/long.sh bench.
all=(//... -//bench/...)
asan=($(grep -v '^#' tests/asan_targets.txt))
tsan=($(grep -v '^#' tests/tsan_targets.txt))

part_packages() {
  check "packages" bazel/install_packages.sh tests/packages.txt || exit 1
  bazel/cache.sh write
  bazel/cache.sh trim
  # For tests that need packages of PyPI.
  check "packages of PyPI" tests/python/make_venv.sh || exit 1
  OARLOCK_VENV_PYTHON=$(tests/python/make_venv.sh)
  export OARLOCK_VENV_PYTHON
}
part_build() { build "bazel build" -- "${all[@]}"; }
part_sources() {
  check_unless_unchanged "lint" . /usr/bin/python3 -I tests/lint/lint.py
  check_unless_unchanged "layering" "*.cc *.h *.cu *BUILD *.bzl tests/layering" \
    /usr/bin/python3 -I tests/layering/layering.py
}
part_unit() { bazel_tests -- //tests/... -//tests/system/...; }
part_system() { bazel_tests //tests/system/...; }
part_readme() {
  local inputs=". :!docs :!tests :!bench :!*.md README.md tests/readme"
  check_unless_unchanged "every sh block of README.md" "$inputs" \
    /usr/bin/python3 -I tests/readme/run_readme.py
}
part_sanitizers() {
  build "bazel build --config=asan" --config=asan "${asan[@]}"
  bazel_tests --config=asan "${asan[@]}"
  build "bazel build --config=tsan" --config=tsan "${tsan[@]}"
  bazel_tests --config=tsan "${tsan[@]}"
  bazel/cache.sh trim
}

# The table of the parts, and what they took now.
minutes() {
  local name rest
  printf '%s\n' "minutes, from nothing / with a warm cache, and now:"
  while read -r name rest; do
    if [ -z "${part_seconds[$name]:-}" ]; then continue; fi
    printf '%-11s %5s / %-4s %6s\n' "$name" \
      "$(awk '{print $(NF-2)}' <<<"$rest")" "$(awk '{print $NF}' <<<"$rest")" \
      "$(awk -v s="${part_seconds[$name]}" 'BEGIN {printf "%.1f", s / 60}')"
  done < <(grep . <<<"$parts")
  printf '%-20s %8s\n' "all" \
    "$(awk -v s=$((SECONDS - started)) 'BEGIN {printf "%.1f", s / 60}')"
}

begin_gate
if [ ${#wanted[@]} -eq 0 ]; then wanted=($names); fi
if [ "${wanted[0]}" != packages ]; then wanted=(packages "${wanted[@]}"); fi
for name in "${wanted[@]}"; do run_part "$name" "part_$name"; done
finish minutes
