"""Reads files as a worker does, and what the rows should be: shared by tests of readers."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import pyarrow as pa

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent.parent))

from blocks_test import key_of  # noqa: E402
from oarlock_testing import ROOT, eventually, oarlock  # noqa: E402
from oarlock import features  # noqa: E402

READ_ROWS = os.path.abspath(os.environ["OARLOCK_READ_ROWS"])
LISTED = features.Features([
    features.Label("y"), features.SparseFeature("u"), features.DenseFeature("d"),
    features.SequenceFeature("s")])


def table_of(first, rows):
    """Rows that say which they are."""
    numbers = range(first, first + rows)
    return pa.table({
        # Columns that are not read may stand anywhere.
        "first": pa.array([first] * rows),
        "u": pa.array([f"user {n % 97}" for n in numbers]),
        "y": pa.array([n % 2 for n in numbers], pa.int8()),
        "middle": pa.array([[1.5]] * rows),
        "d": pa.array([n / 4 for n in numbers], pa.float32()),
        "s": pa.array([list(range(n % 3)) for n in numbers], pa.list_(pa.int64())),
        "unused": pa.array([b"x" * 50] * rows),
    })


def expected(first, rows):
    """Lines of Reader.read, of rows of table_of."""
    lines = []
    for n in range(first, first + rows):
        sequence = "".join(f" {key_of(1, 's', i)}" for i in range(n % 3))
        user = key_of(2, "u", f"user {n % 97}".encode())
        lines.append(f"row {n} {n % 2:g} {n / 4:g} |{sequence} | {user}")
    return lines


class Reader:
    """The program that reads as a worker does."""

    def __init__(self, pattern, *, block_rows=100, memory_bytes=1 << 30, timeout_s=30,
                 listed=LISTED, python=sys.executable, path=ROOT / "python",
                 format="PARQUET", prepare="", environment=(), folder=None):
        self.process = subprocess.Popen(
            [READ_ROWS, listed.to_json(), str(block_rows), str(memory_bytes), str(timeout_s),
             str(pattern), format, prepare],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, "OARLOCK_PYTHON": python, "PYTHONPATH": str(path),
                 **dict(environment)})
        self.failure = None
        self.files = []
        first = self.line()
        if first.startswith("failed"):
            self.failure = first
            return
        self.pid = int(first.split()[1])
        self.features = json.loads(self.line())
        while (line := self.line()) != "ready":
            self.files.append(json.loads(line.removeprefix("file ")))

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, file, begin, end):
        self.process.stdin.write(f"{file} {begin} {end}\n")
        self.process.stdin.flush()

    def read(self, file, begin, end):
        """Rows, what is said of bad ones, and the last line."""
        self.ask(file, begin, end)
        rows, bad = [], []
        while not (line := self.line()).startswith(("end", "failed")):
            if not line:
                raise AssertionError("the program has ended")
            (bad if line.startswith("bad") else rows).append(line)
        return rows, bad, line

    def group_rows(self, file=0):
        """Rows of each group of a file."""
        return [int(rows) for rows in self.files[file].get("groupRows", [])]

    def read_all(self):
        """All rows of all files, as texts without their numbers."""
        rows = []
        for i in range(len(self.files)):
            size = sum(self.group_rows(i))
            if not size:
                continue
            read, _, last = self.read(i, 0, size)
            if not last.startswith("end"):
                raise AssertionError(last)
            rows += [line.split(" ", 2)[2] for line in read]
        return rows

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class ReaderTestCase(unittest.TestCase):
    """With a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fails(self, pattern, text, **options):
        """Checks what is said of files that cannot be listed."""
        with Reader(pattern, **options) as reader:
            self.assertRegex(reader.failure or "it was listed", text)
            self.assertNotIn("\n", reader.failure)


__all__ = ["LISTED", "READ_ROWS", "ROOT", "Reader", "ReaderTestCase", "eventually",
           "expected", "features", "key_of", "oarlock", "table_of"]
