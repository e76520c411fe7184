"""Copies the current checkpoint of a folder to another one, on the disk or in a store.

    python -m oarlock._copy FROM TO

What `oarlock checkpoint copy` starts, which has looked at the arguments.
"""

import contextlib
import os
import re
import signal
import sys
import threading
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from oarlock import _folders, _sums, errors

# Files that are copied at a time.
_THREADS = 8
# How often FROM may replace its checkpoint while it is copied.
_TRIES = 5
# As storage/checkpoint_dir.h and checkpoint/manifest.cc have them.
_CURRENT_BYTES_MAX = 4096
_MANIFEST_BYTES_MAX = 1 << 30
_FILES_MAX = 1 << 20
_FORMAT_VERSION = 1

_CURRENT, _BEST, _MANIFEST = "CURRENT", "BEST", "MANIFEST"
_NAME = re.compile(r"ckpt-(?!0{8})([0-9]{8}|[1-9][0-9]{8,19})")
_CURRENT_LINE = re.compile(rf"({_NAME.pattern}) ([0-9a-f]{{16}})\n")
_SUM_LINE = re.compile(rb"# xxh3 ([0-9a-f]{16})\n")
_SUM_LINE_BYTES = 24


class File(NamedTuple):
    """A file of a checkpoint. `name`: in its folder, "server-000/000012.sst"."""

    name: str
    size: int
    xxh3: int


class Checkpoint(NamedTuple):
    """A checkpoint of a folder. `inside`: where it lies there, "ckpt-00000042/" or,
    where the folder is its own, nothing."""

    name: str
    inside: str
    manifest: bytes
    files: List[File]

    def current(self) -> bytes:
        """What a CURRENT says that names it."""
        return f"{self.name} {_sums.sum_of(self.manifest):016x}\n".encode()


class _Vanished(Exception):
    """The folder that is copied has a newer checkpoint, and not this one any more."""


def find_checkpoint(folder: _folders.Folder) -> Checkpoint:
    """The current checkpoint of a folder, or the one that it is. NotFoundError,
    DataLossError."""
    for _ in range(_TRIES):
        try:
            current = folder.read(_CURRENT, _CURRENT_BYTES_MAX)
        except FileNotFoundError:
            return _checkpoint_that_is(folder)
        line = _CURRENT_LINE.fullmatch(current.decode("latin-1"))
        if line is None:
            raise _damaged(folder.path_of(_CURRENT),
                           "is not a line \"ckpt-00000042 <16 hex digits>\"")
        name = line[1]
        manifest = f"{name}/{_MANIFEST}"
        try:
            text = folder.read(manifest, _MANIFEST_BYTES_MAX)
        except FileNotFoundError:
            if _still_says(folder, current):
                raise _damaged(folder.path_of(manifest),
                               f"is missing; {_CURRENT} names it") from None
            continue
        if _sums.sum_of(text) != int(line[3], 16):
            if _still_says(folder, current):
                raise _damaged(folder.path_of(manifest),
                               f"has another sum than {_CURRENT} says")
            continue
        return Checkpoint(name, f"{name}/", text,
                          parse_manifest(folder.path_of(manifest), text))
    raise _replaced_too_often(folder)


def _checkpoint_that_is(folder: _folders.Folder) -> Checkpoint:
    name = folder.path.rsplit("/", 1)[-1]
    try:
        if _NAME.fullmatch(name):
            text = folder.read(_MANIFEST, _MANIFEST_BYTES_MAX)
            return Checkpoint(name, "", text,
                              parse_manifest(folder.path_of(_MANIFEST), text))
    except FileNotFoundError:
        pass
    raise errors.NotFoundError(
        f"there is no checkpoint in {folder.path} (no {_CURRENT}); check the path, and "
        "that this machine sees it")


def _still_says(folder: _folders.Folder, current: bytes) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return folder.read(_CURRENT, _CURRENT_BYTES_MAX) == current
    return False


