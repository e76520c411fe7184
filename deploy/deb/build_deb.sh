#!/usr/bin/env bash
# Builds the packages for Debian 12, in dist/:
#
#   oarlock_<version>_amd64.deb         the program, the example programs, a
#                                       systemd unit, completion and a man page
#   liboarlock1_<version>_amd64.deb     liboarlock.so.1
#   liboarlock-dev_<version>_amd64.deb  its header, link and pkg-config file
#   python3-oarlock_<version>_all.deb   the Python package
#
# They depend on Debian's libraries and compute on CPUs.
#
#   deploy/deb/build_deb.sh [--programs FOLDER] [--out FOLDER]
#
# --programs: stripped programs that deploy/programs.sh has made; by default
# they are built. --out: dist. The same programs, packages and commit make the
# same bytes.
set -euo pipefail
# shellcheck source=deploy/package.sh
source "$(dirname "$0")/../package.sh"
begin_package build_deb deploy/deb/packages.txt "$@"
here=deploy/deb
multiarch=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
library=liboarlock.so.1
library_file=$library.$version
mkdir -p "$out"

# filled FILE DEPENDS SIZE: a template's text.
filled() {
  sed -e "s/@VERSION@/$version/g" -e "s/@MULTIARCH@/$multiarch/" \
    -e "s/@DEPENDS@/$2/" -e "s/@SIZE@/$3/" "$1"
}

# said COMMAND...: what the program prints, which may not be nothing.
said() {
  if ! "$programs/oarlock" "$@" >"$scratch/said" || [ ! -s "$scratch/said" ]
  then
    echo "build_deb: 'oarlock $*' printed nothing to be packed" >&2
    exit 1
  fi
  cat "$scratch/said"
}

# debian PACKAGE: a folder in which Debian's tools take the package for a source.
debian() {
  mkdir -p "$scratch/$1.source/debian"
  printf 'Source: oarlock\n\nPackage: %s\nArchitecture: amd64\n' "$1" \
    >"$scratch/$1.source/debian/control"
  cd "$scratch/$1.source"
}

# needs PACKAGE FILE...: which packages of Debian have the libraries of these
# files, and from which version on.
needs() {
  local log=$scratch/$1.shlibs.log line
  line=$(debian "$1" && dpkg-shlibdeps -O "${@:2}" 2>"$log") ||
    { cat "$log" >&2; exit 1; }
  echo "${line#shlibs:Depends=}"
}

# pack PACKAGE ARCHITECTURE [DEPENDS]: the .deb of the tree in $scratch/PACKAGE,
# with what $here/PACKAGE has for dpkg.
pack() {
  local package=$1 tree=$scratch/$1 deb=$out/$1_${version}_$2.deb size name
  local doc=$tree/usr/share/doc/$package
  mkdir -p "$tree/DEBIAN" "$doc"
  gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
  cat >"$doc/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Oarlock

Files: *
Copyright: the authors of Oarlock
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
END
  size=$(find "$tree" -path "$tree/DEBIAN" -prune -o -type f -printf '%s\n' |
    awk '{s += int(($1 + 1023) / 1024)} END {print s}')
  filled "$here/$package/control.in" "${3:-}" "$size" >"$tree/DEBIAN/control"
  for name in postinst prerm postrm; do
    if [ -f "$here/$package/$name" ]; then
      install -m 755 "$here/$package/$name" "$tree/DEBIAN"
    fi
  done
  if [ -f "$here/$package/triggers" ]; then
    install -m 644 "$here/$package/triggers" "$tree/DEBIAN"
  fi
  (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' |
    { grep -zvxFf <(sed 's#^/##' DEBIAN/conffiles 2>/dev/null) || true; } |
    LC_ALL=C sort -z | xargs -0 md5sum) >"$scratch/md5sums"
  install -m 644 "$scratch/md5sums" "$tree/DEBIAN"
  chmod -R u=rwX,go=rX "$tree"
  find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$tree" "$deb" >/dev/null
  echo "deb       $deb, $(du -k --apparent-size "$deb" | cut -f 1) KiB"
}

pack_oarlock() {
  local tree=$scratch/oarlock depends
  mkdir -p "$tree"/{DEBIAN,etc/default,usr/bin,lib/systemd/system} \
    "$tree"/usr/share/{bash-completion/completions,man/man1} \
    "$tree/usr/share/oarlock/resnet"
  cp -P "$programs"/* "$tree/usr/bin"
  rm "$tree/usr/bin/$library"
  install -m 644 "$here/oarlock/oarlock-server.service" \
    "$tree/lib/systemd/system"
  install -m 644 "$here/oarlock/oarlock.default" "$tree/etc/default/oarlock"
  install -m 644 examples/resnet/configs/* "$tree/usr/share/oarlock/resnet"
  said completion bash >"$tree/usr/share/bash-completion/completions/oarlock"
  said man >"$scratch/oarlock.1"
  gzip -9nc "$scratch/oarlock.1" >"$tree/usr/share/man/man1/oarlock.1.gz"
  echo /etc/default/oarlock >"$tree/DEBIAN/conffiles"
  depends=$(needs oarlock "$tree"/usr/bin/*)
  pack oarlock amd64 "$depends"
}

# Until the interface is stable a program wants the release that it was built
# with, or a later one: that is what the lists of its functions say.
pack_library() {
  local tree=$scratch/liboarlock1 folder=usr/lib/$multiarch depends
  mkdir -p "$tree/DEBIAN" "$tree/$folder"
  install -m 644 "$programs/$library" "$tree/$folder/$library_file"
  ln -s "$library_file" "$tree/$folder/$library"
  echo "liboarlock 1 liboarlock1 (>= $version)" >"$tree/DEBIAN/shlibs"
  (debian liboarlock1 && dpkg-gensymbols -q -pliboarlock1 "-v$version" \
    "-P$tree" "-O$tree/DEBIAN/symbols")
  depends=$(needs liboarlock1 "$tree/$folder/$library_file")
  pack liboarlock1 amd64 "$depends"
}

pack_header() {
  local tree=$scratch/liboarlock-dev folder=usr/lib/$multiarch
  mkdir -p "$tree/usr/include/oarlock" "$tree/$folder/pkgconfig"
  install -m 644 capi/include/oarlock/oarlock.h "$tree/usr/include/oarlock"
  ln -s "$library" "$tree/$folder/liboarlock.so"
  filled "$here/liboarlock-dev/oarlock.pc.in" "" "" \
    >"$tree/$folder/pkgconfig/oarlock.pc"
  pack liboarlock-dev amd64
}

pack_python() {
  local packages=$scratch/python3-oarlock/usr/lib/python3/dist-packages
  local info=$packages/oarlock-$version.dist-info
  mkdir -p "$packages/oarlock" "$info"
  install -m 644 python/oarlock/*.py python/oarlock/py.typed "$packages/oarlock"
  # What other packages of Python ask for by name.
  printf '%s\n' "Metadata-Version: 2.1" "Name: oarlock" "Version: $version" \
    "Summary: A parameter server for distributed training" \
    "License: Apache-2.0" "Requires-Python: >=3.9" "Requires-Dist: numpy" \
    >"$info/METADATA"
  echo dpkg >"$info/INSTALLER"
  pack python3-oarlock all
}

pack_oarlock
pack_library
pack_header
pack_python
