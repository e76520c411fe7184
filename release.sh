#!/usr/bin/env bash
# Makes a release of the commit that is checked out, in dist/: the wheel, the
# .debs, the debug symbols of the programs and the library, and SHA256SUMS. The
# programs know the commit. A tree with changes is refused.
#
#   ./release.sh                        with the compile cache
#   ./release.sh --check-reproducible   twice, in two clones, the second time
#                                       without the cache; fails where a byte
#                                       differs; dist/ gets the files
#
# A frame of a crash's stack, oarlock+0xOFFSET, is a line of source by the debug
# symbols: `readelf -n PROGRAM` says the build id, and
# `addr2line -Cfie .build-id/XX/REST.debug 0xOFFSET` the line.
set -euo pipefail
cd "$(dirname "$0")"

if [ $# -gt 1 ] || { [ $# -eq 1 ] && [ "$1" != --check-reproducible ]; }; then
  echo "release: '$*' is no use of it; legal is --check-reproducible, or" \
    "nothing" >&2
  exit 2
fi
if [ -n "$(git status --porcelain)" ]; then
  echo "release: the tree has changes, for example" \
    "$(git status --porcelain | head -n 1); commit or remove them" >&2
  exit 1
fi

release() {
  local version stem commit
  commit=$(git rev-parse HEAD)
  version=$(deploy/programs.sh version)
  stem=oarlock-$version-debug
  SOURCE_DATE_EPOCH=$(deploy/programs.sh epoch)
  export SOURCE_DATE_EPOCH
  bazel/install_packages.sh python/packages.txt deploy/deb/packages.txt
  rm -rf dist
  mkdir dist
  deploy/programs.sh build "$scratch/whole" --config=release \
    "--define=oarlock_commit=$commit"
  deploy/programs.sh strip "$scratch/whole" "$scratch/programs" \
    "$scratch/$stem"
  python/build_wheel.sh --programs "$scratch/programs"
  deploy/deb/build_deb.sh --programs "$scratch/programs"
  tar -C "$scratch" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 \
    --group=0 --numeric-owner --mode=u=rwX,go=rX -c "$stem" |
    xz -T1 -6 >"dist/$stem.tar.xz"
  (cd dist && sha256sum -- * >"$scratch/sums" && mv "$scratch/sums" SHA256SUMS)
  echo "release   $version of commit $commit:"
  cat dist/SHA256SUMS
}

# in_clone NAME: a release in a clone, whose traces in Bazel's folder go again.
in_clone() {
  git clone -q . "$scratch/$1"
  (
    cd "$scratch/$1"
    status=0
    ./release.sh || status=$?
    bazel --output_base="$(bazel info output_base)_package" clean --expunge
    bazel clean --expunge
    exit $status
  )
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ $# -eq 0 ]; then
  release
  exit 0
fi
in_clone first
OARLOCK_CACHE=0 in_clone a_second_one
differ=0
for file in "$scratch"/first/dist/*; do
  if ! cmp "$file" "$scratch/a_second_one/dist/${file##*/}"; then differ=1; fi
done
rm -rf dist
cp -r "$scratch/first/dist" dist
if [ $differ -ne 0 ]; then
  echo "release: the two builds differ" >&2
  exit 1
fi
echo "release: $(find dist -type f | wc -l) files, the same bytes in both builds"
