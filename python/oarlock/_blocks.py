"""Record batches of Arrow as blocks of the engine's, by liboarlock."""

import ctypes
import json
from typing import Any, Dict

from oarlock import _library

_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_capsule.restype = ctypes.c_void_p
_capsule.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _pointer(capsule: Any, name: bytes) -> int:
    address: int = _capsule(capsule, name)
    return address


class Blocks:
    """Writes batches of one list of features. One thread at a time."""

    def __init__(self, features: str) -> None:
        """`features`: JSON of FeatureList."""
        self._handle = ctypes.c_uint64()
        text = features.encode()
        _library.call(_library.library().features_create, text, len(text),
                      ctypes.byref(self._handle))
        # Of the batch that was prepared: it stays until it is written.
        self._batch: Any = None

    def resolve(self, schema: Any) -> Dict[str, Any]:
        """FeatureList with the types of the columns of a file, where it says none."""
        capsule = schema.__arrow_c_schema__()
        text = _library.text_of(_library.library().features_resolve, self._handle,
                                _pointer(capsule, b"arrow_schema"))
        resolved: Dict[str, Any] = json.loads(text)
        return resolved

    def bind(self, schema: Any) -> None:
        """The batches that follow have this schema."""
        capsule = schema.__arrow_c_schema__()
        _library.call(_library.library().features_bind, self._handle,
                      _pointer(capsule, b"arrow_schema"))

    def prepare(self, batch: Any) -> int:
        """The bytes of the batch's block."""
        self._batch = batch.__arrow_c_array__()
        size = ctypes.c_uint64()
        _library.call(_library.library().features_prepare, self._handle,
                      _pointer(self._batch[1], b"arrow_array"), ctypes.byref(size))
        return size.value

    def write(self, address: int, size: int) -> None:
        """Writes the block of the batch that was prepared."""
        _library.call(_library.library().features_write, self._handle,
                      _pointer(self._batch[1], b"arrow_array"), address, size)
        self._batch = None

    def __del__(self) -> None:
        try:
            _library.library().features_free(self._handle, None)
        except Exception:  # The interpreter ends, or __init__ has failed.
            pass
