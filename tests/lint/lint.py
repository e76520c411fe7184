#!/usr/bin/env python3
"""Checks the sources without building them.

    tests/lint/lint.py [--root FOLDER] [CHECK...]

Without a name all checks run but `tidy`, which takes long (tests/lint/tidy.sh).
A finding is a line "path:line: check: what, what to do"; each check ends with a
line that counts. Ends with 1 where there are findings, with 2 where it was
called wrongly or a tool is missing.
"""

import argparse
import pathlib
import sys

# Python may have been started with -I.
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import class_names  # noqa: E402: found through the line above
import clock  # noqa: E402
import defaults  # noqa: E402
import folders  # noqa: E402
import format_check  # noqa: E402
import links  # noqa: E402
import modes  # noqa: E402
import namespaces  # noqa: E402
import nolint  # noqa: E402
import orphans  # noqa: E402
import thread_safety  # noqa: E402
import tidy  # noqa: E402
import tree as trees  # noqa: E402
import words  # noqa: E402

CHECKS = {
    "format": format_check.check,
    "names": class_names.check,
    "folders": folders.check,
    "orphans": orphans.check,
    "links": links.check,
    "clock": clock.check,
    "nolint": nolint.check,
    "modes": modes.check,
    "defaults": defaults.check,
    "namespaces": namespaces.check,
    "words": words.check,
    "thread-safety": thread_safety.check,
}
LEGAL = (*CHECKS, "tidy")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--root", help="the repository; default: this one",
                        default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--under", action="append", metavar="FOLDER",
                        help="tidy reads only what is in FOLDER; may come "
                        "several times")
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    options = parser.parse_args(arguments)
    for name in options.checks:
        if name not in LEGAL:
            print(f"lint: there is no check '{name}'; legal are "
                  f"{', '.join(LEGAL)}", file=sys.stderr)
            return 2
    if options.under and options.checks != ["tidy"]:
        print(f"lint: --under '{options.under[0]}' is for tidy alone; write "
              "lint.py --under FOLDER tidy", file=sys.stderr)
        return 2
    if not pathlib.Path(options.root).is_dir():
        print(f"lint: --root '{options.root}' is no folder; name a copy of "
              "the repository", file=sys.stderr)
        return 2
    tree = trees.Tree(options.root)
    for folder in options.under or ():
        if not (tree.root / folder).is_dir():
            print(f"lint: --under '{folder}' is no folder of the repository",
                  file=sys.stderr)
            return 2
    failed = False
    checks = {**CHECKS,
              "tidy": lambda tree: tidy.check(tree, options.under or ())}
    for name in options.checks or CHECKS:
        try:
            findings, note = checks[name](tree)
        except trees.LintError as error:
            print(f"lint: {name}: {error}", file=sys.stderr)
            return 2
        for finding in findings:
            print(f"{finding.path}:{finding.line}: {finding.check}: "
                  f"{finding.text}")
        print(f"{name}: {len(findings)} findings ({note})", flush=True)
        failed = failed or bool(findings)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
