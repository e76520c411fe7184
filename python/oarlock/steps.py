"""Parts of works, and the steps that push their gradients."""

import ctypes
import types
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Type

import numpy as np

from oarlock import _library, _operation, errors, tables

if TYPE_CHECKING:
    import numpy.typing as npt

    from oarlock.job import Job


class Part:
    """A part of a work, leased to this worker: examples `begin` to `end` - 1.

    Made by Job.lease.

    Attributes:
        begin, end: the examples. Where `repairs`, the first and the last one of
            `ranges`, between which some may be missing.
        ranges: [(begin, end), ...].
        repairs: a dead worker has pushed a part of these examples' gradients. The
            step must bring the same keys: those of exactly these examples.
    """

    def __init__(self, leased: Dict[str, Any]) -> None:
        self._lease = int(leased["lease"])
        self.ranges: List[Tuple[int, int]] = [
            (int(each["begin"]), int(each["end"])) for each in leased["ranges"]]
        self.begin = self.ranges[0][0]
        self.end = self.ranges[-1][1]
        self.repairs = bool(leased["repairs"])
        self._stepped = False

    def __len__(self) -> int:
        """The number of examples."""
        return sum(end - begin for begin, end in self.ranges)

    @property
    def indices(self) -> "npt.NDArray[np.int64]":
        """[len(part)] int64: the number of each example."""
        return np.concatenate([np.arange(*each) for each in self.ranges])

    def __repr__(self) -> str:
        return f"<oarlock.Part {self.ranges}{' repairs' if self.repairs else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError("an oarlock.Part is leased to this process alone; send its "
                        "ranges")


_FLOAT32 = np.dtype(np.float32)


def _floats(value: Any, shape: Tuple[int, ...], name: str) -> Any:
    """The value as contiguous float32 of that shape."""
    result = (value if type(value) is np.ndarray and value.dtype == _FLOAT32
              and value.flags.c_contiguous else np.ascontiguousarray(value, np.float32))
    if result.shape != shape:
        raise errors.InvalidArgumentError(
            f"{name} are {result.shape}; {shape} is wanted, a row for each distinct "
            "key: see Rows.scatter_add")
    return result


class Step:
    """One push: gradients of any tables, under one name. A context manager.

    Made by Job.step. Leaving the block pushes, and waits until all servers have
    answered; leaving it by an exception pushes nothing of what was added, and the
    examples of its part count as trained.

    Attributes:
        job: whose servers it is pushed to.
        part: whose examples' gradients it has, or None.
    """

    __slots__ = ("_handle", "__weakref__", "job", "part")

    def __init__(self, job: "Job", part: Optional[Part]) -> None:
        self.job = job
        self.part = part
        # The library writes here: Ctrl-C may come as soon as it has.
        self._handle = ctypes.c_uint64()
        _library.call(_library.library().step_create, job._handle,
                      0 if part is None else part._lease,
                      ctypes.byref(self._handle))

    def push(self, rows: tables.Rows, gradients: Any, *, shows: Any = None,
             clicks: Any = None) -> None:
        """Adds gradients of rows, which are copied before this returns.

        Args:
            rows: what Table.pull returned.
            gradients: [distinct, dim] float32, as Rows.scatter_add returns it.
            shows, clicks: [distinct] each, added to the rows' statistics (`Ctr`);
                None: none.

        Raises:
            InvalidArgumentError: another shape, or the table twice in a step. What is
                not finite is refused when the step is pushed.
            FailedPreconditionError: the step was pushed before.
        """
        self._check_not_pushed()
        distinct = len(rows)
        floats = _floats(gradients, (distinct, rows.table.dim), "gradients")
        push = _library.CSparsePush(rows.table.id, 0, rows._handle,
                                    _library.address_of(floats), floats.size)
        if shows is not None:
            shows = _floats(shows, (distinct,), "shows")
            push.shows = _library.address_of(shows)
        if clicks is not None:
            clicks = _floats(clicks, (distinct,), "clicks")
            push.clicks = _library.address_of(clicks)
        _library.call(_library.library().step_add, self._handle,
                      ctypes.byref(push))

    def push_dense(self, table: tables.DenseTable, gradients: Any) -> None:
        """Adds gradients of dense parameters, which are copied.

        Args:
            table: whose parameters they are.
            gradients: {name: array}; those left out are 0. Or [size] float32.

        Raises:
            NotFoundError, InvalidArgumentError, FailedPreconditionError: as of
                DenseTable.join and push().
        """
        self._check_not_pushed()
        floats = (table.join(gradients) if isinstance(gradients, dict)
                  else np.ascontiguousarray(gradients, np.float32))
        push = _library.CDensePush(table.id, 0, _library.address_of(floats), floats.size)
        _library.call(_library.library().step_add_dense, self._handle,
                      ctypes.byref(push))

    def begin(self) -> "_operation.Future[None]":
        """Pushes without waiting for the responses. Once; instead of leaving a block.

        Raises:
            FailedPreconditionError: the step or its part was pushed before; or a
                reader pushes, or in sync mode a worker that is in no rounds.
        """
        self._check_not_pushed()
        if self.part is not None:
            self.part._stepped = True
        try:
            operation = _operation.begin(_library.library().step_push_begin,
                                         self._handle)
        except BaseException:
            self._free()
            raise
        self._handle.value = 0  # The library has freed it.
        return _operation.Future(operation, lambda: None, self.job._events)

    def _push(self, timeout: Optional[float] = None) -> None:
        """As begin().result(timeout)."""
        self._check_not_pushed()
        if self.part is not None:
            self.part._stepped = True
        try:
            _operation.run_at_once(_library.library().step_push, self._handle,
                                   timeout=timeout)
        except BaseException:
            self._free()
            raise
        self._handle.value = 0  # The library has freed it.

    def _check_not_pushed(self) -> None:
        if not self._handle.value:
            raise errors.FailedPreconditionError(
                "the step was pushed before, or its block was left by an exception; "
                "begin another one")

    def _free(self) -> None:
        if self._handle.value:
            _library.library().step_free(self._handle, None)
            self._handle.value = 0

    def __enter__(self) -> "Step":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]],
                 error: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        if kind is None:
            if self._handle.value:
                self._push()
            return
        self._free()
        if self.part is not None and not self.part._stepped:
            # The part is done with: nobody trains it again.
            try:
                Step(self.job, self.part)._push(timeout=5)
            except Exception:  # The first error is the one to tell.
                pass

    def __del__(self) -> None:
        try:
            self._free()
        except Exception:  # The interpreter ends, or __init__ has failed.
            pass

    def __reduce__(self) -> Any:
        raise TypeError("an oarlock.Step cannot be pickled")
