"""What tests of oarlock.train share: small data, and what a call leaves."""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent.parent))

from oarlock_testing import (  # noqa: E402
    children_of, descriptors, eventually, is_stopped, oarlock, thread_names)

from oarlock import _find  # noqa: E402: the path is set by now

FEATURES = oarlock.Features([
    oarlock.Label("click"), oarlock.DenseFeature("price", transform="log1p"),
    oarlock.SparseFeature("user", dim=4), oarlock.SparseFeature("item", dim=4),
    oarlock.SequenceFeature("clicked", shares="item")])
# Of a job that learns something of few rows.
FLAGS = {"batch_size": 100, "learning_rate": 0.05, "thread_num": 1}


def columns(rows, seed):
    """Clicks that follow from the user and the item, as arrays by name."""
    random = np.random.default_rng(seed)
    user, item = random.integers(0, 50, rows), random.integers(0, 20, rows)
    score = np.sin(user) + np.cos(item * 3.0)
    return {
        "click": (random.random(rows) < 1 / (1 + np.exp(-3 * score))).astype(np.int32),
        "price": random.random(rows) * 100,
        "user": user,
        "item": item,
        "clicked": random.integers(0, 20, (rows, 2)),
    }


def table(rows, seed):
    """The same as a table of pyarrow."""
    arrays = columns(rows, seed)
    return pa.table({**arrays, "clicked": pa.array(list(arrays["clicked"]))})


def run(*words):
    """Runs the program; its exit code and what it wrote."""
    done = subprocess.run([_find.program().path, *words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def generate(folder, rows=4000, files=2):
    """Text of criteo's format, in files."""
    code, text = run("generate", "criteo", "--out", str(folder), "--files", str(files),
                     "--rows", str(rows))
    assert code == 0, text


def processes_in(folder):
    """Pids of processes that were started with this folder in a variable."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (
                    f"={folder}".encode() in (entry / "environ").read_bytes()):
                found.append(int(entry.name))
        except OSError:
            pass  # It has ended.
    return found


def command_of(pid):
    """Its command line; empty if it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Temporary:
    """Temporary folders of this process's calls lie in one, while it is entered."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name)
        self._before = tempfile.tempdir, os.environ.get("TMPDIR")
        tempfile.tempdir = os.environ["TMPDIR"] = self._folder.name
        return self

    def __exit__(self, *_):
        tempfile.tempdir, variable = self._before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
        self._folder.cleanup()

    def names(self):
        """What is in it."""
        return sorted(os.listdir(self.path))

    def expect_nothing_left(self, test):
        """No file in it, and no process that knows it."""
        test.assertEqual(self.names(), [])
        test.assertTrue(eventually(lambda: not processes_in(self.path)),
                        list(map(command_of, processes_in(self.path))))


__all__ = ["FEATURES", "FLAGS", "Temporary", "children_of", "columns", "command_of",
           "descriptors", "eventually", "generate", "is_stopped", "oarlock",
           "processes_in", "run", "table", "thread_names"]
