"""Which columns of a Parquet file are dictionaries throughout, by its footer.

pyarrow does not tell how many pages of a column fell back to plain values; the footer,
Thrift of the compact protocol, says it (encoding_stats of ColumnMetaData).
"""

import io
from typing import Any, Callable, Dict, List, Set, Tuple

# PageType, Encoding.
_DATA_PAGES = (0, 3)
_DICTIONARY = {2, 8}
# Fields: FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data,
# ColumnMetaData.path_in_schema and encoding_stats, PageEncodingStats.
_ROW_GROUPS, _COLUMNS, _META_DATA, _PATH, _ENCODING_STATS = 4, 1, 3, 3, 13
_PAGE_TYPE, _ENCODING = 1, 2
# Thrift's types.
_FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 2, 3, 7, 8, 9, 10, 12
_MAX_DEPTH = 16

# From the place of a value to the one behind it.
_Handler = Callable[[int], int]


def by_group(metadata: Any) -> List[Set[str]]:
    """Of each row group: paths of the columns whose data pages are all of a dictionary's
    indices, as far as the footer says it."""
    out = io.BytesIO()
    metadata.write_metadata_file(out)
    # Between PAR1 and the length.
    data = out.getvalue()[4:-8]
    groups: List[Set[str]] = []
    try:
        _fields(data, 0, {_ROW_GROUPS: lambda at: _each(
            data, at, lambda at: _row_group(data, at, groups))})
    except (IndexError, UnicodeDecodeError):
        groups = []
    if len(groups) != metadata.num_row_groups:
        return [set() for _ in range(metadata.num_row_groups)]
    return groups


def _row_group(data: bytes, at: int, groups: List[Set[str]]) -> int:
    """Adds the columns of a row group, and is the place behind it."""
    found: Set[str] = set()
    groups.append(found)
    names: List[str] = []
    encodings: Set[int] = set()

    def name(at: int) -> int:
        size, at = _varint(data, at)
        names.append(data[at:at + size].decode())
        return at + size

    def page(at: int) -> int:
        stats: Dict[int, int] = {}

        def value(field: int) -> _Handler:
            def take(at: int) -> int:
                stats[field], behind = _integer(data, at)
                return behind
            return take

        at = _fields(data, at, {_PAGE_TYPE: value(_PAGE_TYPE),
                                _ENCODING: value(_ENCODING)})
        if stats.get(_PAGE_TYPE) in _DATA_PAGES:
            encodings.add(stats.get(_ENCODING, -1))
        return at

    described: Dict[int, _Handler] = {
        _PATH: lambda at: _each(data, at, name),
        _ENCODING_STATS: lambda at: _each(data, at, page)}

    def column(at: int) -> int:
        names.clear()
        encodings.clear()
        at = _fields(data, at, {_META_DATA: lambda at: _fields(data, at, described)})
        if encodings and encodings <= _DICTIONARY:
            found.add(".".join(names))
        return at

    return _fields(data, at, {_COLUMNS: lambda at: _each(data, at, column)})


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    """A number, and the place behind it."""
    value = shift = 0
    while data[at] & 128:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1


def _integer(data: bytes, at: int) -> Tuple[int, int]:
    """One with a sign, and the place behind it."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _fields(data: bytes, at: int, handlers: Dict[int, _Handler], depth: int = 0) -> int:
    """The place behind a struct. A field's handler is told where the field begins, and
    gives the place behind it; other fields are left out."""
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        kind = head & 15
        if number in handlers:
            at = handlers[number](at)
        elif _BYTE < kind < _DOUBLE:
            while data[at] & 128:
                at += 1
            at += 1
        elif kind == _BINARY and not data[at] & 128:
            at += 1 + data[at]
        elif kind > _FALSE:
            at = _skip(data, at, kind, depth)


def _each(data: bytes, at: int, handler: _Handler) -> int:
    """The place behind a list, whose elements have a handler."""
    size, _, at = _list(data, at)
    for _ in range(size):
        at = handler(at)
    return at


def _skip(data: bytes, at: int, kind: int, depth: int) -> int:
    """The place behind a value."""
    if kind <= _BYTE:
        return at + 1
    if kind < _DOUBLE:
        return _varint(data, at)[1]
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        size, at = _varint(data, at)
        return at + size
    if depth == _MAX_DEPTH:
        raise IndexError("nested too deeply")
    if kind == _STRUCT:
        return _fields(data, at, {}, depth + 1)
    if kind in (_LIST, _SET):
        size, inner, at = _list(data, at)
        for _ in range(size):
            at = _skip(data, at, inner, depth + 1)
        return at
    size, at = _varint(data, at)
    kinds = data[at] if size else 0
    at += 1 if size else 0
    for _ in range(size):
        at = _skip(data, at, kinds >> 4, depth + 1)
        at = _skip(data, at, kinds & 15, depth + 1)
    return at


def _list(data: bytes, at: int) -> Tuple[int, int, int]:
    """Elements of a list, their type, and where they begin."""
    size, kind = data[at] >> 4, data[at] & 15
    at += 1
    if size == 15:
        size, at = _varint(data, at)
    return size, kind, at
