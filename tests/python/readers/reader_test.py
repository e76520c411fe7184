"""A reader process hands over the rows of Parquet files, each once, in their order."""

import os
import signal
import unittest

import pyarrow as pa
import pyarrow.parquet as pq

from reader_testing import ROOT, Reader, ReaderTestCase, eventually, expected, table_of


class ReaderTest(ReaderTestCase):

    def write(self, name, table, group_rows=1000):
        pq.write_table(table, self.folder / name, row_group_size=group_rows)
        return self.folder / name

    def test_rows_of_any_range(self):
        path = self.write("a.parquet", table_of(0, 3500))
        for memory_bytes in (1 << 30, 1):
            with Reader(path, memory_bytes=memory_bytes) as reader:
                self.assertEqual(len(reader.files), 1)
                self.assertEqual([int(n) for n in reader.files[0]["groupRows"]],
                                 [1000, 1000, 1000, 500])
                types = {each["name"]: each for each in reader.features["features"]}
                self.assertEqual(types["u"]["sparse"]["type"], "STRING")
                self.assertEqual(types["s"]["sequence"]["type"], "INTEGER")
                for begin, end, decoded in (
                        (0, 3500, 3500), (1000, 2000, 1000), (0, 1, 100),
                        (2999, 3001, 1100), (1990, 2010, 1100), (3499, 3500, 500)):
                    rows, bad, last = reader.read(0, begin, end)
                    self.assertEqual(rows, expected(begin, end - begin))
                    self.assertEqual(bad, [])
                    self.assertLessEqual(int(last.split()[2]), decoded)

    def test_a_folder_and_a_pattern(self):
        for day in (1, 2):
            (self.folder / f"day={day}").mkdir()
            for part in range(2):
                self.write(f"day={day}/part-{part}.parquet", table_of(0, 10))
            (self.folder / f"day={day}" / "_SUCCESS").touch()
        for pattern, count in ((self.folder, 4), (self.folder / "day=*", 4),
                               (self.folder / "day=2", 2),
                               (self.folder / "day=?" / "part-0.*", 2)):
            with Reader(pattern) as reader:
                paths = [file["path"] for file in reader.files]
                self.assertEqual(paths, sorted(paths))
                self.assertEqual(len(paths), count, pattern)
        with Reader(self.folder / "day=3*") as reader:
            self.assertRegex(reader.failure, "failed 5 .*matches no file")

    def test_bad_rows_are_told(self):
        table = table_of(0, 250)
        labels = table["y"].to_pylist()
        labels[120] = None
        labels[130] = 7
        path = self.write("a.parquet", table.set_column(
            table.schema.get_field_index("y"), "y", pa.array(labels)))
        with Reader(path) as reader:
            rows, bad, _ = reader.read(0, 0, 250)
            self.assertEqual(len(rows), 248)
            self.assertEqual(bad, ["bad 2 row 120 the label 'y' is null"])

    def test_files_that_do_not_fit(self):
        self.write("a.parquet", table_of(0, 10))
        for name, table, text in (
                ("b.parquet", table_of(0, 10).drop_columns("u"),
                 "b.parquet': column 'u' is missing"),
                ("b.parquet", table_of(0, 10).set_column(1, "u", pa.array(range(10))),
                 "b.parquet': column 'u' is of type int64, and the feature's ids are "
                 "text")):
            self.write(name, table)
            with Reader(self.folder) as reader:
                self.assertRegex(reader.failure, f"failed 3 .*{text}")
        (self.folder / "b.parquet").write_bytes(b"no Parquet at all")
        with Reader(self.folder) as reader:
            self.assertRegex(reader.failure, "failed 3 .*b.parquet' is no Parquet file")

    def test_a_file_that_was_replaced(self):
        path = self.write("a.parquet", table_of(0, 100))
        with Reader(path) as reader:
            self.assertEqual(len(reader.read(0, 0, 100)[0]), 100)
            self.write("a.parquet", table_of(0, 90))
            self.assertRegex(reader.read(0, 0, 100)[2],
                             "failed 9 .*a.parquet' has changed since it was listed: "
                             "it had .* and 100 rows, and has .* and 90")

    def test_a_reader_that_is_killed(self):
        path = self.write("a.parquet", table_of(0, 5000))
        with Reader(path) as reader:
            os.kill(reader.pid, signal.SIGKILL)
            self.assertEqual(reader.read(0, 0, 5000)[2],
                             "failed 14 the reader process was ended by signal 9")
        with Reader(path, timeout_s=8) as reader:
            os.kill(reader.pid, signal.SIGSTOP)
            self.assertRegex(reader.read(0, 0, 5000)[2],
                             "failed 14 the reader process was silent for 8s")
            self.assertFalse(os.path.exists(f"/proc/{reader.pid}"))

    def test_a_reader_ends_with_its_worker(self):
        path = self.write("a.parquet", table_of(0, 100))
        reader = Reader(path)
        reader.process.kill()
        reader.close()
        eventually(lambda: not os.path.exists(f"/proc/{reader.pid}"))

    def test_without_an_interpreter_or_pyarrow(self):
        path = self.write("a.parquet", table_of(0, 10))
        with Reader(path, python="/nowhere/python3") as reader:
            self.assertRegex(reader.failure, "cannot run '/nowhere/python3', which reads "
                             "columnar files; name another interpreter with --python")
        shadow = self.folder / "shadow"
        shadow.mkdir()
        (shadow / "pyarrow.py").write_text("raise ImportError")
        with Reader(path, path=f"{shadow}:{ROOT / 'python'}") as reader:
            self.assertEqual(reader.failure, "failed 9 columnar files are read with "
                             "pyarrow, which is not installed; install it: pip install "
                             "pyarrow")


if __name__ == "__main__":
    unittest.main()
