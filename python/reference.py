#!/usr/bin/env python3
"""Makes docs/python_reference.md of the docstrings in python/oarlock.

    python3 python/reference.py            prints it
    python3 python/reference.py --write    writes it

Every version of Python makes the same page. tests/python/reference_test.py says what a
docstring has to have.
"""

import argparse
import inspect
import pathlib
import re
import sys
from typing import Dict, List

HERE = pathlib.Path(__file__).absolute().parent
# Python may have been started with -I.
sys.path.insert(0, str(HERE))
import docstrings  # noqa: E402: found through the line above

PAGE = HERE.parent / "docs/python_reference.md"
_WIDTH = 88
# oarlock.connect(), lease(), Table.pull.
_NAME = re.compile(r"(?<![\w.])(oarlock\.)?((?:[A-Z]\w+\.)?[a-z]\w+)(\(\))?")

# Every public name is in one of them.
GROUPS = {
    "Connecting": ["connect", "join", "Job"],
    "Tables": ["Table", "DenseTable", "Rows", "hash_texts"],
    "Steps and leases": ["Step", "Part", "Future"],
    "Evaluation": ["Evaluation", "EvaluationResult"],
    "Training with the engine": [
        "train", "TrainingResult", "TrainingEvaluation", "Stop", "Interrupted",
        "TrainingError"],
    "Optimizers": [
        "Optimizer", "Sgd", "Momentum", "Adagrad", "SharedAdagrad", "Adam", "LazyAdam",
        "SharedAdam", "Adamw", "Ftrl"],
    "Initial values": ["Uniform", "Normal", "Constant"],
    "Admission, statistics, eviction": [
        "CountAdmission", "ProbabilityAdmission", "ShowClickAdmission", "Ctr",
        "Eviction"],
    "Features": [
        "Features", "Feature", "Label", "Weight", "Group", "DenseFeature",
        "SparseFeature", "SequenceFeature"],
    "Clusters and the process": ["LocalCluster", "program", "keep_memory"],
    "Errors": [
        "Error", "CancelledError", "InvalidArgumentError", "TimeoutError",
        "NotFoundError", "AlreadyExistsError", "ResourceExhaustedError",
        "FailedPreconditionError", "FencedError", "UnimplementedError",
        "InternalError", "UnavailableError", "DataLossError", "UnauthenticatedError",
        "ForkedError", "ClosedError"],
}

_HEAD = """\
# Python reference

Every public name of `import oarlock`. [python.md](python.md) goes through them task by task. This page is made of the
docstrings in `python/oarlock` by `python3 python/reference.py --write`."""


def _anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _escape(text: str) -> str:
    """Marks of Markdown as they are; an _ within a name is none."""
    return re.sub(r"(?<![a-zA-Z0-9])_|_(?![a-zA-Z0-9])|[*<]", r"\\\g<0>", text)


def _signature(head: str, parameters: List[docstrings.Parameter], tail: str) -> str:
    texts = [each.text for each in parameters]
    line = f"{head}({', '.join(texts)}){tail}"
    if len(line) <= _WIDTH:
        return line
    return "\n    ".join([f"{head}(", *(f"{each}," for each in texts)]) + f"\n){tail}"


