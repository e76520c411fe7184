#!/usr/bin/env bash
# Shows what the gate promises, each figure beside its bound. Wants a machine
# where nothing else runs.
#
#   tests/acceptance/gate.sh [LINE...]
#
# Exits 0 where all was met, 1 where something was missed, 3 where this machine
# lacks what it takes.
lines='
bare      both README commands on a bare Debian 12, from nothing
second    both in a second clone on that system, and again in the same tree
cache     the limit of the compile cache is reached and kept
planted   a flaky test, a skip and a cached pass each fail the gate
units     what the gate compiles for the sanitizers
lint      a planted fault for each check of the sources
soak      20 runs of each test with both cores busy
bench     bench/run.sh --quick ends well; a commit compared with itself is 1.00
'
set -uo pipefail
cd "$(dirname "$0")/../.."
source tests/acceptance/report.sh
source tests/acceptance/bare_root.sh

choose_lines gate "$lines" "$@"
scratch=${OARLOCK_SCRATCH:-/var/tmp}/oarlock_acceptance
root=$scratch/bookworm
logs=build/acceptance
mkdir -p "$logs"

minutes_of() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.1f", (b - a) / 60}'; }

# timed NAME BOUND COMMAND...: its minutes; its output in a log.
timed() {
  local name=$1 bound=$2 begun=$EPOCHREALTIME log
  log=$logs/$(tr -c 'a-z0-9\n' '_' <<<"${name,,}").log
  shift 2
  if "$@" >"$log" 2>&1; then
    figure "$name" "$(minutes_of "$begun" "$EPOCHREALTIME")" min "$bound"
  else
    holds "$name, see $log" tail -n 40 "$log"
    missed=1
  fi
  grep -E 'units compiled|^(packages|build|sources|unit|system|readme|sanitizers) |passed, .* failed' \
    "$log" | sed 's/^/          /'
}

# A clone of this commit on the bare system, with the data beside it.
clone_into() {
  local name=$1
  mkdir -p "$root/root/$name"
  git clone -q . "$root/root/$name/oarlock"
  if [ -d ../shared ]; then cp -r ../shared "$root/root/$name/shared"; fi
}

line_bare() {
  remove_bare "$root"
  make_bare bookworm "$root"
  case $? in
    0) ;;
    3) lacks bare "see above"; return ;;
    *) holds "a bare Debian 12" false; return ;;
  esac
  clone_into first
  timed "quickstart.sh from nothing" 11 \
    in_bare "$root" bash -c 'cd first/oarlock && exec ./quickstart.sh'
  timed "run_tests.sh from nothing, after it" 45 \
    in_bare "$root" bash -c 'cd first/oarlock && exec ./run_tests.sh --all'
  echo "          the bound of 45 is that of both:" \
    "$(sed -n 's/^all  *//p' "$logs"/run_tests*nothing*.log) after the first"
}

line_second() {
  if [ ! -d "$root/root/first" ]; then
    lacks second "run the line bare before it"
    return
  fi
  rm -rf "$root/root/second"
  clone_into second
  timed "quickstart.sh in a second clone" 2 \
    in_bare "$root" bash -c 'cd second/oarlock && exec ./quickstart.sh'
  timed "run_tests.sh --all in a second clone" 15 \
    in_bare "$root" bash -c 'cd second/oarlock && exec ./run_tests.sh --all'
  timed "run_tests.sh again in the same tree" 3 \
    in_bare "$root" bash -c 'cd second/oarlock && exec ./run_tests.sh'
}

