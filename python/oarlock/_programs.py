"""The programs of the package.

They lie in bin/ beside this file, the shared libraries that they need beside the
package. Each command becomes one of them; the examples are one program, which knows by
the command's name what it is.
"""

import os
import sys
from typing import Optional

from oarlock import _find


def program(name: str = "oarlock") -> str:
    """The path of a program."""
    return _find.program(name).path


def _become(name: str, command: Optional[str] = None) -> None:
    path = program(name)
    # Where programs need Python they use this one, which has the package.
    environment = {"OARLOCK_PYTHON": sys.executable or "python3", **os.environ}
    try:
        os.execve(path, [command or path] + sys.argv[1:], environment)
    except OSError as failure:
        sys.exit(f"oarlock: the program {path} cannot be started: "
                 f"{failure.strerror}; {_find.WHAT_TO_DO}")


def main() -> None:
    """The command oarlock. `doctor` also says what the package finds."""
    if sys.argv[1:] == ["doctor"]:
        from oarlock import _doctor

        sys.exit(_doctor.main())
    _become("oarlock")


def ctr() -> None:
    """The example oarlock-ctr."""
    _become("oarlock-examples", "oarlock-ctr")


def mnist() -> None:
    """The example oarlock-mnist."""
    _become("oarlock-examples", "oarlock-mnist")


def cifar10() -> None:
    """The example oarlock-cifar10."""
    _become("oarlock-examples", "oarlock-cifar10")


def resnet() -> None:
    """The example oarlock-resnet."""
    _become("oarlock-examples", "oarlock-resnet")


def score() -> None:
    """The program oarlock-score."""
    _become("oarlock-score")
