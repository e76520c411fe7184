"""Files of one listing may differ in types, order and writer, and give the same rows; a
file that does not fit is named."""

import random
import unittest

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

from reader_testing import (LISTED, Reader, ReaderTestCase, expected, features, key_of,
                            table_of)
from oarlock import _parquet_footer


def without_numbers(lines):
    return [line.split(" ", 2)[2] for line in lines]


class MixedFilesTest(ReaderTestCase):

    def write(self, name, table, **options):
        pq.write_table(table, self.folder / name, **options)
        return self.folder / name

    def test_types_order_and_writers_mix(self):
        table = table_of(0, 1000).select(["y", "u", "d", "s"])
        u, s = table["u"].combine_chunks(), table["s"].combine_chunks()
        texts = [pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
                 pa.dictionary(pa.int8(), pa.string()),
                 pa.dictionary(pa.int32(), pa.large_string())]
        lists = [pa.list_(pa.int32()), pa.large_list(pa.int8()), pa.list_(pa.uint64()),
                 pa.large_list(pa.int64())]
        numbers = [pa.float64(), pa.float32(), pa.float64(), pa.float32()]
        labels = [pa.int64(), pa.bool_(), pa.float64(), pa.uint8()]
        files = 0
        self.write("00.parquet", table)
        for i, kind in enumerate(texts):
            text = u.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else (
                u.cast(kind))
            columns = {"y": table["y"].cast(labels[i % 4]), "u": text,
                       "d": table["d"].cast(numbers[i % 4]), "s": s.cast(lists[i % 4])}
            names = sorted(columns, key=lambda name: (name > "s") ^ (i % 2))
            mixed = pa.table({name: columns[name] for name in names})
            self.write(f"1{i}.parquet", mixed, row_group_size=300 + i)
            files += 1
        polars.from_arrow(table).write_parquet(self.folder / "20.parquet",
                                               row_group_size=300)
        polars.from_arrow(table).with_columns(polars.col("u").cast(
            polars.Categorical)).write_parquet(self.folder / "21.parquet")
        duckdb.from_arrow(table).write_parquet(str(self.folder / "22.parquet"))
        want = without_numbers(expected(0, 1000))
        for memory_bytes in (1 << 30, 1):
            with Reader(self.folder, memory_bytes=memory_bytes, block_rows=128) as reader:
                self.assertEqual(len(reader.files), files + 4)
                self.assertEqual(reader.read_all(), want * (files + 4))

    def test_dictionaries_of_row_groups_are_not_mixed_up(self):
        # As many values of as many bytes in each group, and others.
        listed = features.Features([features.Label("y"), features.SparseFeature("u"),
                                    features.SequenceFeature("s")])
        for name, as_dictionary in (("a.parquet", True), ("b.parquet", False)):
            texts = [f"value {group:04} {n % 10}" for group in range(40) for n in range(50)]
            column = pa.array(texts)
            if as_dictionary:
                # Its type stays in the file.
                column = column.dictionary_encode()
            self.write(name, pa.table({
                "y": [1] * 2000, "u": column, "s": [[text] for text in texts]}),
                row_group_size=50)
        with Reader(self.folder, listed=listed, block_rows=1000) as reader:
            self.assertEqual(reader.group_rows(), [50] * 40)
            want = [f"1 | {key_of(1, 's', text.encode())} | {key_of(2, 'u', text.encode())}"
                    for text in texts]
            # All groups in one request.
            self.assertEqual(reader.read_all(), want * 2)

    def test_which_columns_are_dictionaries_throughout(self):
        rows = 200_000
        source = random.Random(1)
        table = pa.table({
            "few": [f"v{n % 50}" for n in range(rows)],
            # Its dictionary gets too large, and the rest is plain.
            "many": [f"{source.getrandbits(48):012x}" for _ in range(rows)],
            "list": [[f"v{n % 50}"] for n in range(rows)],
            "struct": [{"a": "x", "b": n} for n in range(rows)],
            "plain": [f"v{n % 50}" for n in range(rows)]})
        dictionaries = {"few", "list.list.element", "struct.a"}
        for options in ({}, {"version": "1.0"}, {"data_page_version": "2.0"},
                        {"compression": "zstd", "write_page_index": True},
                        {"write_statistics": False}):
            path = self.write("a.parquet", table, row_group_size=150_000,
                              use_dictionary=["few", "many", "list.list.element",
                                              "struct.a"], **options)
            metadata = pq.ParquetFile(path).metadata
            self.assertEqual(_parquet_footer.by_group(metadata)[0], dictionaries, options)
            self.assertEqual(len(_parquet_footer.by_group(metadata)), 2)
        # A writer that does not say it.
        polars.from_arrow(table).write_parquet(self.folder / "a.parquet")
        metadata = pq.ParquetFile(self.folder / "a.parquet").metadata
        self.assertEqual(len(_parquet_footer.by_group(metadata)), metadata.num_row_groups)

    def test_a_file_that_does_not_fit_in_the_middle_of_the_listing(self):
        table = table_of(0, 10)
        for i in range(300):
            self.write(f"{i:03}.parquet", table)
        with Reader(self.folder) as reader:
            self.assertEqual([file["path"][-11:-8] for file in reader.files],
                             [f"{i:03}" for i in range(300)])
        for other, text in (
                (table.set_column(1, "u", pa.array(range(10))),
                 "column 'u' is of type int64, and the feature's ids are text"),
                (table.set_column(5, "s", pa.array([["a"]] * 10)),
                 "column 's' is of type list of string|column 's' is of type string"),
                (table.set_column(4, "d", pa.array(["1.5"] * 10)),
                 "column 'd' is of type string, and the feature is dense"),
                (table.drop_columns("d"), "column 'd' is missing")):
            self.write("150.parquet", other)
            self.write("200.parquet", other)
            self.fails(self.folder, f"failed 3 '.*150.parquet': ({text})", listed=LISTED)

    def test_nulls(self):
        listed = features.Features([
            features.Label("y"), features.SparseFeature("u"), features.SequenceFeature("s"),
            features.DenseFeature("d", null=-1), features.DenseFeature("e", missing="null"),
            features.SparseFeature("v", missing="null")])
        self.write("a.parquet", pa.table({
            "y": [1, 0, None], "u": ["a", None, ""], "s": [[None, 1, None], None, []],
            "d": [None, 2.0, 3.0]}))
        self.write("b.parquet", pa.table({
            "y": [1, 0, None], "u": ["a", None, ""], "s": [[None, 1, None], None, []],
            "d": [None, 2.0, 3.0], "e": pa.nulls(3), "v": pa.nulls(3)}))
        null = key_of(3, "v", None)
        want = [f"1 -1 0 | {key_of(1, 's', 1)} | {key_of(2, 'u', b'a')} | {null}",
                f"0 2 0 | | {key_of(2, 'u', None)} | {null}"]
        with Reader(self.folder, listed=listed) as reader:
            for file in range(2):
                rows, bad, _ = reader.read(file, 0, 3)
                self.assertEqual(without_numbers(rows), want)
                self.assertEqual(bad, ["bad 1 row 2 the label 'y' is null"])

    def test_a_row_group_that_is_larger_than_memory(self):
        # 160 MB of text in one group, 4 MB to decode it.
        source = random.Random(2)
        rows = 20_000
        texts = [source.randbytes(4000).hex() for _ in range(rows)]
        path = self.write("a.parquet", pa.table({
            "y": [1] * rows, "u": texts}), row_group_size=rows)
        listed = features.Features([features.Label("y"), features.SparseFeature("u")])
        taken = []
        for memory_bytes in (1 << 30, 4 << 20):
            with Reader(path, listed=listed, memory_bytes=memory_bytes,
                        block_rows=1000) as reader:
                before = _peak_kib(reader.pid)
                self.assertEqual(len(reader.read(0, 0, rows)[0]), rows)
                taken.append(_peak_kib(reader.pid) - before)
        self.assertLess(taken[1], taken[0] - (64 << 10), taken)


def _peak_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


if __name__ == "__main__":
    unittest.main()
