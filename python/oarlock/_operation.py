"""Waiting for what the library does."""

import asyncio
import ctypes
import json
import os
import threading
import time
from typing import (Any, Callable, Dict, Generator, Generic, List, Optional,
                    TypeVar)

from oarlock import _library, errors

# Waits come back to Python this often, so that Ctrl-C is heard.
_SLICE_MS = 200

T = TypeVar("T")

# Operations that nobody waits for any more and that still use arrays: the arrays
# stay until they have ended.
_abandoned: List["Operation"] = []
_abandoned_lock = threading.Lock()


class Operation:
    """An operation of the library, and the arrays that it uses."""

    def __init__(self, handle: int, keeps: Any = None) -> None:
        self._handle = handle
        self._keeps = keeps
        self._pid = os.getpid()

    def poll(self, wait_ms: int) -> bool:
        """Whether it has ended, after at most so long. Raises why it failed."""
        error = _library.CError()
        code = _library.library().wait(self._handle, wait_ms, ctypes.byref(error))
        if code == _library.NOT_DONE:
            return False
        self._keeps = None if code != _library.OK else self._keeps
        if code != _library.OK:
            raise errors.from_code(code, error.message.decode(errors="replace"))
        return True

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits for its end; TimeoutError after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            wait_ms = _SLICE_MS
            if deadline is not None:
                left = deadline - time.monotonic()
                wait_ms = max(0, min(wait_ms, int(left * 1000) + 1))
            if self.poll(wait_ms):
                return
            if deadline is not None and time.monotonic() >= deadline:
                raise errors.TimeoutError(
                    f"not done within {timeout} s; it goes on: wait again, or "
                    "cancel it")

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

    def free(self) -> bool:
        """Forgets it. False: it still uses arrays."""
        if self._handle == 0:
            return True
        code = _library.library().operation_free(self._handle, None)
        if code == _library.NOT_DONE:
            return False
        self._handle = 0
        return True

    def __del__(self) -> None:
        try:
            if self._handle == 0 or self.free():
                return
            self.cancel()
            # Another object takes the arrays over.
            heir = Operation(self._handle, self._keeps)
            self._handle = 0
            _abandon(heir)
        except Exception:  # The interpreter ends, or this process was forked.
            pass


def _abandon(operation: Operation) -> None:
    with _abandoned_lock:
        _abandoned.append(operation)
        _abandoned[:] = [each for each in _abandoned if not each.free()]


def begin(function: Callable[..., int], *arguments: Any,
          keeps: Any = None) -> Operation:
    """Begins an operation; `keeps` stays alive until it has ended."""
    handle = ctypes.c_uint64()
    _library.call(function, *arguments, ctypes.byref(handle))
    return Operation(handle.value, keeps)


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
    """Something that ends later: `result()`, `done()`, or `await`."""

    def __init__(self, operation: Operation, finish: Callable[[], T]) -> None:
        self._operation = operation
        self._finish = finish
        self._value: Optional[T] = None
        self._ended = False

    def result(self, timeout: Optional[float] = None) -> T:
        """Waits at most `timeout` seconds (None: as long as it takes).

        Raises: TimeoutError; else why the operation failed.
        """
        if not self._ended:
            try:
                self._operation.wait(timeout)
            except errors.TimeoutError:
                raise
            except BaseException:
                _try_cancel(self._operation)
                raise
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
        loop = asyncio.get_running_loop()
        try:
            # Threads of the loop's pool wait, each for a slice at a time.
            while not self._ended and not await loop.run_in_executor(
                    None, self._operation.poll, _SLICE_MS):
                pass
        except asyncio.CancelledError:
            _try_cancel(self._operation)
            raise
        if not self._ended:
            self._end()
        return self._value  # type: ignore[return-value]

    def __reduce__(self) -> Any:
        raise TypeError("an oarlock.Future cannot be pickled; send what "
                        "result() returns")
