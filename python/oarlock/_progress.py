"""One line that says how a job goes, on a terminal or in a notebook."""

import importlib
import os
import sys
import threading
import types
from typing import Any, Optional, Type


class ProgressDisplay:
    """Shows the newest line, where somebody sees it. A context manager.

    In a notebook it is one display that changes; on a terminal one line of standard
    error. Elsewhere, and in threads other than the main one, nothing is shown.
    """

    def __init__(self, wanted: bool) -> None:
        wanted = wanted and threading.current_thread() is threading.main_thread()
        self._notebook = wanted and _is_notebook()
        self._terminal = wanted and not self._notebook and _is_terminal()
        self._handle: Any = None
        self._drawn = False

    def show(self, line: str) -> None:
        """Shows the line in the place of the one before."""
        if self._notebook:
            content = {"text/plain": line}
            if self._handle is None:
                display: Any = importlib.import_module("IPython.display")
                self._handle = display.display(content, raw=True, display_id=True)
            else:
                self._handle.update(content, raw=True)
        elif self._terminal:
            # One that is longer would leave its begin standing.
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
            sys.stderr.write("\r\033[K" + line[:max(width, 20)])
            sys.stderr.flush()
            self._drawn = True

    def clear(self) -> None:
        """Before somebody else writes to the terminal."""
        if self._drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self._drawn = False

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]],
                 error: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        if self._drawn:
            sys.stderr.write("\n")
            sys.stderr.flush()


def _is_terminal() -> bool:
    try:
        os.get_terminal_size(sys.stderr.fileno())
        return sys.stderr.isatty()
    except (AttributeError, OSError, ValueError):
        return False


def _is_notebook() -> bool:
    """Whether this process is a kernel that somebody's notebook talks to."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
