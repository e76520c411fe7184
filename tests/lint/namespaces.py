"""namespaces: a file is in the namespace of its top folder, or deeper in it.

base/ and fleet/ are in oarlock itself; a test is where its folder's code is.
"""

import re

import tree as trees

_OPENS = re.compile(r"^namespace (oarlock(?:::[\w:]+)?)\s*\{", re.MULTILINE)
_OTHERS = {
    "base/": "oarlock",
    "fleet/": "oarlock",
    # It shares no code with the rest, so that it can be copied.
    "examples/score/": "oarlock::score",
}


def _namespace(path, folders):
    """The namespace of a path's folder, or None where any will do."""
    inner = path.removeprefix("tests/")
    for folder, name in _OTHERS.items():
        if inner.startswith(folder):
            return name
    top = inner.partition("/")[0]
    return f"oarlock::{top}" if top in folders else None


def _is_within(name, legal):
    if legal == "oarlock":
        return name in ("oarlock", "oarlock::internal")
    return name == legal or name.startswith(legal + "::")


def check(tree):
    findings, read = [], 0
    sources = tree.ending(*trees.SOURCES)
    folders = {path.partition("/")[0] for path in trees.product(sources)}
    for path in sources:
        legal = _namespace(path, folders)
        text = tree.text(path)
        if legal is None or (opened := _OPENS.search(text)) is None:
            continue
        read += 1
        names = [match.group(1) for match in _OPENS.finditer(text)]
        if not any(_is_within(name, legal) for name in names):
            findings.append(trees.Finding(
                path, trees.line_at(text, opened.start()), "namespaces",
                f"the file is in {opened.group(1)}; its folder's namespace is "
                f"{legal}"))
    return findings, f"{read} files"
