"""Runs clang's tools over sources, again only where something changed.

A source's key is a hash of its text, of all headers of ours that it includes,
directly or not, of the tool and of its options. A clean result leaves an empty
file with the key as its name, a stamp; what was not used for STAMP_DAYS goes.
"""

import concurrent.futures
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import tree as trees

PROCESSES = 2
STAMP_DAYS = 30
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
_IMPORT = re.compile(r'^import (?:public )?"([^"]+)";', re.MULTILINE)
_CUDA_INCLUDE = re.compile(
    r"^#include\s*<((?:cuda|cublas|cudnn|nccl)[^>]*)>", re.MULTILINE)
# As bazel/system.BUILD and base/BUILD give them.
_DEFINES = ("-DSPDLOG_COMPILED_LIB", "-DSPDLOG_FMT_EXTERNAL",
            '-DOARLOCK_COMMIT=""')


@functools.lru_cache(maxsize=None)
def version_of(program):
    return subprocess.run([program, "--version"], check=True,
                          capture_output=True, text=True).stdout


def find(name, packages):
    """The program `name` of LLVM 14; LintError where it is not there."""
    if shutil.which(f"{name}-14"):
        return f"{name}-14"
    if shutil.which(name) and re.search(r"version 14\.", version_of(name)):
        return name
    raise trees.LintError(f"there is no {name} of LLVM 14; install it with "
                          f"bazel/install_packages.sh {packages}")


def cache_folder():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(home) / "oarlock" / "lint"


def closure(tree, path):
    """`path` and all files of ours that it needs, protos for .pb.h."""
    found, todo = set(), [path]
    while todo:
        one = todo.pop()
        if one in found or not tree.has(one):
            continue
        found.add(one)
        pattern = _IMPORT if one.endswith(".proto") else _INCLUDE
        for name in pattern.findall(tree.text(one)):
            todo.append(re.sub(r"(\.grpc)?\.pb\.h$", ".proto", name))
    return sorted(found)


def digest(tree, paths, *words):
    key = hashlib.sha256()
    for word in words:
        key.update(f"{word}\0".encode())
    for path in paths:
        key.update(f"{path}\0{tree.text(path)}\0".encode())
    return key.hexdigest()


def generated_headers(tree):
    """A folder with what protoc makes of all .proto files, made once."""
    # Those of tests/golden define the same messages as an older version did.
    protos = [path for path in tree.ending(".proto")
              if not path.startswith("tests/golden/")]
    if not protos:
        return None
    protoc = shutil.which("protoc")
    plugin = shutil.which("grpc_cpp_plugin")
    if protoc is None or plugin is None:
        raise trees.LintError("there is no protoc or no grpc_cpp_plugin; "
                              "install them with bazel/install_packages.sh")
    key = digest(tree, protos, version_of(protoc))
    folder = cache_folder() / "protos" / key
    if folder.is_dir():
        os.utime(folder)
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = tempfile.mkdtemp(dir=folder.parent)
    done = subprocess.run(
        [protoc, "--proto_path=.", "--proto_path=/usr/include",
         f"--plugin=protoc-gen-grpc={plugin}", f"--cpp_out={made}",
         f"--grpc_out={made}", *protos],
        cwd=tree.root, capture_output=True, text=True)
    if done.returncode != 0:
        shutil.rmtree(made)
        raise trees.LintError(f"protoc: {done.stderr.strip()[:300]}")
    try:
        os.rename(made, folder)
    except OSError:  # Another run was first.
        shutil.rmtree(made)
    return folder


def cuda_headers():
    """Where the CUDA toolkit has its headers, or None."""
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if home and os.path.exists(f"{home}/include/cuda_runtime.h"):
            return pathlib.Path(home) / "include"
    return None


def compile_flags(tree):
    """What the compiler is told beside the file: as Bazel's build."""
    flags = ["-std=c++20", *_DEFINES, "-I."]
    folder = generated_headers(tree)
    if folder is not None:
        flags += ["-isystem", str(folder)]
    cuda = cuda_headers()
    return flags + (["-isystem", str(cuda)] if cuda else [])


def compilable(tree, paths):
    """Without the sources that want headers of CUDA that are not here."""
    cuda = cuda_headers()

    def has_all(path):
        return all(cuda is not None and (cuda / header).exists()
                   for one in closure(tree, path)
                   for header in _CUDA_INCLUDE.findall(tree.text(one)))

    return [path for path in paths if has_all(path)]


def drop_old(folder):
    """Forgets what was not used for STAMP_DAYS."""
    limit = time.time() - STAMP_DAYS * 86400
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.stat().st_mtime < limit:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def run_changed(tree, name, paths, words, run):
    """Calls run(path) -> findings for each path that changed.

    Returns the findings and a note on how many were unchanged.
    """
    stamps = cache_folder() / name
    stamps.mkdir(parents=True, exist_ok=True)
    drop_old(stamps)
    drop_old(cache_folder() / "protos")
    changed = []
    for path in paths:
        stamp = stamps / digest(tree, closure(tree, path), path, *words)
        if stamp.exists():
            stamp.touch()
        else:
            changed.append((path, stamp))

    def one(job):
        path, stamp = job
        findings = run(path)
        if not findings:
            stamp.touch()
        return findings

    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        findings = [finding for some in pool.map(one, changed)
                    for finding in some]
    return (sorted(set(findings)),
            f"{len(paths) - len(changed)} of {len(paths)} unchanged")


_DIAGNOSTIC = re.compile(
    r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+):\d+: "
    r"(?:fatal error|error|warning): (?P<text>.*)$", re.MULTILINE)


def diagnostics(tree, check, output, advice):
    """The findings that a tool of clang printed, on files of ours."""
    findings = []
    for match in _DIAGNOSTIC.finditer(output):
        path = os.path.relpath(tree.root / match["path"], tree.root)
        findings.append(trees.Finding(path, int(match["line"]), check,
                                      f"{match['text']}; {advice}"))
    return findings
