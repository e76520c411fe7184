#!/usr/bin/env python3
"""Keeps the compile caches under a limit: what was not read for longest goes.

Bazel 4.2 neither limits its disk cache nor records what it reads. The file system
does: a read moves a file's access time, but with the usual mount option
relatime only where it lies before the file's time of modification. So each run
of this program moves the time of the last read into the time of modification,
and sets the access time before it: the next read will be seen. The time of
modification is then the time of the last read, to the second. Where reads are
not seen at all (noatime), it is the time of writing.

Bazel takes an entry of which a file is missing for a miss, so files may go
while a build runs.
"""

import argparse
import contextlib
import fcntl
import os
import pathlib
import re
import sys

# The folders that bazel/cache.sh makes; what else lies beside them is others'.
CACHE_NAME = re.compile(r"[0-9a-f]{16}")


class Entry:
    """One file of a cache."""

    def __init__(self, path, status):
        self.path = path
        self.bytes = status.st_blocks * 512
        self.read_at = status.st_mtime
        self.read_since = status.st_atime > status.st_mtime
        if self.read_since:
            self.read_at = status.st_atime

    def arm(self):
        """Lets the next read be seen."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.path, (self.read_at - 1, self.read_at))


def entries_of(root):
    """All files of the caches under root, as far as they stay."""
    found = []
    for folder in root.iterdir():
        if not CACHE_NAME.fullmatch(folder.name) or not folder.is_dir():
            continue
        for path, _, names in os.walk(folder):
            for name in names:
                file = os.path.join(path, name)
                with contextlib.suppress(FileNotFoundError):
                    found.append(Entry(file, os.stat(file)))
    return found


def trim(root, max_bytes):
    """Removes the files that were not read for longest.

    Returns the bytes and the number of the files that are left, and the number
    of those that went.
    """
    entries = entries_of(root)
    total = sum(entry.bytes for entry in entries)
    removed = 0
    for entry in sorted(entries, key=lambda entry: entry.read_at):
        if total > max_bytes:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.path)
            total -= entry.bytes
            removed += 1
        else:
            entry.arm()
    return total, len(entries) - removed, removed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--max_mb", required=True)
    args = parser.parse_args()
    if not args.max_mb.isascii() or not args.max_mb.isdigit():
        print(f"cache: OARLOCK_CACHE_MB is '{args.max_mb}'; legal is a number "
              "of megabytes, for example 10000", file=sys.stderr)
        return 2
    with open(args.root / "trim.lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0  # somebody else is at it
        left, kept, removed = trim(args.root, int(args.max_mb) * 10**6)
    print(f"cache: {left / 1e6:.0f} of {args.max_mb} MB in {kept} files, "
          f"{removed} removed; {args.root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
