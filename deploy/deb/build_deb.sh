#!/usr/bin/env bash
# Builds dist/oarlock_<version>_amd64.deb for Debian 12: the program, the
# example programs, a systemd unit, shell completion and a man page. It depends
# on Debian's libraries and computes on CPUs.
#
#   deploy/deb/build_deb.sh [--programs FOLDER] [--out FOLDER]
#
# --programs: stripped programs that deploy/programs.sh has made; by default
# they are built. --out: dist. The same programs, packages and commit make the
# same bytes.
set -euo pipefail
source "$(dirname "$0")/../package.sh"
begin_package build_deb deploy/deb/packages.txt "$@"
here=deploy/deb

# said COMMAND...: what the program prints, which may not be nothing.
said() {
  if ! "$programs/oarlock" "$@" >"$scratch/said" || [ ! -s "$scratch/said" ]
  then
    echo "build_deb: 'oarlock $*' printed nothing to be packed" >&2
    exit 1
  fi
  cat "$scratch/said"
}

tree=$scratch/tree
mkdir -p "$tree"/{DEBIAN,etc/default,usr/bin,lib/systemd/system} \
  "$tree"/usr/share/{bash-completion/completions,man/man1,doc/oarlock} \
  "$tree/usr/share/oarlock/resnet"
cp -P "$programs"/* "$tree/usr/bin"
rm "$tree/usr/bin/liboarlock.so.1"
install -m 644 "$here/oarlock-server.service" "$tree/lib/systemd/system"
install -m 644 "$here/oarlock.default" "$tree/etc/default/oarlock"
install -m 644 examples/resnet/configs/* "$tree/usr/share/oarlock/resnet"
said completion bash >"$tree/usr/share/bash-completion/completions/oarlock"
said man >"$scratch/oarlock.1"
gzip -9nc "$scratch/oarlock.1" >"$tree/usr/share/man/man1/oarlock.1.gz"
gzip -9nc CHANGELOG.md >"$tree/usr/share/doc/oarlock/changelog.gz"
cat >"$tree/usr/share/doc/oarlock/copyright" <<EOF
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Oarlock

Files: *
Copyright: the authors of Oarlock
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
EOF

# Which packages of Debian have the libraries, and from which version on.
mkdir -p "$scratch/shlibs/debian"
printf 'Source: oarlock\n\nPackage: oarlock\nArchitecture: amd64\n' \
  >"$scratch/shlibs/debian/control"
depends=$(cd "$scratch/shlibs" &&
  dpkg-shlibdeps -O "$tree"/usr/bin/* 2>"$scratch/shlibs.log" ||
  { cat "$scratch/shlibs.log" >&2; exit 1; })
depends=${depends#shlibs:Depends=}
size=$(find "$tree" -type f -printf '%s\n' | awk '{s += int(($1 + 1023) / 1024)} END {print s}')
sed -e "s/@VERSION@/$version/" -e "s/@SIZE@/$size/" \
  -e "s/@DEPENDS@/$depends/" "$here/control.in" >"$tree/DEBIAN/control"
echo /etc/default/oarlock >"$tree/DEBIAN/conffiles"
install -m 755 "$here"/{postinst,prerm,postrm} "$tree/DEBIAN"
(cd "$tree" &&
  find etc lib usr -type f ! -path etc/default/oarlock | LC_ALL=C sort |
  xargs md5sum) >"$tree/DEBIAN/md5sums"

chmod -R u=rwX,go=rX "$tree"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$out"
deb=$out/oarlock_${version}_amd64.deb
dpkg-deb --root-owner-group -Zxz --build "$tree" "$deb" >/dev/null
echo "deb       $deb, $(du -k --apparent-size "$deb" | cut -f 1) KiB"
