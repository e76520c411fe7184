"""Parquet through a command: examples/parquet/parquet_to_text.py."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest


SCRIPT = (pathlib.Path(__file__).absolute().parents[2] /
          "examples/parquet/parquet_to_text.py")


@unittest.skipUnless(importlib.util.find_spec("pyarrow"),
                     "pyarrow is not installed: pip install pyarrow")
class ParquetTest(unittest.TestCase):
    def setUp(self):
        import pyarrow
        import pyarrow.parquet
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "data.parquet")
        pyarrow.parquet.write_table(pyarrow.table({
            "click": [1, 0, 1],
            "age": [31.5, None, 7.0],
            "city": ["Ulm", None, "Bonn"],
            "tags": [["a", "b"], [], None],
        }), self.path)

    def run_script(self, *arguments):
        with open(self.path, "rb") as file:
            return subprocess.run(
                [sys.executable, SCRIPT, "--label", "click", *arguments],
                stdin=file, text=True, capture_output=True)

    def test_every_column_is_a_feature_and_nulls_are_left_out(self):
        result = self.run_script()
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual([line[0] for line in lines], ["1", "0", "1"])
        self.assertEqual([len(line) - 1 for line in lines], [4, 0, 2])
        values = [word.split(":")[1] for word in lines[0][1:]]
        self.assertEqual(values, ["31.5", "1", "1", "1"])
        # The same column has the same index, other texts have others.
        self.assertEqual(lines[0][1].split(":")[0], lines[2][1].split(":")[0])
        self.assertEqual(len({word.split(":")[0] for word in lines[0][1:]}), 4)

    def test_multi_slot_takes_the_columns_that_are_named(self):
        result = self.run_script("--format", "multi_slot", "--dense", "age",
                                 "--slots", "city,tags")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual(lines[1], ["1", "0.0", "0", "0", "1", "0"])
        self.assertEqual(lines[0][:3], ["1", "31.5", "1"])
        self.assertEqual(len(lines[0]), 9)

    def test_a_column_that_is_not_there_is_one_line(self):
        result = self.run_script("--dense", "size")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no column 'size'", result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
