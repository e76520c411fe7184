"""The errors of Oarlock.

Each is an `oarlock.Error` and, where Python has a class for it, that one as well. The
text is one line, as on the command line: what happened, the value seen, what is legal,
what to do.
"""

import builtins
from typing import Dict, Optional, Type


class Error(Exception):
    """Something that Oarlock could not do. `str(error)` is one line."""

    def __str__(self) -> str:
        # KeyError would show its text in quotes.
        return str(self.args[0]) if self.args else ""


class CancelledError(Error):
    """The operation was cancelled, or the job is being ended."""


class InvalidArgumentError(Error, ValueError):
    """A value is not legal: correct the call."""


class TimeoutError(Error, builtins.TimeoutError):
    """It took longer than it may: the same call again may succeed."""


class NotFoundError(Error, KeyError):
    """There is nothing of this name."""


class AlreadyExistsError(Error):
    """It is there, and differs, or somebody else has the place."""


class ResourceExhaustedError(Error):
    """There is no room for it: ask for less, or give more memory."""


class FailedPreconditionError(Error):
    """Something else must be changed first, which the text names."""


class FencedError(Error, ConnectionError):
    """This worker takes part no more; another one has its place. Join anew."""


class UnimplementedError(Error, NotImplementedError):
    """The servers cannot do this: use another release."""


class InternalError(Error, RuntimeError):
    """A mistake of Oarlock's."""


class UnavailableError(Error, ConnectionError):
    """A server is not there: the same call later may succeed."""


class DataLossError(Error):
    """What was acknowledged is gone: go on from a checkpoint."""


class UnauthenticatedError(Error, PermissionError):
    """The servers want a token, or another one."""


class TrainingError(Error, RuntimeError):
    """A job of train() has failed.

    Attributes:
        log_dir: folder of its logs, which stays; None: it has none.
    """

    def __init__(self, text: str, log_dir: Optional[str] = None) -> None:
        super().__init__(text)
        self.log_dir = log_dir


class ForkedError(Error, RuntimeError):
    """This process was forked from one that uses Oarlock."""


class ClosedError(Error, ValueError):
    """The job, table or result was closed."""


# By code of the C interface.
_CLASSES: Dict[int, Type[Error]] = {
    1: CancelledError,
    3: InvalidArgumentError,
    4: TimeoutError,
    5: NotFoundError,
    6: AlreadyExistsError,
    7: UnauthenticatedError,
    8: ResourceExhaustedError,
    9: FailedPreconditionError,
    10: FencedError,
    11: InvalidArgumentError,
    12: UnimplementedError,
    13: InternalError,
    14: UnavailableError,
    15: DataLossError,
    16: UnauthenticatedError,
    101: ClosedError,
    102: ForkedError,
    103: InternalError,
}


def code_of(error: Error) -> int:
    """The code of the C interface."""
    return next((code for code, kind in _CLASSES.items() if type(error) is kind), 2)


def from_code(code: int, message: str) -> Error:
    """The error of a code of the C interface."""
    return _CLASSES.get(code, Error)(message)
