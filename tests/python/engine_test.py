"""The engine's workers and Python's in turns, on servers that stay."""

import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np

from oarlock_testing import oarlock

from oarlock import _find  # The path is set by now.

EXAMPLES = 2000


class EngineTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.oarlock = _find.program().path
        subprocess.run(
            [cls.oarlock, "generate", "criteo", "--out", str(cls.folder / "data"),
             "--files", "2", "--rows", str(EXAMPLES)],
            check=True, stdout=subprocess.DEVNULL)
        cls.cluster = oarlock.LocalCluster(servers=2, lease_s=1)
        cls.addClassCleanup(cls.cluster.close)

    def train(self, workers, turn):
        """Trains the files once with so many workers; what each printed."""
        processes = [
            subprocess.Popen(
                [self.oarlock, "train", "--role", "TRAINER",
                 "--pserver_endpoints", self.cluster.address,
                 "--token_file", self.cluster.token_file,
                 "--trainers", str(workers), "--trainer_id", str(rank),
                 "--train_files", str(self.folder / "data"),
                 "--log_dir", str(self.folder / f"log{turn}"),
                 "--batch_size", "100"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for rank in range(workers)]
        texts = []
        for process in processes:
            text, _ = process.communicate(timeout=100)
            self.assertEqual(process.returncode, 0, text)
            texts.append(text)
        return texts

    def test_a_run_of_each_in_turns(self):
        runs = []
        for turn in range(3):
            # The engine's run has another number of workers each time.
            workers = 1 + turn % 2
            texts = self.train(workers, turn)
            counts = [int(count) for text in texts for count in
                      re.findall(r"(?m)^train .* (\d+) examples in", text)]
            self.assertEqual(sum(counts), EXAMPLES, texts)
            with self.cluster.join() as job:
                table = job.create_table("turns", 1, oarlock.Sgd(1.0))
                for part in job.lease("train", total=100, block=10):
                    rows = table.pull(part.indices)
                    with job.step(part) as step:
                        step.push(rows, -np.ones((len(rows.values), 1)))
                runs.append(job.run)
            with self.cluster.connect() as reader:
                values = reader.table("turns").pull(np.arange(100)).values
            np.testing.assert_array_equal(values, turn + 1)
        # Each turn took two runs: the engine's and this one's.
        self.assertEqual(np.diff(runs).tolist(), [2, 2])


if __name__ == "__main__":
    unittest.main()
