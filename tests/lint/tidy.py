"""tidy: clang-tidy finds nothing in product sources. Takes long when cold."""

import subprocess

import clang
import tree as trees


def check(tree, folders=()):
    """Of all product sources, or of those in `folders`."""
    program = clang.find("clang-tidy", "tests/lint/packages.txt")
    sources = clang.compilable(
        tree, [path for path in trees.product(tree.ending(".cc"))
               if not folders or path.startswith(
                   tuple(folder.rstrip("/") + "/" for folder in folders))])
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
