"""Tables, and the rows that a pull returns."""

import ctypes
from typing import (TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple,
                    Union)

import numpy as np

from oarlock import _library, _operation, errors

if TYPE_CHECKING:
    import numpy.typing as npt

    from oarlock.job import Job

    Keys = Any
    Floats = npt.NDArray[np.float32]


_FLOAT32 = np.dtype(np.float32)
_UINT64 = np.dtype(np.uint64)


def key_array(keys: Any, padding: Optional[int] = None
              ) -> "Tuple[npt.NDArray[np.uint64], Tuple[int, ...], Any]":
    """Keys as the servers know them.

    Args:
        keys: an array of any integers and of any shape; signed ones are extended to
            64 bits. Or texts: their keys are XXH64 of their UTF-8 bytes, seed 0.
        padding: an integer that stands for no key.

    Returns:
        The keys without padding, [n] uint64; the shape of `keys`; and where they
        stand in it, [size] bool, None without padding.

    Raises:
        InvalidArgumentError: keys of floats; -1 that is not `padding`.
    """
    if (padding is None and type(keys) is np.ndarray and keys.dtype == _UINT64
            and keys.flags.c_contiguous):
        return keys.reshape(-1), keys.shape, None
    array = np.asarray(keys)
    if array.dtype.kind in "iu":
        flat = array.reshape(-1)
        there = None
        if padding is not None:
            there = flat != padding
            if there.all():
                there = None
            else:
                flat = flat[there]
        elif array.dtype.kind == "i" and flat.size and (flat == -1).any():
            raise errors.InvalidArgumentError(
                "keys have -1, which often stands for no key; give padding=-1 if "
                "it does, or unsigned keys if it is one")
        if array.dtype.kind == "i":
            flat = flat.astype(np.int64, copy=False).view(np.uint64)
        return (np.ascontiguousarray(flat.astype(np.uint64, copy=False)),
                array.shape, there)
    if array.dtype.kind in "USO" and padding is None:
        return hash_texts(array.reshape(-1).tolist()), array.shape, None
    raise errors.InvalidArgumentError(
        f"keys are of type {array.dtype}; legal are integers, and texts without "
        "padding: convert floats, which cannot tell large integers apart")


def hash_texts(texts: Sequence[Union[str, bytes]],
               seed: int = 0) -> "npt.NDArray[np.uint64]":
    """Makes keys of texts: XXH64 of each text's UTF-8 bytes.

    Args:
        texts: str, or bytes as they are.
        seed: of XXH64, 0 to 2^64 - 1. Table.pull hashes texts with seed 0.

    Returns:
        [len(texts)] uint64.

    Raises:
        InvalidArgumentError: a text is neither.
    """
    pieces = []
    for text in texts:
        if isinstance(text, str):
            pieces.append(text.encode())
        elif isinstance(text, bytes):
            pieces.append(text)
        else:
            raise errors.InvalidArgumentError(
                f"a key is {text!r}, of type {type(text).__name__}; legal are "
                "integers, str and bytes")
    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    joined = b"".join(pieces)
    keys = np.empty(len(pieces), np.uint64)
    _library.call(_library.library().hash_texts, joined, len(joined),
                  _library.address_of(offsets), len(pieces), seed,
                  _library.address_of(keys))
    return keys


