"""Columnar files: which there are, and their row groups. On the disk, or in a store."""

import fnmatch
import importlib
import os
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from oarlock import errors

_WANT_PYARROW = ("columnar files are read with pyarrow, which is not installed; install "
                 "it: pip install pyarrow")


def _pyarrow(module: str = "pyarrow") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise errors.FailedPreconditionError(_WANT_PYARROW) from None


class File:
    """A Parquet file.

    Attributes:
        schema: of all of its columns.
        group_rows: rows of each row group.
    """

    def __init__(self, path: str, filesystem: Any, inner: str) -> None:
        self._path = path
        info = filesystem.get_file_info(inner)
        self._bytes = info.size
        self._mark = str(info.mtime_ns)
        try:
            self._file = _pyarrow("pyarrow.parquet").ParquetFile(
                filesystem.open_input_file(inner), pre_buffer=True)
        except (_pyarrow().ArrowInvalid, _pyarrow().ArrowException) as error:
            raise errors.InvalidArgumentError(
                f"'{path}' is no Parquet file: {_first_line(error)}") from None
        self._metadata = self._file.metadata
        self.schema = self._file.schema_arrow
        self.group_rows = [self._metadata.row_group(i).num_rows
                           for i in range(self._metadata.num_row_groups)]

    def described(self) -> Dict[str, Any]:
        """JSON of ListedFile."""
        return {"path": self._path, "bytes": self._bytes, "mark": self._mark,
                "group_rows": self.group_rows}

    def check(self, listed: Dict[str, Any]) -> None:
        """Raises where it is not the file that was listed."""
        rows = [int(each) for each in listed.get("groupRows", [])]
        if (int(listed.get("bytes", 0)), listed.get("mark", ""), rows) != (
                self._bytes, self._mark, self.group_rows):
            raise errors.FailedPreconditionError(
                f"'{self._path}' has changed since it was listed: it had "
                f"{listed.get('bytes', 0)} bytes and {sum(rows)} rows, and has "
                f"{self._bytes} and {sum(self.group_rows)}; write new files under new "
                "names")

    def batches(self, group: int, columns: Set[str], batch_rows: int,
                memory_bytes: int) -> Iterator[Any]:
        """The record batches of a row group, of the columns that are named."""
        leaves, size = self._leaves(group, columns)
        if size <= memory_bytes:
            table = self._file.read_row_group(group, columns=leaves)
            yield from table.to_batches(max_chunksize=batch_rows)
            return
        yield from self._file.iter_batches(batch_rows, row_groups=[group],
                                           columns=leaves, use_threads=False)

    def _leaves(self, group: int, columns: Set[str]) -> Tuple[List[str], int]:
        """Paths of the columns in the file, and what they take in memory, about."""
        described = self._metadata.row_group(group)
        wanted = {column.split(".")[0] for column in columns}
        leaves, size = [], 0
        for i in range(described.num_columns):
            column = described.column(i)
            if (column.path_in_schema in columns
                    or column.path_in_schema.split(".")[0] in wanted):
                leaves.append(column.path_in_schema)
                size += column.total_uncompressed_size
        return leaves, size


class Files:
    """Opens files, and keeps the one that was opened last."""

    def __init__(self) -> None:
        self._last: Optional[Tuple[str, File]] = None

    def find(self, patterns: List[str]) -> List[str]:
        """Paths of the files that match, sorted, each once. A folder stands for the
        files in it and below, but for those that begin with _ or a dot."""
        found: Set[str] = set()
        for pattern in patterns:
            filesystem, inner, prefix = _filesystem_of(pattern)
            matches = [prefix + path for path in _matches(filesystem, inner)]
            if not matches:
                raise errors.NotFoundError(
                    f"'{pattern}' matches no file; check the name, and that this "
                    "machine sees it")
            found.update(matches)
        return sorted(found)

    def open(self, path: str) -> File:
        """The file at that path."""
        filesystem, inner, _ = _filesystem_of(path)
        self._last = None
        file = File(path, filesystem, inner)
        self._last = (path, file)
        return file


def _filesystem_of(path: str) -> Tuple[Any, str, str]:
    """The file system, the path in it, and what stands before that path."""
    fs = _pyarrow("pyarrow.fs")
    if "://" not in path:
        return fs.LocalFileSystem(), os.path.abspath(path), ""
    scheme, inner = path.split("://", 1)
    if scheme in ("s3", "gs", "file"):
        filesystem, inner = fs.FileSystem.from_uri(path)
        return filesystem, inner, f"{scheme}://"
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise errors.FailedPreconditionError(
            f"'{path}': stores of {scheme}:// are read with fsspec, which is not "
            "installed; install it: pip install fsspec") from None
    system, inner = fsspec.core.url_to_fs(path)
    return fs.PyFileSystem(fs.FSSpecHandler(system)), inner, f"{scheme}://"


def _matches(filesystem: Any, pattern: str) -> List[str]:
    fs = _pyarrow("pyarrow.fs")
    parts = pattern.split("/")
    literal = 0
    while literal < len(parts) and not any(mark in parts[literal] for mark in "*?["):
        literal += 1
    if literal == len(parts):
        info = filesystem.get_file_info(pattern)
        if info.type == fs.FileType.File:
            return [pattern]
        if info.type != fs.FileType.Directory:
            return []
        return _files_below(filesystem, pattern)
    found = ["/".join(parts[:literal])]
    for part in parts[literal:]:
        below = []
        for folder in found:
            selector = fs.FileSelector(folder or "/", allow_not_found=True)
            below += [info.path for info in filesystem.get_file_info(selector)
                      if fnmatch.fnmatchcase(info.base_name, part)]
        found = below
    matches = []
    for path in found:
        if filesystem.get_file_info(path).type == fs.FileType.Directory:
            matches += _files_below(filesystem, path)
        else:
            matches.append(path)
    return matches


def _files_below(filesystem: Any, folder: str) -> List[str]:
    fs = _pyarrow("pyarrow.fs")
    selector = fs.FileSelector(folder, recursive=True)
    return [info.path for info in filesystem.get_file_info(selector)
            if info.type == fs.FileType.File and not any(
                part.startswith(("_", "."))
                for part in info.path[len(folder):].strip("/").split("/"))]


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]
