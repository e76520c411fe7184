"""nolint: at most MAX_NOLINT marks, each with check and reason.

In product sources, which are what clang-tidy reads.
"""

import re

import tree as trees

MAX_NOLINT = 20
_MARK = re.compile(r"NOLINT(NEXTLINE|BEGIN|END)?")
_GOOD = re.compile(r"NOLINT(?:NEXTLINE|BEGIN)?\([\w.,* -]+\): \S+ \S+")


def check(tree):
    findings, marks = [], 0
    for path in trees.product(tree.ending(*trees.SOURCES)):
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            match = _MARK.search(line)
            if match is None or match.group(1) == "END":
                continue
            marks += 1
            if not _GOOD.search(line):
                findings.append(trees.Finding(
                    path, number, "nolint",
                    "a mark without check and reason; write "
                    "NOLINT(the-check): why it does not apply here"))
            if marks > MAX_NOLINT:
                findings.append(trees.Finding(
                    path, number, "nolint",
                    f"mark number {marks}, at most {MAX_NOLINT} are allowed; "
                    "mend what clang-tidy says instead"))
    return findings, f"{marks} of at most {MAX_NOLINT} marks"
