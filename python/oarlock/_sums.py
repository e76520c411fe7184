"""XXH3-64 of bytes that come in parts, by liboarlock."""

import ctypes

from oarlock import _library


class Sum:
    """The sum by which a checkpoint's MANIFEST knows its files. One thread at a time."""

    def __init__(self) -> None:
        self._handle = ctypes.c_uint64()
        self.size = 0
        _library.call(_library.library().sum_create, ctypes.byref(self._handle))

    def add(self, part: bytes) -> None:
        """The next bytes."""
        _library.call(_library.library().sum_add, self._handle, part, len(part))
        self.size += len(part)

    def value(self) -> int:
        """The sum of all bytes so far."""
        value = ctypes.c_uint64()
        _library.call(_library.library().sum_value, self._handle, ctypes.byref(value))
        return value.value

    def __del__(self) -> None:
        try:
            _library.library().sum_free(self._handle, None)
        except Exception:  # The interpreter ends, or __init__ has failed.
            pass


def sum_of(text: bytes) -> int:
    """The sum of bytes that are there as a whole."""
    summed = Sum()
    summed.add(text)
    return summed.value()
