# Sourced by scripts of this folder: bare Debian systems in folders of their own.
#
#   make_bare SUITE FOLDER          debootstrap's minbase: bookworm, trixie...
#   in_bare FOLDER COMMAND...       COMMAND as root of that system, in namespaces
#                                   of its own: what it mounts or leaves running
#                                   is gone when it ends
#   remove_bare FOLDER
#
# Packages come from where this machine's own come from.

bare_mirror() {
  sed -nE 's/^(URIs:|deb(-src)?( \[[^]]*\])?) +([^ ]*debian\/?)( .*)?$/\4/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1
}

make_bare() {
  local suite=$1 root=$2 mirror kept
  mirror=$(bare_mirror)
  if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null ||
      [ -z "$mirror" ]; then
    echo "bare: a bare system wants root, the package debootstrap, and a" \
      "source of Debian's packages in /etc/apt" >&2
    return 3
  fi
  # Made once: its packages are those of this day.
  kept=${XDG_CACHE_HOME:-$HOME/.cache}/oarlock/bare-$suite-$(date +%F).tar
  if [ ! -f "$kept" ]; then
    rm -rf "$root"
    mkdir -p "$root"
    if ! debootstrap --variant=minbase "$suite" "$root" "$mirror" \
        >"$root.log" 2>&1; then
      tail -n 20 "$root.log" >&2
      return 1
    fi
    rm -f "$root"/var/cache/apt/archives/*.deb
    mkdir -p "$(dirname "$kept")"
    rm -f "${kept%-????-??-??.tar}"-*.tar
    tar -C "$root" -cf "$kept.part" . && mv "$kept.part" "$kept"
  else
    mkdir -p "$root"
    tar -C "$root" -xf "$kept"
  fi
  # As an installer writes it.
  printf '%s\n' '127.0.0.1 localhost' '::1 localhost ip6-localhost' \
    >"$root/etc/hosts"
  # What this machine needs to reach its packages.
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir -p "$root/etc/ssl/certs"
  if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    # For the day that the package ca-certificates makes its own list.
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp /etc/ssl/certs/ca-certificates.crt \
      "$root/usr/local/share/ca-certificates/machine.crt"
  fi
  if [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$root/etc/"; fi
}

in_bare() {
  local root=$1
  shift
  unshare --mount --pid --fork --ipc --uts --propagation private \
    bash -euc '
      root=$1; shift
      mount --bind "$root" "$root"
      mount -t proc proc "$root/proc"
      mount -t sysfs sysfs "$root/sys"
      if [ -d /sys/fs/cgroup ]; then
        mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
      fi
      mount --rbind /dev "$root/dev"
      mkdir -p "$root/.old"
      cd "$root"
      pivot_root . .old
      umount -l /.old
      cd /root
      exec env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
    ' bare "$root" "$@"
}

remove_bare() {
  rm -rf --one-file-system "$1"
}
