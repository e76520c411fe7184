"""folders: no drawers. A folder holds what one reader can survey, and one of
more than ten files says in a README what it is."""

import collections
import posixpath

import tree as trees

_MOST_FILES = 40
_MOST_BUILD_LINES = 249
_FILES_WITHOUT_README = 10
_MOST_README_LINES = 25
_SOURCES = (".cc", ".h", ".cu", ".cuh", ".py")


def _lines(tree, path):
    return len(tree.text(path).splitlines())


def check(tree):
    findings = []

    def find(path, line, text):
        findings.append(trees.Finding(path, line, "folders", text))

    folders = collections.Counter(
        posixpath.dirname(path) for path in tree.ending(*_SOURCES))
    for folder, count in sorted(folders.items()):
        readme = posixpath.join(folder, "README.md")
        if count > _MOST_FILES:
            find(folder, 1, f"{count} files; at most {_MOST_FILES}, divide it "
                 "by meaning")
        if count > _FILES_WITHOUT_README and readme not in tree.paths:
            find(readme, 1, f"missing for {count} files: what lives here, "
                 "three files to read first, the class that ties them "
                 "together, what must not be included")
        if count > _FILES_WITHOUT_README and readme in tree.paths and (
                _lines(tree, readme) > _MOST_README_LINES):
            find(readme, _MOST_README_LINES + 1,
                 f"{_lines(tree, readme)} lines; at most {_MOST_README_LINES}")
    for path in tree.paths:
        if posixpath.basename(path) == "BUILD" and (
                _lines(tree, path) > _MOST_BUILD_LINES):
            find(path, _MOST_BUILD_LINES + 1,
                 f"{_lines(tree, path)} lines; at most {_MOST_BUILD_LINES}, "
                 "divide the folder")
    return findings, f"{len(folders)} folders"
