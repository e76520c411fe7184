"""Arrow IPC files of every writer: their rows, and what is refused."""

import os
import random
import struct

import polars
import pyarrow as pa
import pyarrow.feather
import unittest

from reader_testing import (LISTED, Reader, ReaderTestCase, expected, features, key_of, table_of)


def write_ipc(path, table, *, compression=None, batch_rows=1000):
    with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(
            compression=compression)) as writer:
        writer.write_table(table, max_chunksize=batch_rows)


class ArrowFilesTest(ReaderTestCase):

    def test_rows_of_any_range_of_every_writer(self):
        table = table_of(0, 3500)
        write_ipc(self.folder / "0.arrow", table)
        for i, compression in enumerate(("lz4", "zstd")):
            write_ipc(self.folder / f"{i + 1}.arrow", table, compression=compression)
            pyarrow.feather.write_feather(table, self.folder / f"{i + 3}.arrow",
                                          compression=compression, chunksize=900)
        frame = polars.from_arrow(table)
        for i, compression in enumerate(("uncompressed", "lz4", "zstd")):
            frame.write_ipc(self.folder / f"{i + 5}.arrow", compression=compression)
        with Reader(self.folder, format="ARROW") as reader:
            self.assertEqual(len(reader.files), 8)
            self.assertEqual(reader.group_rows(0), [1000, 1000, 1000, 500])
            self.assertEqual(reader.group_rows(3), [900, 900, 900, 800])
            for file in range(8):
                self.assertEqual(sum(reader.group_rows(file)), 3500)
                for begin, end in ((0, 3500), (1000, 2000), (0, 1), (2999, 3001),
                                   (3499, 3500)):
                    rows, bad, last = reader.read(file, begin, end)
                    self.assertEqual(rows, expected(begin, end - begin))
                    self.assertEqual(bad, [])
            # A record batch is decoded once.
            self.assertEqual(reader.read(0, 1000, 2000)[2], "end decoded 1000")

    def test_dictionaries_that_differ_between_batches(self):
        listed = features.Features([features.Label("y"), features.SparseFeature("u"),
                                    features.SequenceFeature("s")])
        batches = []
        for first in range(0, 300, 100):
            texts = [f"value {first + n % 10}" for n in range(100)]
            offsets = pa.array(range(0, 101), pa.int32())
            batches.append(pa.record_batch({
                "y": pa.array([1] * 100),
                "u": pa.array(texts).dictionary_encode(),
                "s": pa.ListArray.from_arrays(offsets, pa.array(texts).dictionary_encode()),
            }))
        schema = batches[0].schema
        # A file has one dictionary for a column; it grows.
        with pa.ipc.new_file(str(self.folder / "a.arrow"), schema,
                             options=pa.ipc.IpcWriteOptions(
                                 unify_dictionaries=True)) as writer:
            writer.write_table(pa.Table.from_batches(batches), max_chunksize=100)
        with Reader(self.folder, format="ARROW", listed=listed) as reader:
            want = [f"1 | {key_of(1, 's', text)} | {key_of(2, 'u', text)}"
                    for first in range(0, 300, 100) for n in range(100)
                    for text in [f"value {first + n % 10}".encode()]]
            self.assertEqual(reader.read_all(), want)

    def test_memory(self):
        table = table_of(0, 3500)
        write_ipc(self.folder / "a.arrow", table)
        # What lies on the disk uncompressed is mapped, and takes no memory.
        with Reader(self.folder, format="ARROW", memory_bytes=100) as reader:
            self.assertEqual(reader.read(0, 0, 3500)[0], expected(0, 3500))
        write_ipc(self.folder / "a.arrow", table, compression="zstd")
        with Reader(self.folder, format="ARROW", memory_bytes=10_000) as reader:
            rows, _, last = reader.read(0, 0, 3500)
            self.assertEqual(rows, [])
            self.assertRegex(last, r"failed 8 '.*a.arrow': record batch 0 takes \d+ bytes "
                             r"in memory, and a reader takes up to 10000 "
                             r"\(--reader_memory_mb\)")
        # Of columns that are not read nothing is asked.
        wide = table.append_column("wide", pa.array([os.urandom(500)] * 3500))
        write_ipc(self.folder / "a.arrow", wide, compression="lz4")
        with Reader(self.folder, format="ARROW", memory_bytes=300_000) as reader:
            self.assertEqual(reader.read(0, 0, 3500)[0], expected(0, 3500))

    def test_what_is_no_file_of_arrow(self):
        table = table_of(0, 100)
        path = self.folder / "a.arrow"
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
        self.fails(path, "failed 3 .*a.arrow' is an Arrow IPC stream, which has no list of "
                   "its record batches; write a file instead: pyarrow.ipc.new_file",
                   format="ARROW")
        path.write_bytes(b"FEA1" + b"x" * 100 + b"FEA1")
        self.fails(path, "failed 3 .*a.arrow' is Feather of version 1; write version 2",
                   format="ARROW")
        write_ipc(path, table)
        whole = path.read_bytes()
        for data, text in ((b"", "it begins with b''"), (b"text\n", "it begins with"),
                           (b"PAR1" + b"x" * 50, "it begins with b'PAR1"),
                           (whole[:-100], "it ends in the middle"),
                           (whole[:20], "it ends in the middle"),
                           (whole[:-10] + struct.pack("<i", 1 << 30) + whole[-6:],
                            "its footer says that it has 1073741824 bytes"),
                           (whole[:-10] + struct.pack("<i", -5) + whole[-6:],
                            "its footer says that it has -5 bytes")):
            path.write_bytes(data)
            self.fails(path, f"failed 3 .*a.arrow' is no Arrow IPC file: {text}",
                       format="ARROW")

    def test_damaged_files_never_hang_or_end_the_reader(self):
        table = table_of(0, 60).select(["y", "u", "d", "s"])
        path = self.folder / "a.arrow"
        write_ipc(path, table, batch_rows=20)
        whole = path.read_bytes()
        seed = random.randrange(1 << 32)
        print("seed", seed)
        source = random.Random(seed)
        outcomes = {"listed": 0, "refused": 0}
        for _ in range(25):
            data = bytearray(whole)
            for _ in range(source.randrange(1, 4)):
                data[source.randrange(len(data))] = source.randrange(256)
            path.write_bytes(data)
            with Reader(path, format="ARROW") as reader:
                if reader.failure is not None:
                    # InvalidArgument, or memory that is not there.
                    self.assertRegex(reader.failure, "failed (3|8) .*a.arrow'")
                    outcomes["refused"] += 1
                    continue
                outcomes["listed"] += 1
                rows, _, last = reader.read(0, 0, sum(reader.group_rows()))
                self.assertRegex(last, "end decoded|failed 3 .*a.arrow'|failed 8 ")
        self.assertEqual(sum(outcomes.values()), 25, outcomes)

    def test_a_file_that_was_replaced(self):
        path = self.folder / "a.arrow"
        write_ipc(path, table_of(0, 100))
        with Reader(path, format="ARROW") as reader:
            self.assertEqual(len(reader.read(0, 0, 100)[0]), 100)
            other = self.folder / "b"
            write_ipc(other, table_of(0, 90))
            os.replace(other, path)
            self.assertRegex(reader.read(0, 0, 100)[2],
                             "failed 9 .*a.arrow' has changed since it was listed: it had "
                             ".* and 100 rows, and has .* and 90")

    def test_columns_that_do_not_fit(self):
        table = table_of(0, 10)
        write_ipc(self.folder / "a.arrow", table)
        write_ipc(self.folder / "b.arrow", table.set_column(
            1, "u", pa.array(range(10))))
        write_ipc(self.folder / "c.arrow", table)
        self.fails(self.folder, "failed 3 .*b.arrow': column 'u' is of type int64, and the "
                   "feature's ids are text", format="ARROW", listed=LISTED)


if __name__ == "__main__":
    unittest.main()