def parse_manifest(path: str, text: bytes) -> List[File]:
    """The files that a manifest lists. DataLossError, naming `path`;
    FailedPreconditionError for another version of the format."""
    body, last = text[:-_SUM_LINE_BYTES], text[-_SUM_LINE_BYTES:]
    line = _SUM_LINE.fullmatch(last)
    if line is None:
        raise _damaged(path, "does not end in a line \"# xxh3 <16 hex digits>\"")
    if _sums.sum_of(body) != int(line[1], 16):
        raise _damaged(path, "has another sum than its last line says")
    version, files = 0, []
    directory, seen = "", set()
    fields: Dict[str, str] = {}
    for within, name, value in _fields_of(path, body):
        if (within, name) == ((), "format_version"):
            version = _number(path, value)
        elif within == ("servers",):
            if name == "directory":
                directory = _unquoted(path, value)
            elif name == "files":
                fields = {}
        elif within == ("servers", "files"):
            if name != "}":
                fields[name] = value
                continue
            file = File(f"{directory}/{_unquoted(path, fields.get('name', ''))}",
                        _number(path, fields.get("bytes", "0")),
                        _number(path, fields.get("xxh3", "0")))
            if not re.fullmatch(r"server-[0-9]{3,5}/[^/\0]+", file.name) or (
                    file.name.rsplit("/", 1)[1] in (".", "..") or file.name in seen):
                raise _damaged(path, f"lists the file {file.name!r}, which is not legal")
            seen.add(file.name)
            files.append(file)
            if len(files) > _FILES_MAX:
                raise _damaged(path, f"lists more than {_FILES_MAX} files")
    if version != _FORMAT_VERSION:
        raise errors.FailedPreconditionError(
            f"{path} is of format {version}; this program copies format "
            f"{_FORMAT_VERSION}; use the program that wrote it, or a newer one")
    return files


def _fields_of(path: str, text: bytes) -> Iterator[Tuple[Tuple[str, ...], str, str]]:
    """The lines of protobuf's text form: the messages that a field is within, its name,
    its value. A message has the name "}" at its end, and no value at its begin."""
    within: List[str] = []
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end].strip()
        at = end + 1
        if line.endswith(b" {"):
            name = line[:-2].decode("ascii", "replace")
            yield tuple(within), name, ""
            within.append(name)
        elif line == b"}":
            if not within:
                raise _damaged(path, "closes a message that it does not begin")
            yield tuple(within), "}", ""
            within.pop()
        elif b": " in line:
            name, value = line.decode("ascii", "replace").split(": ", 1)
            yield tuple(within), name, value
        elif line:
            raise _damaged(path, "is not the text form of a manifest")
    if within:
        raise _damaged(path, "ends within a message")


def _unquoted(path: str, value: str) -> str:
    if not re.fullmatch(r'"[^"\\]*"', value):
        raise _damaged(path, f"has the name {value}, which is not legal")
    return value[1:-1]


def _number(path: str, value: str) -> int:
    if not re.fullmatch("[0-9]{1,20}", value):
        raise _damaged(path, f"has the number {value}, which is not legal")
    return int(value)


