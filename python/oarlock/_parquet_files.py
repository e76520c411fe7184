"""Parquet files: a group is a row group."""

from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Optional, Set, Tuple

from oarlock import errors
from oarlock import _file, _parquet_footer, _stores

# Bytes of a value in memory, by its type in the file.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8,
           "BYTE_ARRAY": 8}
# Of a file whose columns are looked up in its footer: some 50 us each.
_MAX_CHUNKS = 40000
# A piece's read of a column from the file.
_MAX_BUFFER = 8 << 20
_MIN_BUFFER = 1 << 16


class ParquetFile(_file.File):
    """A Parquet file."""

    def __init__(self, path: str, place: "_stores.Place", wanted: "_file.Wanted",
                 listed: Optional[Dict[str, Any]],
                 count: Optional[Callable[[int], None]]) -> None:
        super().__init__(path, place, wanted, listed, count)
        handle = place.filesystem.open_input_file(place.path)
        # After it was opened: what replaces it later is another file.
        self.stat = _stores.stat(place, handle)
        self._parquet = _stores.pyarrow("pyarrow.parquet")
        pa = _stores.pyarrow()
        try:
            self._file = self._parquet.ParquetFile(handle, pre_buffer=True)
        except pa.ArrowException as error:
            raise errors.InvalidArgumentError(
                f"is no Parquet file: {_stores.first_line(error)}") from None
        self._handle = handle
        self._metadata = self._file.metadata
        self.schema = self._file.schema_arrow
        self.group_rows = [self._metadata.row_group(i).num_rows
                           for i in range(self._metadata.num_row_groups)]
        # Of each group, once a group is read.
        self._dictionaries: Optional[List[Set[str]]] = None
        # By the columns that are read as dictionaries.
        self._readers: Dict[FrozenSet[str], Any] = {frozenset(): self._file}

    def pieces(self, group: int) -> Iterator[Any]:
        leaves, dictionaries, size = self._leaves(group)
        if size <= self.wanted.memory_bytes:
            yield self._reader(dictionaries).read_row_group(group, columns=leaves)
            return
        # Not ahead, and no column as a whole. A dictionary would come with each batch.
        buffer_size = max(_MIN_BUFFER, min(
            _MAX_BUFFER, self.wanted.memory_bytes // (4 * max(1, len(leaves)))))
        yield from self._by_pages(group, leaves, self.wanted.block_rows, buffer_size)

    def first_rows(self, rows: int) -> Any:
        for group, size in enumerate(self.group_rows):
            if size:
                return next(self._by_pages(group, None, rows, _MIN_BUFFER))
        return self.schema.empty_table()

    def _by_pages(self, group: int, leaves: Optional[List[str]], rows: int,
                  buffer_size: int) -> Iterator[Any]:
        """Tables of so many rows."""
        pa = _stores.pyarrow()
        file = self._parquet.ParquetFile(
            self._handle, metadata=self._metadata, pre_buffer=False,
            buffer_size=buffer_size)
        for batch in file.iter_batches(rows, row_groups=[group], columns=leaves,
                                       use_threads=False):
            yield pa.Table.from_batches([batch])

    def _leaves(self, group: int) -> Tuple[List[str], FrozenSet[str], int]:
        """Paths of the columns in the file, those that are read as dictionaries, and what
        they take in memory, about."""
        described = self._metadata.row_group(group)
        leaves, dictionaries, size = [], set(), 0
        for i in range(described.num_columns):
            column = described.column(i)
            path = column.path_in_schema
            name = self.wanted.name_of(path)
            if name is None:
                continue
            leaves.append(path)
            size += column.total_uncompressed_size
            if not column.has_dictionary_page:
                continue
            if (column.physical_type == "BYTE_ARRAY" and name in self.wanted.texts
                    and self._is_dictionary(group, path)):
                dictionaries.add(path)
                size += 4 * column.num_values
            else:
                size += _WIDTHS.get(column.physical_type, 16) * column.num_values
        return leaves, frozenset(dictionaries), size

    def _is_dictionary(self, group: int, path: str) -> bool:
        """Whether all pages of a column are of a dictionary."""
        if self._dictionaries is None:
            metadata = self._metadata
            self._dictionaries = _parquet_footer.by_group(metadata) if (
                metadata.num_row_groups * metadata.num_columns <= _MAX_CHUNKS) else (
                    [set()] * metadata.num_row_groups)
        return path in self._dictionaries[group]

    def _reader(self, dictionaries: FrozenSet[str]) -> Any:
        if dictionaries not in self._readers:
            self._readers[dictionaries] = self._parquet.ParquetFile(
                self._handle, metadata=self._metadata, pre_buffer=True,
                read_dictionary=sorted(dictionaries))
        return self._readers[dictionaries]
