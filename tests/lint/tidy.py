"""tidy: clang-tidy finds nothing in product sources. Takes long when cold."""

import subprocess

import clang
import tree as trees


def check(tree):
    program = clang.find("clang-tidy", "tests/lint/packages.txt")
    sources = clang.compilable(
        tree, trees.product(tree.ending(".cc")))
    flags = clang.compile_flags(tree)

    def run(path):
        done = subprocess.run(
            [program, "--quiet", "--warnings-as-errors=*", path, "--", *flags],
            cwd=tree.root, capture_output=True, text=True)
        findings = clang.diagnostics(
            tree, "tidy", done.stdout,
            "mend it; .clang-tidy says which checks there are")
        if done.returncode != 0 and not findings:
            raise trees.LintError(f"{program} {path}: "
                                  f"{done.stderr.strip()[:300]}")
        return findings

    return clang.run_changed(
        tree, "tidy", sources,
        [clang.version_of(program), tree.text(".clang-tidy"),
         *(flag for flag in flags if flag.startswith("-D"))], run)
