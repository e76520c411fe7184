"""Data in memory, as files that the engine reads."""

import importlib
import os
import shutil
import types
from collections.abc import Mapping
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Type

from oarlock import errors

# Rows of a group, which a worker leases as a whole.
GROUP_ROWS = 65536
_MB = 1 << 20


def is_paths(value: Any) -> bool:
    """Whether it names files, and is no data in memory."""
    if isinstance(value, (list, tuple)):
        return all(isinstance(each, (str, os.PathLike)) for each in value)
    return isinstance(value, (str, os.PathLike))


class Scratch:
    """A folder for data in memory, and how much it may hold.

    Attributes:
        folder: it is made when something is written.
    """

    def __init__(self, folder: str, limit_mb: int) -> None:
        self.folder = folder
        self._limit_mb = limit_mb
        self._used = 0

    def paths(self, what: str, value: Any) -> List[str]:
        """Paths that the engine reads for `value`, which is written if it is no path.

        Args:
            what: the name of the argument, for errors and for the file.
            value: a path, pattern or URL, a list of them, or data in memory.
        """
        if isinstance(value, (list, tuple)) and not value:
            raise errors.InvalidArgumentError(
                f"{what} is an empty list; give paths, or data in memory")
        if not is_paths(value):
            return [self._write(what, value)]
        return [_path(what, each) for each in
                (value if isinstance(value, (list, tuple)) else [value])]

    def _write(self, what: str, value: Any) -> str:
        pa = _pyarrow()
        self._check_room(what, _known_bytes(value))
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, f"{what}.parquet")
        try:
            self._write_groups(what, _groups(what, value), path)
        except pa.ArrowException as failure:
            raise errors.InvalidArgumentError(
                f"{what} cannot be written as columns: {_one_line(failure)}") from None
        return path

    def _write_groups(self, what: str, groups: Iterator[Any], path: str) -> None:
        written = 0
        with _File(what, path) as file:
            for group in groups:
                # A group in memory is larger than in the file.
                self._check_limit(what, written + group.nbytes)
                written = file.write(group)
        if not written:
            raise errors.InvalidArgumentError(
                f"{what} is an iterable without an element; its first one says which "
                "columns there are")
        self._used += written

    def _check_limit(self, what: str, size: int) -> None:
        if self._used + size > self._limit_mb * _MB:
            raise errors.ResourceExhaustedError(
                f"{what} in memory takes more than scratch_mb={self._limit_mb} of "
                f"{os.path.dirname(self.folder)}; give a larger one, or write Parquet "
                "files and give their paths")

    def _check_room(self, what: str, known: int) -> None:
        """Before a byte is written, of data that says how large it is."""
        self._check_limit(what, known)
        parent = os.path.dirname(self.folder)
        free = shutil.disk_usage(parent).free
        if known > free:
            raise errors.ResourceExhaustedError(
                f"{what} has {known // _MB} MB, and {parent} has room for "
                f"{free // _MB}; name another folder by TMPDIR")


