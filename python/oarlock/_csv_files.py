"""CSV files with a line of names: a group is a block of whole lines.

Where blocks begin is found when a file is listed, and told to whoever reads it.
"""

import csv
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from oarlock import errors
from oarlock import _file, _stores

GROUP_ROWS = 65536
# A block ends earlier where its lines are long.
_MAX_GROUP_BYTES = 32 << 20
_MIN_GROUP_BYTES = 1 << 20
_CHUNK_BYTES = 4 << 20
_MAX_LINE_BYTES = 16 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMPRESSED = {b"\x1f\x8b": "gzip -d", b"\x28\xb5\x2f\xfd": "unzstd",
               b"\xfd7zXZ": "unxz", b"BZh": "bunzip2", b"PK\x03\x04": "unzip"}
_MAX_SHOWN = 60
# In pyarrow's errors, rows from 1: "In CSV column #1: Row #2: ...".
_WHERE = re.compile(r"(?:In CSV column #(\d+): )?(?:CSV parse error: )?Row #(\d+): ")


class CsvFile(_file.File):
    """A CSV file."""

    # Each is read as a whole.
    AT_A_TIME = 8

    def __init__(self, path: str, place: "_stores.Place", wanted: "_file.Wanted",
                 listed: Optional[Dict[str, Any]],
                 count: Optional[Callable[[int], None]]) -> None:
        super().__init__(path, place, wanted, listed, count)
        self._handle = place.filesystem.open_input_file(place.path)
        self.stat = _stores.stat(place, self._handle)
        self._names, self._header_end = self._header()
        self.schema = self._schema()
        # At least one, which has the number of rows.
        self._names_read = [name for name in self._names
                            if wanted.takes(name)] or self._names[:1]
        if listed is None:
            self.group_rows, self._begins = self._groups(count)
            return
        self.group_rows = [int(each) for each in listed.get("groupRows", [])]
        self._begins = [int(each) for each in listed.get("groupBegins", [])]

    def described(self) -> Dict[str, Any]:
        return {**super().described(), "group_begins": self._begins}

    def pieces(self, group: int) -> Iterator[Any]:
        begin = self._begins[group]
        end = self._begins[group + 1] if group + 1 < len(self._begins) else self.stat.size
        data = self._handle.read_at(end - begin, begin)
        if len(data) != end - begin:
            raise errors.FailedPreconditionError(
                f"has changed since it was listed: it ends at byte {begin + len(data)}")
        table = self._parsed(data, begin)
        if table.num_rows != self.group_rows[group]:
            first = self._line_of(begin)
            raise errors.InvalidArgumentError(
                f"lines {first} to {first + data.count(10) - 1} are {table.num_rows} rows, "
                f"and {self.group_rows[group]} were counted: a quote in the middle of a "
                "value, or a carriage return alone; write values with either in quotes")
        yield table

    def first_rows(self, rows: int) -> Any:
        if not self.group_rows:
            return self.schema.empty_table()
        return next(self.pieces(0)).slice(0, rows)

    def _header(self) -> Tuple[List[str], int]:
        """The names, and where the first line of values begins."""
        start = self._handle.read_at(min(_CHUNK_BYTES, self.stat.size), 0)
        for magic, unpack in _COMPRESSED.items():
            if start.startswith(magic):
                raise errors.InvalidArgumentError(
                    "is compressed, and blocks of lines are read from its middle; unpack "
                    f"it ({unpack}), or write Parquet")
        skipped = len(_BYTE_ORDER_MARK) if start.startswith(_BYTE_ORDER_MARK) else 0
        ends, _ = _row_ends(start, False)
        end = int(ends[0]) + 1 if len(ends) else len(start)
        if end == len(start) < self.stat.size or not start[skipped:end].strip():
            raise errors.InvalidArgumentError(
                "has no line of names; legal is CSV whose first line names the columns")
        try:
            text = start[skipped:end].decode().rstrip("\r\n")
            names = next(csv.reader([text], strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise errors.InvalidArgumentError(
                f"line 1: its names cannot be read: {_stores.first_line(error)}") from None
        for name in names:
            if names.count(name) > 1 and self.wanted.takes(name):
                raise errors.InvalidArgumentError(
                    f"line 1 names column '{name}' {names.count(name)} times")
        return names, end

    def _schema(self) -> Any:
        pa = _stores.pyarrow()
        types = []
        for name in self._names:
            if name in self.wanted.numbers:
                types.append(pa.float64())
            elif name in self.wanted.integers:
                types.append(pa.int64())
            else:
                types.append(pa.string())
        return pa.schema(list(zip(self._names, types)))

    def _groups(self, count: Optional[Callable[[int], None]]
                ) -> Tuple[List[int], List[int]]:
        """Rows of each block, and where it begins: reads the file once."""
        rows: List[int] = []
        begins: List[int] = []
        max_bytes = max(_MIN_GROUP_BYTES,
                        min(_MAX_GROUP_BYTES, self.wanted.memory_bytes // 8))
        # Where the block begins, and the line; the block's rows until there.
        begin = line = self._header_end
        num_rows = 0
        quoted = False
        for at, chunk in self._chunks(self._header_end):
            ends, quoted = _row_ends(chunk, quoted)
            ends = ends + (at + 1)
            taken = 0
            while taken < len(ends):
                if num_rows == 0:
                    begin = line
                # The rows that still have a place in the block.
                room = int(ends.searchsorted(begin + max_bytes, "right"))
                stop = min(len(ends), taken + GROUP_ROWS - num_rows, room)
                if stop > taken:
                    num_rows += stop - taken
                    line = int(ends[stop - 1])
                    taken = stop
                    if num_rows < GROUP_ROWS and stop < room:
                        continue
                    if num_rows < GROUP_ROWS and stop == len(ends):
                        continue
                elif num_rows == 0:
                    # One line of more than a block's bytes.
                    num_rows, line, taken = 1, int(ends[taken]), taken + 1
                rows.append(num_rows)
                begins.append(begin)
                num_rows = 0
            if at + len(chunk) - line > _MAX_LINE_BYTES:
                raise errors.InvalidArgumentError(
                    f"line {self._line_of(line)} is longer than {_MAX_LINE_BYTES} bytes: "
                    "a quote that is not closed, or no CSV")
            if count is not None:
                count(len(chunk))
        if quoted:
            raise errors.InvalidArgumentError(
                f"line {self._line_of(line)}: a quote is not closed until the file's end")
        if line < self.stat.size:
            # The last line may end with the file.
            begin = begin if num_rows else line
            num_rows += 1
        if num_rows:
            rows.append(num_rows)
            begins.append(begin)
        return rows, begins

    def _chunks(self, begin: int) -> Iterator[Tuple[int, bytes]]:
        at = begin
        while at < self.stat.size:
            chunk = self._handle.read_at(min(_CHUNK_BYTES, self.stat.size - at), at)
            if not chunk:
                raise errors.FailedPreconditionError(
                    f"has changed while it was read: it ends at byte {at}, and had "
                    f"{self.stat.size}")
            yield at, chunk
            at += len(chunk)

    def _parsed(self, data: bytes, begin: int) -> Any:
        """The rows of a block's bytes."""
        pa, read = _stores.pyarrow(), _stores.pyarrow("pyarrow.csv")
        wrong: List[Any] = []

        def remember(row: Any) -> str:
            wrong.append(row)
            return "error"

        types = {field.name: field.type for field in self.schema}
        first: Optional[BaseException] = None
        for _ in range(1 + len(self.wanted.integers)):
            try:
                return read.read_csv(
                    pa.BufferReader(data),
                    read_options=read.ReadOptions(
                        use_threads=False, block_size=len(data) + 1,
                        column_names=self._names),
                    parse_options=read.ParseOptions(
                        newlines_in_values=b'"' in data, ignore_empty_lines=False,
                        invalid_row_handler=remember),
                    convert_options=read.ConvertOptions(
                        check_utf8=False, column_types=types,
                        include_columns=self._names_read, null_values=[""],
                        strings_can_be_null=True, quoted_strings_can_be_null=False,
                        true_values=[], false_values=[]))
            except pa.ArrowException as error:
                found = _WHERE.search(str(error))
                name = self._names[int(found[1])] if found and found[1] else ""
                first = first or error
                if types.get(name) != pa.int64():
                    raise self._malformed(data, begin, wrong, first) from None
                # Ids of 64 bits may be above those.
                types[name] = pa.uint64()
        raise errors.InternalError("a block of CSV has no types")

    def _malformed(self, data: bytes, begin: int, wrong: List[Any],
                   error: BaseException) -> errors.Error:
        """Names the line."""
        found = _WHERE.search(str(error))
        row = int(found[2]) if found else 1
        if wrong:
            why = (f"has {wrong[0].actual_columns} values, and the first line names "
                   f"{wrong[0].expected_columns} columns")
        elif found and found[1]:
            name = self._names[int(found[1])]
            kind = "integer of 64 bits" if name in self.wanted.integers else "number"
            value = _stores.first_line(error).split(" invalid value ", 1)[-1]
            why = f"has {value[:_MAX_SHOWN]} in column '{name}', which is no {kind}"
        else:
            why = f"or a later one cannot be read: {_stores.first_line(error)}"
        line = self._line_of(begin)
        if row > 1:
            ends, _ = _row_ends(data, False)
            start = int(ends[min(row - 2, len(ends) - 1)]) + 1
            line += data.count(b"\n", 0, start)
        return errors.InvalidArgumentError(f"line {line} {why}")

    def _line_of(self, byte: int) -> int:
        """The number, from 1, of the line that begins there."""
        lines = 1
        for at, chunk in self._chunks(0):
            if at >= byte:
                break
            lines += chunk.count(b"\n", 0, byte - at)
        return lines


def _row_ends(data: bytes, quoted: bool) -> Tuple[Any, bool]:
    """Where the newlines are that end rows, those not in quotes. `quoted`: whether the
    first byte is in quotes; then, whether the one after the last is."""
    import numpy as np

    values = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(values == 10)
    quotes = np.flatnonzero(values == 34)
    if not len(quotes):
        return (newlines[:0] if quoted else newlines), quoted
    before = np.searchsorted(quotes, newlines) + quoted
    return newlines[before % 2 == 0], bool((len(quotes) + quoted) % 2)
