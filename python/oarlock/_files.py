"""Columnar files: which there are, and opening them."""

import fnmatch
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from oarlock import errors
from oarlock import _arrow_files, _csv_files, _file, _parquet_files, _stores

_FORMATS = {"PARQUET": _parquet_files.ParquetFile, "ARROW": _arrow_files.ArrowFile,
            "CSV": _csv_files.CsvFile}


class Files:
    """Opens files of one format, and keeps the one that was read last.

    Args:
        format: PARQUET, ARROW or CSV.
        wanted: what is read of them.
        stores: where they lie.
    """

    def __init__(self, format: str, wanted: "_file.Wanted",
                 stores: "_stores.Stores") -> None:
        self._format = _FORMATS[format]
        self._wanted = wanted
        self._last: Optional[Tuple[str, Any, "_file.File"]] = None
        self.stores = stores
        # Counts bytes of files that are read while they are listed.
        self.num_listed_bytes = 0

    @property
    def at_a_time(self) -> int:
        """How many are listed at a time."""
        return self._format.AT_A_TIME

    def find(self, patterns: List[str]) -> List[str]:
        """Paths of the files that match, sorted, each once. A folder stands for the
        files in it and below, but for those that begin with _ or a dot."""
        found: Set[str] = set()
        for pattern in patterns:
            matches = self.stores.call(pattern, _matches)
            if not matches:
                raise errors.NotFoundError(
                    f"'{pattern}' matches no file; check the name, and that this "
                    "machine sees it")
            found.update(matches)
        return sorted(found)

    def list(self, path: str) -> "_file.File":
        """The file at that path, opened to be listed. Thread-safe."""
        return self.stores.call(
            path, lambda place: self._format(path, place, self._wanted, None,
                                             self._count))

    def open(self, listed: Dict[str, Any]) -> "_file.File":
        """The file that was listed so. Raises where another one has its place."""
        path = listed["path"]

        def opened(place: "_stores.Place") -> "_file.File":
            if self._last is not None and self._last[0] == path and (
                    self._last[1] is place.filesystem):
                file = self._last[2]
                if file.is_unchanged():
                    return file
            self._last = None
            return self._format(path, place, self._wanted, listed, None)

        file = self.stores.call(path, opened)
        file.check(listed)
        self._last = (path, self.stores.locate(path).filesystem, file)
        return file

    def _count(self, num_bytes: int) -> None:
        self.num_listed_bytes += num_bytes


Count = Callable[[int], None]


def _matches(place: "_stores.Place") -> List[str]:
    fs = _stores.pyarrow("pyarrow.fs")
    filesystem, pattern, prefix = place
    parts = pattern.split("/")
    literal = 0
    while literal < len(parts) and not _is_pattern(parts[literal]):
        literal += 1
    found = ["/".join(parts[:literal])]
    for part in parts[literal:]:
        below = []
        for folder in found:
            selector = fs.FileSelector(folder or "/", allow_not_found=True)
            below += [info.path for info in filesystem.get_file_info(selector)
                      if fnmatch.fnmatchcase(info.base_name, part) and not (
                          part[0] in "*?[" and _is_hidden(info.base_name))]
        found = below
    matches = []
    for info in filesystem.get_file_info(found) if found else []:
        if info.type == fs.FileType.Directory:
            matches += _files_below(filesystem, info.path)
        elif info.type == fs.FileType.File:
            matches.append(info.path)
    return [prefix + path for path in matches]


def _files_below(filesystem: Any, folder: str) -> List[str]:
    fs = _stores.pyarrow("pyarrow.fs")
    selector = fs.FileSelector(folder, recursive=True)
    return [info.path for info in filesystem.get_file_info(selector)
            if info.type == fs.FileType.File and not any(
                _is_hidden(part)
                for part in info.path[len(folder):].strip("/").split("/"))]


def _is_pattern(part: str) -> bool:
    return any(mark in part for mark in "*?[")


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))
