"""Reads rows of columnar files for a worker that is no Python.

    python -m oarlock._reader

A worker starts it, with a socket as descriptor 3 and memories to share from 4 on, and
says what it wants in lines of JSON (proto/v1/reader.proto). Rows go into the memories as
blocks of the engine's, which liboarlock writes. It ends when the socket does.
"""

import json
import mmap
import os
import signal
import socket
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from oarlock import _blocks, errors
from oarlock import _files

_SOCKET, _FIRST_MEMORY = 3, 4
_MIB = 1 << 20
# Files of one answer.
_FILES_PER_ANSWER = 64
# As of gRPC, of what is no error of Oarlock's.
_NOT_FOUND, _INTERNAL, _UNAVAILABLE = 5, 13, 14


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
        self._features = json.dumps(begin.get("features", {}))
        self._block_rows = int(begin["blockRows"])
        self._memory_bytes = int(begin["memoryBytes"])
        self._memories = [_Memory(i) for i in range(int(begin["numMemories"]))]
        self._blocks = _blocks.Blocks(self._features)
        self._files = _files.Files()
        self._columns = _columns_of(begin.get("features", {}))

    def list(self, request: Dict[str, Any]) -> None:
        """Tells of the files that match, and of their types."""
        listed: List[Dict[str, Any]] = []
        features = self._features
        for path in self._files.find(request.get("patterns", [])):
            file = self._files.open(path)
            try:
                features = json.dumps(_blocks.Blocks(features).resolve(file.schema))
            except errors.Error as error:
                raise _named(path, error) from None
            listed.append(file.described())
            if len(listed) == _FILES_PER_ANSWER:
                self._worker.send(files={"files": listed})
                listed = []
        self._worker.send(files={"files": listed, "last": True,
                                 "features": json.loads(features)})

    def read(self, request: Dict[str, Any]) -> None:
        """Sends blocks of rows, until all are sent or nobody wants the rest."""
        path = request["file"]["path"]
        begin, end = int(request.get("begin", 0)), int(request["end"])
        file = self._files.open(path)
        file.check(request["file"])
        try:
            bound = None
            try:
                for at, batch, decoded in self._batches(file, begin, end):
                    # Not the file's: columns that are not read are not in it.
                    if bound is None or not batch.schema.equals(bound):
                        bound = batch.schema
                        self._blocks.bind(bound)
                    self._send(at, batch, decoded)
            except _Stopped:
                pass
        except errors.Error as error:
            raise _named(path, error) from None
        self._worker.send(end={})

    def _batches(self, file: "_files.File", begin: int,
                 end: int) -> Iterator[Tuple[int, Any, int]]:
        """Batches of rows [begin, end), where each begins, and how many rows were
        decoded for it."""
        first = 0
        for group, rows in enumerate(file.group_rows):
            if first < end and first + rows > begin:
                at, dropped = first, 0
                for batch in file.batches(group, self._columns, self._block_rows,
                                          self._memory_bytes):
                    size = batch.num_rows
                    skip = min(size, max(0, begin - at))
                    keep = max(0, min(size, end - at) - skip)
                    dropped += size - keep
                    if keep:
                        yield at + skip, batch.slice(skip, keep), keep + dropped
                        dropped = 0
                    at += size
                    if at >= end:
                        break
            first += rows
        if first < end:
            raise errors.FailedPreconditionError(
                f"has {first} rows, and {end} were listed: it has changed since")

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


def _columns_of(features: Dict[str, Any]) -> Set[str]:
    return {each["name"] for each in features.get("features", [])}


def _named(path: str, error: errors.Error) -> errors.Error:
    return type(error)(f"'{path}': {error}")


def _failure(error: BaseException) -> Tuple[int, str]:
    if isinstance(error, errors.Error):
        return errors.code_of(error), str(error)
    if isinstance(error, FileNotFoundError):
        return _NOT_FOUND, str(error)
    if isinstance(error, (OSError, MemoryError)):
        return _UNAVAILABLE, f"{type(error).__name__}: {error}"
    return _INTERNAL, f"{type(error).__name__}: {error}"


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
