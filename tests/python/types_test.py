"""The package's types: mypy --strict finds nothing in it, nor in a user's program."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from oarlock_testing import ROOT, oarlock

PROGRAM = """
import numpy as np
import oarlock

with oarlock.LocalCluster(servers=2) as cluster:
    with cluster.join() as job:
        table = job.create_table("t", 4, oarlock.Adagrad(0.1))
        dense = job.create_dense("d", {"bias": (1,)}, oarlock.Sgd(0.1))
        for part in job.lease("train", total=10, block=5):
            rows = table.pull(part.indices)
            reveal_type(rows.values)
            reveal_type(dense.pull())
            reveal_type(table.pull_async(part.indices).result())
            with job.step(part) as step:
                step.push(rows, np.ones((len(rows), 4)))
"""

REVEALED = [
    'numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.floating[',
    'dict[str, numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.floating[',
    '"oarlock.tables.Rows"',
]


def mypy(*words, folder):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
         "--cache-dir", str(folder / "cache"), *words],
        cwd=ROOT / "python", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)


class TypesTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_the_package(self):
        checked = mypy("oarlock", folder=self.folder)
        self.assertEqual((checked.returncode, checked.stdout), (0, ""))

    def test_a_users_program(self):
        program = self.folder / "program.py"
        program.write_text(PROGRAM)
        checked = mypy(str(program), folder=self.folder)
        self.assertEqual(checked.returncode, 0, checked.stdout)
        lines = checked.stdout.splitlines()
        self.assertEqual(len(lines), len(REVEALED), checked.stdout)
        for line, revealed in zip(lines, REVEALED):
            self.assertIn(revealed, line)

    def test_every_public_name(self):
        program = self.folder / "program.py"
        program.write_text("import oarlock\n" + "".join(
            f"print(oarlock.{name})\n" for name in oarlock.__all__))
        checked = mypy(str(program), folder=self.folder)
        self.assertEqual((checked.returncode, checked.stdout), (0, ""))

    def test_a_wrong_type_is_found(self):
        program = self.folder / "program.py"
        program.write_text(PROGRAM.replace('"t", 4,', '4, "t",'))
        checked = mypy(str(program), folder=self.folder)
        self.assertEqual(checked.returncode, 1, checked.stdout)
        self.assertIn('"create_table" of "Job" has incompatible type', checked.stdout)


if __name__ == "__main__":
    unittest.main()