line_cache() {
  local folder kept
  folder=$(mktemp -d)
  export XDG_CACHE_HOME=$folder
  mapfile -t cache < <(bazel/cache.sh)
  bazel --output_base="$folder/base" build --symlink_prefix=/ \
    --noshow_progress "${cache[@]}" //base/... //storage/... \
    >"$logs/cache.log" 2>&1
  local before after
  before=$(du -sm "$folder/oarlock" | cut -f 1)
  OARLOCK_CACHE_MB=2 bazel/cache.sh trim
  after=$(du -sm --exclude=trim.lock "$folder"/oarlock/*/cas | cut -f 1)
  holds "the cache was over a limit of 2 MB ($before MB)" test "$before" -gt 2
  figure "the cache after trimming to 2 MB" "$after" MB 3
  bazel --output_base="$folder/base" clean >>"$logs/cache.log" 2>&1
  holds "what is left of it still builds" \
    bazel --output_base="$folder/base" build --symlink_prefix=/ \
    --noshow_progress "${cache[@]}" //base/... //storage/...
  bazel --output_base="$folder/base" shutdown
  chmod -R u+w "$folder"
  rm -rf "$folder"
  unset XDG_CACHE_HOME
  kept=$(OARLOCK_CACHE_MB=many bazel/cache.sh trim 2>&1 || true)
  holds "a limit that is no number is one line" grep -q 'legal is' <<<"$kept"
}

# planted NAME EXPECTED: the gate over one planted test fails with that line.
planted() {
  local name=$1 expected=$2 log=$logs/planted_$1.log
  (cd "$scratch/planted" && source tests/report.sh && begin_gate &&
    fresh=${3:-0} && bazel_tests //tests/planted:planted_test &&
    finish) >"$log" 2>&1
  local code=$?
  holds "a planted $name test fails the gate (exit code $code)" \
    bash -c '[ "$1" -eq 1 ] && grep -q -- "$2" "$3"' - "$code" "$expected" "$log"
}

line_planted() {
  rm -rf "$scratch/planted"
  mkdir -p "$scratch"
  git clone -q . "$scratch/planted"
  local folder=$scratch/planted/tests/planted
  mkdir -p "$folder"
  (cd "$scratch/planted" && bazel/cache.sh write)
  write_planted() {  # write_planted FLAKY BODY
    cat >"$folder/BUILD" <<BUILD
cc_test(
    name = "planted_test",
    srcs = ["planted_test.cc"],
    flaky = $1,
    deps = ["@system//:gtest_main"],
)
BUILD
    printf '%s\n' '#include <fstream>' '#include <gtest/gtest.h>' \
      "TEST(Planted, Case) { $2 }" >"$folder/planted_test.cc"
  }
  # Fails the first time that it runs, as a flaky test may.
  write_planted 1 "std::ifstream before(\"$scratch/ran\"); std::ofstream(\"$scratch/ran\") << 1; EXPECT_TRUE(before.good());"
  sed -i 's/flaky = 1/flaky = 1,\n    tags = ["local"]/' "$folder/BUILD"
  rm -f "$scratch/ran"
  planted flaky 'FAILED  //tests/planted:planted_test'
  write_planted 0 'GTEST_SKIP() << "not today";'
  planted skipped 'may not be skipped: not today'
  write_planted 0 'EXPECT_EQ(1 + 1, 2);'
  (cd "$scratch/planted" && source tests/report.sh && begin_gate &&
    bazel_tests //tests/planted:planted_test) >"$logs/planted_first.log" 2>&1
  # As where --nocache_test_results were forgotten.
  sed -i 's/flags=(--nocache_test_results)/flags=()/' \
    "$scratch/planted/tests/report.sh"
  planted cached 'was not run: a cached result' 1
  (cd "$scratch/planted" && bazel clean --expunge) >/dev/null 2>&1
  rm -rf "$scratch/planted"
}

line_units() {
  local list total=0 units
  for list in asan tsan; do
    units=$(bazel query --noshow_progress --keep_going \
      "filter('^//.*\\.cc\$', deps(set($(grep -v '^#' tests/${list}_targets.txt |
        tr '\n' ' '))))" 2>/dev/null | sort -u | wc -l)
    total=$((total + units))
  done
  figure "units compiled for both sanitizers" "$total" "" 150
}

line_lint() {
  holds "each planted fault is found, and nothing else" \
    /usr/bin/python3 tests/lint/lint_test.py
}

line_soak() {
  holds "20 runs of each test without a failure" tests/soak.sh count
  tests/soak.sh count | tail -n 1 | sed 's/^/          /'
}

line_bench() {
  holds "the benchmarks are built" bazel build --noshow_progress //bench/...
  timed "bench/run.sh --quick" 4 bench/run.sh --quick
  holds "a commit compared with itself is 1.00 within its quartiles" \
    bench/compare.sh HEAD "lookup"
}

acceptance_head
for name in "${chosen[@]}"; do
  echo "== $name"
  "line_$name"
done
acceptance_end
