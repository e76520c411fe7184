# What build_wheel.sh and build_deb.sh have in common; both source it.

# begin_package NAME PACKAGES FLAG...: goes to the repository's root, installs
# what the file PACKAGES lists, and sets
#   programs   a folder of stripped programs: that of --programs, or built now
#   out        the folder for the package: that of --out, or dist
#   version, SOURCE_DATE_EPOCH
#   scratch    a folder that goes when the script ends
begin_package() {
  local name=$1 packages=$2
  shift 2
  programs= out=
  while [ $# -gt 0 ]; do
    if [ $# -lt 2 ] || [[ $1 != --programs && $1 != --out ]]; then
      echo "$name: '$1' wants a folder or is no flag; legal are" \
        "--programs FOLDER and --out FOLDER" >&2
      exit 2
    fi
    case $1 in
      --programs) programs=$(realpath "$2") ;;
      --out) out=$(realpath -m "$2") ;;
    esac
    shift 2
  done
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  out=${out:-$PWD/dist}
  bazel/install_packages.sh "$packages"
  version=$(deploy/programs.sh version)
  SOURCE_DATE_EPOCH=$(deploy/programs.sh epoch)
  export SOURCE_DATE_EPOCH
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  if [ -z "$programs" ]; then
    deploy/programs.sh build "$scratch/whole"
    programs=$scratch/stripped
    deploy/programs.sh strip "$scratch/whole" "$programs"
  fi
}
