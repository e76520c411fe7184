"""Reads rows of columnar files for a worker that is no Python.

    python -m oarlock._reader

A worker starts it, with a socket as descriptor 3 and memories to share from 4 on, and
says what it wants in lines of JSON (proto/v1/reader.proto). Rows go into the memories as
blocks of the engine's, which liboarlock writes. It ends when the socket does.
"""

import collections
import concurrent.futures
import contextlib
import itertools
import json
import mmap
import os
import signal
import socket
from typing import Any, Deque, Dict, Iterator, List, Optional, Set, Tuple

from oarlock import _blocks, _file, _files, _prepare, _stores, errors

_SOCKET, _FIRST_MEMORY = 3, 4
_MIB = 1 << 20
# Files of one answer.
_FILES_PER_ANSWER = 64
# As of gRPC, of what is no error of Oarlock's.
_NOT_FOUND, _FAILED_PRECONDITION, _INTERNAL, _UNAVAILABLE = 5, 9, 13, 14
# Rows of a file that are prepared when it is listed, to see which columns come out.
_TRIED_ROWS = 1000
# While files are listed that are read as a whole.
_TELL_EVERY_S = 2.0


class _Stopped(Exception):
    """The worker does not need the rest of the rows."""


class _Worker:
    """The other end of the socket."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=_SOCKET)
        self._received = b""

    def send(self, **response: Any) -> None:
        """Sends a response."""
        self._socket.sendall(json.dumps(response).encode() + b"\n")

    def receive(self, wait: bool = True) -> Optional[Dict[str, Any]]:
        """The next request; None: there is none yet. Ends the process with the worker."""
        while b"\n" not in self._received:
            try:
                more = self._socket.recv(1 << 16, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except ConnectionError:
                more = b""
            if not more:
                os._exit(0)
            self._received += more
        line, self._received = self._received.split(b"\n", 1)
        request: Dict[str, Any] = json.loads(line)
        return request


class _Memory:
    """Memory that the worker maps, too."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._descriptor = _FIRST_MEMORY + number
        self._map: Optional[mmap.mmap] = None
        self.is_free = True

    def address(self, size: int) -> int:
        """Where so many bytes can be written."""
        import numpy as np

        if self._map is None or len(self._map) < size:
            # Some more than that: blocks differ by a few bytes.
            whole = (size + size // 8 + _MIB - 1) // _MIB * _MIB
            os.ftruncate(self._descriptor, whole)
            self._map = mmap.mmap(self._descriptor, whole)
        start: int = np.frombuffer(self._map, np.uint8).__array_interface__["data"][0]
        return start


class _Reader:
    """What the worker asks for, one after the other."""

    def __init__(self, worker: _Worker, begin: Dict[str, Any]) -> None:
        self._worker = worker
        features = begin.get("features", {})
        self._features = json.dumps(features)
        self._block_rows = int(begin["blockRows"])
        self._memories = [_Memory(i) for i in range(int(begin["numMemories"]))]
        self._blocks = _blocks.Blocks(self._features)
        # Of the batches that are written.
        self._schema: Any = None
        self._prepare = _prepare.Prepare(begin["prepare"]) if begin.get("prepare") else None
        self._stores = _stores.Stores(float(begin.get("readTimeoutS", 0)))
        self._files = _files.Files(
            begin.get("format", "PARQUET"),
            _wanted(features, self._block_rows, int(begin["memoryBytes"]),
                    all_columns=self._prepare is not None),
            self._stores)

    def list(self, request: Dict[str, Any]) -> None:
        """Tells of the files that match, and of their types."""
        listed: List[Dict[str, Any]] = []
        features, checked = self._features, None
        for path, file in self._opened(self._files.find(request.get("patterns", []))):
            with _naming(path):
                # Files of a day mostly have one schema.
                if checked is None or not file.schema.equals(checked):
                    features = self._resolved(features, file)
                    checked = file.schema
            listed.append(file.described())
            if len(listed) == _FILES_PER_ANSWER:
                self._worker.send(files={"files": listed})
                listed = []
        self._worker.send(files={"files": listed, "last": True,
                                 "features": json.loads(features)})

    def _opened(self, paths: List[str]) -> Iterator[Tuple[str, "_file.File"]]:
        """The files in their order; some are opened ahead, at a time."""
        with concurrent.futures.ThreadPoolExecutor(self._files.at_a_time) as pool:
            waiting: Deque[Tuple[str, concurrent.futures.Future[_file.File]]]
            waiting = collections.deque()
            following = iter(paths)
            try:
                for path in itertools.islice(following, self._files.at_a_time):
                    waiting.append((path, pool.submit(self._files.list, path)))
                while waiting:
                    path, future = waiting.popleft()
                    with _naming(path):
                        file = self._awaited(future)
                    for ahead in itertools.islice(following, 1):
                        waiting.append((ahead, pool.submit(self._files.list, ahead)))
                    yield path, file
            finally:
                for _, future in waiting:
                    future.cancel()

    def _awaited(self, future: "concurrent.futures.Future[_file.File]") -> "_file.File":
        """What it gives. The worker is told that files are read meanwhile."""
        told = self._files.num_listed_bytes
        while True:
            try:
                return future.result(timeout=_TELL_EVERY_S)
            except concurrent.futures.TimeoutError:
                if future.done():
                    raise
                if self._files.num_listed_bytes != told:
                    told = self._files.num_listed_bytes
                    self._worker.send(files={"files": []})

    def _resolved(self, features: str, file: "_file.File") -> str:
        """The features with the types that a file's columns have."""
        schema = file.schema
        if self._prepare is not None:
            rows = file.first_rows(_TRIED_ROWS)
            if not rows.num_rows:
                return features
            schema = self._prepare(rows.to_batches()[0]).schema
        return json.dumps(_blocks.Blocks(features).resolve(schema))

    def read(self, request: Dict[str, Any]) -> None:
        """Sends blocks of rows, until all are sent or nobody wants the rest."""
        listed = request["file"]
        path = listed["path"]
        begin, end = int(request.get("begin", 0)), int(request["end"])
        with _naming(path):
            try:
                for attempt in range(2):
                    version = self._stores.version(path)
                    try:
                        file = self._files.open(listed)
                        for at, batch, decoded, is_new in self._batches(file, begin, end):
                            self._send(at, self._bound(batch, is_new), decoded)
                            begin = at + batch.num_rows
                        break
                    except OSError as error:
                        # A key that has expired meanwhile is read anew once.
                        if attempt or not self._stores.renew(path, error, version):
                            self._stores.raise_refusal(path, error)
                            raise
            except _Stopped:
                pass
        self._worker.send(end={})

    def _batches(self, file: "_file.File", begin: int,
                 end: int) -> Iterator[Tuple[int, Any, int, bool]]:
        """Batches of rows [begin, end), where each begins, how many rows were decoded for
        it, and whether it has memory of its own."""
        first = 0
        for group, rows in enumerate(file.group_rows):
            if first < end and first + rows > begin:
                at, dropped = first, 0
                for piece in file.checked_pieces(group):
                    is_new = True
                    for batch in piece.to_batches(max_chunksize=self._block_rows):
                        size = batch.num_rows
                        skip = min(size, max(0, begin - at))
                        keep = max(0, min(size, end - at) - skip)
                        dropped += size - keep
                        if keep:
                            yield (at + skip, batch.slice(skip, keep), keep + dropped,
                                   is_new)
                            dropped, is_new = 0, False
                        at += size
                        if at >= end:
                            break
                    if at >= end:
                        break
            first += rows
        if first < end:
            raise errors.FailedPreconditionError(
                f"has {first} rows, and {end} were listed: it has changed since")

    def _bound(self, batch: Any, is_new: bool) -> Any:
        """The batch, prepared; its schema is bound."""
        if self._prepare is not None:
            batch, is_new = self._prepare(batch), True
        if is_new or not batch.schema.equals(self._schema):
            # Anew where the schema is as it was, too: dictionaries are others, and may
            # lie where those of the last batch did.
            self._schema = batch.schema
            self._blocks.bind(self._schema)
        return batch

    def _send(self, begin: int, batch: Any, decoded: int) -> None:
        size = self._blocks.prepare(batch)
        memory = self._free_memory()
        self._blocks.write(memory.address(size), size)
        memory.is_free = False
        self._worker.send(block={"memory": memory.number, "bytes": size, "begin": begin,
                                 "num_rows": batch.num_rows, "decoded_rows": decoded})

    def _free_memory(self) -> _Memory:
        while True:
            # What was freed meanwhile is heard first.
            while self._hear(wait=False):
                pass
            for memory in self._memories:
                if memory.is_free:
                    return memory
            self._hear(wait=True)

    def _hear(self, wait: bool) -> bool:
        """Takes a request that may come while rows are read. False: there is none."""
        request = self._worker.receive(wait)
        if request is None:
            return False
        if "stop" in request:
            raise _Stopped
        self.free(request["free"])
        return True

    def free(self, request: Dict[str, Any]) -> None:
        """A block is not needed any more."""
        self._memories[int(request.get("memory", 0))].is_free = True


def _wanted(features: Dict[str, Any], block_rows: int, memory_bytes: int,
            all_columns: bool) -> "_file.Wanted":
    """What these features read."""
    listed = features.get("features", [])
    types: Dict[str, str] = {}
    shares: Dict[str, str] = {}
    numbers: Set[str] = set()
    for each in listed:
        name = each["name"]
        kind = next((kind for kind in ("sparse", "sequence", "group") if kind in each), "")
        if kind:
            types[name] = each[kind].get("type", "AS_IT_IS")
            shares[name] = each[kind].get("shares", "")
        else:
            numbers.add(name)
    for name, other in shares.items():
        if other:
            types[name] = types.get(other, types[name])
    return _file.Wanted(
        columns=None if all_columns else {each["name"] for each in listed},
        # A function that prepares them gets the file's own types.
        texts=set() if all_columns else {
            name for name, kind in types.items() if kind != "INTEGER"},
        integers={name for name, kind in types.items() if kind == "INTEGER"},
        numbers=numbers, block_rows=block_rows, memory_bytes=memory_bytes)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors begin with the file's path."""
    try:
        yield
    except errors.Error as error:
        raise type(error)(f"'{path}' {error}" if _goes_on(str(error)) else
                          f"'{path}': {error}") from None
    except (ValueError, NotImplementedError, OSError) as error:
        # pyarrow's, of a file that is damaged: what the system says has a number, and
        # what a store says may be said of its network.
        if isinstance(error, OSError) and (error.errno is not None or "://" in path):
            raise
        raise errors.InvalidArgumentError(
            f"'{path}': {_stores.first_line(error)}") from None


def _goes_on(text: str) -> bool:
    """Whether a text goes on behind the file's name."""
    return text.startswith(("has ", "is "))


def _failure(error: BaseException) -> Tuple[int, str]:
    text = _stores.first_line(error)
    if isinstance(error, errors.Error):
        return errors.code_of(error), text
    if isinstance(error, FileNotFoundError):
        return _NOT_FOUND, text
    if isinstance(error, PermissionError):
        return _FAILED_PRECONDITION, text
    if isinstance(error, (OSError, MemoryError)):
        return _UNAVAILABLE, f"{type(error).__name__}: {text}"
    return _INTERNAL, f"{type(error).__name__}: {text}"


def main() -> None:
    """Does what the worker says until it ends."""
    # A terminal's Ctrl-C is the launcher's to hear.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = _Worker()
    reader: Optional[_Reader] = None
    while True:
        request = worker.receive()
        assert request is not None
        try:
            if "begin" in request:
                reader = _Reader(worker, request["begin"])
                worker.send(begun={"pid": os.getpid()})
                continue
            assert reader is not None
            if "list" in request:
                reader.list(request["list"])
            elif "read" in request:
                reader.read(request["read"])
            elif "free" in request:
                reader.free(request["free"])
            # One that came too late: all rows were sent.
            elif "stop" not in request:
                raise errors.InternalError(f"no request: {request}")
        except Exception as error:  # The worker says it.
            code, message = _failure(error)
            worker.send(failure={"code": code, "message": message})


if __name__ == "__main__":
    main()
