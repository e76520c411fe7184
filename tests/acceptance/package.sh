#!/usr/bin/env bash
# Shows what the packages promise, each figure beside its bound. Wants root (for
# bare systems), and a machine where nothing else runs.
#
#   tests/acceptance/package.sh [LINE...]
#
# Exits 0 where all was met, 1 where something was missed, 3 where this machine
# lacks what it takes. Logs lie in build/acceptance.
lines='
release       release.sh twice in two clones: the same bytes
refused       release.sh refuses a tree with changes
wheel         size of the wheel, and what auditwheel says of it
start         the console script starts within 60 ms
wheel_12      the wheel on a bare Debian 12, oarlock quickstart
wheel_13      the wheel on a bare Debian 13, oarlock quickstart
deb           the .deb on a bare Debian 12, oarlock quickstart
unit          systemd-analyze verify
man           man -l
doctor        oarlock doctor finds one thing that is broken
crash         SIGSEGV leaves a stack in the log
third_party   a library that THIRD_PARTY.md lacks is found
readme        the README says that no index has Oarlock, and what to install
'
set -uo pipefail
cd "$(dirname "$0")/../.."
source tests/acceptance/report.sh
source tests/acceptance/bare_root.sh

choose_lines package "$lines" "$@"
scratch=${OARLOCK_SCRATCH:-/var/tmp}/oarlock_package
logs=$PWD/build/acceptance
mkdir -p "$logs" "$scratch"
remove_scratch() {
  local folder
  for folder in "$scratch"/*; do remove_bare "$folder"; done
  rmdir "$scratch" 2>/dev/null
}
trap remove_scratch EXIT

version=$(deploy/programs.sh version)
wheel=dist/oarlock-$version-py3-none-manylinux_2_35_x86_64.whl
deb=dist/oarlock_${version}_amd64.deb

# have FILE SCRIPT: it is of this commit's dist/, or is made now.
have() {
  if [ -f "$1" ]; then return; fi
  "$2" >"$logs/${2##*/}.log" 2>&1 ||
    { holds "$2, see $logs" tail -n 20 "$logs/${2##*/}.log"; missed=1; return 1; }
}
have_wheel() { have "$wheel" python/build_wheel.sh; }
have_deb() { have "$deb" deploy/deb/build_deb.sh; }

seconds_since() {
  awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f", b - a}'
}
mb_of() { awk -v n="$(stat -c %s "$1")" 'BEGIN {printf "%.1f", n / 1e6}'; }

line_release() {
  holds "two builds of release.sh are byte-equal" \
    ./release.sh --check-reproducible
  (cd dist 2>/dev/null && sed 's/^/          /' SHA256SUMS)
}

# In a clone, whose tree may be changed.
line_refused() {
  local clone=$scratch/clone
  rm -rf "$clone"
  git clone -q . "$clone"
  echo >>"$clone/README.md"
  holds "release.sh refuses a tree with changes" bash -c \
    "! '$clone/release.sh' 2>'$logs/refused.log' &&
     grep 'the tree has changes' '$logs/refused.log'"
}

line_wheel() {
  have_wheel || return
  figure "the wheel" "$(mb_of "$wheel")" MB 35
  local python
  python=$(tests/python/make_venv.sh python/build_requirements.txt)
  "${python%/*}/auditwheel" show "$wheel" >"$logs/auditwheel_show.log" 2>&1
  holds "auditwheel show: manylinux_2_35_x86_64" \
    grep -E '"manylinux_2_35_x86_64"' "$logs/auditwheel_show.log"
  holds "nothing of CUDA in it" bash -c "! unzip -l '$wheel' 2>/dev/null |
    grep -iE 'cuda|cudnn|cublas|nccl|nvidia'"
}

# The median of 21 starts, each a new process.
start_ms() {
  /usr/bin/python3 -I - "$1" <<'EOF'
import statistics, subprocess, sys, time
took = []
for _ in range(21):
    begun = time.perf_counter()
    subprocess.run([sys.argv[1], "--version"], check=True,
                   stdout=subprocess.DEVNULL)
    took.append((time.perf_counter() - begun) * 1e3)
print(f"{statistics.median(took):.0f}")
EOF
}

