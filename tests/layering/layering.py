#!/usr/bin/env python3
"""Checks that a folder uses only the folders above it.

Two views have to agree with ALLOWED: the dependencies that `bazel query`
tells, and the #include lines. Libraries of the system that one folder keeps
to itself are checked the same way.
"""

import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]

ALL_WORKER = {"worker", "data", "nn", "client",
              "worker", "models"}
CORE = {"base", "proto", "optim", "cluster", "storage", "sparse_table"}
# Folder -> folders that it may use beside itself.
ALLOWED = {
    "base": set(),
    "proto": {"base"},
    "optim": {"base", "proto"},
    "cluster": {"base", "proto"},
    "storage": {"base"},
    "sparse_table": {"base", "proto", "optim", "storage"},
    "pserver": CORE,
    "data": {"base"},
    # optim: kernels take their arithmetic from the rules.
    "nn": {"base", "optim"},
    "models": {"base", "nn", "data"},
    "client": {"base", "proto", "cluster", "data"},
    "worker": {"base", "proto", "optim", "client"},
    "worker": {"base", "proto", "optim", "cluster"} | ALL_WORKER,
    "collective": {"base", "proto", "cluster"},
    "fleet": CORE | {"pserver", "collective"} | ALL_WORKER,
    "launch": {"base", "proto", "cluster"},
    "cli": CORE | {"pserver", "collective", "fleet", "launch"} | ALL_WORKER,
    "examples": {"base", "proto", "cluster", "collective", "fleet",
                 "models", "nn", "data"},
    "deploy": {"examples"},
}
# Library of the system -> the only folders that may use it.
PRIVATE = {
    "rocksdb": {"storage"},
    "dnnl": {"nn"},
    "cli11": {"fleet"},
    # Examples: the reader of exported models, which has nothing of ours.
    "json": {"worker", "fleet", "cli", "examples"},
    "prometheus": {"base"},
    # Only the bench measures it.
    "gloo": set(),
    # fleet: the sums of exported models.
    "zlib": {"data", "fleet", "examples"},
    "lzma": {"data"},
    "jpeg": {"data"},
    "png": {"data"},
}
# Pattern -> the only files that may hold it.
ONE_PLACE = {
    # A pipe_command runs in the environment of its worker, unread.
    r"\bgetenv\(|\benviron\b": {"cluster/environment.cc",
                                   "data/reader/pipe_source.cc"},
    r"\babsl::Now\(\)|system_clock::now": {"base/clock.cc"},
    r"#include\s*<(oneapi/)?dnnl": {"nn/onednn/onednn_backend.cc",
                                    "nn/onednn/onednn_convolutions.cc",
                                    "nn/onednn/bfloat16_products.cc"},
    r"#include\s*<cuda_runtime": {"nn/cuda/cublas_products.h",
                                  "nn/cuda/cudnn_convolutions.h",
                                  "nn/cuda/gpu.cc",
                                  "nn/cuda/kernels/gpu_launch.h",
                                  "nn/cuda/gpu_memory.h",
                                  "collective/nccl_ring.cc"},
    r"#include\s*<cublas": {"nn/cuda/cublas_products.h"},
    r"#include\s*<nccl": {"collective/nccl_ring.cc"},
    r"\bdlopen\(": {"base/process/shared_library.cc"},
    r"#include\s*<rocksdb": {"storage/checkpoint_reader.cc",
                             "storage/checkpoint_store.cc",
                             "storage/cold_rows.cc",
                             "storage/file_system.cc",
                             "storage/rocksdb_status.cc"},
}


def folder_of(path):
    """The layer that a path belongs to, or None."""
    parts = path.split("/")
    for length in (2, 1):
        name = "/".join(parts[:length])
        if name in ALLOWED:
            return name
    return None


def check_dependencies():
    output = subprocess.run(
        ["bazel", "query", "--noshow_progress", "--output=xml",
         "kind('cc_.* rule', //...)"],
        cwd=ROOT, check=True, capture_output=True).stdout
    errors, rules = [], 0
    for rule in ElementTree.fromstring(output).iter("rule"):
        label = rule.get("name")
        folder = folder_of(label.removeprefix("//").replace(":", "/"))
        if folder is None:
            continue
        rules += 1
        for dep in rule.findall("rule-input"):
            name = dep.get("name")
            if name.startswith("@system//:"):
                owners = PRIVATE.get(name.removeprefix("@system//:"))
                if owners is not None and folder not in owners:
                    errors.append(f"{label} depends on {name}, which only "
                                  f"{sorted(owners)} may use")
            elif name.startswith("//"):
                other = folder_of(name.removeprefix("//").replace(":", "/"))
                if other not in (None, folder) and (
                        other not in ALLOWED[folder]):
                    errors.append(f"{label} depends on {name}; {folder} may "
                                  f"use {sorted(ALLOWED[folder])}")
    if rules < 20:
        errors.append(f"bazel query told only {rules} rules")
    return errors


def check_sources():
    errors = []
    for path in sorted(ROOT.rglob("*")):
        relative = path.relative_to(ROOT).as_posix()
        folder = folder_of(relative)
        if path.suffix not in (".cc", ".h") or folder is None:
            continue
        text = path.read_text()
        for include in re.findall(r'#include "([^"]+)"', text):
            other = folder_of(include)
            if other not in (None, folder) and other not in ALLOWED[folder]:
                errors.append(f"{relative} includes {include}; {folder} may "
                              f"use {sorted(ALLOWED[folder])}")
        for pattern, places in ONE_PLACE.items():
            if relative not in places and re.search(pattern, text):
                errors.append(f"{relative} has {pattern}, which belongs in "
                              f"{sorted(places)}")
    return errors


def check_fault_points():
    """Every point of the table is passed somewhere; the compiler refuses those
    that the table lacks."""
    header = "base/fault_point.h"
    table = re.search(r"kFaultPoints\[\] = \{\n(.*?)\n\};",
                      (ROOT / header).read_text(), re.DOTALL).group(1)
    used = set()
    for path in ROOT.rglob("*.cc"):
        if folder_of(path.relative_to(ROOT).as_posix()) not in (None, "tests"):
            used.update(re.findall(r'FaultPoint\(\s*"([^"]+)"',
                                   path.read_text()))
    return [f"{header} has the point {name}, which nothing passes"
            for name in re.findall(r'\{\s*"([^"]+)",', table)
            if name not in used]


def main():
    errors = check_dependencies() + check_sources() + check_fault_points()
    for error in errors:
        print(error)
    print(f"layering: {len(errors)} violations")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
