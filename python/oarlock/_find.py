"""Where liboarlock and the programs are."""

import os
import shutil
from typing import List, NamedTuple, Optional

_LIBRARY = "liboarlock.so.1"
PACKAGE = os.path.dirname(os.path.abspath(__file__))
# What an error says to do where one of them is missing or of another release.
WHAT_TO_DO = ("install the wheel, or the packages oarlock and liboarlock1, of one "
              "release, or build //capi:liboarlock.so.1 and //cli:oarlock in a "
              "checkout, or name the folder of both by OARLOCK_HOME")


class Place(NamedTuple):
    """A place where something may be."""

    path: str
    why: str


def _home() -> Optional[Place]:
    """Where both have to be, if the environment says it: nowhere else is looked."""
    home = os.environ.get("OARLOCK_HOME")
    return Place(home, "OARLOCK_HOME") if home else None


def _roots() -> List[Place]:
    """Folders that may hold both, the first one that does wins."""
    home = _home()
    if home:
        return [home]
    # The package lies in python/oarlock of the repository, or of a test's files.
    tree = os.path.dirname(os.path.dirname(PACKAGE))
    return [Place(PACKAGE, "the package's own folder")] + [
        Place(folder, "the Bazel tree that the package lies in")
        for folder in (os.path.join(tree, "bazel-bin"), tree)]


def library() -> Place:
    """liboarlock.so.1: OARLOCK_HOME, or the package, the Bazel tree, the system."""
    for root in _roots():
        for name in (os.path.join("lib", _LIBRARY), os.path.join("capi", _LIBRARY)):
            path = os.path.join(root.path, name)
            if os.path.exists(path):
                return Place(path, root.why)
    home = _home()
    if home:
        return Place(os.path.join(home.path, "lib", _LIBRARY), home.why)
    return Place(_LIBRARY, "the system's")


def program(name: str = "oarlock") -> Place:
    """A program: OARLOCK_HOME, or the package, the Bazel tree, the system."""
    names = [os.path.join("bin", name), os.path.join("cli", name),
             os.path.join("deploy", name)]
    for root in _roots():
        for each in names:
            path = os.path.join(root.path, each)
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return Place(path, root.why)
    home = _home()
    if home:
        return Place(os.path.join(home.path, "bin", name), home.why)
    # Not the script that pip makes of the package, which becomes this program.
    found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
    return Place(found or os.path.join("/usr/bin", name), "the system's")
