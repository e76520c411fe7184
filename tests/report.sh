# Sourced by run_tests.sh and long.sh: runs checks and counts them.

passed=0
failed=0
failures=()
started=$SECONDS

section() {
  echo
  echo "== $1 (after $((SECONDS - started)) s)"
}

count() {  # count NAME OK?
  if [ "$2" -eq 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    failures+=("$1")
  fi
}

# check NAME COMMAND...: one check, whose output is shown when it fails.
check() {
  local name=$1 log
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    echo "PASSED  $name"
    count "$name" 0
  else
    echo "FAILED  $name"
    tail -n 60 "$log"
    count "$name" 1
  fi
  rm -f "$log"
}

# bazel_tests FLAGS TARGETS...: each test target counts.
bazel_tests() {
  local log status
  log=$(mktemp)
  bazel test --noshow_progress --keep_going --test_output=errors \
    --test_summary=short "$@" >"$log" 2>&1
  status=$?
  # 3: some tests failed; they are counted. 4: no tests.
  while read -r target verdict; do
    case "$verdict" in
      PASSED | "(cached) PASSED"* | FLAKY*) count "$target" 0 ;;
      *) count "$target" 1 ;;
    esac
  done < <(sed -nE 's/^(\/\/[^ ]+) +(\(cached\) PASSED|PASSED|FLAKY|FAILED|TIMEOUT|NO STATUS).*/\1 \2/p' "$log" | sort -u)
  if [ $status -ne 0 ]; then
    if [ $status -ne 3 ]; then count "bazel test $*" 1; fi
    grep -v '^INFO:' "$log" | tail -n 150
  fi
  grep -E '^Executed' "$log" || true
  rm -f "$log"
}

# python_tests FOLDER: each test method counts.
python_tests() {
  local log
  log=$(mktemp)
  python3 -m unittest discover -v -s "$1" -p '*_test.py' >"$log" 2>&1
  local status=$?
  local ok bad
  ok=$(grep -cE ' \.\.\. (ok|skipped.*)$|^ok$' "$log")
  bad=$(grep -cE '^(FAIL|ERROR): ' "$log")
  passed=$((passed + ok))
  failed=$((failed + bad))
  grep -E '^(FAIL|ERROR): ' "$log" | while read -r line; do echo "$line"; done
  while read -r line; do failures+=("$line"); done < <(grep -E '^(FAIL|ERROR): ' "$log")
  if [ $status -ne 0 ]; then
    if [ "$bad" -eq 0 ]; then count "$1" 1; fi
    tail -n 120 "$log"
  fi
  tail -n 4 "$log"
  rm -f "$log"
}

finish() {
  section "done"
  for name in "${failures[@]:+${failures[@]}}"; do echo "failed: $name"; done
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
