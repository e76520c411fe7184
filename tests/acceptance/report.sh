# Sourced by scripts of this folder: a figure beside its bound.
#
#   figure NAME VALUE UNIT BOUND    met where VALUE is at most BOUND
#   holds NAME COMMAND...           met where COMMAND exits 0
#   lacks NAME WHY                  this machine cannot show it
#   ran TARGET FILTER [FLAG...]     bazel test of it: exits 0 where tests ran,
#                                   all passed and none was skipped; says how
#                                   many, or what went wrong
#   tested NAME TARGET FILTER [FLAG...]   met where that holds; says how many
#   choose_lines SCRIPT LINES ARG...   sets `chosen` to the ARGs, all of which
#                                   LINES has to name, or to all that it names
#   acceptance_end                  exits 0 (met), 1 (missed), 3 (lacks)

missed=0
lacking=0

acceptance_head() {
  echo "commit $(git rev-parse HEAD)" \
    "$(git diff --quiet HEAD || echo '(and what is not committed)')"
  echo "cpu    $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
    "$(nproc) cores, load $(cut -d ' ' -f 1 /proc/loadavg)"
}

choose_lines() {
  local script=$1 names argument
  names=$(awk 'NF {print $1}' <<<"$2")
  shift 2
  for argument; do
    if ! grep -qx -- "$argument" <<<"$names"; then
      echo "$script: there is no line '$argument'; legal are" $names >&2
      exit 2
    fi
  done
  chosen=("$@")
  if [ $# -eq 0 ]; then chosen=($names); fi
}

figure() {
  local verdict=met
  if ! awk -v a="$2" -v b="$4" 'BEGIN {exit !(a <= b)}'; then
    verdict=MISSED
    missed=1
  fi
  printf '%-7s %-44s %10s %-4s at most %s\n' "$verdict" "$1" "$2" "$3" "$4"
}

holds() {
  local name=$1 log
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    printf '%-7s %s\n' met "$name"
  else
    printf '%-7s %s\n' MISSED "$name"
    tail -n 30 "$log"
    missed=1
  fi
  rm -f "$log"
}

ran() {
  local target=$1 filter=$2 log outcome=1
  shift 2
  log=$(mktemp)
  if bazel test --noshow_progress --test_output=all --cache_test_results=no \
    --test_filter="$filter" "$@" "$target" >"$log" 2>&1; then
    grep -E '^\[  PASSED  \] [1-9]|^Ran [1-9][0-9]* tests? in' "$log" &&
      ! grep -E '^\[  SKIPPED|^OK \(|Executed 0 out of' "$log" && outcome=0
  fi
  if [ $outcome -ne 0 ]; then
    grep -E 'FAILED|FAIL:|rror:|^ERROR|no test is named|seed' "$log" |
      head -n 20
  fi
  rm -f "$log"
  return "$outcome"
}

tested() {
  local name=$1 said
  shift
  if said=$(ran "$@"); then
    printf '%-7s %-44s %s\n' met "$name" "$(head -n 1 <<<"$said")"
  else
    printf '%-7s %s: %s\n' MISSED "$name" "bazel test $1 --test_filter=$2"
    sed 's/^/          /' <<<"${said:-the log says nothing of a test}"
    missed=1
  fi
}

lacks() {
  printf '%-7s %-44s %s\n' lacks "$1" "$2"
  lacking=1
}

acceptance_end() {
  if [ $missed -ne 0 ]; then exit 1; fi
  if [ $lacking -ne 0 ]; then exit 3; fi
  exit 0
}
