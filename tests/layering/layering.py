#!/usr/bin/env python3
"""Checks that a folder uses only the folders above it.

Two views have to agree with USES: the dependencies that `bazel query`
tells, and the #include lines. Libraries of the system that one folder keeps
to itself are checked the same way.
"""

import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Top folder -> the folders that it may use beside itself and base. The order is
# that of the house: a folder may use only what stands above it.
# docs/architecture.md has the same table with the reasons.
USES = {
    "base": (),
    "proto": (),
    "flags": ("proto",),
    "wire": ("proto",),
    "optim": ("proto",),
    "storage": (),
    "cluster": ("proto", "wire"),
    "data": ("proto",),
    "sparse_table": ("proto", "optim", "storage", "cluster"),
    "coordinator": ("proto", "storage", "cluster"),
    "checkpoint": ("proto", "storage", "cluster", "sparse_table"),
    "pserver": ("proto", "wire", "optim", "storage", "cluster", "sparse_table",
                "coordinator", "checkpoint"),
    "client": ("proto", "wire", "cluster", "data"),
    "capi": ("proto", "wire", "cluster", "data", "client"),
    # optim: kernels take their arithmetic from the rules.
    "nn": ("optim",),
    "models": ("data", "nn"),
    "worker": ("proto", "optim", "cluster", "data", "client", "nn", "models"),
    "collective": ("proto", "wire", "cluster"),
    "fleet": "all above",
    "launch": ("proto", "cluster"),
    "cli": "all above",
    "examples": ("proto", "flags", "cluster", "data", "nn", "models",
                 "collective", "fleet"),
    "deploy": ("examples",),
}
# They may use everything. Bazel's links to what it made begin with bazel-.
WITHOUT_ROW = {"bench", "tests", "build"}
# Library of the system -> the only folders that may use it.
PRIVATE = {
    "rocksdb": {"storage"},
    "dnnl": {"nn/onednn"},
    "cli11": {"flags"},
    # Examples: the reader of exported models, which has nothing of ours.
    # cluster: TF_CONFIG is JSON.
    "json": {"cluster", "worker/report", "fleet", "cli", "examples/score"},
    "prometheus": {"fleet/role"},
    # Only the bench measures it.
    "gloo": set(),
    # fleet/serving: the sums of exported models.
    "zlib": {"data/reader", "fleet/serving", "examples/score"},
    "lzma": {"data/reader"},
    "jpeg": {"data/images"},
    "png": {"data/images"},
}
# Pattern -> the only files that may hold it.
ONE_PLACE = {
    # Child processes run in the environment of their worker, unread.
    r"\bgetenv\(|\benviron\b": {"cluster/environment.cc",
                                   "base/process/guarded_process.cc"},
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
    """The top folder that a path belongs to, None where it has no row."""
    name = path.split("/")[0]
    return name if name in USES else None


def allowed(folder):
    """What a folder may use beside itself."""
    if USES[folder] == "all above":
        return set(list(USES)[:list(USES).index(folder)])
    return {"base", *USES[folder]}


def check_order():
    errors, above = [], set()
    for folder, uses in USES.items():
        if uses != "all above":
            errors += [f"{folder} uses {other}, which does not stand above it"
                       for other in uses if other not in above]
        above.add(folder)
    return errors


def owns(folders, path):
    """Whether a path lies in one of the folders."""
    return any(path.startswith(folder + "/") for folder in folders)


def check_dependencies():
    output = subprocess.run(
        ["bazel", "query", "--noshow_progress", "--output=xml",
         "kind('cc_.* rule', //...)"],
        cwd=ROOT, check=True, capture_output=True).stdout
    errors, rules = [], 0
    for rule in ElementTree.fromstring(output).iter("rule"):
        label = rule.get("name")
        path = label.removeprefix("//").replace(":", "/")
        folder = folder_of(path)
        if folder is None:
            continue
        rules += 1
        for dep in rule.findall("rule-input"):
            name = dep.get("name")
            if name.startswith("@system//:"):
                owners = PRIVATE.get(name.removeprefix("@system//:"))
                if owners is not None and not owns(owners, path):
                    errors.append(f"{label} depends on {name}, which only "
                                  f"{sorted(owners)} may use")
            elif name.startswith("//"):
                errors += wrong_use(label, name, folder, folder_of(
                    name.removeprefix("//").replace(":", "/")))
    if rules < 20:
        errors.append(f"bazel query told only {rules} rules")
    return errors


def wrong_use(what, used, folder, other):
    if other in (None, folder) or other in allowed(folder):
        return []
    return [f"{what} uses {used}; {folder} may use "
            f"{' '.join(sorted(allowed(folder))) or 'nothing'}"]


def check_sources():
    errors = []
    for path in sorted(ROOT.rglob("*")):
        relative = path.relative_to(ROOT).as_posix()
        if path.suffix not in (".cc", ".h") or "/" not in relative:
            continue
        folder = folder_of(relative)
        if folder is None:
            top = relative.split("/")[0]
            if top not in WITHOUT_ROW and not top.startswith("bazel-"):
                errors.append(f"{relative} lies in a folder that the table "
                              "lacks; give it a row")
            continue
        text = path.read_text()
        for include in re.findall(r'#include "([^"]+)"', text):
            errors += wrong_use(relative, include, folder, folder_of(include))
        for pattern, places in ONE_PLACE.items():
            if relative not in places and re.search(pattern, text):
                errors.append(f"{relative} has {pattern}, which belongs in "
                              f"{sorted(places)}")
    return errors


def check_fault_points():
    """Every point is reached somewhere in the folder that declares it; the
    compiler refuses those that its table lacks."""
    errors = []
    for folder in USES:
        for header in sorted((ROOT / folder).rglob("fault_points.h")):
            used = set()
            for path in header.parent.rglob("*.cc"):
                used.update(re.findall(r'FaultPoint\(\s*"([^"]+)"',
                                       path.read_text()))
            errors += [
                f"{header.relative_to(ROOT)} has the point {name}, which "
                "nothing reaches"
                for name in re.findall(r'\{\s*"([^"]+)",', header.read_text())
                if name not in used]
    return errors


def main():
    errors = (check_order() + check_dependencies() + check_sources() +
              check_fault_points())
    for error in errors:
        print(error)
    print(f"layering: {len(errors)} violations")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
