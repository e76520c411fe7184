"""Waiting for what the library does."""

import asyncio
import ctypes
import json
import time
from typing import (TYPE_CHECKING, Any, Callable, Dict, Generator, Generic, Optional,
                    TypeVar)

from oarlock import _library, errors

if TYPE_CHECKING:
    from oarlock import _events

# Waits come back to Python this often, so that Ctrl-C is heard.
_SLICE_MS = 200

T = TypeVar("T")

class _Loan:
    """Arrays that an operation uses, from before it begins until it has ended."""

    __slots__ = ("arrays", "handle", "orphaned")

    def __init__(self, arrays: Any) -> None:
        # 0: it has not begun.
        self.handle = ctypes.c_uint64()
        self.arrays = arrays
        # Nobody waits for the operation any more.
        self.orphaned = False


# Ctrl-C may come between any two steps of Python's: what is here stays, whatever
# becomes of the objects that wait. In the order of their beginnings.
_loans: Dict[int, _Loan] = {}


def _return_orphans() -> None:
    """Gives arrays back whose operations nobody waits for and that have ended."""
    for key, loan in list(_loans.items()):
        if loan.orphaned and (loan.handle.value == 0
                              or _library.library().operation_free(
                                  loan.handle, None) != _library.NOT_DONE):
            _loans.pop(key, None)


def _lend(loan: _Loan) -> None:
    """Its arrays stay from now on. Called where an Operation, or a handler of all
    exceptions, takes the loan back if Ctrl-C comes."""
    if loan.arrays is not None:
        if len(_loans) > 8:
            _return_orphans()
        _loans[id(loan)] = loan