class _Copy:
    """The copy of one folder to another."""

    def __init__(self, source: _folders.Folder, target: _folders.Folder) -> None:
        self._source = source
        self._target = target
        # Of the checkpoint that is current in the target, if there is one.
        self._published: Optional[Checkpoint] = None
        # Where the target has files of a size and a sum: of its copy that is current,
        # and of what was copied before the source replaced it.
        self._known: Dict[Tuple[int, int], str] = {}
        self._brought: Dict[Tuple[int, int], str] = {}
        self._lock = threading.Lock()
        self.num_new = self.bytes_new = 0

    def run(self) -> Checkpoint:
        """Copies, publishes, removes what is not needed any more."""
        self._look_at_target()
        checkpoint = self._bring()
        self._check_nobody_else()
        self._publish(checkpoint)
        self._remove_others(checkpoint)
        return checkpoint

    def _look_at_target(self) -> None:
        target = self._target
        names = target.sizes("")
        for name in ("store", "log"):
            if name in names:
                raise errors.FailedPreconditionError(
                    f"{target.path} is the folder of a job (it has {name}/); copy to "
                    "another folder")
        if _CURRENT in names:
            try:
                self._published = find_checkpoint(target)
            except (errors.DataLossError, errors.NotFoundError) as error:
                raise errors.FailedPreconditionError(
                    f"{target.path} has a damaged copy, which is left as it is: {error}; "
                    "copy to another folder, or remove that one") from None
            for file in self._published.files:
                self._known[file.size, file.xxh3] = (
                    f"{self._published.inside}{file.name}")
        for name in names:
            if self._published is None and not _is_ours(name):
                raise errors.FailedPreconditionError(
                    f"{target.path} is to hold a copy but has files of somebody else "
                    f"({name}); it must be empty, new or a folder of checkpoints")

    def _bring(self) -> Checkpoint:
        """Copies all files of the checkpoint that is current in the source; of a newer
        one where that is removed meanwhile."""
        for _ in range(_TRIES):
            checkpoint = find_checkpoint(self._source)
            if (self._published is not None
                    and self._published.name == checkpoint.name
                    and self._published.manifest != checkpoint.manifest):
                raise errors.FailedPreconditionError(
                    f"{self._target.path} has another {checkpoint.name}, of another job; "
                    "copy to another folder, or remove that one")
            try:
                self._bring_files(checkpoint)
            except _Vanished:
                print(f"oarlock checkpoint: {self._source.path} has removed "
                      f"{checkpoint.name} meanwhile; its next one is copied",
                      file=sys.stderr, flush=True)
                self._known.update(self._brought)
                continue
            return checkpoint
        raise _replaced_too_often(self._source)

    def _bring_files(self, checkpoint: Checkpoint) -> None:
        folders = sorted({each.name.split("/")[0] for each in checkpoint.files})
        there: Dict[str, Optional[int]] = {}
        for server in self._target.sizes(checkpoint.name):
            if not server.startswith("server-"):
                continue
            for file, size in self._target.sizes(f"{checkpoint.name}/{server}").items():
                there[f"{server}/{file}"] = size
        is_published = (self._published is not None
                        and self._published.name == checkpoint.name)
        if not is_published and _MANIFEST in self._target.sizes(checkpoint.name):
            # Files are not all of one checkpoint from now on.
            self._target.remove(f"{checkpoint.name}/{_MANIFEST}")

        def bring(file: File) -> None:
            self._bring_file(checkpoint, file, there.get(file.name), is_published)

        _for_each(checkpoint.files, bring)
        # What another attempt has left.
        listed = {each.name for each in checkpoint.files}
        for server in self._target.sizes(checkpoint.name):
            if server == _MANIFEST:
                continue
            if server not in folders:
                self._target.remove(f"{checkpoint.name}/{server}")
                continue
            for name in self._target.sizes(f"{checkpoint.name}/{server}"):
                if f"{server}/{name}" not in listed:
                    self._target.remove(f"{checkpoint.name}/{server}/{name}")
        self._target.sync([f"{checkpoint.name}/{server}" for server in folders])

    def _bring_file(self, checkpoint: Checkpoint, file: File, size_there: Optional[int],
                    is_published: bool) -> None:
        target = f"{checkpoint.name}/{file.name}"
        if size_there == file.size and (
                (is_published and not self._target.reads_published)
                or self._has_sum(target, file)):
            self._remember(file, target)
            return
        known = self._known.get((file.size, file.xxh3))
        if (known is not None and known != target and self._target.repeat(known, target)
                and self._is_repeated(target, file)):
            return
        self._target.write(target, self._pieces_of(checkpoint, file), file.size)
        if not self._has_sum(target, file):
            raise errors.DataLossError(
                f"{self._target.path_of(target)} has other bytes than were written to "
                "it; look at the disk or the store, and copy again")
        self._remember(file, target)
        with self._lock:
            self.num_new += 1
            self.bytes_new += file.size

    def _is_repeated(self, target: str, file: File) -> bool:
        """Whether what the target has made of one of its files is this one."""
        if self._target.reads_published:
            return self._has_sum(target, file)
        return self._target.size_of(target) == file.size

    def _remember(self, file: File, target: str) -> None:
        with self._lock:
            self._brought[file.size, file.xxh3] = target

    def _has_sum(self, target: str, file: File) -> bool:
        """Whether the target has these bytes: reads them."""
        if self._target.size_of(target) != file.size:
            return False
        summed = _sums.Sum()
        try:
            for piece in self._target.pieces(target, file.size):
                summed.add(piece)
        except FileNotFoundError:
            return False
        return (summed.size, summed.value()) == (file.size, file.xxh3)

    def _pieces_of(self, checkpoint: Checkpoint, file: File) -> Iterator[bytes]:
        """The bytes of the source's file. Errors where they are not what the manifest
        says, after the last one."""
        name = checkpoint.inside + file.name
        path = self._source.path_of(name)
        summed = _sums.Sum()
        try:
            for piece in self._source.pieces(name, file.size):
                summed.add(piece)
                yield piece
        except FileNotFoundError:
            if checkpoint.inside and not _still_says(self._source, checkpoint.current()):
                raise _Vanished from None
            raise _damaged(path, "is missing; its manifest lists it") from None
        if (summed.size, summed.value()) != (file.size, file.xxh3):
            raise _damaged(path, f"has the XXH3 {summed.value():016x} over {summed.size} "
                                 f"bytes; its manifest says {file.xxh3:016x} over "
                                 f"{file.size}")

    def _check_nobody_else(self) -> None:
        """Where a folder cannot be locked."""
        published: Optional[bytes] = None
        with contextlib.suppress(FileNotFoundError):
            published = self._target.read(_CURRENT, _CURRENT_BYTES_MAX)
        if published != (self._published and self._published.current()):
            raise errors.FailedPreconditionError(
                f"another process has copied to {self._target.path} meanwhile, and that "
                "copy is current; let one of them do it at a time")

    def _publish(self, checkpoint: Checkpoint) -> None:
        manifest = f"{checkpoint.name}/{_MANIFEST}"
        if self._published is None or self._published.name != checkpoint.name:
            self._target.put(manifest, checkpoint.manifest)
            if self._target.read(manifest, _MANIFEST_BYTES_MAX) != checkpoint.manifest:
                raise errors.DataLossError(
                    f"{self._target.path_of(manifest)} has other bytes than were written "
                    "to it; look at the disk or the store, and copy again")
            self._target.sync(["", checkpoint.name])
            self._target.put(_CURRENT, checkpoint.current())

    def _remove_others(self, checkpoint: Checkpoint) -> None:
        """What is superseded. It is published: a failure is a warning."""
        try:
            kept = {checkpoint.name}
            names = self._target.sizes("")
            if _BEST in names:
                kept.add(self._target.read(_BEST, _CURRENT_BYTES_MAX).decode().strip())
            for name in names:
                if not _NAME.fullmatch(name) or name in kept:
                    continue
                # Without it the rest is no checkpoint.
                with contextlib.suppress(FileNotFoundError):
                    self._target.remove(f"{name}/{_MANIFEST}")
                self._target.remove(name)
        except Exception as error:
            print(f"oarlock checkpoint: warning: older copies stay in "
                  f"{self._target.path}: {_one_line(error)}", file=sys.stderr)


