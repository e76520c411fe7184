"""CSV files: rows, blocks of lines, types, and which line is malformed."""

import csv
import gzip
import io
import random
import unittest

import duckdb
import polars

from reader_testing import Reader, ReaderTestCase, features, key_of

LISTED = features.Features([
    features.Label("y"), features.SparseFeature("u"), features.DenseFeature("d"),
    features.SparseFeature("n", type="int")])


def row_of(label, dense, number, text):
    """A row as Reader.read_all gives it: None is null."""
    number = key_of(1, "n", number)
    return f"{label:g} {dense:g} | {number} | {key_of(2, 'u', text)}"


class CsvFilesTest(ReaderTestCase):

    def write(self, text, name="a.csv"):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def rows(self, text, **options):
        path = self.write(text)
        with Reader(path, format="CSV", listed=LISTED, **options) as reader:
            self.assertIsNone(reader.failure)
            return reader.read_all()

    def malformed(self, text, line, **options):
        """Checks the line that says where a file is malformed."""
        path = self.write(text)
        with Reader(path, format="CSV", listed=LISTED, **options) as reader:
            self.assertIsNone(reader.failure)
            last = reader.read(0, 0, sum(reader.group_rows()))[2]
            self.assertRegex(last, f"failed 3 '.*a.csv': {line}")

    def test_types_and_quotes(self):
        want = [row_of(1, 2.5, 7, b"a"), row_of(0, 0, -3, b"b, \"c\"\nd"),
                row_of(1, -1e3, None, b""), row_of(0, 0, 1 << 62, None)]
        text = ('more,u,y,d,n\n'
                'x,a,1,2.5,7\n'
                '"x ""y""\n","b, ""c""\nd",0,,-3\n'
                ',"",1,-1e3,\n'
                ',,0,0,4611686018427387904')
        self.assertEqual(self.rows(text), want)
        self.assertEqual(self.rows(text + "\n"), want)
        self.assertEqual(self.rows("\ufeff" + text), want)
        plain = "u,y,d,n\nNA,1,2,3\nnull,0,4,5\n"
        want = [row_of(1, 2, 3, b"NA"), row_of(0, 4, 5, b"null")]
        self.assertEqual(self.rows(plain), want)
        self.assertEqual(self.rows(plain.replace("\n", "\r\n")), want)
        self.assertEqual(self.rows("u,n,y,d\na,18446744073709551615,1,2\nb,7,0,1\n"),
                         [row_of(1, 2, (1 << 64) - 1, b"a"), row_of(0, 1, 7, b"b")])
        self.malformed("u,n,y,d\na,-7,1,2\na,18446744073709551615,1,2\n", "line 3 has "
                       "'18446744073709551615' in column 'n', which is no integer")
        # Bytes that are no UTF-8 are ids as they are.
        self.assertEqual(self.rows(b"u,y,d,n\n\xff\x00a,1,2,3\n"),
                         [row_of(1, 2, 3, b"\xff\x00a")])
        self.assertEqual(self.rows("u,y,d,n\n"), [])
        self.assertEqual(self.rows("u,y,d,n"), [])

    def test_bad_rows_are_told_and_malformed_lines_end_it(self):
        path = self.write("u,y,d,n\na,1,2,3\na,nan,2,3\n\na,1,inf,3\n")
        with Reader(path, format="CSV", listed=LISTED) as reader:
            rows, bad, last = reader.read(0, 0, 4)
            self.assertEqual([len(rows), bad[0][:11], last[:3]], [1, "bad 3 row 1", "end"])
        good = "a,1,2,3\n"
        for line, text in (
                ("a,1,2", "has 3 values, and the first line names 4 columns"),
                ("a,1,2,3,4", "has 5 values, and the first line names 4 columns"),
                ("a,yes,2,3", "has 'yes' in column 'y', which is no number"),
                ("a,1,2,3.5", "has '3.5' in column 'n', which is no integer of 64 bits"),
                ("a,1,2,99999999999999999999", "has '99999999999999999999' in column 'n'"),
                ("a,1,,x" + "x" * 500, "has 'x{50,60} in column 'n'")):
            with self.subTest(line):
                self.malformed("u,y,d,n\n" + good * 3 + line + "\n" + good,
                               f"line 5 {text}")
                # Lines are those of the file where values have newlines.
                self.malformed('u,y,d,n\n"a\n\nb",1,2,3\n' + good + line + "\n",
                               f"line 6 {text}")
        # In a later block.
        self.malformed("u,y,d,n\n" + good * 70000 + "a,b\n", "line 70002 has 2 values")

    def test_quotes_that_are_not_closed(self):
        listed = {"format": "CSV", "listed": LISTED}
        self.write('u,y,d,n\na,1,2,3\n"a,1,2,3\na,1,2,3\n')
        self.fails(self.folder, "failed 3 '.*a.csv': line 3: a quote is not closed until "
                   "the file's end", **listed)
        self.write('u,y,d,n\na,1,2,3\n"' + "a,1,2,3\n" * (3 << 20))
        self.fails(self.folder, "failed 3 '.*a.csv': line 3 is longer than 16777216 bytes: "
                   "a quote that is not closed, or no CSV", **listed)
        # Quotes in the middle of values that are not in quotes.
        self.malformed('u,y,d,n\na"b,1,2,3\nx,1,2,3\na"b,1,2,3\n', "lines 2 to 4 are 3 "
                       "rows, and 1 were counted: a quote in the middle of a value")

    def test_files_that_are_refused(self):
        listed = {"format": "CSV", "listed": LISTED}
        for data, text in (
                (b"", "has no line of names"), (b"\nu,y\n", "has no line of names"),
                (gzip.compress(b"u,y,d,n\n"), "is compressed, and blocks of lines are read "
                 r"from its middle; unpack it \(gzip -d\), or write Parquet"),
                (b"u,y,d,n,u\n", "line 1 names column 'u' 2 times"),
                (b"u,y,d\n", "column 'n' is missing"),
                (b"\xff\xfeu,y,d,n\n", "line 1: its names cannot be read")):
            with self.subTest(text):
                self.write(data)
                self.fails(self.folder, f"failed 3 '.*a.csv':? {text}", **listed)
        self.write("u,y,d,n\n")
        self.fails(self.folder, "failed 3 '.*a.csv': column 'u' is of type string, and the "
                   "feature is a sequence", format="CSV", listed=features.Features(
                       [features.Label("y"), features.SequenceFeature("u")]))

    def test_blocks_of_lines(self):
        rows = [(i % 2, i / 2, i, f"user {i % 10}" + "\n" * (i % 3 == 0))
                for i in range(150_000)]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["y", "d", "n", "u"])
        writer.writerows(rows)
        path = self.write(out.getvalue())
        with Reader(path, format="CSV", listed=LISTED, block_rows=10_000) as reader:
            self.assertEqual(reader.group_rows(), [65536, 65536, 18928])
            for begin, end in ((0, 5), (65530, 65540), (131072, 131080), (149990, 150000),
                               (65536, 131072)):
                read, _, last = reader.read(0, begin, end)
                self.assertEqual(read, [
                    f"row {i} " + row_of(*rows[i][:3], rows[i][3].encode())
                    for i in range(begin, end)])
            self.assertEqual(last, "end decoded 65536")
        # Little memory makes smaller blocks.
        with Reader(path, format="CSV", listed=LISTED, memory_bytes=1) as reader:
            groups = reader.group_rows()
            self.assertEqual(sum(groups), 150_000)
            self.assertLess(max(groups), 65536)
            self.assertEqual(len(reader.read(0, 0, 150_000)[0]), 150_000)

    def test_a_line_of_more_than_a_block(self):
        texts = ["a", "b" * (3 << 20), "c", "d" * (2 << 20), "e"]
        text = "u,y,d,n\n" + "".join(f"{text},1,2,3\n" for text in texts)
        path = self.write(text)
        with Reader(path, format="CSV", listed=LISTED, memory_bytes=1) as reader:
            self.assertGreater(len(reader.group_rows()), 1)
            self.assertEqual(reader.read_all(), [
                row_of(1, 2, 3, text.encode()) for text in texts])

    def test_random_files(self):
        seed = random.randrange(1 << 32)
        print("seed", seed)
        source = random.Random(seed)
        for _ in range(10):
            rows = [(source.randrange(2), source.randrange(1000) / 8,
                     source.randrange(-(1 << 63), 1 << 63),
                     "".join(source.choice('ab,"\n \r\té') for _ in range(
                         source.randrange(6))))
                    for _ in range(source.randrange(1, 300))]
            out = io.StringIO()
            writer = csv.writer(out, lineterminator=source.choice(["\n", "\r\n"]),
                                quoting=csv.QUOTE_NONNUMERIC)
            writer.writerow(["y", "d", "n", "u"])
            writer.writerows(rows)
            self.assertEqual(self.rows(out.getvalue()), [
                row_of(*row[:3], row[3].encode()) for row in rows])

    def test_other_writers(self):
        frame = polars.DataFrame({
            "y": [0, 1] * 50, "d": [n / 4 for n in range(100)],
            "n": list(range(100)), "u": [f'u "{n % 7}",\n' for n in range(100)]})
        frame.write_csv(self.folder / "a.csv")
        duckdb.from_arrow(frame.to_arrow()).write_csv(str(self.folder / "b.csv"))
        with Reader(self.folder, format="CSV", listed=LISTED) as reader:
            self.assertEqual(reader.read_all(), 2 * [
                row_of(n % 2, n / 4, n, f'u "{n % 7}",\n'.encode()) for n in range(100)])

    def test_a_file_that_was_replaced(self):
        path = self.write("u,y,d,n\na,1,2,3\n")
        with Reader(path, format="CSV", listed=LISTED) as reader:
            self.assertEqual(len(reader.read(0, 0, 1)[0]), 1)
            self.write("u,y,d,n\n")
            self.assertRegex(reader.read(0, 0, 1)[2],
                             "failed 9 .*a.csv' has changed since it was listed: it had 16 "
                             "bytes and 1 rows, and has 8")


if __name__ == "__main__":
    unittest.main()