class Operation:
    """An operation of the library, and the arrays that it uses."""

    def __init__(self, loan: _Loan) -> None:
        self._loan = loan

    @property
    def _handle(self) -> ctypes.c_uint64:
        return self._loan.handle

    def begin(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls the function that begins it."""
        try:
            _lend(self._loan)
            _library.call(function, *arguments, ctypes.byref(self._loan.handle))
        except errors.Error:
            self._end()
            raise

    def _end(self) -> None:
        _loans.pop(id(self._loan), None)

    def poll(self, wait_ms: int) -> bool:
        """Whether it has ended, after at most so long. Raises why it failed."""
        code = _library.library().wait(self._handle, wait_ms,
                                       _library.error_reference())
        if code == _library.OK or self._was_freed(code):
            return True
        if code == _library.NOT_DONE:
            return False
        raise _library.error_of(code)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits for its end; TimeoutError after `timeout` seconds."""
        self._wait_by(_library.library().wait, timeout)

    def finish(self, timeout: Optional[float] = None,
               told: Optional[float] = None) -> None:
        """Waits for its end, and frees it where it succeeds. Where it does not, and
        not for lack of time, it is cancelled. `told`: the time that an error names."""
        try:
            self._wait_by(_library.library().finish, timeout, told)
        except errors.TimeoutError:
            raise
        except BaseException:
            _try_cancel(self)
            raise
        self._loan.handle.value = 0
        self._end()

    def _wait_by(self, function: Callable[..., int], timeout: Optional[float],
                 told: Optional[float] = None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        handle = self._loan.handle
        error = _library.error_reference()
        while True:
            wait_ms = _SLICE_MS
            if deadline is not None:
                left = deadline - time.monotonic()
                wait_ms = max(0, min(wait_ms, int(left * 1000) + 1))
            code = function(handle, wait_ms, error)
            if code == _library.OK or self._was_freed(code):
                return
            if code != _library.NOT_DONE:
                raise _library.error_of(code)
            if deadline is not None and time.monotonic() >= deadline:
                raise errors.TimeoutError(
                    f"not done within {timeout if told is None else told} s; it goes "
                    "on: wait again, or cancel it")

    def _was_freed(self, code: int) -> bool:
        """Whether the code says that finish() has freed it, in another thread or
        before Ctrl-C came: so it has succeeded."""
        return code == _library.CLOSED and self._loan.handle.value != 0

    def result(self) -> Dict[str, Any]:
        """What it has led to. It must have ended."""
        text = _library.text_of(_library.library().result, self._handle)
        result: Dict[str, Any] = json.loads(text)
        return result

    def cancel(self) -> bool:
        """Ends it soon. Whether what it asked for may have happened."""
        effect = ctypes.c_int32()
        _library.call(_library.library().cancel, self._handle,
                      ctypes.byref(effect))
        return effect.value != 0

    def free(self) -> None:
        """Forgets it. It must have ended."""
        if self._handle.value != 0:
            _library.library().operation_free(self._handle, None)
            self._handle.value = 0
        self._end()

    def __del__(self) -> None:
        try:
            if self._handle.value == 0:
                self._end()
            elif (_library.library().operation_free(self._handle, None)
                    != _library.NOT_DONE):
                self._end()
            else:
                self._loan.orphaned = True
                self.cancel()
        except Exception:  # The interpreter ends, or this process was forked.
            pass
        finally:
            if hasattr(self, "_loan"):  # Else Ctrl-C came before it had one.
                self._loan.orphaned = True


def begin(function: Callable[..., int], *arguments: Any,
          arrays: Any = None) -> Operation:
    """Begins an operation; `arrays` stay until it has ended."""
    operation = Operation(_Loan(arrays))
    operation.begin(function, *arguments)
    return operation


def run_at_once(function: Callable[..., int], *arguments: Any, arrays: Any = None,
                timeout: Optional[float] = None) -> None:
    """Calls a function of the library that begins an operation and waits for it.

    It does less in Python than begin() and finish(): what a step does is read from
    memory anew each time, since the rows of a step fill the caches.
    """
    loan = _Loan(arrays)
    try:
        _lend(loan)
        deadline = None
        wait_ms = _SLICE_MS
        if timeout is not None:
            deadline = time.monotonic() + timeout
            wait_ms = max(0, min(wait_ms, int(timeout * 1000) + 1))
        code = function(*arguments, wait_ms, ctypes.byref(loan.handle),
                        _library.error_reference())
        if code == _library.NOT_DONE:
            left = None if deadline is None else deadline - time.monotonic()
            Operation(loan).finish(left, timeout)
        elif code != _library.OK:
            raise _library.error_of(code)
        _loans.pop(id(loan), None)
    except BaseException:
        Operation(loan)  # Its end is that of any operation.
        raise


def run(function: Callable[..., int], *arguments: Any,
        timeout: Optional[float] = None) -> Dict[str, Any]:
    """Begins an operation, waits for it, and returns its result."""
    operation = begin(function, *arguments)
    try:
        operation.wait(timeout)
    except BaseException:
        _try_cancel(operation)
        raise
    result = operation.result()
    operation.free()
    return result


def _try_cancel(operation: Operation) -> None:
    try:
        operation.cancel()
    except errors.Error:
        pass


class Future(Generic[T]):
    """Something that ends later: `result()`, `done()`, or `await`.

    Made by pull_async() of jobs and tables, and by Step.begin().
    """

    def __init__(self, operation: Operation, finish: Callable[[], T],
                 events: "_events.Events") -> None:
        self._operation = operation
        self._events = events
        self._finish = finish
        self._value: Optional[T] = None
        self._ended = False

    def result(self, timeout: Optional[float] = None) -> T:
        """Waits for the end, and returns what there is then.

        Args:
            timeout: seconds; None: as long as it takes.

        Raises:
            TimeoutError: not done by then; it goes on.
            Error: why the operation failed.
        """
        if not self._ended:
            self._operation.finish(timeout)
            self._end()
        return self._value  # type: ignore[return-value]

    def done(self) -> bool:
        """Whether result() would return or raise at once."""
        if self._ended:
            return True
        try:
            return self._operation.poll(0)
        except errors.Error:
            return True

    def cancel(self) -> bool:
        """Ends the wait. Whether what was asked for may have happened."""
        return self._operation.cancel()

    def _end(self) -> None:
        self._value = self._finish()
        self._ended = True
        self._operation.free()

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> T:
        try:
            if not self._ended:
                await self._events.ended(self._operation)
        except asyncio.CancelledError:
            _try_cancel(self._operation)
            raise
        if not self._ended:
            self._end()
        return self._value  # type: ignore[return-value]

    def __reduce__(self) -> Any:
        raise TypeError("an oarlock.Future cannot be pickled; send what "
                        "result() returns")
