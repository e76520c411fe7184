"""What files of every format have in common."""

import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set

from oarlock import errors
from oarlock import _stores

# Of a group that is read piece by piece.
_CHECK_EVERY_S = 1.0


class Wanted(NamedTuple):
    """What is read of files.

    Attributes:
        columns: names, "a.b" for fields of structs; None: all columns.
        texts: of those, the ids that may be text.
        integers: of those, the ids that are integers whatever a file says.
        numbers: of those, the labels, weights and dense features.
        block_rows: rows of a batch, at most.
        memory_bytes: what is decoded at a time takes up to so much.
    """

    columns: Optional[Set[str]]
    texts: Set[str]
    integers: Set[str]
    numbers: Set[str]
    block_rows: int
    memory_bytes: int

    def takes(self, column: str) -> bool:
        """Whether a column of the top is read, or a field of it."""
        return self.columns is None or any(
            name == column or name.startswith(column + ".") for name in self.columns)

    def name_of(self, path: str) -> Optional[str]:
        """The name that stands for a path inside a column; None: it is not read."""
        end = len(path)
        while end >= 0:
            name = path[:end]
            if self.columns is not None and name in self.columns:
                return name
            end = path.rfind(".", 0, end)
        return path if self.columns is None else None


class File:
    """A file at its place.

    Attributes:
        path: as messages and the listing have it.
        schema: of all of its columns.
        group_rows: rows of each group: what is read as a whole.
    """

    # How many of them are listed at a time.
    AT_A_TIME = 64

    path: str
    schema: Any
    group_rows: List[int]

    def __init__(self, path: str, place: "_stores.Place", wanted: Wanted,
                 listed: Optional[Dict[str, Any]],
                 count: Optional[Callable[[int], None]]) -> None:
        """`listed`: what was listed before; None: it is being listed, and `count` is told
        of bytes that are read."""
        self.path = path
        self.place = place
        self.wanted = wanted

    stat: "_stores.Stat"

    def described(self) -> Dict[str, Any]:
        """JSON of ListedFile."""
        return {"path": self.path, "bytes": self.stat.size, "mark": self.stat.mark,
                "group_rows": self.group_rows}

    def check(self, listed: Dict[str, Any]) -> None:
        """Raises where it is not the file that was listed."""
        rows = [int(each) for each in listed.get("groupRows", [])]
        if (int(listed.get("bytes", 0)), listed.get("mark", ""), rows) != (
                self.stat.size, self.stat.mark, self.group_rows):
            raise self.changed(int(listed.get("bytes", 0)), sum(rows))

    def is_unchanged(self) -> bool:
        """Whether the file at the place is still the one that was opened."""
        return _stores.stat(self.place) == self.stat

    def checked_pieces(self, group: int) -> Iterator[Any]:
        """As pieces; raises where another file has taken the place meanwhile: its bytes
        may be among those that were read."""
        checked = -_CHECK_EVERY_S
        is_checked = False
        for piece in self.pieces(group):
            now = time.monotonic()
            is_checked = now - checked >= _CHECK_EVERY_S
            if is_checked:
                self._check_unchanged()
                checked = now
            yield piece
        if not is_checked:
            self._check_unchanged()

    def _check_unchanged(self) -> None:
        now = _stores.stat(self.place)
        if now != self.stat:
            raise errors.FailedPreconditionError(
                f"has changed while it was read: it had {self.stat.size} bytes and has "
                f"{now.size}; write new files under new names")

    def changed(self, num_bytes: int, num_rows: int) -> errors.Error:
        """It is not the one that was listed."""
        return errors.FailedPreconditionError(
            f"has changed since it was listed: it had {num_bytes} bytes and {num_rows} "
            f"rows, and has {self.stat.size} and {sum(self.group_rows)}; write new files "
            "under new names")

    def pieces(self, group: int) -> Iterator[Any]:
        """Tables, one after the other, that are the rows of a group."""
        raise NotImplementedError

    def first_rows(self, rows: int) -> Any:
        """A table of the first rows, at most so many."""
        raise NotImplementedError

    def too_large(self, what: str, num_bytes: int) -> errors.Error:
        """It takes more than it may."""
        return errors.ResourceExhaustedError(
            f"{what} takes {num_bytes} bytes in memory, and a reader takes up to "
            f"{self.wanted.memory_bytes} (--reader_memory_mb); give it more, or write "
            "smaller ones")
