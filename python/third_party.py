"""What the wheel carries of others, and under which licence.

    third_party.py write WHEEL           writes THIRD_PARTY.md from the wheel
    third_party.py check WHEEL [FILE]    whether FILE (THIRD_PARTY.md) names all
                                         that the wheel carries, and no more

Licences are those of the library itself, read in the copyright file of its
Debian package; a phrase of that file is looked up again at each build, so that
another licence does not come in unseen.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "THIRD_PARTY.md"
COMMON = pathlib.Path("/usr/share/common-licenses")

# Package: licence of the library, and a phrase of its copyright file.
LICENCES = {
    "libabsl": ("Apache-2.0", "License: Apache-2.0"),
    "libbz2": ("bzip2-1.0.6", "License: BSD-variant"),
    "libc-ares": ("MIT", "Permission to use, copy, modify, and distribute"),
    "libcivetweb": ("MIT", "License: Expat"),
    "libcli11-dev": ("BSD-3-Clause", "License: BSD-3-clause"),
    "libdnnl": ("Apache-2.0", "License: Apache-2.0"),
    "libfmt": ("MIT", "License: Expat"),
    "libgflags": ("BSD-3-Clause", "License: BSD-3-Clause"),
    "libgomp": ("GPL-3.0-or-later WITH GCC-exception-3.1",
                "GCC Runtime Library Exception"),
    "libgrpc": ("Apache-2.0", "License: Apache-2.0"),
    "libhwy": ("Apache-2.0", "License: Apache-2.0"),
    "libjpeg62-turbo": ("IJG AND BSD-3-Clause AND Zlib", "libjpeg"),
    "liblz4": ("BSD-2-Clause", "License: BSD-2-clause"),
    "liblzma": ("0BSD", "liblzma is in the public domain"),
    "libpng16": ("libpng-2.0", "License: libpng"),
    "libprometheus-cpp": ("MIT", "License: Expat"),
    "libprotobuf": ("BSD-3-Clause", "License: BSD-3-Clause~Google"),
    "libre2": ("BSD-3-Clause", "License: BSD-3-google"),
    "librocksdb": ("Apache-2.0", "License: GPL-2 or Apache-2.0"),
    "libsnappy": ("BSD-3-Clause", "License: BSD-3-Clause"),
    "libspdlog": ("MIT", "License: Expat"),
    "libssl": ("Apache-2.0", "License: Apache-2.0"),
    "libxxhash": ("BSD-2-Clause", "License: BSD-2-clause"),
    "libzstd": ("BSD-3-Clause", "License: BSD-3-clause or GPL-2"),
    "nlohmann-json3-dev": ("MIT", "License: Expat"),
    "ocl-icd-libopencl1": ("BSD-2-Clause", "License: BSD-2-Clause"),
}
NOTES = {
    "librocksdb": "offered under GPL-2.0 or Apache-2.0; used under Apache-2.0",
    "libzstd": "offered under BSD-3-Clause or GPL-2.0; used under the former",
    "liblzma": "in the public domain; 0BSD says the same as a licence",
}
# Libraries that are headers alone, compiled into the programs.
HEADERS = ("libcli11-dev", "nlohmann-json3-dev")
# Nothing of NVIDIA's may be given on.
FORBIDDEN = re.compile(r"cuda|cudnn|cublas|nccl|nvidia|nvrtc", re.I)


class Fault(Exception):
    """What is wrong, in one line."""


def kind_of(package):
    """The longest key of LICENCES that begins the package's name."""
    kinds = [kind for kind in LICENCES if package.startswith(kind)]
    if not kinds:
        raise Fault(f"nothing is known of the licence of package {package}; "
                    f"read /usr/share/doc/{package}/copyright and say it in "
                    "LICENCES of python/third_party.py")
    return max(kinds, key=len)


def licence_of(package):
    """The licence, after a look whether the copyright file still has it."""
    kind = kind_of(package)
    licence, phrase = LICENCES[kind]
    text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(
        errors="replace")
    if phrase.lower() not in " ".join(text.split()).lower():
        raise Fault(f"the copyright file of {package} no longer says "
                    f"'{phrase}'; read it anew for LICENCES")
    return licence


