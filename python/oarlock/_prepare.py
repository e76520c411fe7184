"""A function of the user's that makes of each record batch another one."""

import importlib
import os
import sys
import sysconfig
import traceback
from typing import Any, Callable

from oarlock import errors
from oarlock import _stores

_LEGAL = "legal is module:function, such as clicks:cross"
# Where Python's own modules and packages are.
_PYTHON = tuple({sysconfig.get_path(name)
                 for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Prepare:
    """Calls it and checks what it gives. Raises InvalidArgumentError, one line with
    module:function."""

    def __init__(self, name: str) -> None:
        module, colon, function = name.partition(":")
        if not colon or not module or not function.isidentifier():
            raise errors.InvalidArgumentError(f"--prepare is '{name}'; {_LEGAL}")
        self._name = name
        self._function: Callable[[Any], Any] = self._found(module, function)

    def _found(self, module: str, function: str) -> Any:
        folder = os.getcwd()
        if "" not in sys.path and folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            found = getattr(importlib.import_module(module), function, None)
        except (Exception, SystemExit) as error:
            raise errors.InvalidArgumentError(
                f"prepare '{self._name}': module '{module}' cannot be imported: "
                f"{_told(error)}; it is looked for in the current folder, '{folder}', and "
                "in PYTHONPATH") from None
        if not callable(found):
            raise errors.InvalidArgumentError(
                f"prepare '{self._name}': module '{module}' has no function '{function}'; "
                + _LEGAL)
        return found

    def __call__(self, batch: Any) -> Any:
        """What the function makes of a batch: one of as many rows."""
        try:
            made = self._function(batch)
        except (Exception, SystemExit) as error:
            raise errors.InvalidArgumentError(
                f"prepare '{self._name}' has failed: {_told(error)}") from None
        if not isinstance(made, _stores.pyarrow().RecordBatch):
            raise errors.InvalidArgumentError(
                f"prepare '{self._name}' has returned a {type(made).__name__}; legal is "
                "a pyarrow.RecordBatch of as many rows")
        if made.num_rows != batch.num_rows:
            raise errors.InvalidArgumentError(
                f"prepare '{self._name}' has returned {made.num_rows} rows for "
                f"{batch.num_rows}; legal is a pyarrow.RecordBatch of as many rows")
        try:
            made.validate(full=True)
        except _stores.pyarrow().ArrowException as error:
            raise errors.InvalidArgumentError(
                f"prepare '{self._name}' has returned a batch that is damaged: "
                f"{_stores.first_line(error)}") from None
        return made


def _told(error: BaseException) -> str:
    """Class, text and place of an error, on one line."""
    # The last one of the user's: not of this file, nor of packages.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename != __file__ and os.path.isfile(frame.filename)
              and not frame.filename.startswith(_PYTHON)]
    place = (f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})"
             if frames else "")
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0]}{place}" if text else (
        f"{type(error).__name__}{place}")
