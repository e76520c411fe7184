#!/usr/bin/env bash
# Old against new: builds another commit beside this tree, measures rows of the
# bench with both in turns, and prints new/old. See bench/README.md.
#
#   bench/compare.sh [--bound .97] [--turns N] [--quick] [--json FILE]
#                    OLD_COMMIT [ROW...]
#
# New is this tree as it is, with what is not committed. Old is built in
#   ${XDG_CACHE_HOME:-$HOME/.cache}/oarlock/compare/COMMIT
# with this tree's user.bazelrc. The last 4 stay there, each with what Bazel
# made of it. The rows, and how they are measured, are this tree's for both.
#
# Exit code 1: a row does not hold, or fails; 2: the command line is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly kept=4
python=/usr/bin/python3
command -v "$python" >/dev/null || python=python3

# usage TEXT: what is wrong with the command line.
usage() {
  echo "bench/compare.sh: $1" >&2
  exit 2
}

# fail TEXT: what this machine cannot.
fail() {
  echo "bench/compare.sh: $1" >&2
  exit 1
}

# built FOLDER TARGET...: Bazel's output goes to FOLDER, or where it always
# goes when FOLDER is empty. Its server does not stay to take part in what is
# measured, and does not inherit the lock.
built() {
  local output=()
  if [ -n "$1" ]; then output=("--output_base=$1"); fi
  shift
  local result=0
  bazel "${output[@]}" build --noshow_progress --keep_going "${cache[@]}" \
    "$@" 9>&- || result=$?
  bazel "${output[@]}" shutdown 9>&-
  return "$result"
}

# forget FOLDER: the worktree and what Bazel made of it.
forget() {
  git worktree remove --force "$1/tree" 2>/dev/null || true
  chmod -R u+w "$1"
  rm -rf "$1"
  git worktree prune
}

for argument; do
  case $argument in
    -h | --help) exec "$python" bench/suite/old_against_new.py --help ;;
  esac
done
old=$("$python" bench/suite/old_against_new.py --show commit "$@")
targets=$("$python" bench/suite/old_against_new.py --show targets "$@")
commit=$(git rev-parse --verify --quiet --end-of-options "$old^{commit}") ||
  usage "'$old' is no commit of this repository; see git log"
if [ -z "${XDG_CACHE_HOME:-${HOME:-}}" ]; then
  fail "neither XDG_CACHE_HOME nor HOME says where the other commit is built"
fi

root=${XDG_CACHE_HOME:-$HOME/.cache}/oarlock/compare
mkdir -p "$root"
exec 9>"$root/lock"
flock --nonblock 9 || fail "another comparison is under way"

cache=()
if [ -x bazel/cache.sh ]; then mapfile -t cache < <(bazel/cache.sh); fi
folder=$root/$commit
# Of another clone, perhaps, that is gone.
if [ ! -e "$folder/tree/.git" ] ||
  ! git -C "$folder/tree" reset --quiet --hard "$commit" 2>/dev/null; then
  if [ -e "$folder" ]; then forget "$folder"; fi
  mkdir -p "$folder"
  git worktree add --quiet --detach "$folder/tree" "$commit"
fi
rm -f "$folder/tree/user.bazelrc"
if [ -e user.bazelrc ]; then cp user.bazelrc "$folder/tree"; fi
touch "$folder"
# Newest first; names are hexadecimal.
# shellcheck disable=SC2012
ls -dt "$root"/*/ | tail -n "+$((kept + 1))" | while read -r other; do
  forget "${other%/}"
done

mapfile -t wanted <<<"$targets"
begin=$SECONDS
if [ -n "$targets" ]; then
  # What an earlier commit lacks costs the rows that need it, and they say so.
  (cd "$folder/tree" && built "$folder/bazel" "${wanted[@]}") ||
    echo "bench/compare.sh: not all of $commit is built; see above" >&2
  built "" "${wanted[@]}" || fail "this tree is not built; see above"
fi
changed=
if [ -n "$(git status --porcelain)" ]; then
  changed=" and what is not committed"
fi
echo "old $commit"
echo "new $(git rev-parse HEAD)$changed"
echo "built in $((SECONDS - begin)) s"
exec "$python" bench/suite/old_against_new.py \
  --old "$folder/tree/bazel-bin" "$@"
