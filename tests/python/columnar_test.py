"""The engine trains on columns of Parquet files that a reader process hands over."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oarlock_testing import ROOT, children_of, eventually
from oarlock import _find, features

LISTED = features.Features(
    [features.Label("click"), features.DenseFeature("price", transform="log1p"),
     features.SparseFeature("user", dim=4), features.SparseFeature("item", dim=4),
     features.SequenceFeature("clicked", shares="item")])


def table_of(rows, seed):
    """Clicks that follow from the user and the item."""
    random = np.random.default_rng(seed)
    user, item = random.integers(0, 200, rows), random.integers(0, 100, rows)
    score = np.sin(user) + np.cos(item * 3.0)
    lengths = random.integers(0, 3, rows)
    return pa.table({
        "not read": pa.array(["x"] * rows),
        "item": pa.array([f"item {n}" for n in item]),
        "click": pa.array(random.random(rows) < 1 / (1 + np.exp(-3 * score))),
        "price": pa.array(random.random(rows) * 100, mask=random.random(rows) < .1),
        "user": pa.array(user),
        "clicked": pa.array([[f"item {n}" for n in range(length)] for length in lengths]),
    })


class ColumnarTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.oarlock = _find.program().path
        (cls.folder / "train").mkdir()
        for part in range(3):
            pq.write_table(table_of(20000, part), cls.folder / f"train/{part}.parquet",
                           row_group_size=7000)
        pq.write_table(table_of(10000, 9), cls.folder / "test.parquet")
        LISTED.save(cls.folder / "features.json")

    def start(self, *flags, **environment):
        return subprocess.Popen(
            [self.oarlock, "train", "--model", "deepfm", "--data_format", "parquet",
             *([] if "--features" in flags else
               ["--features", str(self.folder / "features.json")]),
             *([] if "--train_files" in flags else
               ["--train_files", str(self.folder / "train")]), "--log_dir", self.logs,
             "--server_num", "2", "--worker_num", "2", "--batch_size", "100",
             "--learning_rate", "0.05", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "OARLOCK_PYTHON": sys.executable,
                 "PYTHONPATH": str(ROOT / "python"), **environment})

    def setUp(self):
        logs = tempfile.TemporaryDirectory()
        self.addCleanup(logs.cleanup)
        self.logs = logs.name

    def ends(self, process, code):
        text, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, text)
        return text

    def test_every_row_is_trained_once_and_the_model_learns(self):
        text = self.ends(self.start("--test_files", str(self.folder / "test.parquet"),
                                    "--thread_num", "2"), 0)
        self.assertRegex(text, r"(?m)^train .* 60000 examples in")
        found = re.search(r"(?m)^test +AUC ([0-9.]+) .* 10000 examples", text)
        self.assertIsNotNone(found, text)
        self.assertGreater(float(found[1]), 0.85, text)

    def test_every_row_once_in_every_mode_and_order(self):
        for name, flags, rows in (
                ("sync", ["--mode", "sync"], 60000),
                ("sync, three threads", ["--mode", "sync", "--thread_num", "3",
                                         "--shuffle", "global"], 60000),
                ("sync, local, twice", ["--mode", "sync", "--shuffle", "local",
                                        "--repeats_per_epoch", "2"], 120000),
                ("half async, repeated", ["--mode", "half_async",
                                          "--repeats_per_epoch", "2"], 120000),
                ("async, global", ["--shuffle", "global", "--shuffle_groups", "2",
                                   "--thread_num", "2"], 60000),
                ("memory", ["--dataset", "memory", "--shuffle", "local",
                            "--thread_num", "2"], 60000),
                ("sync, memory", ["--dataset", "memory", "--mode", "sync",
                                  "--shuffle", "global", "--epochs", "2"], 120000)):
            with self.subTest(name):
                text = self.ends(self.start(
                    "--test_files", str(self.folder / "test.parquet"), *flags), 0)
                self.assertRegex(text, rf"(?m)^train .* {rows} examples in")
                found = re.findall(r"(?m)^test +AUC ([0-9.]+) .* 10000 examples", text)
                self.assertGreater(float(found[-1]), 0.85, text)

    def test_the_order_of_columns_and_features_means_nothing_in_sync_mode(self):
        other = self.folder / "reversed"
        other.mkdir()
        for part in range(3):
            table = table_of(20000, part)
            pq.write_table(table.select(table.column_names[::-1]),
                           other / f"{part}.parquet", row_group_size=7000)
        backwards = json.loads((self.folder / "features.json").read_text())
        backwards["features"].reverse()
        (self.folder / "backwards.json").write_text(json.dumps(backwards))
        for order in ([], ["--shuffle", "global"]):
            folders = []
            for more in ([], [], ["--train_files", str(other)],
                         ["--train_files", str(other), "--features",
                          str(self.folder / "backwards.json")]):
                with self.subTest([*order, *more]):
                    folder = tempfile.TemporaryDirectory()
                    self.addCleanup(folder.cleanup)
                    folders.append(folder.name)
                    self.ends(self.start(
                        "--mode", "sync", "--thread_num", "2", "--checkpoint_dir",
                        folder.name, *order, *more), 0)
                    difference = subprocess.run(
                        [self.oarlock, "checkpoint", "diff", folders[0], folder.name],
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                        check=False)
                    self.assertEqual(difference.returncode, 0, difference.stdout)

    def test_a_worker_that_is_killed_in_sync_mode_leaves_every_row_trained_once(self):
        for order in ([], ["--shuffle", "global"]):
            with self.subTest(order), tempfile.TemporaryDirectory() as folder:
                process = self.start("--mode", "sync", "--max_restart", "1",
                                     "--checkpoint_dir", folder, "--batch_size", "20",
                                     "--checkpoint_interval_s", "1", *order)
                current = pathlib.Path(folder, "CURRENT")
                killed = []

                def kill(process=process, current=current, killed=killed):
                    """Kills a worker once something is in a checkpoint."""
                    if current.exists():
                        for worker in children_of(process.pid):
                            command = pathlib.Path(f"/proc/{worker}/cmdline").read_bytes()
                            if b"worker" in command:
                                os.kill(worker, signal.SIGKILL)
                                killed.append(worker)
                                break
                    return bool(killed) or process.poll() is not None

                eventually(kill, 100)
                text = self.ends(process, 0)
                self.assertEqual(len(killed), 1)
                self.assertRegex(text, r"(?m)^train .* 60000 examples in")

    def test_few_row_groups_are_told_with_what_they_cost(self):
        pq.write_table(table_of(3000, 1), self.folder / "one.parquet")
        self.ends(self.start("--mode", "sync", "--train_files",
                             str(self.folder / "one.parquet")), 0)
        logs = "".join(path.read_text() for path in
                       pathlib.Path(self.logs).glob("workerlog.*"))
        self.assertIn("1 row groups for 2 workers", logs)
        self.assertIn("row_group_size=375", logs)

    def test_a_reader_that_is_killed_goes_on_at_its_row(self):
        process = self.start("--thread_num", "2")
        killed = []

        def kill():
            """Kills readers as soon as they are there; a range bears three kills."""
            try:
                for worker in children_of(process.pid):
                    for child in children_of(worker):
                        command = pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
                        if b"oarlock._reader" in command and child not in killed:
                            os.kill(child, signal.SIGKILL)
                            killed.append(child)
            except (FileNotFoundError, ProcessLookupError):
                pass  # One of them has ended.
            return len(killed) >= 3 or process.poll() is not None

        killer = threading.Thread(target=lambda: eventually(kill, 100))
        killer.start()
        text = self.ends(process, 0)
        killer.join()
        self.assertGreater(len(killed), 0)
        self.assertRegex(text, r"(?m)^train .* 60000 examples in")
        logs = "".join(path.read_text() for path in
                       pathlib.Path(self.logs).glob("workerlog.*"))
        self.assertIn("the reader process was ended by signal 9; another one ", logs)

    def test_what_cannot_be_read_is_one_line(self):
        for flags, code, line in (
                (["--features", ""], 2, "--features says which of them the model reads"),
                (["--features", "nowhere.json"], 1, "'nowhere.json', which cannot be "
                 "read"),
                (["--features", '{"features": []}'], 2, "has no label"),
                (["--features", json.dumps({"features": [
                    {"name": "click", "label": {}}, {"name": "u", "sparse": {}}]})], 1,
                 "0.parquet': column 'u' is missing; add it"),
                (["--mode", "sync", "--split", "by_file"], 2,
                 "does not go with --split by_file"),
                (["--mode", "sync", "--drop_tail", "true"], 2,
                 "does not go with --drop_tail"),
                (["--shuffle_groups", "2"], 2, "legal is with --shuffle local, global"),
                (["--shuffle", "global", "--shuffle_window_examples", "20"], 2,
                 "drawn from --shuffle_groups row groups"),
                (["--dataset", "memory", "--dataset_memory_mb", "1"], 1,
                 "raise --dataset_memory_mb, or use --dataset queue"),
                (["--data_format", "criteo"], 2, "--features names columns"),
                (["--train_files", "/nowhere"], 1, "'/nowhere' matches no file"),
                (["--python", "/nowhere/python"], 1, "cannot run '/nowhere/python'"),
                (["--python", "/bin/true"], 1, "the reader process ended with status 0")):
            with self.subTest(flags):
                self.assertIn(line, self.ends(self.start(*flags), code))


if __name__ == "__main__":
    unittest.main()