line_start() {
  have_wheel || return
  rm -rf "$scratch/venv"
  /usr/bin/python3 -m venv "$scratch/venv" &&
    "$scratch/venv/bin/pip" install -q --no-index "$wheel" || {
      holds "pip install of the wheel" false; return; }
  figure "oarlock --version by its console script" \
    "$(start_ms "$scratch/venv/bin/oarlock")" ms 60
  rm -rf "$scratch/target"
  "$scratch/venv/bin/pip" install -q --no-index --target "$scratch/target" \
    "$wheel"
  holds "pip install --target" env "PYTHONPATH=$scratch/target" \
    "$scratch/target/bin/oarlock" --version
}

# readme_lines PATTERN: commands of README.md's console block on installing a
# file that match; what is run on bare systems is what a reader types.
readme_lines() {
  sed -n '/^## Installing a file/,/^## A run/s/^\$ //p' README.md |
    sed 's/ *#.*//' | grep -E -- "$1"
}

# quickstart ROOT NAME COMMAND...: it has no compiler, and trains in 60 s.
quickstart() {
  local root=$1 name=$2 begun log=$logs/quickstart_${2// /_}.log
  shift 2
  holds "no compiler on $name" in_bare "$root" \
    sh -c '! command -v cc && ! command -v g++ && ! command -v bazel'
  holds "$name: oarlock --version" in_bare "$root" "$1" --version
  holds "$name: the examples start by their names" in_bare "$root" sh -ec \
    'for each in cifar10 ctr mnist resnet; do "$0-$each" --help; done' "$1"
  begun=$EPOCHREALTIME
  if in_bare "$root" "$@" >"$log" 2>&1; then
    figure "$name: oarlock quickstart" "$(seconds_since "$begun")" s 60
    grep -hiE 'auc' "$log" | tail -n 2 | sed 's/^/          /'
  else
    holds "$name: oarlock quickstart, see $log" tail -n 20 "$log"
    missed=1
  fi
}

# bare SUITE LINE: a bare system in $root, or a word why not.
bare() {
  root=$scratch/$2
  remove_bare "$root"
  make_bare "$1" "$root"
  case $? in
    0) ;;
    3) lacks "$2" "see above"; return 1 ;;
    *) holds "a bare $1" false; return 1 ;;
  esac
}