class _Page:
    """Markdown of a package."""

    def __init__(self, package: docstrings.Package) -> None:
        self._package = package
        self._lines: List[str] = []
        # "join" and "Job.pull" -> where they stand.
        self._anchors: Dict[str, str] = {}
        for name in package.public:
            one = package.definitions[name]
            if isinstance(one, docstrings.Function):
                self._anchors[name] = _anchor(name)
                continue
            for each in package.family(one):
                for member in each.functions:
                    full = f"{name}.{member.name}"
                    self._anchors[full] = _anchor(full)

    def text(self) -> str:
        self._add(_HEAD)
        for group, names in GROUPS.items():
            self._add(f"| [{group}](#{_anchor(group)}) | |", "| --- | --- |",
                      *(f"| [{name}](#{_anchor(name)}) | {self._summary(name)} |"
                        for name in names))
        for group, names in GROUPS.items():
            self._add(f"## {group}")
            for name in names:
                one = self._package.definitions[name]
                if isinstance(one, docstrings.Function):
                    self._function(one, f"### {name}", "")
                else:
                    self._class(one)
        self._types()
        return "\n".join(self._lines).rstrip("\n") + "\n"

    def _add(self, *lines: str) -> None:
        """A block of Markdown."""
        self._lines += [*lines, ""]

    def _code(self, *lines: str) -> None:
        self._add("```python", *lines, "```")

    def _prose(self, text: str, owner: str) -> str:
        """A text as Markdown, with links at `name()` and `Class.name`."""
        def link(match: "re.Match[str]") -> str:
            package, name, call = match.groups("")
            for full in (name,) if package else (f"{owner}.{name}", name):
                if full in self._anchors and (call or "." in name):
                    return f"[`{match[0]}`](#{self._anchors[full]})"
            return match[0]

        parts = re.split("(`[^`]*`)", " ".join(text.split()))
        return "".join(part if part.startswith("`") else _NAME.sub(link, _escape(part))
                       for part in parts)

    def _summary(self, name: str) -> str:
        """The first sentence, in a cell of a table."""
        doc = docstrings.parse_doc(self._package.definitions[name].doc)
        first = " ".join("".join(doc.paragraphs[:1]).split())
        sentence = re.split(r"(?<=\.) ", first)[0]
        return self._prose(sentence, "").replace("|", r"\|")

    def _paragraphs(self, doc: docstrings.Doc, owner: str) -> None:
        for paragraph in doc.paragraphs:
            if paragraph.startswith("    "):
                self._code(inspect.cleandoc("\n" + paragraph))
            else:
                self._add(self._prose(paragraph, owner))

    def _sections(self, sections: List[docstrings.Section], owner: str) -> None:
        for title in docstrings.TITLES:
            lines = []
            for section in sections:
                for names, text in section.items if section.title == title else ():
                    head = ", ".join(f"`{name}`" for name in names)
                    lines.append("- " + ": ".join(
                        part for part in (head, self._prose(text, owner)) if part))
            if lines:
                self._add(f"**{title}**")
                self._add(*lines)

    def _function(self, one: docstrings.Function, heading: str, owner: str) -> None:
        self._add(_escape(heading))
        if one.is_property:
            self._code(f"{one.name}: {one.returns}")
        else:
            self._code(_signature(
                f"{'async ' if one.is_async else ''}{one.name}", one.parameters,
                f" -> {one.returns}" if one.returns else ""))
        doc = docstrings.parse_doc(one.doc)
        self._paragraphs(doc, owner)
        self._sections(doc.sections, owner)

    def _class(self, one: docstrings.Class) -> None:
        package = self._package
        self._add(f"### {one.name}")
        parameters = package.parameters(one)
        doc = docstrings.parse_doc(one.doc)
        if parameters and not doc.is_made_by_others():
            self._code(_signature(f"class {one.name}", parameters, ""))
        bases = [f"[{name}](#{_anchor(name)})" if name in package.public else f"`{name}`"
                 for name in one.bases if not name.startswith(("_", "Generic["))]
        if bases:
            also = (", whose attributes it has as well"
                    if len(parameters) > len(one.fields) else "")
            self._add(f"A kind of {' and '.join(bases)}{also}.")
        self._paragraphs(doc, one.name)
        family = package.family(one)
        self._sections([section for each in family for section in
                        docstrings.parse_doc(each.doc).sections], one.name)
        for each in family:
            for function in each.functions:
                self._function(function, f"#### {one.name}.{function.name}", one.name)
            for name, method in each.aliases:
                self._add(f"#### {one.name}.{name}")
                self._add("The same as " + self._prose(f"{method}().", one.name))

    def _types(self) -> None:
        """What stands in signatures and is no public name."""
        code = "".join(re.findall("```python\n(.*?)```", "\n".join(self._lines), re.S))
        used = [f"{name} = {meaning}"
                for name, meaning in sorted(self._package.types.items())
                if re.search(rf"\b{name}\b", code)]
        if used:
            self._add("## Types in signatures")
            self._code(*used)


def make(package: docstrings.Package) -> str:
    """The page. ValueError: a name is public and not in GROUPS, or the reverse."""
    grouped = [name for names in GROUPS.values() for name in names]
    astray = sorted(set(grouped) ^ set(package.public))
    if astray:
        raise ValueError(f"public or in GROUPS, but not both: {', '.join(astray)}; "
                         "correct GROUPS of python/reference.py")
    return _Page(package).text()


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true",
                        help="write the file instead of printing it")
    options = parser.parse_args(arguments)
    text = make(docstrings.read_package())
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
