"""Operations that coroutines wait for."""

import asyncio
import ctypes
import os
import threading
from typing import Dict, Tuple

from oarlock import _library, errors
from oarlock._operation import Operation

_Waiting = Tuple[asyncio.AbstractEventLoop, Operation, "asyncio.Future[None]"]


class Events:
    """The descriptor by which a client tells that an operation has ended, and the
    coroutines that wait for operations of it, in any event loops."""

    def __init__(self, client: int) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._waiting: Dict[int, _Waiting] = {}

    async def ended(self, operation: Operation) -> None:
        """Returns when the operation has ended; raises why it failed."""
        if operation.poll(0):
            return
        descriptor = ctypes.c_int32()
        _library.call(_library.library().client_event_fd, self._client,
                      ctypes.byref(descriptor))
        loop = asyncio.get_running_loop()
        woken: "asyncio.Future[None]" = loop.create_future()
        with self._lock:
            self._waiting[id(woken)] = (loop, operation, woken)
            loop.add_reader(descriptor.value, self._notice, descriptor.value)
        try:
            # It may have ended, and been noticed, before it was waited for.
            if not operation.poll(0):
                await woken
                operation.poll(0)
        finally:
            with self._lock:
                del self._waiting[id(woken)]
                if all(other is not loop for other, _, _ in self._waiting.values()):
                    loop.remove_reader(descriptor.value)

    def _notice(self, descriptor: int) -> None:
        try:
            os.read(descriptor, 8)
        except BlockingIOError:
            pass  # Another loop has read it.
        with self._lock:
            waiting = list(self._waiting.values())
        for loop, operation, woken in waiting:
            try:
                ended = operation.poll(0)
            except errors.Error:
                ended = True
            if ended:
                try:
                    loop.call_soon_threadsafe(_wake, woken)
                except RuntimeError:
                    pass  # The loop is closed, and so nobody waits there.


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
