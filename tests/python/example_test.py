"""examples/python: they learn what `oarlock train` learns from the same lines."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

from oarlock_testing import ROOT, oarlock

EXAMPLE = ROOT / "examples/python/logistic_regression.py"


class ExampleTest(unittest.TestCase):

    def test_logistic_regression_learns_what_the_engine_learns(self):
        folder = pathlib.Path(os.environ.get("TEST_TMPDIR", "/tmp")) / "lr"
        program = oarlock.program()
        subprocess.run([program, "generate", "criteo", "--out", folder, "--rows",
                        "24000", "--files", "1", "--seed", "3"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = (folder / "part-0").read_text().splitlines(keepends=True)
        train, test = folder / "train.txt", folder / "test.txt"
        train.write_text("".join(lines[:18000]))
        test.write_text("".join(lines[18000:]))

        def auc_of(words, **environment):
            run = subprocess.run(words, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, timeout=120, cwd=folder,
                                 env={**os.environ, **environment})
            self.assertEqual(run.returncode, 0, run.stderr)
            found = re.search(r"^test +AUC (\.\d+|0\.\d+)", run.stdout, re.M)
            self.assertIsNotNone(found, run.stdout)
            return float(found[1])

        python = auc_of([sys.executable, EXAMPLE, train, test],
                        PYTHONPATH=str(ROOT / "python"))
        engine = auc_of([program, "train", "--model", "lr", "--learning_rate",
                         "0.02", "--batch_size", "64", "--server_num", "2",
                         "--worker_num", "1", "--thread_num", "1",
                         "--train_files", train, "--test_files", test])
        self.assertGreater(python, 0.6)
        self.assertLess(abs(python - engine), 0.002, (python, engine))


if __name__ == "__main__":
    unittest.main()