class _File:
    """A file of Parquet that is written. A context manager."""

    def __init__(self, what: str, path: str) -> None:
        self._what, self._path = what, path
        self._file: Any = None
        self._writer: Any = None

    def __enter__(self) -> "_File":
        self._file = self._call(lambda: open(self._path, "wb"))
        return self

    def write(self, group: Any) -> int:
        """Writes a table as a group; returns the bytes of the file until now."""
        if self._writer is None:
            parquet = _pyarrow("pyarrow.parquet")
            self._writer = parquet.ParquetWriter(self._file, group.schema)
        self._call(lambda: self._writer.write_table(group, row_group_size=GROUP_ROWS))
        return int(self._file.tell())

    def __exit__(self, kind: Optional[Type[BaseException]],
                 error: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        try:
            if self._writer is not None:
                self._call(self._writer.close)
        finally:
            self._file.close()

    def _call(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except OSError as failure:
            raise errors.ResourceExhaustedError(
                f"{self._what} cannot be written to {self._path}: "
                f"{failure.strerror or failure}; free some room, or name another "
                "folder by TMPDIR") from None


def _pyarrow(module: str = "pyarrow") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise errors.NotFoundError(
            "data in memory is written with pyarrow, which is not installed; pip "
            "install pyarrow, or give files") from None


def _path(what: str, value: Any) -> str:
    path = os.fspath(value)
    if not isinstance(path, str) or not path:
        raise errors.InvalidArgumentError(
            f"{what} has the path {path!r}; legal is text that names files")
    return path


def _one_line(failure: BaseException) -> str:
    return " ".join(str(failure).split())[:500]


def _known_bytes(value: Any) -> int:
    """Of its arrays, where they say it."""
    if isinstance(value, Mapping):
        return sum(_known_bytes(each) for each in value.values())
    size = getattr(value, "nbytes", 0)
    return size if isinstance(size, int) else 0


def _column(values: Any) -> Any:
    """A column of a dict; each row of a matrix is a list."""
    pa = _pyarrow()
    if getattr(values, "ndim", 1) != 2:
        return values
    rows, length = values.shape
    offsets = pa.array(range(0, rows * length + 1, length) if length
                       else [0] * (rows + 1), pa.int64())
    return pa.LargeListArray.from_arrays(offsets, pa.array(values.reshape(-1)))


def _batches(value: Any) -> Any:
    """Record batches of one value; None: it is no table."""
    pa = _pyarrow()
    if hasattr(value, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(value)
    if hasattr(value, "__arrow_c_array__"):
        batch = pa.record_batch(value)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    if isinstance(value, Mapping):
        columns: Dict[str, Any] = {name: _column(each) for name, each in value.items()}
        try:
            return pa.table(columns).to_reader()
        except TypeError as failure:
            raise errors.InvalidArgumentError(
                f"a dict has something that is no array: {_one_line(failure)}"
            ) from None
    return None


def _tables(what: str, value: Any) -> Iterator[Any]:
    """Tables of all of the data, all with the columns of the first one."""
    pa = _pyarrow()
    whole = _batches(value)
    if whole is not None:
        # One without a row has a schema, too.
        yield whole.schema.empty_table()
        for batch in whole:
            yield pa.Table.from_batches([batch])
        return
    if isinstance(value, (bytes, bytearray)) or not isinstance(value, Iterable):
        raise errors.InvalidArgumentError(
            f"{what} is of type {type(value).__name__}; legal are paths, what has "
            "__arrow_c_stream__ (a table of pyarrow or polars, a frame of pandas 2.2), "
            "a dict of arrays, or an iterable of these")
    schema: Any = None
    for number, each in enumerate(value):
        reader = _batches(each)
        if reader is None:
            raise errors.InvalidArgumentError(
                f"element {number} of {what} is of type {type(each).__name__}; legal "
                "are what has __arrow_c_stream__, and a dict of arrays")
        if schema is None:
            schema = reader.schema
            yield schema.empty_table()
        for batch in reader:
            table = pa.Table.from_batches([batch])
            if table.schema != schema:
                try:
                    table = table.select(schema.names).cast(schema)
                except (pa.ArrowException, KeyError, ValueError) as failure:
                    raise errors.InvalidArgumentError(
                        f"element {number} of {what} has other columns than the first "
                        f"one: {_one_line(failure)}") from None
            yield table


def _groups(what: str, value: Any) -> Iterator[Any]:
    """The same in tables of GROUP_ROWS rows, but for the last one."""
    pa = _pyarrow()
    pending: List[Any] = []
    rows = 0
    empty: Any = None
    for table in _tables(what, value):
        if empty is None:
            empty = table.schema.empty_table()
        begin = 0
        while begin < table.num_rows:
            piece = table.slice(begin, GROUP_ROWS - rows)
            pending.append(piece)
            rows += piece.num_rows
            begin += piece.num_rows
            if rows == GROUP_ROWS:
                yield pa.concat_tables(pending)
                pending, rows = [], 0
    if pending:
        yield pa.concat_tables(pending)
    elif empty is not None:
        yield empty