def _for_each(files: List[File], work: Callable[[File], None]) -> None:
    """Several at a time. Raises what one of them has raised."""
    rest = iter(files)
    lock = threading.Lock()
    failures: List[BaseException] = []

    def run() -> None:
        while True:
            with lock:
                file = None if failures else next(rest, None)
            if file is None:
                return
            try:
                work(file)
            except BaseException as error:
                with lock:
                    failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(min(_THREADS, len(files)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # That a checkpoint is away explains the others.
    for failure in failures:
        if isinstance(failure, _Vanished):
            raise failure
    if failures:
        raise failures[0]


def _is_ours(name: str) -> bool:
    return name in (_CURRENT + ".tmp", _BEST, _BEST + ".tmp") or bool(
        _NAME.fullmatch(name))


def _damaged(path: str, what: str) -> errors.Error:
    return errors.DataLossError(f"{path} {what}; use another checkpoint")


def _replaced_too_often(folder: _folders.Folder) -> errors.Error:
    return errors.UnavailableError(
        f"{folder.path} has replaced its checkpoint {_TRIES} times while it was copied; "
        "give its job a larger --checkpoint_keep or --checkpoint_interval_s")


def _one_line(error: BaseException) -> str:
    """What an error says, without secrets of the environment."""
    text = str(error) or type(error).__name__
    if not isinstance(error, (errors.Error, OSError)):
        text = f"{type(error).__name__}: {text}"
    for name, value in os.environ.items():
        if len(value) >= 8 and re.search("SECRET|TOKEN|PASSWORD|KEY", name.upper()):
            text = text.replace(value, f"<{name}>")
    return " ".join(text.split())


def copy(source: str, target: str) -> str:
    """Copies the current checkpoint of `source`; says what it did. Raises oarlock.Error
    and what the disk and the store raise."""
    to = _folders.folder_of(target)
    with to.locked():
        run = _Copy(_folders.folder_of(source), to)
        checkpoint = run.run()
    total = sum(file.size for file in checkpoint.files)
    return (f"copied {checkpoint.name} to {to.path_of(checkpoint.name)}: "
            f"{len(checkpoint.files)} files, {total} bytes; of them new "
            f"{run.num_new} files, {run.bytes_new} bytes")


def main() -> int:
    """The exit code."""
    # The copy that is there is whole at any time.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if len(sys.argv) != 3:
        print("oarlock checkpoint: copy takes FROM and TO", file=sys.stderr)
        return 2
    try:
        print(copy(sys.argv[1], sys.argv[2]), flush=True)
    except Exception as error:  # One line says it.
        print(f"oarlock checkpoint: no copy was made: {_one_line(error)}",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