class Rows:
    """Rows of a table, pulled for a batch of keys.

    Made by Table.pull and Job.pull.

    Attributes:
        table: whose rows they are.
        values: [distinct, dim] float32, a row for each distinct key.
        shape: of the keys that were given.
    """

    __slots__ = ("_distinct", "_handle", "_inverse", "_num_distinct", "_num_keys",
                 "_there", "__weakref__", "shape", "table", "values")

    def __init__(self, table: "Table", keys: Any, padding: Optional[int],
                 out: "Optional[Floats]") -> None:
        self.table = table
        flat, self.shape, self._there = key_array(keys, padding)
        self._num_keys = flat.size
        # The library writes here: Ctrl-C may come as soon as it has.
        self._handle = ctypes.c_uint64()
        distinct = ctypes.c_size_t()
        _library.call(_library.library().keys_create, table.job._handle,
                      _library.address_of(flat), flat.size,
                      ctypes.byref(self._handle), ctypes.byref(distinct))
        self._num_distinct = distinct.value
        shape = (self._num_distinct, table.dim)
        if out is None:
            out = np.empty(shape, np.float32)
        elif (out.dtype != _FLOAT32 or out.ndim != 2 or out.shape[1] != table.dim
              or out.shape[0] < shape[0] or not out.flags.carray):
            raise errors.InvalidArgumentError(
                f"out is {out.dtype} {out.shape}; legal is a writable, contiguous "
                f"float32 array of at least {shape}")
        self.values: "Floats" = out[:shape[0]]
        self._inverse: "Optional[npt.NDArray[np.int32]]" = None
        self._distinct: "Optional[npt.NDArray[np.uint64]]" = None

    @property
    def inverse(self) -> "npt.NDArray[np.int32]":
        """In the keys' shape: the row in `values` of each key; -1 for padding."""
        if self._inverse is None:
            found = np.empty(self._num_keys, np.int32)
            _library.call(_library.library().keys_read, self._handle, None, 0,
                          _library.address_of(found), found.size)
            if self._there is not None:
                every = np.full(self._there.size, -1, np.int32)
                every[self._there] = found
                found = every
            self._inverse = found.reshape(self.shape)
        return self._inverse

    @property
    def keys(self) -> "npt.NDArray[np.uint64]":
        """[distinct] uint64: the key of each row of `values`."""
        if self._distinct is None:
            self._distinct = np.empty(self._num_distinct, np.uint64)
            _library.call(_library.library().keys_read, self._handle,
                          _library.address_of(self._distinct),
                          self._distinct.size, None, 0)
        return self._distinct

    def gather(self) -> "Floats":
        """[*shape, dim] float32: the row of each key; zeros for padding."""
        if self._there is None:
            return self.values[self.inverse]
        result = np.zeros((*self.shape, self.table.dim), np.float32)
        there = self.inverse >= 0
        result[there] = self.values[self.inverse[there]]
        return result

    def scatter_add(self, gradients: Any) -> "Floats":
        """Sums gradients of the keys to gradients of the rows.

        Args:
            gradients: [*shape, dim], one for each key that was given.

        Returns:
            [distinct, dim] float32, as Step.push wants it. Summed in the order of
            the keys, so that the same batch gives the same bits.

        Raises:
            InvalidArgumentError: gradients of another number of keys.
        """
        flat = np.asarray(gradients, np.float32).reshape(-1, self.table.dim)
        num_keys = int(np.prod(self.shape))
        if flat.shape[0] != num_keys:
            raise errors.InvalidArgumentError(
                f"gradients of {flat.shape[0]} keys; {num_keys} keys were pulled")
        if self._there is not None:
            flat = flat[self._there]
        flat = np.ascontiguousarray(flat)
        sums = np.empty((self._num_distinct, self.table.dim), np.float32)
        _library.call(_library.library().keys_sum, self._handle,
                      _library.address_of(flat), flat.shape[0], self.table.dim,
                      _library.address_of(sums), sums.shape[0])
        return sums

    def __del__(self) -> None:
        try:
            _library.library().keys_free(self._handle, None)
        except Exception:  # The interpreter ends, or __init__ has failed.
            pass

    def _c_pull(self) -> _library.CPull:
        return _library.CPull(self.table.id, 0, self._handle,
                              _library.address_of(self.values), self.values.size)

    def __len__(self) -> int:
        """The number of distinct keys, without padding."""
        return self._num_distinct

    def __repr__(self) -> str:
        return (f"<oarlock.Rows of '{self.table.name}', {self._num_distinct} "
                f"distinct of {self._num_keys} keys>")

    def __reduce__(self) -> Any:
        raise TypeError("oarlock.Rows cannot be pickled; send keys and values")


class _AnyTable:
    """What sparse and dense tables have in common.

    Attributes:
        job: whose table it is.
        config: what the servers have: JSON of TableConfig, 64-bit integers as text.
        id: its number; of a table that a Job has created, it follows from the name.
        name: unique in the job.
        mode: "async" or "sync".
    """

    def __init__(self, job: "Job", config: Dict[str, Any]) -> None:
        self.job = job
        self.config = config
        self.id = int(config["id"])
        self.name: str = config["name"]
        self.mode = str(config["mode"]).lower()

    def __reduce__(self) -> Any:
        raise TypeError("an Oarlock table cannot be pickled; send its name, and "
                        "open it with job.table(name)")


