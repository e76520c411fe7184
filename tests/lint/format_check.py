"""format: sources are as clang-format 14 writes them."""

import concurrent.futures
import re
import subprocess

import clang
import tree as trees

FILES_A_CALL = 40


def check(tree):
    program = clang.find("clang-format", "tests/packages.txt")
    files = tree.ending(*trees.SOURCES)
    groups = [files[i:i + FILES_A_CALL]
              for i in range(0, len(files), FILES_A_CALL)]

    def run(group):
        return subprocess.run(
            [program, "-n", "--Werror", "--ferror-limit=0", "--style=file",
             *group],
            cwd=tree.root, capture_output=True, text=True)

    first = {}
    with concurrent.futures.ThreadPoolExecutor(clang.PROCESSES) as pool:
        for done in pool.map(run, groups):
            seen = re.findall(r"^(.+?):(\d+):\d+: error: ", done.stderr,
                              re.MULTILINE)
            if done.returncode != 0 and not seen:
                raise trees.LintError(
                    f"{program} failed: {done.stderr.strip()[:200]}")
            for path, line in seen:
                first[path] = min(int(line), first.get(path, int(line)))
    return [trees.Finding(
        path, line, "format",
        f"not as clang-format 14 writes it; run {program} -i {path}")
            for path, line in sorted(first.items())], f"{len(files)} files"
