"""thread-safety: clang's analysis of every source that holds a lock.

Of product sources; tests are analysed by the clang build of tests/long.sh.
"""

import re
import subprocess

import clang
import tree as trees

_LOCK = re.compile(r'#include "absl/synchronization/mutex\.h"|\bABSL_GUARDED_BY'
                   r"|\babsl::Mutex\b|\bABSL_(EXCLUSIVE_|SHARED_)?LOCK"
                   r"|\bABSL_CAPABILITY\b")
_OPTIONS = ("-fsyntax-only", "-Wno-everything", "-Wthread-safety",
            "-Werror=thread-safety")


def locking_sources(tree):
    """Sources that hold a lock, and headers that do and have no source."""
    sources = []
    for path in trees.product(tree.ending(".cc")):
        own = [path, path[:-len(".cc")] + ".h"]
        if any(tree.has(one) and _LOCK.search(tree.text(one)) for one in own):
            sources.append(path)
    for path in trees.product(tree.ending(".h")):
        if not tree.has(path[:-len(".h")] + ".cc") and (
                _LOCK.search(tree.text(path))):
            sources.append(path)
    return sources


def check(tree):
    program = clang.find("clang++", "tests/packages.txt")
    sources = clang.compilable(tree, locking_sources(tree))
    if not sources:
        raise trees.LintError("no source holds a lock: the check looks for "
                              "absl/synchronization/mutex.h and annotations")
    flags = [*clang.compile_flags(tree), *_OPTIONS]

    def run(path):
        done = subprocess.run([program, *flags, "-x", "c++", path],
                              cwd=tree.root, capture_output=True, text=True)
        findings = clang.diagnostics(
            tree, "thread-safety", done.stderr,
            "hold the lock, or say in an annotation who does")
        if done.returncode != 0 and not findings:
            raise trees.LintError(f"{program} {path}: "
                                  f"{done.stderr.strip()[:300]}")
        return findings

    return clang.run_changed(
        tree, "thread-safety", sources,
        [clang.version_of(program), *_OPTIONS,
         *(flag for flag in flags if flag.startswith("-D"))], run)
