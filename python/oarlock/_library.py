"""The functions of liboarlock, by ctypes."""

import ctypes
import json
import math
import os
import threading
from typing import Any, Callable, Dict, Optional, Tuple

from oarlock import _find, errors

OK = 0
NOT_DONE = 100
CLOSED = 101
FORKED = 102
TOO_SMALL = 104
LEAVE_GIVE_UP = 0
LEAVE_DONE = 1
LEAVE_ROLL_BACK = 2

_ABI_VERSION = 1


class CError(ctypes.Structure):
    """oarlock_error."""

    _fields_ = [("code", ctypes.c_int32), ("message", ctypes.c_char * 2044)]


class CPull(ctypes.Structure):
    """oarlock_sparse_pull."""

    _fields_ = [
        ("table", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("keys", ctypes.c_uint64),
        ("values", ctypes.c_void_p),
        ("num_values", ctypes.c_size_t),
    ]


class CSparsePush(ctypes.Structure):
    """oarlock_sparse_push."""

    _fields_ = [
        ("table", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("keys", ctypes.c_uint64),
        ("gradients", ctypes.c_void_p),
        ("num_gradients", ctypes.c_size_t),
        ("shows", ctypes.c_void_p),
        ("clicks", ctypes.c_void_p),
    ]


class CDensePush(ctypes.Structure):
    """oarlock_dense_push."""

    _fields_ = [
        ("table", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("gradients", ctypes.c_void_p),
        ("num_gradients", ctypes.c_size_t),
    ]


_HANDLE = ctypes.c_uint64
_TO_HANDLE = ctypes.POINTER(ctypes.c_uint64)
_TEXT = ctypes.c_char_p
_SIZE = ctypes.c_size_t
_TO_SIZE = ctypes.POINTER(ctypes.c_size_t)
_ERROR = ctypes.POINTER(CError)

# Name -> types of the arguments, without the last one, the error.
_SIGNATURES: Dict[str, Tuple[Any, ...]] = {
    "client_create": (_TEXT, _SIZE, _TO_HANDLE),
    "client_free": (_HANDLE,),
    "client_event_fd": (_HANDLE, ctypes.POINTER(ctypes.c_int32)),
    "connect_begin": (_HANDLE, _TO_HANDLE),
    "join_begin": (_HANDLE, _TEXT, _SIZE, _TO_HANDLE),
    "leave_begin": (_HANDLE, ctypes.c_int32, _TEXT, _SIZE, _TO_HANDLE),
    "alive": (_HANDLE,),
    "wait": (_HANDLE, ctypes.c_uint32),
    "finish": (_HANDLE, ctypes.c_uint32),
    "cancel": (_HANDLE, ctypes.POINTER(ctypes.c_int32)),
    "result": (_HANDLE, _TEXT, _SIZE, _TO_SIZE),
    "operation_free": (_HANDLE,),
    "create_table_begin": (_HANDLE, _TEXT, _SIZE, _TO_HANDLE),
    "open_table_begin": (_HANDLE, _TEXT, _SIZE, _TO_HANDLE),
    "table_id": (_TEXT, _SIZE, ctypes.POINTER(ctypes.c_uint32)),
    "keys_create": (_HANDLE, ctypes.c_void_p, _SIZE, _TO_HANDLE, _TO_SIZE),
    "keys_read": (_HANDLE, ctypes.c_void_p, _SIZE, ctypes.c_void_p, _SIZE),
    "keys_sum": (_HANDLE, ctypes.c_void_p, _SIZE, _SIZE, ctypes.c_void_p, _SIZE),
    "keys_free": (_HANDLE,),
    "hash_texts": (_TEXT, _SIZE, ctypes.c_void_p, _SIZE, ctypes.c_uint64,
                   ctypes.c_void_p),
    "pull_begin": (_HANDLE, ctypes.POINTER(CPull), _SIZE, _TO_HANDLE),
    "pull": (_HANDLE, ctypes.POINTER(CPull), _SIZE, ctypes.c_uint32, _TO_HANDLE),
    "pull_dense_begin": (_HANDLE, ctypes.c_uint32, ctypes.c_void_p, _SIZE,
                         _TO_HANDLE),
    "step_create": (_HANDLE, ctypes.c_uint64, _TO_HANDLE),
    "step_add": (_HANDLE, ctypes.POINTER(CSparsePush)),
    "step_add_dense": (_HANDLE, ctypes.POINTER(CDensePush)),
    "step_push_begin": (_HANDLE, _TO_HANDLE),
    "step_push": (_HANDLE, ctypes.c_uint32, _TO_HANDLE),
    "step_free": (_HANDLE,),
    "lease_begin": (_HANDLE, _TEXT, _SIZE, _TO_HANDLE),
    "rounds_begin": (_HANDLE, ctypes.c_int32, _TO_HANDLE),
    "barrier_begin": (_HANDLE, _TEXT, _SIZE, _TO_HANDLE),
    "evaluation_add": (_HANDLE, _TEXT, _SIZE, ctypes.c_uint32, ctypes.c_void_p,
                       ctypes.c_void_p, _SIZE),
    "evaluation_sum_begin": (_HANDLE, _TEXT, _SIZE, ctypes.c_uint32, _TO_HANDLE),
    "call_begin": (_HANDLE, ctypes.c_uint32, _TEXT, _SIZE, _TEXT, _SIZE,
                   _TO_HANDLE),
    "features_create": (_TEXT, _SIZE, _TO_HANDLE),
    "features_resolve": (_HANDLE, ctypes.c_void_p, _TEXT, _SIZE, _TO_SIZE),
    "features_bind": (_HANDLE, ctypes.c_void_p),
    "features_prepare": (_HANDLE, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)),
    "features_write": (_HANDLE, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64),
    "features_free": (_HANDLE,),
    "sum_create": (_TO_HANDLE,),
    "sum_add": (_HANDLE, ctypes.c_void_p, _SIZE),
    "sum_value": (_HANDLE, ctypes.POINTER(ctypes.c_uint64)),
    "sum_free": (_HANDLE,),
    "role": (_TEXT, _SIZE, _TO_SIZE),
    "log_read": (_TEXT, _SIZE, _TO_SIZE, ctypes.POINTER(ctypes.c_int32)),
    "keep_memory": (),
}


def _check_names(library: ctypes.CDLL, path: str) -> None:
    """Raises where the library's calls of gRPC reach another copy than its own: two
    copies that register in one place hang in the first call, or crash."""
    # As the loader looks: what was loaded with RTLD_GLOBAL before comes first.
    process = ctypes.CDLL(None)
    if not hasattr(library, "grpc_init") or not hasattr(process, "grpc_init"):
        return
    own, reached = (ctypes.cast(each.grpc_init, ctypes.c_void_p).value
                    for each in (library, process))
    if own != reached:
        raise errors.FailedPreconditionError(
            f"this process has another gRPC than that of {path}, loaded with "
            "RTLD_GLOBAL, which replaces it; load it without RTLD_GLOBAL, or use "
            "oarlock first: oarlock.connect(), oarlock.join()")


class Library:
    """liboarlock, loaded. Each method returns a code and fills an error."""

    def __init__(self) -> None:
        place = _find.library()
        try:
            # RTLD_LOCAL; never unloaded.
            self._library = ctypes.CDLL(place.path)
        except OSError as failure:
            raise errors.NotFoundError(
                f"liboarlock.so.1 is not there ({failure}); looked at "
                f"{place.path}, {place.why}; {_find.WHAT_TO_DO}") from None
        _check_names(self._library, place.path)
        abi = self._library.oarlock_abi_version()
        if abi != _ABI_VERSION:
            raise errors.FailedPreconditionError(
                f"{place.path} has interface {abi}, this package wants "
                f"{_ABI_VERSION}; {_find.WHAT_TO_DO}")
        self._library.oarlock_version.restype = ctypes.c_char_p
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._library, "oarlock_" + name, None)
            if function is None:
                raise errors.FailedPreconditionError(
                    f"{place.path} is older than this package: it lacks "
                    f"oarlock_{name}; {_find.WHAT_TO_DO}")
            function.restype = ctypes.c_int32
            function.argtypes = arguments + (_ERROR,)
            setattr(self, name, function)

    def version(self) -> str:
        """The library's version."""
        return str(self._library.oarlock_version().decode())

    def __getattr__(self, name: str) -> Callable[..., int]:
        raise AttributeError(name)


_lock = threading.Lock()
_loaded: Optional[Library] = None


def library() -> Library:
    """The library, loaded by the first call."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = Library()
    return _loaded


class _Errors(threading.local):
    """An error for each thread, used again and again."""

    def __init__(self) -> None:
        self.error = CError()
        self.reference = ctypes.byref(self.error)


_errors = _Errors()


def call(function: Callable[..., int], *arguments: Any) -> None:
    """Calls a function of the library; raises what it refuses."""
    code = function(*arguments, _errors.reference)
    if code != OK:
        raise error_of(code)


def error_of(code: int) -> errors.Error:
    """What this thread's last call() or its like has refused with this code."""
    # A fork, or an interpreter that ends, may leave no text.
    text: bytes = _errors.error.message
    return errors.from_code(code, text.decode(errors="replace"))


def error_reference() -> Any:
    """Where this thread's calls describe what they refuse."""
    return _errors.reference


def address_of(array: Any) -> int:
    """Where an array's data lies."""
    address: int = array.__array_interface__["data"][0]
    return address


def text_of(function: Callable[..., int], *arguments: Any) -> str:
    """Calls a function that copies text to a buffer."""
    error = CError()
    size = ctypes.c_size_t(4096)
    while True:
        buffer = ctypes.create_string_buffer(size.value)
        code = function(*arguments, buffer, size.value, ctypes.byref(size),
                        ctypes.byref(error))
        if code == OK:
            return buffer.raw[:size.value].decode()
        if code != TOO_SMALL:
            raise errors.from_code(code, error.message.decode(errors="replace"))


def to_json(message: Dict[str, Any]) -> bytes:
    """JSON of a message, for the library. Numbers of numpy count as Python's."""
    return json.dumps(_plain(message, "")).encode()


def _plain(value: Any, name: str) -> Any:
    """A value as json takes it. `name` is said where that cannot be."""
    if isinstance(value, dict):
        return {str(key): _plain(each, f"{name}.{key}" if name else str(key))
                for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, name) for each in value]
    if value is None or isinstance(value, (bool, str, int)):
        return value
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        return _plain(item(), name)
    if not isinstance(value, float):
        raise errors.InvalidArgumentError(
            f"{name} is {value!r}, of type {type(value).__name__}; legal are numbers, "
            "text, lists and dicts")
    if not math.isfinite(value):
        raise errors.InvalidArgumentError(f"{name} is {value}; legal are finite numbers")
    return value


def role() -> Dict[str, Any]:
    """What the environment says of this process."""
    described: Dict[str, Any] = json.loads(text_of(library().role))
    return described


def environment_of_child() -> Dict[str, str]:
    """The environment without what gives a process a role in a job."""
    return dict(os.environ)
