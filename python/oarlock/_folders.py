"""Folders of checkpoints that are copied: on the disk, and in stores by fsspec."""

import contextlib
import fcntl
import importlib
import os
import shutil
import stat
from typing import Any, Dict, Iterator, List, Optional

from oarlock import errors

# Files are read and written in pieces of this size.
PIECE_BYTES = 8 << 20
# A store takes up to 10,000 pieces of a file: those of larger files are larger.
_PIECES_MAX = 9000

# What has to be installed beside fsspec.
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs",
             "abfss": "adlfs", "az": "adlfs", "sftp": "paramiko", "ssh": "paramiko",
             "oci": "ocifs", "oss": "ossfs"}


class Folder:
    """A folder. Names are relative to it. Files that are missing are
    FileNotFoundError. Any number of threads."""

    def __init__(self, path: str) -> None:
        self.path = path

    def path_of(self, name: str) -> str:
        """The path of what has that name, for messages."""
        return f"{self.path}/{name}" if name else self.path

    # Whether files that an older copy has published are read again before they count
    # as there. In a store that costs as much as their copy.
    reads_published = False

    def sizes(self, name: str) -> Dict[str, Optional[int]]:
        """What is in a folder of it: the bytes of each file, None for folders. Nothing
        where there is no such folder."""
        raise NotImplementedError

    def size_of(self, name: str) -> Optional[int]:
        """The bytes of a file; None where there is none."""
        raise NotImplementedError

    def read(self, name: str, limit: int) -> bytes:
        """A small file. Errors where it has more bytes than the limit."""
        raise NotImplementedError

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        """The first bytes of a file, up to that size, in pieces."""
        raise NotImplementedError

    def write(self, name: str, pieces: Iterator[bytes], size: int) -> None:
        """Makes a file of so many bytes. It is there as a whole, or as it was before."""
        raise NotImplementedError

    def put(self, name: str, text: bytes) -> None:
        """Makes or replaces a small file, at once: readers find the old or the new one."""
        raise NotImplementedError

    def repeat(self, old: str, new: str) -> bool:
        """Makes a file like another one of this folder without reading it here. False:
        that cannot be done."""
        raise NotImplementedError

    def remove(self, name: str) -> None:
        """Removes a file, or a folder with what is in it."""
        raise NotImplementedError

    def sync(self, names: List[str]) -> None:
        """What was made in these folders stays after the loss of power."""

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else copies to it meanwhile, where that can be known."""
        yield


class LocalFolder(Folder):
    """On the disk."""

    reads_published = True

    def sizes(self, name: str) -> Dict[str, Optional[int]]:
        found: Dict[str, Optional[int]] = {}
        try:
            names = os.listdir(self.path_of(name))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        for each in names:
            path = os.path.join(self.path_of(name), each)
            # Others may have removed it since.
            with contextlib.suppress(FileNotFoundError):
                found[each] = None if os.path.isdir(path) else os.lstat(path).st_size
        return found

    def size_of(self, name: str) -> Optional[int]:
        try:
            return os.stat(self.path_of(name)).st_size
        except FileNotFoundError:
            return None

    def read(self, name: str, limit: int) -> bytes:
        with self._open(name) as file:
            text = file.read(min(limit, os.fstat(file.fileno()).st_size) + 1)
        return _limited(self.path_of(name), text, limit)

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        with self._open(name) as file:
            # Not what this process has just written, which is in memory.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while size > 0:
                piece = file.read(min(size, PIECE_BYTES))
                if not piece:
                    return
                size -= len(piece)
                yield piece

    def write(self, name: str, pieces: Iterator[bytes], size: int) -> None:
        temporary = self._temporary(name)
        os.makedirs(os.path.dirname(self.path_of(name)), exist_ok=True)
        try:
            with open(temporary, "wb", buffering=0) as file:
                for piece in pieces:
                    rest = memoryview(piece)
                    while rest:
                        rest = rest[file.write(rest):]
                os.fsync(file.fileno())
            os.replace(temporary, self.path_of(name))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def put(self, name: str, text: bytes) -> None:
        path = self.path_of(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # As servers do it: what they leave behind is known.
        with open(path + ".tmp", "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
        _sync_folder(os.path.dirname(path))

    def repeat(self, old: str, new: str) -> bool:
        temporary = self._temporary(new)
        os.makedirs(os.path.dirname(self.path_of(new)), exist_ok=True)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            os.link(self.path_of(old), temporary)
        except OSError:
            return False
        os.replace(temporary, self.path_of(new))
        return True

    def remove(self, name: str) -> None:
        path = self.path_of(name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def sync(self, names: List[str]) -> None:
        for name in names:
            _sync_folder(self.path_of(name))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        os.makedirs(self.path, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise errors.FailedPreconditionError(
                    f"another process copies to {self.path}; wait until it has "
                    "ended") from None
            yield
        finally:
            os.close(descriptor)

    def _open(self, name: str) -> Any:
        path = self.path_of(name)
        # Reading from a pipe may never end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise errors.FailedPreconditionError(
                f"{path} is no regular file; a checkpoint has no others")
        return open(path, "rb", buffering=0)

    def _temporary(self, name: str) -> str:
        """Beside the folder of the file: there only files of the manifest may lie."""
        folder, server, file = name.rsplit("/", 2)
        return self.path_of(f"{folder}/{server}.{file}.tmp")


class StoreFolder(Folder):
    """In a store that fsspec knows."""

    def __init__(self, url: str) -> None:
        super().__init__(url.rstrip("/"))
        self._store, root = _store_of(self.path)
        self._root = root.rstrip("/")

    def _inner(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def sizes(self, name: str) -> Dict[str, Optional[int]]:
        # It would remember what was there before.
        self._store.invalidate_cache()
        try:
            listed = self._store.ls(self._inner(name), detail=True)
        except FileNotFoundError:
            return {}
        found: Dict[str, Optional[int]] = {}
        for each in listed:
            inner = str(each["name"]).rstrip("/")
            base = inner.rsplit("/", 1)[-1]
            # Some stores list a mark of the folder itself.
            if base and inner.strip("/") != self._inner(name).strip("/"):
                found[base] = (None if each["type"] == "directory"
                               else int(each["size"]))
        return found

    def size_of(self, name: str) -> Optional[int]:
        self._store.invalidate_cache()
        try:
            return int(self._store.info(self._inner(name))["size"])
        except FileNotFoundError:
            return None

    def read(self, name: str, limit: int) -> bytes:
        text = self._range(name, 0, limit + 1)
        return _limited(self.path_of(name), text, limit)

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        at = 0
        while at < size:
            piece = self._range(name, at, min(size, at + PIECE_BYTES))
            if not piece:
                return
            at += len(piece)
            yield piece

    def write(self, name: str, pieces: Iterator[bytes], size: int) -> None:
        if size <= PIECE_BYTES:
            self.put(name, b"".join(pieces))
            return
        self._make_folder_of(name)
        piece_bytes = max(PIECE_BYTES, -(-size // _PIECES_MAX))
        file = self._store.open(self._inner(name), "wb", block_size=piece_bytes)
        try:
            for piece in pieces:
                file.write(piece)
        except BaseException:
            # close() would make a file of what has come so far.
            with contextlib.suppress(Exception):
                file.discard()
            with contextlib.suppress(Exception):
                file.closed = True
            raise
        file.close()

    def put(self, name: str, text: bytes) -> None:
        self._make_folder_of(name)
        self._store.pipe_file(self._inner(name), text)

    def repeat(self, old: str, new: str) -> bool:
        try:
            self._store.cp_file(self._inner(old), self._inner(new))
        except Exception:  # It is uploaded then.
            return False
        return True

    def remove(self, name: str) -> None:
        self._store.invalidate_cache()
        self._store.rm(self._inner(name), recursive=True)

    def _make_folder_of(self, name: str) -> None:
        # In a store of objects it is no more than a name; others want it.
        if not getattr(self._store, "async_impl", False):
            self._store.makedirs(self._inner(name).rsplit("/", 1)[0], exist_ok=True)

    def _range(self, name: str, begin: int, end: int) -> bytes:
        part: bytes = self._store.cat_file(self._inner(name), start=begin, end=end)
        return part


def folder_of(path: str) -> Folder:
    """A folder by its path or URL."""
    if path.startswith("file://"):
        path = path[len("file://"):]
    if "://" in path:
        return StoreFolder(path)
    return LocalFolder(os.path.abspath(path))


def _store_of(url: str) -> Any:
    scheme = url.split("://", 1)[0]
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise errors.FailedPreconditionError(
            f"{url} is reached with fsspec, which is not installed; install it: pip "
            f"install fsspec {_PACKAGES.get(scheme, '')}".rstrip()) from None
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        package = _PACKAGES.get(scheme)
        raise errors.FailedPreconditionError(
            f"{url} is reached with a package that is not installed; install it: "
            + (f"pip install {package}" if package else str(error))) from None
    except ValueError as error:
        raise errors.InvalidArgumentError(
            f"{url} cannot be reached: {error}; legal are a local folder and URLs that "
            "fsspec knows, such as s3://bucket/folder") from None


def _limited(path: str, text: bytes, limit: int) -> bytes:
    if len(text) > limit:
        raise errors.DataLossError(
            f"{path} has more than {limit} bytes; legal is up to that; use another "
            "checkpoint")
    return text


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
