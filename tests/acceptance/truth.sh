#!/usr/bin/env bash
# Shows that nothing goes wrong without a word: runs the tests of each case that
# outsiders found (tests/cases), and says what is open.
#
#   tests/acceptance/truth.sh [NUMBER...]     K01, D3, ...; all without one
#
# The cases with their tests are tests/acceptance/truth.txt. Exits 0 where all
# was met, 1 where something was missed, 3 where something is open.
set -uo pipefail
cd "$(dirname "$0")/../.."
source tests/acceptance/report.sh

table=tests/acceptance/truth.txt
rows=$(grep -v '^#' "$table")
choose_lines truth "$(cut -d ' ' -f 1 <<<"$rows" | sort -uV)" "$@"
acceptance_head

for number in "${chosen[@]}"; do
  while IFS='|' read -r _ how seen; do
    how=$(sed "s/^ *//; s/ *$//" <<<"$how")
    case $how in
      open) lacks "$number" "open" ;;
      docs\ *) holds "$number: ${how#docs }" \
        grep -qF "${how#docs }" docs/failure_modes.md ;;
      *) holds "$number: $how" ran ${how% *} "${how##* }" ;;
    esac
    seen=$(sed 's/^ *//' <<<"$seen")
    if [ -n "$seen" ]; then echo "        $seen"; fi
  done < <(grep -E "^$number \|" <<<"$rows")
done
acceptance_end