class Table(_AnyTable):
    """Rows of `dim` floats under unbounded 64-bit keys.

    Made by Job.create_table and Job.table.

    Attributes:
        dim: floats of a row.
    """

    def __init__(self, job: "Job", config: Dict[str, Any]) -> None:
        super().__init__(job, config)
        self.dim = int(config["sparse"]["dim"])

    def pull(self, keys: Any, *, padding: Optional[int] = None,
             out: "Optional[Floats]" = None,
             timeout: Optional[float] = None) -> Rows:
        """Pulls the rows of a batch.

        Args:
            keys: integers of any width and shape, or texts. Duplicates are found
                once, here; Step.push uses what was found.
            padding: an integer that stands for no key: its row is zeros, and it
                takes no gradient.
            out: [at least distinct, dim] float32, contiguous, where the values are
                written; None: a new array.
            timeout: seconds; None: as long as it takes.

        Returns:
            Rows. A key without a row has its initial value, and gets no row.

        Raises:
            InvalidArgumentError: keys of floats, or -1 without `padding`; another
                `out`.
            TimeoutError: not within `timeout`.
            UnavailableError: a server stayed away for longer than the job waits.
            DataLossError: a server came back without pushes that it had acknowledged.
        """
        rows = Rows(self, keys, padding, out)
        _operation.run_at_once(_library.library().pull, self.job._handle,
                               ctypes.byref(rows._c_pull()), 1, arrays=rows,
                               timeout=timeout)
        return rows

    def pull_async(self, keys: Any, *, padding: Optional[int] = None,
                   out: "Optional[Floats]" = None) -> "_operation.Future[Rows]":
        """As pull(), but returns at once: a Future of Rows.

        Args:
            keys, padding, out: as of pull(). `out` is the operation's until its end.
        """
        rows = Rows(self, keys, padding, out)
        return _operation.Future(_begin_pull(self.job, [rows]), lambda: rows,
                                 self.job._events)

    def __repr__(self) -> str:
        return f"<oarlock.Table '{self.name}', dim {self.dim}>"


def _begin_pull(job: "Job", rows: List[Rows]) -> _operation.Operation:
    """One message to each server for all of them."""
    pulls = (_library.CPull * len(rows))(*[each._c_pull() for each in rows])
    return _operation.begin(_library.library().pull_begin, job._handle, pulls,
                            len(rows), arrays=rows)


def pull_rows(job: "Job", pulls: "Sequence[Tuple[Table, Any]]",
              padding: Optional[int]) -> "_operation.Future[List[Rows]]":
    """Job.pull_async."""
    rows = [Rows(table, keys, padding, None) for table, keys in pulls]
    return _operation.Future(_begin_pull(job, rows), lambda: rows, job._events)


class DenseTable(_AnyTable):
    """Named parameters that are pulled and pushed as a whole.

    Made by Job.create_dense and Job.table.

    Attributes:
        size: floats of all parameters.
        parameters: {name: (offset, shape)}, where each lies in an array [size].
    """

    def __init__(self, job: "Job", config: Dict[str, Any]) -> None:
        super().__init__(job, config)
        dense = config["dense"]
        self.size = int(dense["size"])
        self.parameters: Dict[str, Tuple[int, Tuple[int, ...]]] = {
            each["name"]: (int(each["offset"]),
                           tuple(int(n) for n in each["shape"]))
            for each in dense["parameters"]
        }

    def pull(self, *, timeout: Optional[float] = None) -> "Dict[str, Floats]":
        """Pulls the parameters, by name.

        Args:
            timeout: seconds; None: as long as it takes.

        Returns:
            {name: array of its shape}, float32. They are views of one array [size].

        Raises:
            TimeoutError: not within `timeout`.
            UnavailableError, DataLossError: as of Table.pull.
        """
        return self.pull_async().result(timeout)

    def pull_async(self) -> "_operation.Future[Dict[str, Floats]]":
        """As pull(), but returns at once."""
        values = np.empty(self.size, np.float32)
        operation = _operation.begin(_library.library().pull_dense_begin,
                                     self.job._handle, self.id,
                                     _library.address_of(values), values.size, arrays=values)
        return _operation.Future(operation, lambda: self.split(values),
                                 self.job._events)

    def split(self, values: "Floats") -> "Dict[str, Floats]":
        """The parameters by name, as views of one array.

        Args:
            values: [size] float32.
        """
        return {name: values[offset:offset + int(np.prod(shape))].reshape(shape)
                for name, (offset, shape) in self.parameters.items()}

    def join(self, parameters: Dict[str, Any]) -> "Floats":
        """The opposite of split(): one array of the parameters by name.

        Args:
            parameters: {name: array of its shape}; those left out are 0.

        Returns:
            [size] float32, a new array.

        Raises:
            NotFoundError: the table has no parameter of that name.
            InvalidArgumentError: another shape.
        """
        values = np.zeros(self.size, np.float32)
        views = self.split(values)
        for name, value in parameters.items():
            if name not in views:
                raise errors.NotFoundError(
                    f"table '{self.name}' has no parameter '{name}'; it has "
                    f"{', '.join(views)}")
            array = np.asarray(value, np.float32)
            if array.shape != views[name].shape:
                raise errors.InvalidArgumentError(
                    f"parameter '{name}' is {views[name].shape}, and this is "
                    f"{array.shape}")
            views[name][...] = array
        return values

    def __repr__(self) -> str:
        return f"<oarlock.DenseTable '{self.name}', {self.size} floats>"
