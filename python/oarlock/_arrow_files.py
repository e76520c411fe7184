"""Arrow IPC files, also Feather of version 2: a group is a record batch."""

import concurrent.futures
import struct
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from oarlock import errors
from oarlock import _arrow_ipc, _file, _stores

_AS_A_FILE = ("write a file instead: pyarrow.ipc.new_file, or write_ipc of polars without "
              "_stream")
# Reads of a store at a time.
_READS = 16
# A file's first and last bytes.
_ENDS = 6 + 4


class ArrowFile(_file.File):
    """An Arrow IPC file."""

    def __init__(self, path: str, place: "_stores.Place", wanted: "_file.Wanted",
                 listed: Optional[Dict[str, Any]],
                 count: Optional[Callable[[int], None]]) -> None:
        super().__init__(path, place, wanted, listed, count)
        pa = _stores.pyarrow()
        ipc = _stores.pyarrow("pyarrow.ipc")
        self._is_local = place.prefix in ("", "file://")
        handle = place.filesystem.open_input_file(place.path)
        self.stat = _stores.stat(place, handle)
        # What is not compressed is read from the disk when it is needed.
        self._handle = pa.memory_map(place.path) if (
            self._is_local and self.stat.size) else handle
        try:
            dictionaries, self._blocks = self._footer()
            self._check_dictionaries(dictionaries)
            self._batches = self._messages(self._blocks)
            whole = ipc.open_file(self._handle)
            self.schema = whole.schema
        except (_arrow_ipc.Damaged, pa.ArrowException) as error:
            raise errors.InvalidArgumentError(
                f"is no Arrow IPC file: {_stores.first_line(error)}") from None
        fields = [i for i, field in enumerate(self.schema)
                  if wanted.takes(field.name)]
        self._reader = ipc.open_file(
            self._handle, options=ipc.IpcReadOptions(included_fields=fields)) if (
                0 < len(fields) < len(self.schema)) else whole
        self.group_rows = [batch.rows for batch in self._batches]

    def pieces(self, group: int) -> Iterator[Any]:
        batch = self._batches[group]
        try:
            buffers = _arrow_ipc.buffers_of(self.schema, batch, self.wanted.takes)
            # Mapped, it takes no memory of the reader's.
            if batch.is_compressed or not self._is_local:
                self._check_size(f"record batch {group}", self._blocks[group], buffers,
                                 batch.is_compressed)
            read = self._reader.get_batch(group)
            read.validate(full=True)
        except (_arrow_ipc.Damaged, _stores.pyarrow().ArrowException) as error:
            raise self._damaged(group, error) from None
        if read.num_rows != batch.rows:
            raise self._damaged(group, f"it has {read.num_rows} rows, and says "
                                f"{batch.rows}")
        yield _stores.pyarrow().Table.from_batches([read])

    def first_rows(self, rows: int) -> Any:
        for group, size in enumerate(self.group_rows):
            if size:
                for piece in self.pieces(group):
                    return piece.slice(0, rows)
        return self.schema.empty_table()

    def _damaged(self, group: int, why: Any) -> errors.Error:
        text = _stores.first_line(why) if isinstance(why, BaseException) else why
        return errors.InvalidArgumentError(f"record batch {group} is damaged: {text}")

    def _footer(self) -> Tuple[List["_arrow_ipc.Block"], List["_arrow_ipc.Block"]]:
        size = self.stat.size
        start = self._handle.read_at(min(8, size), 0)
        if start.startswith(b"FEA1"):
            raise errors.InvalidArgumentError(
                "is Feather of version 1; write version 2, which is Arrow IPC: "
                "pyarrow.feather.write_feather")
        if not start.startswith(_arrow_ipc.MAGIC):
            if start[:4] == b"\xff\xff\xff\xff":
                raise errors.InvalidArgumentError(
                    "is an Arrow IPC stream, which has no list of its record batches; "
                    + _AS_A_FILE)
            raise _arrow_ipc.Damaged(f"it begins with {start!r}")
        end = self._handle.read_at(_ENDS, size - _ENDS) if size >= 8 + _ENDS else b""
        if not end.endswith(_arrow_ipc.MAGIC):
            raise _arrow_ipc.Damaged("it ends in the middle: it was not closed, or not "
                                     "copied as a whole")
        length = struct.unpack_from("<i", end)[0]
        if not 8 <= length <= min(size - 8 - _ENDS, _arrow_ipc.MAX_METADATA_BYTES):
            raise _arrow_ipc.Damaged(f"its footer says that it has {length} bytes")
        found = _arrow_ipc.blocks(self._handle.read_at(length, size - _ENDS - length))
        for block in found[0] + found[1]:
            if not (8 <= block.metadata_bytes <= _arrow_ipc.MAX_METADATA_BYTES
                    and 8 <= block.offset and 0 <= block.body_bytes
                    and block.offset + block.metadata_bytes + block.body_bytes <= size):
                raise _arrow_ipc.Damaged(f"its footer names a place that it lacks: {block}")
        return found

    def _messages(self, blocks: List["_arrow_ipc.Block"]) -> List["_arrow_ipc.Batch"]:
        """What is told of each batch."""
        return self._each(
            lambda block: _arrow_ipc.batch_of(
                self._handle.read_at(block.metadata_bytes, block.offset)), blocks)

    def _each(self, action: Callable[[Any], Any], items: List[Any]) -> List[Any]:
        """Of a store many at a time, for each waits."""
        if self._is_local or len(items) < 2:
            return [action(item) for item in items]
        with concurrent.futures.ThreadPoolExecutor(_READS) as pool:
            return list(pool.map(action, items))

    def _check_dictionaries(self, blocks: List["_arrow_ipc.Block"]) -> None:
        for i, (block, batch) in enumerate(zip(blocks, self._messages(blocks))):
            self._check_size(f"dictionary {i}", block, batch.buffers, batch.is_compressed)

    def _check_size(self, what: str, block: "_arrow_ipc.Block",
                    buffers: List[Tuple[int, int]], is_compressed: bool) -> None:
        size = 0
        for offset, length in buffers:
            if offset < 0 or length < 0 or offset + length > block.body_bytes:
                raise _arrow_ipc.Damaged(f"a buffer at {offset} of {length} bytes")
            size += length
        if is_compressed and size <= self.wanted.memory_bytes:
            body = block.offset + block.metadata_bytes
            whole = self._each(
                lambda buffer: struct.unpack(
                    "<q", self._handle.read_at(8, body + buffer[0]))[0],
                [buffer for buffer in buffers if buffer[1] >= 8])
            # -1: that buffer is as it is.
            size += sum(each for each in whole if each > 0)
        if size > self.wanted.memory_bytes:
            raise self.too_large(what, size)
