"""The library's log, in Python's."""

import ctypes
import logging
import os
import threading

from oarlock import _library

_LEVELS = {0: logging.INFO, 1: logging.WARNING, 2: logging.ERROR}
_PERIOD_SECONDS = 0.5
_LINE_BYTES = 64 << 10

_lock = threading.Lock()
_follower = 0


def logger() -> logging.Logger:
    """logging.getLogger("oarlock")."""
    return logging.getLogger("oarlock")


def follow() -> None:
    """Starts the thread that fetches the library's lines, once in a process."""
    global _follower
    with _lock:
        if _follower == os.getpid():
            return
        _follower = os.getpid()
        threading.Thread(target=_run, name="oarlock-log", daemon=True).start()


def fetch() -> None:
    """Gives the lines that are there to the logger."""
    buffer = ctypes.create_string_buffer(_LINE_BYTES)
    size = ctypes.c_size_t()
    level = ctypes.c_int32()
    while True:
        code = _library.library().log_read(buffer, _LINE_BYTES, ctypes.byref(size),
                                           ctypes.byref(level), None)
        if code != _library.OK or size.value == 0:
            return
        logger().log(_LEVELS.get(level.value, logging.INFO), "%s",
                     buffer.raw[:size.value].decode(errors="replace"))


def _run() -> None:
    wait = threading.Event()
    while not wait.wait(_PERIOD_SECONDS):
        try:
            fetch()
        except Exception:  # The interpreter ends.
            return
