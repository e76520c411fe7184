"""`python -m oarlock doctor`: what the package finds, before what the program finds.

The lines are as those of `oarlock doctor`: a verdict, what was looked at, what was
found, and, where it is bad, what to do.
"""

import importlib
import os
import platform
import re
import subprocess
import sys
from typing import NamedTuple

import oarlock
from oarlock import _find, _library, errors

_OLDEST_PYTHON = (3, 9)
_START_SECONDS = 30.0


class Finding(NamedTuple):
    """A line of it."""

    bad: bool
    subject: str
    text: str


def _interpreter() -> Finding:
    text = (f"{platform.python_implementation()} {platform.python_version()}, "
            f"{sys.executable}")
    old = sys.version_info < _OLDEST_PYTHON
    if old:
        text += "; use {}.{} or newer".format(*_OLDEST_PYTHON)
    return Finding(old, "interpreter", text)


def _package() -> Finding:
    return Finding(False, "package", f"{oarlock.__version__}, {_find.PACKAGE}")


def _of_release(subject: str, version: str, where: str) -> Finding:
    """A part of this version, which should be the package's."""
    if version == oarlock.__version__:
        return Finding(False, subject, f"{version}, {where}")
    return Finding(True, subject, f"{version}, {where}, and the package is "
                   f"{oarlock.__version__}; {_find.WHAT_TO_DO}")


def _loaded_from(place: _find.Place) -> str:
    """The library's path; of the system's, the one that the loader has chosen."""
    if os.path.dirname(place.path):
        return place.path
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").split(maxsplit=5)[-1]
            if os.path.basename(path).startswith(place.path):
                return path
    return place.path


def _the_library() -> Finding:
    place = _find.library()
    try:
        version = _library.library().version()
    except errors.Error as error:
        return Finding(True, "library", str(error))
    return _of_release("library", version, f"{_loaded_from(place)}, {place.why}")


def _the_program() -> Finding:
    place = _find.program()
    where = f"{place.path}, {place.why}"
    try:
        done = subprocess.run([place.path, "version"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=_START_SECONDS)
        text = done.stdout.decode(errors="replace")
        said = re.match(r"oarlock (\S+) \(", text)
        if said:
            return _of_release("program", said[1], where)
        failure = f"exit code {done.returncode}: {text.strip()[:200]!r}"
    except (OSError, subprocess.SubprocessError) as error:
        failure = str(error)
    return Finding(True, "program",
                   f"{where}, cannot be started ({failure}); {_find.WHAT_TO_DO}")


def _numpy() -> Finding:
    try:
        numpy = importlib.import_module("numpy")
    except ImportError as failure:
        # numpy's own text has many lines.
        first = (str(failure).strip() or "no reason given").splitlines()[0]
        return Finding(True, "numpy", f"cannot be imported ({first}); install numpy "
                       "for this interpreter")
    where = os.path.dirname(numpy.__file__ or "")
    return Finding(False, "numpy", f"{numpy.__version__}, {where}")


def main() -> int:
    """Prints the lines, then the program's; returns 1 where one is bad, else 0."""
    findings = [_interpreter(), _package(), _the_library(), _the_program(), _numpy()]
    for bad, subject, text in findings:
        print(f"{'bad' if bad else 'ok':5} {subject:11} {text}")
    sys.stdout.flush()
    bad = any(each.bad for each in findings)
    try:
        code = subprocess.call([_find.program().path, "doctor"])
    except OSError:
        return 1  # The line of the program has said why.
    return 1 if bad else code
