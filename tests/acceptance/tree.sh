#!/usr/bin/env bash
# Shows the tree from above, and that its rules are kept.
#
#   tests/acceptance/tree.sh [--against COMMIT] [LINE...]
#   tests/acceptance/tree.sh --sample SEED
#
# --against names the commit that the figures are compared with. --sample prints
# the first lines of 25 headers, to be read by somebody who did not write them.
# Exits 0 where all was met, 1 where something was missed.
lines='
figures   files, lines, libraries, the largest folder and BUILD file
layering  a folder uses only what stands above it; planted faults are found
folders   no drawers; a README for more than ten files; planted faults are found
words     no old word in code, comments, help, logs, documents; the renames
seams     modes and defaults in one place; conformance suites of the clients
wire      golden files load; a client of the version before gets one line
'
set -uo pipefail
cd "$(dirname "$0")/../.."
source tests/acceptance/report.sh

sample() {
  git ls-files '*.h' | grep -vE '^(tests|bench)/' |
    shuf -n 25 --random-source=<(yes "$1") | while read -r header; do
    echo "== $header"
    sed '/^namespace/,$d' "$header" | grep -vE '^#|^$'
  done
}

against=
case ${1:-} in
  --sample)
    if [ $# -ne 2 ]; then
      echo "tree: --sample wants a SEED, and nothing else" >&2
      exit 2
    fi
    sample "$2"
    exit
    ;;
  --against)
    if ! against=$(git rev-parse --verify -q "${2:-}^{commit}"); then
      echo "tree: --against '${2:-}' is no commit" >&2
      exit 2
    fi
    shift 2
    ;;
esac
choose_lines tree "$lines" "$@"
acceptance_head

# from_above FOLDER: a line per top folder of that copy of the repository.
from_above() {
  (
    cd "$1" || exit
    printf '%-14s %6s %8s %6s   %-32s %s\n' folder files lines libs \
      "largest folder" "largest BUILD"
    for top in $(git ls-files '*.cc' '*.h' '*.cu' '*.cuh' '*.py' '*.proto' |
      grep / | cut -d / -f 1 | sort -u); do
      sources=$(git ls-files "$top" | grep -E '\.(cc|h|cu|cuh|py|proto)$')
      builds=$(git ls-files "$top" | grep -E '(^|/)BUILD$')
      largest=$(xargs -n 1 dirname <<<"$sources" | sort | uniq -c |
        sort -rn | awk 'NR == 1 {print $2 " " $1}')
      build=$(for one in $builds; do
        echo "$one $(wc -l <"$one")"
      done | sort -k 2 -rn | head -n 1)
      libs=$(cat $builds /dev/null | grep -cE '^\[?(cc|cuda)_library\(')
      printf '%-14s %6d %8d %6d   %-32s %s\n' "$top/" \
        "$(wc -l <<<"$sources")" \
        "$(tr '\n' '\0' <<<"$sources" | xargs -0 cat | wc -l)" \
        "$libs" "$largest" "$build"
    done
  )
}

line_figures() {
  if [ -n "$against" ]; then
    local before
    before=$(mktemp -d)
    git worktree add -q --detach "$before" "$against"
    echo "before, $against"
    from_above "$before"
    git worktree remove --force "$before"
  fi
  echo "now"
  from_above .
}

line_layering() {
  holds "the table of folders holds" python3 -I tests/layering/layering.py
  local copy
  copy=$(mktemp -d)
  git worktree add -q --detach "$copy" HEAD
  echo '#include "pserver/server.h"' >>"$copy/worker/trainer.h"
  echo '#include <rocksdb/db.h>' >>"$copy/coordinator/barriers.cc"
  mkdir "$copy/drawer"
  echo 'int i;' >"$copy/drawer/thing.cc"
  local found
  found=$(cd "$copy" && python3 -I -c '
import sys
sys.path.insert(0, "tests/layering")
import layering
print("\n".join(layering.check_sources()))')
  git worktree remove --force "$copy"
  for planted in 'worker/trainer.h uses pserver/server.h' \
    'coordinator/barriers.cc has .*rocksdb' 'drawer/thing.cc lies in a folder'
  do
    holds "found: $planted" grep -q "$planted" <<<"$found"
  done
}

line_folders() {
  holds "no drawers" python3 -I tests/lint/lint.py folders
  holds "planted faults are found" bash -c \
    'cd tests/lint && python3 lint_test.py FoldersTest'
}

line_words() {
  holds "no old word" python3 -I tests/lint/lint.py words
  holds "a file is in its folder's namespace" \
    python3 -I tests/lint/lint.py namespaces
  holds "planted faults are found" bash -c \
    'cd tests/lint && python3 lint_test.py WordsTest NamespacesTest'
  echo "renames in docs/glossary.md: $(sed '1,/^## Renames/d' \
    docs/glossary.md | grep -c '^| .*`')"
}

line_seams() {
  holds "modes and defaults" python3 -I tests/lint/lint.py modes defaults
  holds "planted faults are found" bash -c \
    'cd tests/lint && python3 lint_test.py ModesTest DefaultsTest'
  holds "ParameterClient and JobClient, three implementations each" \
    bazel test //tests/client:parameter_client_conformance_test \
    //tests/client:job_client_conformance_test
}

line_wire() {
  holds "golden files and the wire before" \
    bazel test //tests/system:golden_test //tests/system:old_wire_test
}

for name in "${chosen[@]}"; do
  echo "== $name"
  "line_$name"
done
acceptance_end