# install_in ROOT PACKAGE...: of Debian, the lists read first.
install_in() {
  local root=$1
  shift
  in_bare "$root" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@"' apt "$@" \
    >"$logs/apt_${root##*/}.log" 2>&1
}

wheel_on() {
  local suite=$1 line=$2 name=$3 begun
  have_wheel || return
  bare "$suite" "$line" || return
  holds "$name: Debian's python3-venv" install_in "$root" python3-venv
  mkdir "$root/root/dist"
  cp "$wheel" "$root/root/dist"
  begun=$EPOCHREALTIME
  holds "$name: the README's commands install the wheel" \
    in_bare "$root" sh -ec "$(readme_lines '-m venv|pip install')"
  echo "          $(seconds_since "$begun") s," \
    "$(du -sm "$root/root/venv" | cut -f 1) MiB installed"
  quickstart "$root" "$name" $(readme_lines 'oarlock quickstart')
  remove_bare "$root"
}
line_wheel_12() { wheel_on bookworm wheel_12 "wheel on Debian 12"; }
line_wheel_13() { wheel_on trixie wheel_13 "wheel on Debian 13"; }

line_deb() {
  have_deb || return
  bare bookworm deb || return
  mkdir "$root/root/dist"
  cp "$deb" "$root/root/dist"
  figure "the .deb" "$(mb_of "$deb")" MB 35
  in_bare "$root" apt-get update -qq >"$logs/apt_deb.log" 2>&1
  holds "the README's command installs the .deb" in_bare "$root" sh -ec \
    "export DEBIAN_FRONTEND=noninteractive APT_CONFIG=/root/apt.conf
     echo 'APT::Get::Assume-Yes 1;' >apt.conf
     $(readme_lines 'apt-get install')"
  quickstart "$root" "deb on Debian 12" /usr/bin/oarlock quickstart
  holds "its completion and man page are there" in_bare "$root" sh -c \
    'dpkg -L oarlock | grep -q bash-completion/completions/oarlock &&
     dpkg -L oarlock | grep -q man1/oarlock.1.gz'
  holds "it is removed without a trace but its settings" in_bare "$root" sh -c \
    'apt-get remove -y -qq oarlock >/dev/null 2>&1 && test ! -e /usr/bin/oarlock'
  remove_bare "$root"
}

# unpacked: the .deb's files, without installing it.
unpacked() {
  have_deb || return 1
  rm -rf "$scratch/unpacked"
  dpkg-deb -x "$deb" "$scratch/unpacked"
}

# The unit names /usr/bin/oarlock, which need not be installed here.
line_unit() {
  unpacked || return
  local log=$logs/systemd_analyze.log
  sed "s#ExecStart=/usr/bin#ExecStart=$scratch/unpacked/usr/bin#" \
    "$scratch/unpacked/lib/systemd/system/oarlock-server.service" \
    >"$scratch/oarlock-server.service"
  systemd-analyze verify --man=no "$scratch/oarlock-server.service" \
    >"$log" 2>&1
  local status=$?
  holds "systemd-analyze verify says nothing" bash -c \
    "cat '$log'; [ $status -eq 0 ] && ! grep oarlock '$log'"
}

line_man() {
  unpacked || return
  holds "man -l without a warning" bash -c \
    "MANWIDTH=80 man --warnings -l '$scratch/unpacked/usr/share/man/man1/oarlock.1.gz' \
       2>'$logs/man.log' | grep -c quickstart && ! grep . '$logs/man.log'"
}

# A limit on open files that no server can live with.
line_doctor() {
  unpacked || return
  local oarlock=$scratch/unpacked/usr/bin/oarlock
  "$oarlock" doctor >"$logs/doctor.log" 2>&1
  sed 's/^/          /' "$logs/doctor.log"
  (ulimit -n 64; "$oarlock" doctor) >"$logs/doctor_broken.log" 2>&1
  holds "oarlock doctor with ulimit -n 64 says so, and fails" bash -c \
    "cat '$logs/doctor_broken.log'; (ulimit -n 64; '$oarlock' doctor) >/dev/null 2>&1
     [ \$? -eq 1 ] && grep -qiE 'open files.*64|64.*open files' '$logs/doctor_broken.log'"
}

line_crash() {
  unpacked || return
  local log=$logs/crash.log pid
  "$scratch/unpacked/usr/bin/oarlock" server --current_endpoint 127.0.0.1:6174 \
    --pserver_endpoints 127.0.0.1:6174 --trainers 1 >"$log" 2>&1 &
  pid=$!
  for _ in $(seq 100); do
    if grep -q 6174 "$log" || ! kill -0 $pid 2>/dev/null; then break; fi
    sleep 0.1
  done
  kill -SEGV $pid 2>/dev/null
  wait $pid 2>/dev/null
  holds "SIGSEGV leaves a stack in the server's log" \
    bash -c "grep -i SIGSEGV '$log' && [ \$(grep -cE '0x[0-9a-f]+' '$log') -ge 3 ]"
}

line_third_party() {
  have_wheel || return
  local short=$scratch/THIRD_PARTY.md check=(/usr/bin/python3 -I
    python/third_party.py check)
  holds "THIRD_PARTY.md names all libraries" "${check[@]}" "$wheel"
  grep -v '`libdnnl' THIRD_PARTY.md >"$short"
  holds "without the line of oneDNN the check fails" bash -c \
    "! ${check[*]} '$wheel' '$short' 2>'$logs/third_party.log' &&
     grep 'carries libdnnl' '$logs/third_party.log'"
  sed 's/`libgrpc++\.so/`libgone.so/' THIRD_PARTY.md >"$short"
  holds "with a library that is not there, too" bash -c \
    "! ${check[*]} '$wheel' '$short'"
}

# No block of it may fetch Oarlock by name.
line_readme() {
  holds "README.md: on no public index, and the file's name" bash -c \
    "grep -q 'no public index' README.md &&
     grep -q 'dist/oarlock-.*\.whl' README.md"
  holds "no command installs the name oarlock from an index" bash -c \
    "! grep -rnE '(pip|apt|apt-get) install( -[^ ]+)* oarlock( |\$)' \
       README.md docs CONTRIBUTING.md examples"
}

acceptance_head
for name in "${chosen[@]}"; do "line_$name"; done
acceptance_end
