"""A user's function prepares batches in the reader; what it does wrong is one line."""

import pathlib
import unittest

import pyarrow as pa
import pyarrow.parquet as pq

from reader_testing import ROOT, Reader, ReaderTestCase, features, key_of

LISTED = features.Features([features.Label("y"), features.SparseFeature("user x item"),
                            features.DenseFeature("rate")])
MODULE = '''
import pyarrow as pa
import pyarrow.compute as pc

def cross(batch):
    text = pc.binary_join_element_wise(batch["user"], batch["item"].cast("string"), "/")
    rate = pc.divide(batch["clicks"].cast("float64"), 100)
    return pa.RecordBatch.from_arrays([text, batch["y"], rate],
                                      names=["user x item", "y", "rate"])

def fewer(batch):
    return batch.slice(0, batch.num_rows - 1)

def a_table(batch):
    return pa.Table.from_batches([batch])

def nothing(batch):
    pass

def fails(batch):
    raise ValueError("no such\\nthing")

def later(batch):
    if batch["item"][0].as_py() >= 150:
        raise KeyError("later")
    return cross(batch)

def ends(batch):
    raise SystemExit(0)

def other_types(batch):
    return cross(batch).set_column(0, "user x item", pa.array([1.5] * batch.num_rows))

def damaged(batch):
    text = pa.DictionaryArray.from_arrays(
        pa.array([10 ** 6] * batch.num_rows, pa.int32()), pa.array(["a"]), safe=False)
    return cross(batch).set_column(0, "user x item", text)

constant = 5
'''


class PrepareTest(ReaderTestCase):

    def setUp(self):
        super().setUp()
        (self.folder / "clicks.py").write_text(MODULE)
        (self.folder / "broken.py").write_text("1 / 0")
        (self.folder / "data").mkdir()
        # Texts of few values: dictionaries in the file, and texts to the function.
        self.table = pa.table({
            "user": [f"u{n % 5}" for n in range(300)], "item": list(range(300)),
            "clicks": list(range(300)), "y": [n % 2 for n in range(300)]})
        self.path = self.folder / "data" / "a.parquet"
        pq.write_table(self.table, self.path, row_group_size=120)

    def reader(self, function, **options):
        options = {"listed": LISTED, "prepare": function, "folder": self.folder,
                   "block_rows": 50, **options}
        return Reader(options.pop("pattern", self.path), **options)

    def expected(self, begin, end):
        return [f"row {n} {n % 2:g} {n / 100:g} | "
                f"{key_of(1, 'user x item', f'u{n % 5}/{n}'.encode())}"
                for n in range(begin, end)]

    def test_crosses(self):
        for options in ({}, {"memory_bytes": 1}):
            with self.reader("clicks:cross", **options) as reader:
                self.assertIsNone(reader.failure)
                for begin, end in ((0, 300), (119, 121), (60, 70)):
                    self.assertEqual(reader.read(0, begin, end)[0],
                                     self.expected(begin, end))

    def test_every_format(self):
        with pa.ipc.new_file(str(self.folder / "data/a.arrow"), self.table.schema) as file:
            file.write_table(self.table)
        lines = ["user,item,clicks,y"] + [
            f"u{n % 5},{n},{n},{n % 2}" for n in range(300)]
        (self.folder / "data/a.csv").write_text("\n".join(lines))
        for format in ("ARROW", "CSV"):
            with self.reader("clicks:cross", format=format,
                             pattern=self.folder / f"data/a.{format.lower()}") as reader:
                self.assertIsNone(reader.failure)
                self.assertEqual(reader.read(0, 0, 300)[0], self.expected(0, 300))

    def test_the_module_may_lie_in_pythonpath(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        with self.reader("clicks:cross", folder=elsewhere,
                         path=f"{ROOT / 'python'}:{self.folder}") as reader:
            self.assertEqual(reader.read(0, 0, 10)[0], self.expected(0, 10))
        with self.reader("clicks:cross", folder=elsewhere) as reader:
            self.assertRegex(reader.failure, "failed 3 prepare 'clicks:cross': module "
                             "'clicks' cannot be imported: ModuleNotFoundError: No module "
                             f"named 'clicks'; it is looked for in .*{elsewhere}")

    def test_what_a_function_does_wrong_is_one_line(self):
        for function, text in (
                ("clicks", "--prepare is 'clicks'; legal is module:function"),
                (":cross", "--prepare is ':cross'; legal is module:function"),
                ("clicks:", "--prepare is 'clicks:'; legal is module:function"),
                ("clicks:none", "prepare 'clicks:none': module 'clicks' has no function "
                 "'none'"),
                ("clicks:constant", "module 'clicks' has no function 'constant'"),
                ("broken:cross", "module 'broken' cannot be imported: ZeroDivisionError: "
                 r"division by zero \(broken.py, line 1\)"),
                ("clicks:fewer", "a.parquet': prepare 'clicks:fewer' has returned 119 rows "
                 "for 120; legal is a pyarrow.RecordBatch of as many rows"),
                ("clicks:a_table", "a.parquet': prepare 'clicks:a_table' has returned a "
                 "Table; legal is a pyarrow.RecordBatch"),
                ("clicks:nothing", "prepare 'clicks:nothing' has returned a NoneType"),
                ("clicks:fails", "a.parquet': prepare 'clicks:fails' has failed: "
                 r"ValueError: no such \(clicks.py, line \d+\)$"),
                ("clicks:ends", "prepare 'clicks:ends' has failed: SystemExit: 0"),
                ("clicks:damaged", "prepare 'clicks:damaged' has returned a batch that is "
                 "damaged: "),
                ("clicks:other_types", "a.parquet': column 'user x item' is of type double, "
                 "which is no type of ids")):
            with self.subTest(function), self.reader(function) as reader:
                self.assertRegex(reader.failure or "none", f"failed 3 .*{text}")

    def test_a_function_that_fails_later(self):
        with self.reader("clicks:later") as reader:
            self.assertIsNone(reader.failure)
            self.assertRegex(reader.read(0, 0, 300)[2], "failed 3 '.*a.parquet': prepare "
                             r"'clicks:later' has failed: KeyError: 'later' \(clicks.py")
            # The reader goes on.
            self.assertEqual(reader.read(0, 0, 100)[0], self.expected(0, 100))


if __name__ == "__main__":
    unittest.main()
