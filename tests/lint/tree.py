"""The repository's files, as the checks see them."""

import collections
import pathlib
import re
import subprocess

SOURCES = (".cc", ".h", ".cu", ".cuh")

Finding = collections.namedtuple("Finding", "path line check text")


class LintError(Exception):
    """The check could not be run: what is missing and how to get it."""


class Tree:
    """A copy of the repository. Paths are relative to its root, with /."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.paths = sorted(self._list())
        self._texts = {}

    def _list(self):
        if (self.root / ".git").exists():
            listed = subprocess.run(
                ["git", "ls-files", "-z", "--cached", "--others",
                 "--exclude-standard"],
                cwd=self.root, capture_output=True)
            # Git refuses a folder that is another user's.
            if listed.returncode == 0:
                paths = set(listed.stdout.decode().split("\0")) - {""}
                return [path for path in paths if (self.root / path).is_file()]
        return list(self._walk(self.root))

    def _walk(self, folder):
        for entry in folder.iterdir():
            hidden = entry.name in (".git", "__pycache__", "logs", "build")
            if hidden or entry.name.startswith("bazel-"):
                continue
            if entry.is_dir():
                yield from self._walk(entry)
            else:
                yield entry.relative_to(self.root).as_posix()

    def ending(self, *suffixes):
        """The files with one of these endings."""
        return [path for path in self.paths if path.endswith(suffixes)]

    def text(self, path):
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text()
        return self._texts[path]

    def has(self, path):
        return (self.root / path).is_file()


_NOISE = re.compile(
    r'R"(?P<mark>[^()\\ ]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*|/\*.*?\*/", re.DOTALL)


def code_of(text):
    """C++ without comments and what strings hold; lines stay lines."""

    def blank(match):
        lines = "\n" * match.group().count("\n")
        return lines if match.group().startswith("/") else '""' + lines

    return _NOISE.sub(blank, text)


def product(paths):
    """Those that are part of what users run."""
    return [path for path in paths
            if not path.startswith(("tests/", "bench/"))]


def line_at(text, offset):
    return text.count("\n", 0, offset) + 1
