"""The messages of an Arrow IPC file: rows and bytes of each record batch, without
decoding any. pyarrow does not tell them.

They are FlatBuffers: https://arrow.apache.org/docs/format/Columnar.html.
"""

import struct
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from oarlock import _stores

MAGIC = b"ARROW1"
_CONTINUATION = 0xFFFFFFFF
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
# What a footer, and what is told of a record batch, may take.
MAX_METADATA_BYTES = 256 << 20


class Damaged(ValueError):
    """It is no file of this format, or was damaged."""


class Block(NamedTuple):
    """Where a message is in the file."""

    offset: int
    metadata_bytes: int
    body_bytes: int


class Batch(NamedTuple):
    """What a message says.

    Attributes:
        rows: of the batch.
        buffers: (offset in the body, bytes) of each.
        nodes: how many arrays it has, nested ones included.
        variadic: of each array of views: how many buffers of text it has.
        is_compressed: a buffer begins with its bytes when it is not, 8 of them.
    """

    rows: int
    buffers: List[Tuple[int, int]]
    variadic: List[int]
    is_compressed: bool


class _Table:
    """A FlatBuffer's table."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at
        self._fields = at - self._read("<i", at)
        self._fields_bytes: int = self._read("<H", self._fields)

    def _read(self, format: str, at: int) -> Any:
        if at < 0:
            raise Damaged("a place before its begin")
        try:
            return struct.unpack_from(format, self._data, at)[0]
        except struct.error:
            raise Damaged("a place after its end") from None

    def _place(self, field: int) -> int:
        """Where a field is; 0: it is not there."""
        entry = 4 + 2 * field
        if entry + 2 > self._fields_bytes:
            return 0
        offset: int = self._read("<H", self._fields + entry)
        return self.at + offset if offset else 0

    def number(self, field: int, format: str) -> int:
        """A number, 0 where there is none."""
        place = self._place(field)
        value: int = self._read(format, place) if place else 0
        return value

    def table(self, field: int) -> "Optional[_Table]":
        """A table."""
        place = self._place(field)
        return _Table(self._data, place + self._read("<I", place)) if place else None

    def structs(self, field: int, format: str) -> List[Any]:
        """A vector of structs."""
        place = self._place(field)
        if not place:
            return []
        begin = place + self._read("<I", place)
        count = self._read("<I", begin)
        size = struct.calcsize(format)
        if begin + 4 + count * size > len(self._data):
            raise Damaged("a place after its end")
        return list(struct.iter_unpack(
            format, self._data[begin + 4:begin + 4 + count * size]))


def blocks(footer: bytes) -> Tuple[List[Block], List[Block]]:
    """Where dictionaries and record batches are."""
    root = _Table(footer, struct.unpack_from("<I", footer)[0])
    found = []
    for field in (2, 3):
        found.append([Block(offset, metadata, body) for offset, metadata, body
                      in root.structs(field, "<qi4xq")])
    return found[0], found[1]


def batch_of(message: bytes) -> Batch:
    """What a message says."""
    start = 8 if struct.unpack_from("<I", message)[0] == _CONTINUATION else 4
    data = message[start:]
    root = _Table(data, struct.unpack_from("<I", data)[0])
    kind = root.number(1, "<B")
    header = root.table(2)
    if header is not None and kind == _DICTIONARY_BATCH:
        header = header.table(1)
    if header is None or kind not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        raise Damaged(f"a message of kind {kind}, where a record batch is wanted")
    return Batch(rows=header.number(0, "<q"),
                 buffers=header.structs(2, "<qq"),
                 variadic=[each[0] for each in header.structs(4, "<q")],
                 is_compressed=header.table(3) is not None)


def buffers_of(schema: Any, batch: Batch, takes: Callable[[str], bool]
               ) -> List[Tuple[int, int]]:
    """The buffers of the columns that are read, of a record batch."""
    walk = _Walk(batch)
    found: List[Tuple[int, int]] = []
    for field in schema:
        taken = walk.take(field.type)
        if takes(field.name):
            found += taken
    if walk.next != len(batch.buffers):
        raise Damaged(f"a record batch has {len(batch.buffers)} buffers, and its columns "
                      f"{walk.next}")
    return found


class _Walk:
    """Over the buffers of a record batch, in the order of its columns."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._variadic = iter(batch.variadic)
        self.next = 0

    def take(self, type: Any) -> List[Tuple[int, int]]:
        """Those of a column of this type."""
        begin = self.next
        self._skip(type)
        return self._batch.buffers[begin:self.next]

    def _skip(self, kind: Any) -> None:
        pa = _stores.pyarrow()
        types = pa.types
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if types.is_null(kind):
            return
        if types.is_struct(kind) or types.is_fixed_size_list(kind):
            self.next += 1
        elif types.is_union(kind):
            self.next += 2 if kind.mode == "dense" else 1
        elif types.is_run_end_encoded(kind):
            self._skip(kind.run_end_type)
            self._skip(kind.value_type)
            return
        elif _is(types, "is_list_view", kind) or _is(types, "is_large_list_view", kind):
            self.next += 3
        elif types.is_string(kind) or types.is_binary(kind) or (
                types.is_large_string(kind) or types.is_large_binary(kind)):
            self.next += 3
        elif _is(types, "is_string_view", kind) or _is(types, "is_binary_view", kind):
            self.next += 2 + next(self._variadic, 0)
        else:
            self.next += 2
        if types.is_dictionary(kind):
            return
        for i in range(kind.num_fields):
            self._skip(kind.field(i).type)


def _is(types: Any, name: str, kind: Any) -> bool:
    """Older pyarrows have no such types."""
    return hasattr(types, name) and getattr(types, name)(kind)
