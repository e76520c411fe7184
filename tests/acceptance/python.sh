#!/usr/bin/env bash
# Shows what the Python client promises, each figure beside its bound.
#
#   tests/acceptance/python.sh [LINE...]
#   tests/acceptance/python.sh quick      those that take a minute at most
#
# Exits 0 where all was met, 1 where something was missed, 3 where this machine
# lacks what it takes. Logs lie in build/acceptance.
quick_lines='
c_program    a C program trains with the header and the library alone
symbols      the library shows the functions of its header, and nothing else
unchanged    a client changes nothing of its process but threads of its own
rules        all rules, declared in Python and in C++: the same bits
order        tables declared in another order: the same bits
sync         rounds of several workers
storm        30 kills of servers and workers, every example counts once
notebook     cells that are run again, and interrupted
join_refused a rank that is taken is refused, or taken over
runs         runs come and go on servers that stay, the engine among them
going_back   pushes to some servers only are completed, or undone
evaluation   the metrics of all workers
await        coroutines
clusters     servers on this machine go with their process
fork         forked children are refused, others of multiprocessing work
imports      all orders of imports
example      the example learns what the engine learns
reference    the reference names all that is public
docs         every block of docs/python.md runs
types        types of the package and of a user program
'
# A machine where nothing else runs, and up to an hour each.
long_lines='
fuzzer       a million random calls of the C interface under asan and ubsan
speed        pull and push beside the C++ client
interrupts   Ctrl-C into every wait, plain and under asan
memory       100,000 steps
packages     wheel, .debs and checkout, on bare systems and on all Pythons
'
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 3
source tests/acceptance/report.sh

if [ "$*" = quick ]; then
  # shellcheck disable=SC2046 # names of lines
  set -- $(awk 'NF {print $1}' <<<"$quick_lines")
fi
choose_lines python "$quick_lines$long_lines" "$@"
logs=build/acceptance
mkdir -p "$logs"
OARLOCK_VENV_PYTHON=$(tests/python/make_venv.sh) || exit 3
export OARLOCK_VENV_PYTHON

# from_python NAME FILE FILTER [FLAG...]: tests of tests/python/FILE.
from_python() { tested "$1" "//tests/python:$2" "$3" "${@:4}"; }

line_c_program() {
  from_python "a C program trains" c_interface_test test_a_c_program
}
line_symbols() {
  from_python "symbols and soname" c_interface_test \
    test_the_library_shows:test_its_soname
}
line_unchanged() {
  from_python "handlers, mask, environment, threads..." c_interface_test \
    ProcessTest
}
line_rules() { from_python "rules" rules_test ""; }
line_order() {
  from_python "another order, async" rules_test declared_in_another_order
  from_python "another order, sync" sync_test declared_in_another_order
}
line_sync() { from_python "rounds" sync_test ""; }
line_storm() {
  from_python "30 kills" storm_test "" --test_env=OARLOCK_KILLS=30
}
line_notebook() { from_python "notebook" notebook_test ""; }
line_join_refused() {
  from_python "a rank that is taken" runs_test rank_that_is_taken:takes_a_rank
}
line_runs() {
  from_python "runs" runs_test ""
  from_python "runs of the engine in between" engine_test ""
}
line_going_back() { from_python "going back" going_back_test ""; }
line_evaluation() { from_python "evaluation" evaluation_test ""; }
line_await() { from_python "coroutines" await_test ""; }
line_clusters() { from_python "local clusters" cluster_test ""; }
line_fork() {
  from_python "fork, spawn and forkserver" errors_test forked:multiprocessing
}
line_imports() { from_python "orders of imports" imports_test ""; }
line_example() { from_python "the example" example_test ""; }
line_reference() { from_python "the reference" reference_test ""; }
line_docs() { from_python "docs/python.md" docs_test ""; }
line_types() { from_python "types" types_test ""; }

line_fuzzer() {
  tested "${OARLOCK_RANDOM_CALLS:-1000000} calls under asan and ubsan" \
    //tests/capi:random_calls_test "*" --config=asan \
    --config=ubsan --test_timeout=3600 \
    --test_env=OARLOCK_RANDOM_CALLS="${OARLOCK_RANDOM_CALLS:-1000000}"
}

# logged NAME COMMAND...: met where it exits 0; its output in a log.
logged() {
  local log=$logs/python_$1.log
  holds "$1, see $log" bash -c '"${@:2}" >"$1" 2>&1' - "$log" "${@:2}"
  if [ "$1" != build ]; then tail -n 12 "$log" | sed 's/^/          /'; fi
}

built_client() {
  logged build bazel build --noshow_progress \
    //capi:liboarlock.so.1 //cli:oarlock "$@"
}

line_speed() {
  built_client //bench/python:client_steps
  local figures=$logs/python_speed.json name
  rm -f "$figures"
  logged speed "$OARLOCK_VENV_PYTHON" -B bench/python/client.py \
    --json "$figures"
  if [ ! -f "$figures" ]; then return; fi
  for name in "Python" "Python, memory kept"; do
    figure "$name: pull and push beside C++" "$(/usr/bin/python3 -I -c '
import json, sys
print("%.3f" % json.load(open(sys.argv[1]))[sys.argv[2]]["ratio"])
' "$figures" "$name")" "" 1.10
  done
}

line_interrupts() {
  built_client
  logged interrupts "$OARLOCK_VENV_PYTHON" -B tests/python/soak.py interrupts
  logged interrupts_asan tests/python/soak_asan.sh
}

line_memory() {
  built_client
  logged memory "$OARLOCK_VENV_PYTHON" -B tests/python/soak.py memory
  figure "memory after 10,000 steps and at its most" "$(
    sed -nE 's/^.* KiB, \+?(-?[0-9.]+) %$/\1/p' "$logs/python_memory.log" |
      sort -n | tail -n 1 | grep . || echo unknown)" % 2
}

line_packages() {
  local log=$logs/python_packages.log
  tests/acceptance/package.sh wheel_12 wheel_13 pythons debs editable \
    >"$log" 2>&1
  local status=$?
  sed 's/^/          /' "$log"
  case $status in
    3) lacks packages "see above" ;;
    *) holds "packages, see $log" test $status -eq 0 ;;
  esac
}

acceptance_head
for name in "${chosen[@]}"; do
  echo "== $name"
  "line_$name"
done
acceptance_end
