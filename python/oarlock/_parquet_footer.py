"""Which columns of a Parquet file are dictionaries throughout, by its footer.

pyarrow does not tell how many pages of a column fell back to plain values; the footer,
Thrift of the compact protocol, says it (encoding_stats of ColumnMetaData).
"""

import io
from typing import Any, List, Optional, Set, Tuple

# PageType, Encoding.
_DATA_PAGES = (0, 3)
_PLAIN_DICTIONARY, _RLE_DICTIONARY = 2, 8
# Fields: FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data,
# ColumnMetaData.path_in_schema and encoding_stats, PageEncodingStats.
_ROW_GROUPS, _COLUMNS, _META_DATA, _PATH, _ENCODING_STATS = 4, 1, 3, 3, 13
_PAGE_TYPE, _ENCODING = 1, 2
# Thrift's types.
_TRUE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 3, 7, 8, 9, 10, 11, 12
_MAX_DEPTH = 16


def by_group(metadata: Any) -> List[Set[str]]:
    """Of each row group: paths of the columns whose data pages are all of a dictionary's
    indices, as far as the footer says it."""
    try:
        return _dictionary_columns(metadata)
    except IndexError:
        return [set() for _ in range(metadata.num_row_groups)]


def _dictionary_columns(metadata: Any) -> List[Set[str]]:
    out = io.BytesIO()
    metadata.write_metadata_file(out)
    whole = out.getvalue()
    parser = _Parser(whole[4:-8])
    groups: List[Set[str]] = []
    for field, kind in parser.fields():
        if field == _ROW_GROUPS and kind == _LIST:
            for _ in range(parser.list_size()[0]):
                groups.append(_row_group(parser))
        else:
            parser.skip(kind)
    return groups


def _row_group(parser: "_Parser") -> Set[str]:
    found: Set[str] = set()
    for field, kind in parser.fields():
        if field == _COLUMNS and kind == _LIST:
            for _ in range(parser.list_size()[0]):
                path = _column(parser)
                if path is not None:
                    found.add(path)
        else:
            parser.skip(kind)
    return found


def _column(parser: "_Parser") -> Optional[str]:
    """The path of a column whose pages are all of a dictionary."""
    result = None
    for field, kind in parser.fields():
        if field != _META_DATA or kind != _STRUCT:
            parser.skip(kind)
            continue
        path, encodings = "", set()
        for inner, inner_kind in parser.fields():
            if inner == _PATH and inner_kind == _LIST:
                path = ".".join(parser.binary().decode("utf-8", "replace")
                                for _ in range(parser.list_size()[0]))
            elif inner == _ENCODING_STATS and inner_kind == _LIST:
                for _ in range(parser.list_size()[0]):
                    page = {number: parser.integer()
                            for number, _ in parser.fields()}
                    if page.get(_PAGE_TYPE) in _DATA_PAGES:
                        encodings.add(page.get(_ENCODING))
            else:
                parser.skip(inner_kind)
        if encodings and encodings <= {_PLAIN_DICTIONARY, _RLE_DICTIONARY}:
            result = path
    return result


class _Parser:
    """Of Thrift's compact protocol. Raises IndexError where the text is too short."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._depth = 0

    def _varint(self) -> int:
        data, at = self._data, self._at
        byte = data[at]
        at += 1
        result = byte & 127
        shift = 7
        while byte & 128:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
        self._at = at
        return result

    def integer(self) -> int:
        """A zigzag number."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        """A text."""
        size = self._varint()
        at = self._at
        self._at = at + size
        return self._data[at:at + size]

    def fields(self) -> Any:
        """(number, type) of each field of a struct; the caller reads or skips each."""
        number = 0
        while True:
            head = self._data[self._at]
            self._at += 1
            if head == 0:
                return
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def list_size(self) -> Tuple[int, int]:
        """Elements of a list, and their type."""
        head = self._data[self._at]
        self._at += 1
        size = head >> 4
        return (size if size != 15 else self._varint()), head & 15

    def skip(self, kind: int, in_list: bool = False) -> None:
        """Over a value of that type."""
        if kind == _BINARY:
            self._at += self._varint()
        elif kind <= 2:
            self._at += 1 if in_list else 0
        elif kind == _BYTE:
            self._at += 1
        elif kind < _DOUBLE:
            self._varint()
        elif kind == _DOUBLE:
            self._at += 8
        else:
            self._skip_nested(kind)

    def _skip_nested(self, kind: int) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise IndexError("nested too deeply")
        if kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in (_LIST, _SET):
            size, inner = self.list_size()
            for _ in range(size):
                self.skip(inner, in_list=True)
        else:
            size = self._varint()
            if size:
                kinds = self._data[self._at]
                self._at += 1
                for _ in range(size):
                    self.skip(kinds >> 4, in_list=True)
                    self.skip(kinds & 15, in_list=True)
        self._depth -= 1
