"""Parquet files: a group is a row group."""

from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Optional, Set, Tuple

from oarlock import errors
from oarlock import _file, _parquet_footer, _stores

# Bytes of a value in memory, by its type in the file.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8,
           "BYTE_ARRAY": 8}
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
        file = self._parquet.ParquetFile(
            self._handle, metadata=self._metadata, pre_buffer=False,
            buffer_size=buffer_size)
        pa = _stores.pyarrow()
        for batch in file.iter_batches(self.wanted.block_rows, row_groups=[group],
                                       columns=leaves, use_threads=False):
            yield pa.Table.from_batches([batch])

    def first_rows(self, rows: int) -> Any:
        pa = _stores.pyarrow()
        for batch in self._file.iter_batches(rows, use_threads=False):
            return pa.Table.from_batches([batch])
        return self.schema.empty_table()

    def _leaves(self, group: int) -> Tuple[List[str], FrozenSet[str], int]:
        """Paths of the columns in the file, those that are read as dictionaries, and what
        they take in memory, about."""
        if self._dictionaries is None:
            self._dictionaries = _parquet_footer.by_group(self._metadata)
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
            if (column.physical_type == "BYTE_ARRAY"
                    and path in self._dictionaries[group]
                    and name in self.wanted.texts):
                dictionaries.add(path)
                size += 4 * column.num_values
            elif column.has_dictionary_page:
                size += _WIDTHS.get(column.physical_type, 16) * column.num_values
        return leaves, frozenset(dictionaries), size

    def _reader(self, dictionaries: FrozenSet[str]) -> Any:
        if dictionaries not in self._readers:
            self._readers[dictionaries] = self._parquet.ParquetFile(
                self._handle, metadata=self._metadata, pre_buffer=True,
                read_dictionary=sorted(dictionaries))
        return self._readers[dictionaries]
