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
start         the console script starts within 60 ms, the package without numpy
wheel_12      the wheel on a bare Debian 12, oarlock quickstart, from Python
wheel_13      the wheel on a bare Debian 13, oarlock quickstart, from Python
wheel_testing the wheel on a bare Debian testing, oarlock quickstart, from Python
pythons       the wheel and each Python from 3.9 to 3.14 of this machine
deb           the .deb on a bare Debian 12, oarlock quickstart
debs          all .debs on a bare Debian 12: a program in C, one in Python
editable      a checkout that is built, from Python: installed, and on the path
unit          systemd-analyze verify
man           man -l
doctor        oarlock doctor finds one thing that is broken
crash         SIGSEGV leaves a stack in the log
third_party   a library that THIRD_PARTY.md lacks is found
readme        the README says that no index has Oarlock, and what to install
'
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 3
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
debs=("$deb" "dist/liboarlock1_${version}_amd64.deb"
  "dist/liboarlock-dev_${version}_amd64.deb"
  "dist/python3-oarlock_${version}_all.deb")
program=tests/acceptance/installed.py

# have FILE SCRIPT: it is of this commit's dist/, or is made now.
have() {
  if [ -f "$1" ]; then return; fi
  "$2" >"$logs/${2##*/}.log" 2>&1 ||
    { holds "$2, see $logs" tail -n 20 "$logs/${2##*/}.log"; missed=1; return 1; }
}
have_wheel() { have "$wheel" python/build_wheel.sh; }
have_deb() { have "$deb" deploy/deb/build_deb.sh; }
# The one that is made last.
have_debs() { have "${debs[-1]}" deploy/deb/build_deb.sh; }

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
  holds "it wants numpy alone, and says Python 3.9 or newer" bash -c "
    unzip -p '$wheel' '*.dist-info/METADATA' >'$logs/METADATA' &&
    [ \"\$(grep ^Requires- '$logs/METADATA' | sort | tr '\n' ' ')\" = \
      'Requires-Dist: numpy Requires-Python: >=3.9 ' ]"
  holds "it has py.typed and liboarlock" bash -c "
    unzip -l '$wheel' oarlock/py.typed &&
    unzip -l '$wheel' oarlock/lib/liboarlock.so.1"
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

# make_venv PYTHON: an empty virtual environment in $scratch/venv.
make_venv() {
  rm -rf "$scratch/venv"
  "$1" -m venv "$scratch/venv" ||
    { holds "a virtual environment of $1" false; return 1; }
}

# Without numpy, which nothing of this wants.
line_start() {
  have_wheel || return
  make_venv /usr/bin/python3 || return
  holds "pip install of the wheel, without numpy" \
    "$scratch/venv/bin/pip" install -q --no-index --no-deps "$wheel"
  figure "oarlock --version by its console script" \
    "$(start_ms "$scratch/venv/bin/oarlock")" ms 60
  "$scratch/venv/bin/python" -X importtime -c 'import oarlock
print("liboarlock" in open("/proc/self/maps").read())' \
    >"$logs/import.log" 2>&1
  sed -n '$!{/ oarlock$/s/^/          /p}' "$logs/import.log"
  holds "import oarlock imports no numpy or ctypes, and loads no library" \
    bash -c "grep -x False '$logs/import.log' &&
      ! grep -E ' (numpy|_?ctypes)\$' '$logs/import.log'"
  rm -rf "$scratch/target"
  "$scratch/venv/bin/pip" install -q --no-index --no-deps \
    --target "$scratch/target" "$wheel"
  holds "pip install --target" env "PYTHONPATH=$scratch/target" \
    "$scratch/target/bin/oarlock" --version
}

# python_of 3.X: the path of this Python, which pyenv's name for it runs only
# where its version was chosen.
python_of() {
  local name=python$1 path
  if path=$(command -v "$name") && "$path" -c '' 2>/dev/null; then
    echo "$path"
  else
    PYENV_VERSION=$(pyenv whence "$name" 2>/dev/null | tail -n 1) \
      pyenv which "$name" 2>/dev/null
  fi
}

line_pythons() {
  have_wheel || return
  local each python
  for each in 3.9 3.10 3.11 3.12 3.13 3.14; do
    if ! python=$(python_of "$each"); then
      # No machine has to have them all.
      printf '%-7s %s\n' absent "no python$each on this machine"
      continue
    fi
    make_venv "$python" || continue
    holds "Python $each: pip install of the wheel" \
      "$scratch/venv/bin/pip" install -q "$wheel"
    from_python "Python $each" "$scratch/venv/bin/python" "$program"
  done
}

# A checkout, where whoever changes Oarlock tries it.
line_editable() {
  holds "bazel build of the library and the program" \
    bazel build --noshow_progress //capi:liboarlock.so.1 //cli:oarlock
  make_venv /usr/bin/python3 || return
  holds "pip install -e python/" \
    "$scratch/venv/bin/pip" install -q -e python/
  from_python "the installed checkout" "$scratch/venv/bin/python" "$program"
  holds "the installed checkout: its console script" \
    "$scratch/venv/bin/oarlock" --version
  "$scratch/venv/bin/pip" uninstall -q -y oarlock
  holds "after pip uninstall it is gone" \
    bash -c "! '$scratch/venv/bin/python' -c 'import oarlock' 2>/dev/null"
  from_python "PYTHONPATH=python" env PYTHONPATH=python \
    "$scratch/venv/bin/python" "$program"
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

# from_python NAME COMMAND...: COMMAND ends in Python and the program that uses
# the package; which library and program that was.
from_python() {
  local name=$1 log=$logs/from_python_${1//[^A-Za-z0-9]/_}.log
  shift
  if "$@" >"$log" 2>&1; then
    printf '%-7s %s\n' met "$name: $(tail -n 1 "$log")"
  else
    holds "$name: ${*: -1}" tail -n 20 "$log"
    missed=1
  fi
  "${@:1:$#-1}" -m oarlock doctor >"$log" 2>&1
  holds "$name: doctor says library, program and numpy" bash -c \
    "[ \$(head -n 5 '$log' | grep -c '^ok ') -eq 5 ] || { cat '$log'; false; }"
  head -n 5 "$log" | sed 's/^/          /'
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
  # A mirror may be older than the week for which testing's lists hold.
  if [ "$suite" = testing ]; then
    echo 'Acquire::Check-Valid-Until "false";' \
      >"$root/etc/apt/apt.conf.d/99oarlock"
  fi
  holds "$name: Debian's python3-venv" install_in "$root" python3-venv
  mkdir "$root/root/dist"
  cp "$wheel" "$root/root/dist"
  begun=$EPOCHREALTIME
  holds "$name: the README's commands install the wheel" \
    in_bare "$root" sh -ec "$(readme_lines '-m venv|pip install')"
  echo "          $(seconds_since "$begun") s," \
    "$(du -sm "$root/root/venv" | cut -f 1) MiB installed"
  # shellcheck disable=SC2046 # a command's words
  quickstart "$root" "$name" $(readme_lines 'oarlock quickstart')
  cp "$program" "$root/root"
  from_python "$name" in_bare "$root" venv/bin/python "${program##*/}"
  remove_bare "$root"
}
line_wheel_12() { wheel_on bookworm wheel_12 "wheel on Debian 12"; }
line_wheel_13() { wheel_on trixie wheel_13 "wheel on Debian 13"; }
line_wheel_testing() {
  wheel_on testing wheel_testing "wheel on Debian testing"
}

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
     $(readme_lines 'apt-get install .*/oarlock_')"
  quickstart "$root" "deb on Debian 12" /usr/bin/oarlock quickstart
  holds "its completion and man page are there" in_bare "$root" sh -c \
    'dpkg -L oarlock | grep -q bash-completion/completions/oarlock &&
     dpkg -L oarlock | grep -q man1/oarlock.1.gz'
  holds "it is removed without a trace but its settings" in_bare "$root" sh -c \
    'apt-get remove -y -qq oarlock >/dev/null 2>&1 && test ! -e /usr/bin/oarlock'
  remove_bare "$root"
}

# As docs/python.md and a user's Makefile have it.
c_program='
gcc -std=c11 -Wall -Wextra -Werror c_program.c -o c_program \
  $(pkg-config --cflags --libs oarlock)
readelf -d c_program | grep "NEEDED.*liboarlock.so.1"
oarlock cluster --servers=2 >cluster.json &
cluster=$!
timeout 60 sh -c "until grep -q token_file cluster.json; do sleep 0.1; done"
config=$(python3 -c "import json; got = json.load(open(\"cluster.json\"))
print(json.dumps({name: got[name] for name in (
    \"server_endpoints\", \"token_file\")}))")
./c_program "$config"
kill $cluster
wait $cluster || true
'
# What a package of that program would depend on.
c_depends='
mkdir -p source/debian
printf "Source: a\n\nPackage: a\nArchitecture: any\n" >source/debian/control
cd source
dpkg-shlibdeps -O ../c_program
'

line_debs() {
  have_debs || return
  bare bookworm debs || return
  mkdir "$root/root/dist"
  cp "${debs[@]}" "$root/root/dist"
  cat "${debs[@]}" >"$scratch/debs.all"
  figure "the .debs, all four" "$(mb_of "$scratch/debs.all")" MB 35
  rm "$scratch/debs.all"
  du --apparent-size -k "${debs[@]}" |
    sed -E 's#^([0-9]+)\s+dist/#          \1 KiB #'
  in_bare "$root" apt-get update -qq >"$logs/apt_debs.log" 2>&1
  holds "the README's command installs all four" in_bare "$root" sh -ec \
    "export DEBIAN_FRONTEND=noninteractive APT_CONFIG=/root/apt.conf
     echo 'APT::Get::Assume-Yes 1;' >apt.conf
     $(readme_lines 'apt-get install .*/\*')"
  holds "dpkg --verify" in_bare "$root" sh -c '! dpkg --verify | grep .'
  cp "$program" tests/capi/c_program.c "$root/root"
  from_python "debs on Debian 12" in_bare "$root" python3 "${program##*/}"
  holds "pip's name of it is there" in_bare "$root" python3 -c \
    "import importlib.metadata as m; assert m.version('oarlock') == '$version'"
  holds "gcc, pkg-config and dpkg-dev of Debian" \
    install_in "$root" gcc libc6-dev pkg-config dpkg-dev
  holds "a C program is built by pkg-config, and trains with oarlock cluster" \
    bash -c 'source tests/acceptance/bare_root.sh
      in_bare "$1" bash -ec "$2" >"$3" 2>&1 &&
      grep -x "epoch 1: 4 parts" "$3" && grep -x "row 7: -199.5.*" "$3" ||
      { cat "$3"; false; }' c "$root" "$c_program" "$logs/c_program.log"
  grep -E '^(version|run|epoch|row)' "$logs/c_program.log" | sed 's/^/          /'
  in_bare "$root" sh -ec "$c_depends" >"$logs/c_depends.log" 2>&1
  holds "such a program's package wants liboarlock1 (>= $version)" \
    grep -F "liboarlock1 (>= $version)" "$logs/c_depends.log"
  holds "they are removed without a trace" in_bare "$root" sh -c \
    'apt-get remove -y -qq oarlock liboarlock1 >/dev/null 2>&1
     ! find /usr -path /usr/share/doc -prune -o -name "*oarlock*" -print | grep .'
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
