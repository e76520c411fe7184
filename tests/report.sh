# Sourced by run_tests.sh and long.sh: runs parts, counts what they ran.
#
# What was run, and what stays the same from run to run, lies in build/gate:
# results.jsonl (each case), minutes (each part), stamps (unchanged inputs).

gate=$PWD/build/gate
results=$gate/results.jsonl
started=$SECONDS
fresh=0  # 1: nothing that ran before counts
declare -A part_seconds

# As Bazel's build files ask for them: tests wait more than they compute.
test_flags=(--jobs=4 --local_test_jobs=4 --flaky_test_attempts=1)
py=(/usr/bin/python3 -I)

begin_gate() {
  mkdir -p "$gate/stamps"
  rm -f "$results"
  if [ -z "${OARLOCK_DATA_DIR:-}" ] && [ -d ../shared/data ]; then
    OARLOCK_DATA_DIR=$(cd ../shared/data && pwd)
  fi
  export OARLOCK_DATA_DIR=${OARLOCK_DATA_DIR:-}
}

section() {
  echo
  echo "== $1 (after $((SECONDS - started)) s)"
}

# run_part NAME FUNCTION: a section whose time is told at the end.
run_part() {
  local before=$SECONDS
  section "$1"
  "$2"
  part_seconds[$1]=$((SECONDS - before))
}

# check NAME COMMAND...: one check, whose output is shown when it fails, and the
# last line of it when it passes.
check() {
  local name=$1 log verdict
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    verdict=passed
    echo "PASSED  $name: $(tail -n 1 "$log")"
  else
    verdict=failed
    echo "FAILED  $name"
    tail -n 60 "$log"
  fi
  rm -f "$log"
  "${py[@]}" tests/gate/cases.py check "$results" "$name" $verdict
  [ $verdict = passed ]
}

# digest_of PATHS...: of the files' contents, and of what is installed. PATHS
# are git's.
digest_of() {
  {
    bazel/cache.sh digest
    git ls-files -z --cached --others --exclude-standard -- "$@" |
      sort -z | xargs -0 sha256sum 2>/dev/null
  } | sha256sum | cut -c 1-32
}

# check_unless_unchanged NAME "PATHS" COMMAND...: a check that is not run where
# none of its inputs has changed in this tree since it passed.
check_unless_unchanged() {
  local name=$1 paths stamp digest
  read -ra paths <<<"$2"
  shift 2
  stamp=$gate/stamps/$(tr -c 'a-z0-9\n' '_' <<<"${name,,}")
  digest=$(digest_of "${paths[@]}")
  if [ $fresh -eq 0 ] && [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ]; then
    echo "UNCHANGED  $name: passed before, with the same inputs"
    "${py[@]}" tests/gate/cases.py check "$results" "$name" unchanged
    return
  fi
  rm -f "$stamp"
  if check "$name" "$@"; then echo "$digest" >"$stamp"; fi
}

# build NAME FLAGS TARGETS...: builds, and says how many units it compiled.
build() {
  local name=$1
  shift
  check "$name" bazel build --noshow_progress --keep_going \
    --profile="$gate/build.profile.gz" "$@"
  "${py[@]}" tests/gate/units.py "$gate/build.profile.gz" || true
}

# bazel_tests FLAGS TARGETS...: each test case counts. What is tested has been
# built: the compile cache is off, since it holds results of tests, too.
bazel_tests() {
  local log=$gate/bazel_test.log bep=$gate/bazel_test.json flags=()
  if [ $fresh -ne 0 ]; then flags=(--nocache_test_results); fi
  rm -f "$bep"
  bazel test --noshow_progress --keep_going --test_output=summary \
    --test_summary=none --disk_cache= --build_event_json_file="$bep" \
    "${test_flags[@]}" "${flags[@]}" "$@" >"$log" 2>&1
  local status=$?
  # 3: some tests failed; they are counted case by case.
  if [ $status -ne 0 ] && [ $status -ne 3 ]; then
    grep -v '^INFO:' "$log" | tail -n 100
    "${py[@]}" tests/gate/cases.py check "$results" \
      "bazel test $* (exit code $status)" failed
  fi
  grep -E '^Executed' "$log" || true
  [ ! -f "$bep" ] || "${py[@]}" tests/gate/cases.py tests "$results" "$bep" \
    $([ $fresh -eq 0 ] || echo --fresh) || true
}

# finish: what failed, the minutes, the counts. The last line is theirs.
finish() {
  section "done"
  if [ $# -gt 0 ]; then "$@"; fi
  "${py[@]}" tests/gate/cases.py finish "$results"
}