def package_of(library):
    """The Debian package that a shared library of this system is of."""
    for folder in ("/usr/lib/x86_64-linux-gnu/", "/lib/x86_64-linux-gnu/"):
        done = subprocess.run(["dpkg", "-S", folder + library],
                              capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise Fault(f"no Debian package has the library {library}")


def bundled(names):
    """Sorted names of the libraries that an archive's names carry, as they were
    called before auditwheel put a digest into them."""
    found = set()
    for name in names:
        match = re.search(r"^oarlock\.libs/(.+?)-[0-9a-f]{8}(\.so.*)$", name)
        if match:
            found.add(match.group(1) + match.group(2))
        elif name.startswith("oarlock.libs/") and not name.endswith("/"):
            raise Fault(f"{name} is not called as auditwheel calls a library")
    if not found:
        raise Fault("the wheel carries no library; was it repaired?")
    return sorted(found)


def write_notices(libraries, folder):
    """Oarlock's licence, and of each package the copyright file; the texts that
    these name beside them."""
    folder.mkdir()
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    shutil.copy(DOCUMENT, folder / "THIRD_PARTY.md")
    texts = set()
    packages = sorted({package_of(each) for each in libraries} | set(HEADERS))
    for package in packages:
        licence_of(package)
        notice = pathlib.Path(f"/usr/share/doc/{package}/copyright")
        shutil.copy(notice, folder / f"{package}.copyright")
        texts.update(re.findall(r"common-licenses/([A-Za-z0-9-]+(?:\.[0-9]+)?)",
                                notice.read_text(errors="replace")))
    (folder / "common-licenses").mkdir()
    for text in sorted(texts):
        shutil.copy(COMMON / text, folder / "common-licenses" / text)


HEAD = """\
# What is bundled

The wheel carries the libraries below, as Debian 12 has them, so that it runs on
other systems; the .deb carries none and depends on Debian's packages. Written by
`python/third_party.py write WHEEL`, which `python/build_wheel.sh` checks. The
wheel has the copyright notices in full, and the texts of the licences that they
name, in `oarlock-*.dist-info/licenses`. Nothing of CUDA is in either: Oarlock
opens NVIDIA's libraries where a machine has them, and these builds do not.

| library | Debian package | licence |
| --- | --- | --- |
"""


def document(libraries):
    rows = [(package_of(library), library) for library in libraries]
    lines = [HEAD]
    for package, library in sorted(rows):
        lines.append(f"| `{library}` | {package} | {licence_of(package)} |\n")
    lines.append("\nCompiled into the programs, being headers alone:\n\n"
                 "| Debian package | licence |\n| --- | --- |\n")
    for package in HEADERS:
        lines.append(f"| {package} | {licence_of(package)} |\n")
    lines.append("\nWhere there was a choice:\n\n")
    for kind, note in sorted(NOTES.items()):
        lines.append(f"- {kind}: {note}.\n")
    return "".join(lines)


def check(wheel, file):
    """Raises Fault where the document and the wheel differ."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    libraries = bundled(names)
    text = file.read_text()
    rows = dict(re.findall(r"^\| `([^`]+)` \| (\S+) \| .+ \|$", text, re.M))
    for library in libraries:
        if FORBIDDEN.search(library):
            raise Fault(f"the wheel carries {library}, which is not ours to "
                        "give on")
        if library not in rows:
            raise Fault(f"the wheel carries {library}, and {file.name} does "
                        "not name it; run python/third_party.py write")
    for library in rows:
        if library not in libraries:
            raise Fault(f"{file.name} names {library}, and the wheel does not "
                        "carry it; run python/third_party.py write")
    for package in sorted(set(rows.values()) | set(HEADERS)):
        if f"| {package} |" not in text:
            raise Fault(f"{file.name} does not name {package}, which is "
                        "compiled in; run python/third_party.py write")
        licence, _ = LICENCES[kind_of(package)]
        if not re.search(rf"\| {re.escape(package)} \| {re.escape(licence)} \|",
                         text):
            raise Fault(f"{file.name} has another licence for {package} than "
                        f"{licence}; run python/third_party.py write")
        if not any(name.endswith(f"licenses/{package}.copyright")
                   for name in names):
            raise Fault(f"the wheel lacks the copyright notice of {package}")
    return len(libraries)


def main(arguments):
    try:
        if len(arguments) == 2 and arguments[0] == "write":
            with zipfile.ZipFile(arguments[1]) as archive:
                libraries = bundled(archive.namelist())
            DOCUMENT.write_text(document(libraries))
        elif len(arguments) in (2, 3) and arguments[0] == "check":
            file = pathlib.Path(arguments[2]) if arguments[2:] else DOCUMENT
            count = check(arguments[1], file)
            print(f"third_party: {file.name} names all {count} libraries")
        else:
            print("third_party: legal are write WHEEL and check WHEEL [FILE], "
                  f"not '{' '.join(arguments)}'", file=sys.stderr)
            return 2
    except Fault as fault:
        print(f"third_party: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
