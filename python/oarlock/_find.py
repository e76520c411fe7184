"""Where liboarlock and the programs are."""

import ctypes.util
import os
import shutil
from typing import List, NamedTuple, Optional

_LIBRARY = "liboarlock.so.1"
_PACKAGE = os.path.dirname(os.path.abspath(__file__))


class Place(NamedTuple):
    """A place where something may be."""

    path: str
    why: str


def _roots() -> List[Place]:
    """Folders that may hold both, the first one that does wins."""
    places = []
    home = os.environ.get("OARLOCK_HOME")
    if home:
        places.append(Place(home, "OARLOCK_HOME"))
    places.append(Place(_PACKAGE, "the package's own folder"))
    # The package lies in python/oarlock of the repository, or of a test's files.
    tree = os.path.dirname(os.path.dirname(_PACKAGE))
    for folder in (os.path.join(tree, "bazel-bin"), tree):
        places.append(Place(folder, "the Bazel tree that the package lies in"))
    return places


def library() -> Place:
    """liboarlock.so.1: OARLOCK_HOME, the package, the Bazel tree, the system."""
    for root in _roots():
        for name in (os.path.join("lib", _LIBRARY), os.path.join("capi", _LIBRARY)):
            path = os.path.join(root.path, name)
            if os.path.exists(path):
                return Place(path, root.why)
    return Place(_LIBRARY, "the system's")


def program(name: str = "oarlock") -> Place:
    """A program: OARLOCK_HOME, the package, the Bazel tree, PATH."""
    names = [os.path.join("bin", name), os.path.join("cli", name),
             os.path.join("deploy", name)]
    for root in _roots():
        for each in names:
            path = os.path.join(root.path, each)
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return Place(path, root.why)
    # Not the script that pip makes of the package, which becomes this program.
    found: Optional[str] = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
    if found:
        return Place(found, "the system's")
    return Place(os.path.join(_PACKAGE, "bin", name), "nowhere")
