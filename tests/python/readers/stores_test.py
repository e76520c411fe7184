"""Files in stores: keys that are right, wrong and expired; objects that are replaced; a
network that fails in the middle of one."""

import io
import os
import pathlib
import subprocess
import sys
import time
import unittest

import pyarrow as pa
import pyarrow.parquet as pq

from reader_testing import (LISTED, READ_ROWS, ROOT, Reader, ReaderTestCase, expected,
                            features, table_of)
from stores_testing import Gs, Network, S3, WebHdfs
from oarlock import _find


def parquet(first, rows, group_rows=1000):
    out = io.BytesIO()
    pq.write_table(table_of(first, rows), out, row_group_size=group_rows)
    return out.getvalue()


class StoresTest(ReaderTestCase):

    @classmethod
    def setUpClass(cls):
        cls.s3 = S3()
        cls.addClassCleanup(cls.s3.close)

    def setUp(self):
        super().setUp()
        for each in self.s3.client.list_objects_v2(Bucket="logs").get("Contents", []):
            self.s3.client.delete_object(Bucket="logs", Key=each["Key"])
        self.network = Network(self.s3.port)
        self.addCleanup(self.network.close)

    def reader(self, pattern, **options):
        environment = self.s3.environment(self.network.port)
        environment.update(options.pop("environment", {}))
        return Reader(pattern, environment=environment, **options)

    def credentials(self, key, secret):
        """A file of the kind that programs write anew before a key expires."""
        path = self.folder / "credentials"
        new = self.folder / "credentials.new"
        new.write_text(f"[default]\naws_access_key_id = {key}\n"
                       f"aws_secret_access_key = {secret}\n")
        os.replace(new, path)
        return path

    def reader_by_file(self, pattern, key, secret, **options):
        environment = {**self.s3.place(self.network.port),
                       "AWS_SHARED_CREDENTIALS_FILE": str(self.credentials(key, secret))}
        return Reader(pattern, environment=environment, **options)

    def test_files_folders_and_patterns(self):
        for day in (1, 2):
            for part in range(2):
                self.s3.put(f"day={day}/part-{part}.parquet", parquet(10 * part, 10))
            self.s3.put(f"day={day}/_SUCCESS", b"")
        for pattern, count in (("s3://logs", 4), ("s3://logs/", 4), ("s3://logs/day=1", 2),
                               ("s3://logs/day=1/", 2), ("s3://logs/day=*", 4),
                               ("s3://logs/day=*/*", 4), ("s3://logs/day=?/*-0.*", 2),
                               ("s3a://logs/day=1/part-0.parquet", 1)):
            with self.subTest(pattern), self.reader(pattern) as reader:
                paths = [file["path"] for file in reader.files]
                self.assertEqual(len(paths), count)
                self.assertEqual(paths, sorted(paths))
                self.assertTrue(all(path.startswith("s3://logs/day=") for path in paths))
        with self.reader("s3://logs/day=1") as reader:
            etag = self.s3.client.head_object(
                Bucket="logs", Key="day=1/part-0.parquet")["ETag"]
            self.assertEqual(reader.files[0]["mark"], etag)
            rows = [line.split(" ", 2)[2] for line in expected(0, 20)]
            self.assertEqual(reader.read_all(), rows)
        for pattern, text in (
                ("s3://logs/day=3", "failed 5 's3://logs/day=3' matches no file"),
                ("s3://logs/day=3/*.parquet", "failed 5 .* matches no file"),
                ("s3://logs*/a", "failed 3 's3://logs.*/a' has the bucket 'logs.*'; legal"),
                ("s3:///a", "failed 3 's3:///a' has the bucket ''"),
                ("s3://other/a", "failed 5 's3://other/a' matches no file")):
            with self.subTest(pattern), self.reader(pattern) as reader:
                self.assertRegex(reader.failure, text)

    def test_other_formats(self):
        table = table_of(0, 2500).select(["y", "u", "d", "s"])
        for compression in (None, "zstd"):
            out = io.BytesIO()
            with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(
                    compression=compression)) as writer:
                writer.write_table(table, max_chunksize=1000)
            self.s3.put("a.arrow", out.getvalue())
            with self.reader("s3://logs/a.arrow", format="ARROW") as reader:
                self.assertEqual(reader.read(0, 900, 2500)[0], expected(900, 1600))
        with self.reader("s3://logs/a.arrow", format="ARROW", memory_bytes=9000) as reader:
            self.assertRegex(reader.read(0, 0, 2500)[2], "failed 8 .*record batch 0 takes")
        lines = [f"{n % 2},u{n}" for n in range(70_000)]
        self.s3.put("a.csv", "\n".join(["y,u"] + lines).encode())
        listed = features.Features([features.Label("y"), features.SparseFeature("u")])
        with self.reader("s3://logs/a.csv", format="CSV", listed=listed) as reader:
            self.assertEqual(reader.group_rows(), [65536, 70_000 - 65536])
            self.assertEqual(len(reader.read(0, 0, 70_000)[0]), 70_000)

    def test_a_key_that_is_wrong(self):
        self.s3.put("a.parquet", parquet(0, 10))
        for key, secret, code in (
                (self.s3.key, "wrongwrongwrong", "403 SignatureDoesNotMatch"),
                ("AKIANOBODY", "wrongwrongwrong", "403 InvalidAccessKeyId")):
            for pattern in ("s3://logs/a.parquet", "s3://logs", "s3://logs/*"):
                with self.subTest(code, pattern=pattern), self.reader(
                        pattern, environment={"AWS_ACCESS_KEY_ID": key,
                                              "AWS_SECRET_ACCESS_KEY": secret}) as reader:
                    self.assertRegex(
                        reader.failure, rf"failed (7|16) s3: bucket 'logs' refused the key "
                        rf"\({code}\); the key is found by the store's own chain")
                    self.assertNotIn("wrongwrong", reader.failure)

    def test_a_key_in_a_url_is_refused_and_not_printed(self):
        for url in ("s3://AKIAKEY:hunter2@logs/a.parquet", "s3://hunter2@logs/a",
                    "s3://logs/a.parquet?access_key=AKIA&secret_key=hunter2",
                    "https://store/a.parquet?X-Amz-Signature=hunter2",
                    "https://store/a.parquet?a=b&sig=hunter2",
                    "ftp://user:hunter2@host/a.parquet", "gs://hunter2@logs/a"):
            process = subprocess.run(
                [READ_ROWS, '{"features": [{"name": "y", "label": '
                 '{}}, {"name": "u", "sparse": {}}]}', "100", "1000000", "30", url],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env={**os.environ, "OARLOCK_PYTHON": sys.executable,
                     "PYTHONPATH": str(ROOT / "python")})
            with self.subTest(url.replace("hunter2", "*")):
                self.assertRegex(process.stdout, "failed 3 a URL of .*:// has a key or a "
                                 "password in it")
                self.assertNotIn("hunter2", process.stdout)

    def test_a_key_that_has_expired_is_read_anew(self):
        self.s3.put("a.parquet", parquet(0, 3000))
        self.network.expired = {"OLDKEY"}
        # What keeps the file fresh writes it anew meanwhile.
        self.network.on_expired = lambda _: self.credentials(self.s3.key, self.s3.secret)
        for pattern in ("s3://logs/a.parquet", "s3://logs"):
            with self.reader_by_file(pattern, "OLDKEY", "old") as reader:
                self.assertIsNone(reader.failure)
                self.assertEqual(reader.read(0, 0, 3000)[0], expected(0, 3000))

    def test_a_key_that_expires_in_the_middle_of_a_file(self):
        self.s3.put("a.parquet", parquet(0, 20_000))
        key, secret = self.s3.new_key()

        def expire(_):
            self.credentials(self.s3.key, self.s3.secret)

        with self.reader_by_file("s3://logs/a.parquet", key, secret) as reader:
            gets = []

            def after_some(first):
                gets.append(first)
                if len(gets) == 12:
                    self.network.expired = {key}

            self.network.on_request = after_some
            self.network.on_expired = expire
            rows, _, last = reader.read(0, 0, 20_000)
            self.assertRegex(last, "end")
            self.assertEqual(rows, expected(0, 20_000))
            self.assertEqual(self.network.expired, {key})

    def test_a_key_that_stays_expired(self):
        self.s3.put("a.parquet", parquet(0, 3000))
        self.network.expired = {"OLDKEY"}
        tries = []
        self.network.on_expired = tries.append
        for pattern in ("s3://logs/a.parquet", "s3://logs"):
            with self.reader_by_file(pattern, "OLDKEY", "hunter2") as reader:
                self.assertRegex(reader.failure, r"failed (7|16) s3: bucket 'logs' refused "
                                 r"the key \(400 ExpiredToken\)")
                self.assertNotIn("hunter2", reader.failure)
        self.assertGreaterEqual(len(tries), 4)
        self.assertLess(len(tries), 20)
        # While rows are read.
        self.network.expired = set()
        key, secret = self.s3.new_key()
        with self.reader_by_file("s3://logs/a.parquet", key, secret) as reader:
            self.network.expired = {key}
            self.assertRegex(reader.read(0, 0, 3000)[2], r"failed (7|16) '?s3.*bucket 'logs' "
                             r"refused the key \(400 ExpiredToken\)")

    def test_an_object_that_was_replaced(self):
        self.s3.put("a.parquet", parquet(0, 1000))
        with self.reader("s3://logs/a.parquet") as reader:
            self.assertEqual(len(reader.read(0, 0, 1000)[0]), 1000)
            # As many rows and bytes, and others.
            other = parquet(97 * 4, 1000)
            self.s3.put("a.parquet", other)
            self.assertRegex(reader.read(0, 0, 1000)[2], "failed 9 's3://logs/a.parquet' "
                             "has changed since it was listed")
            self.s3.client.delete_object(Bucket="logs", Key="a.parquet")
            self.assertRegex(reader.read(0, 0, 1000)[2], "failed 5 .*a.parquet")

    def test_an_object_that_is_replaced_while_it_is_read(self):
        self.s3.put("a.parquet", parquet(0, 20_000))
        with self.reader("s3://logs/a.parquet") as reader:
            gets = []

            def after_some(first):
                gets.append(first)
                if len(gets) == 12:
                    self.s3.put("a.parquet", parquet(97 * 4, 20_000))

            self.network.on_request = after_some
            rows, _, last = reader.read(0, 0, 20_000)
            self.assertRegex(last, "failed 9 's3://logs/a.parquet' has changed while it was "
                             "read")
            # What was given before is of the file that was listed.
            self.assertLess(len(rows), 20_000)
            self.assertEqual(rows, expected(0, len(rows)))

    def test_a_connection_that_is_cut_once(self):
        self.s3.put("a.parquet", parquet(0, 20_000, 20_000))
        with self.reader("s3://logs/a.parquet") as reader:
            self.network.cut = 1
            self.assertEqual(reader.read(0, 0, 20_000)[0], expected(0, 20_000))
            self.assertEqual(self.network.cut, 0)

    def test_a_store_that_stands_still(self):
        self.s3.put("a.parquet", parquet(0, 20_000, 20_000))
        with self.reader("s3://logs/a.parquet", timeout_s=30) as reader:
            self.network.stall = 1000
            begin = time.monotonic()
            # The reader gives up itself, before it is taken for dead.
            self.assertRegex(reader.read(0, 0, 20_000)[2], "failed 14 OSError: .*")
            self.assertLess(time.monotonic() - begin, 29)
            self.network.stall = 0
            self.assertEqual(reader.read(0, 0, 20_000)[0], expected(0, 20_000))

    def test_a_store_that_is_not_there(self):
        self.network.close()
        with self.reader("s3://logs/a.parquet") as reader:
            self.assertRegex(reader.failure, "failed 14 OSError: .*logs")

    def test_other_stores_by_fsspec(self):
        (self.folder / "day=1").mkdir()
        for part in range(2):
            (self.folder / f"day=1/{part}.parquet").write_bytes(parquet(10 * part, 10))
        for pattern in (f"local://{self.folder}/day=1", f"local://{self.folder}/day=*/*",
                        f"file://{self.folder}/day=1"):
            with self.subTest(pattern), Reader(pattern) as reader:
                self.assertEqual([pathlib.Path(file["path"]).name for file in reader.files],
                                 ["0.parquet", "1.parquet"])
                self.assertEqual(reader.read_all(), [
                    line.split(" ", 2)[2] for line in expected(0, 20)])
                (self.folder / "day=1/1.parquet").write_bytes(parquet(0, 9))
                self.assertRegex(reader.read(1, 0, 10)[2],
                                 "failed 9 .*1.parquet' has changed since it was listed")
                (self.folder / "day=1/1.parquet").write_bytes(parquet(10, 10))
        shadow = self.folder / "shadow"
        shadow.mkdir()
        (shadow / "fsspec.py").write_text("raise ImportError")
        with Reader("abfs://logs/a", path=f"{shadow}:{ROOT / 'python'}") as reader:
            self.assertEqual(reader.failure, "failed 9 'abfs://logs/a': stores of abfs:// "
                             "are read with fsspec, which is not installed; install it: pip "
                             "install fsspec")
        with Reader("abfs://logs/a") as reader:
            self.assertRegex(reader.failure, "failed 9 'abfs://logs/a': fsspec lacks a "
                             "package for abfs://: Install adlfs")
        with Reader("nowhere://logs/a") as reader:
            self.assertRegex(reader.failure, "failed 3 'nowhere://logs/a': .*nowhere")


class GsTest(ReaderTestCase):

    def setUp(self):
        super().setUp()
        self.store = Gs()
        self.addCleanup(self.store.close)

    def test_files_folders_and_patterns(self):
        for day in (1, 2):
            for part in range(2):
                self.store.put(f"day={day}/part-{part}.parquet", parquet(10 * part, 10))
            self.store.put(f"day={day}/_SUCCESS", b"")
        for pattern, count in (("gs://logs", 4), ("gs://logs/day=1/", 2),
                               ("gs://logs/day=*", 4), ("gs://logs/day=?/*-0.*", 2),
                               ("gs://logs/day=1/part-0.parquet", 1)):
            with self.subTest(pattern), Reader(
                    pattern, environment=self.store.environment) as reader:
                self.assertIsNone(reader.failure)
                self.assertEqual(len(reader.files), count)
                self.assertEqual(reader.read_all()[:10], [
                    line.split(" ", 2)[2] for line in expected(0, 10)])
        with Reader("gs://logs/day=3*", environment=self.store.environment) as reader:
            self.assertRegex(reader.failure, "failed 5 'gs://logs/day=3.*matches no file")

    def test_what_it_refuses_and_what_has_changed(self):
        self.store.put("a.parquet", parquet(0, 1000))
        with Reader("gs://logs/a.parquet", environment=self.store.environment) as reader:
            self.store.put("a.parquet", parquet(97 * 4, 1000))
            self.assertRegex(reader.read(0, 0, 1000)[2], "failed 9 'gs://logs/a.parquet' "
                             "has changed since it was listed")
        self.store.refused = True
        with Reader("gs://logs/a.parquet", environment=self.store.environment) as reader:
            self.assertRegex(reader.failure, r"failed (7|16) gs: bucket 'logs' refused the "
                             r"key \(PERMISSION_DENIED\)")


class WebHdfsTest(ReaderTestCase):
    """HDFS, by fsspec."""

    def setUp(self):
        super().setUp()
        self.store = WebHdfs()
        self.addCleanup(self.store.close)

    def test_files_folders_and_patterns(self):
        for day in (1, 2):
            for part in range(2):
                self.store.put(f"/logs/day={day}/{part}.parquet", parquet(10 * part, 10))
            self.store.put(f"/logs/day={day}/_SUCCESS", b"")
        url = self.store.url
        for pattern, count in (("/logs", 4), ("/logs/day=1/", 2), ("/logs/day=*", 4),
                               ("/logs/day=?/0.*", 2), ("/logs/day=1/0.parquet", 1)):
            with self.subTest(pattern), Reader(url + pattern) as reader:
                self.assertIsNone(reader.failure)
                self.assertEqual(len(reader.files), count)
                for file in reader.files:
                    self.assertRegex(file["path"], rf"\A{url}/logs/day=\d/\d.parquet\Z")
                self.assertEqual(reader.read_all()[:10], [
                    line.split(" ", 2)[2] for line in expected(0, 10)])
        self.fails(url + "/logs/day=3*", "failed 5 'webhdfs://.*day=3.*matches no file")

    def test_what_it_refuses_and_what_has_changed(self):
        path = self.store.url + "/a.parquet"
        self.store.put("/a.parquet", parquet(0, 1000))
        with Reader(path) as reader:
            self.store.put("/a.parquet", parquet(97 * 4, 1000))
            self.assertRegex(reader.read(0, 0, 1000)[2],
                             f"failed 9 '{path}' has changed since it was listed")
        self.store.refused = True
        self.fails(path, "failed (7|16) webhdfs: bucket '127.0.0.1:.*' refused the key")

    def test_what_a_datanode_says_is_not_taken_for_the_file(self):
        lines = "".join(f"{n % 2},u{n}\n" for n in range(5000))
        self.store.put("/a.csv", f"y,u\n{lines}".encode())
        listed = features.Features([features.Label("y"), features.SparseFeature("u")])
        with Reader(self.store.url + "/a.csv", format="CSV", listed=listed) as reader:
            self.store.fail = 1
            self.assertRegex(reader.read(0, 0, 5000)[2], "failed 14 .*500 .*Server Error")
            rows, bad, _ = reader.read(0, 0, 5000)
            self.assertEqual((len(rows), bad), (5000, []))


class TrainingTest(ReaderTestCase):
    """The engine's program, whose readers start anew."""

    @classmethod
    def setUpClass(cls):
        cls.s3 = S3()
        cls.addClassCleanup(cls.s3.close)
        for part in range(3):
            cls.s3.put(f"train/{part}.parquet", parquet(20_000 * part, 20_000, 7000))

    def setUp(self):
        super().setUp()
        self.network = Network(self.s3.port)
        self.addCleanup(self.network.close)

    def train(self, *flags, **environment):
        LISTED.save(self.folder / "features.json")
        return subprocess.Popen(
            [_find.program().path, "train", "--model", "deepfm", "--data_format", "parquet",
             "--features", str(self.folder / "features.json"), "--train_files",
             "s3://logs/train", "--log_dir", str(self.folder / "logs"), "--server_num", "1",
             "--worker_num", "2", "--batch_size", "500", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "OARLOCK_PYTHON": sys.executable,
                 "PYTHONPATH": str(ROOT / "python"),
                 **self.s3.environment(self.network.port), **environment})

    def logs(self):
        return "".join(path.read_text() for path in
                       (self.folder / "logs").rglob("*") if path.is_file())

    def test_every_row_once_over_a_network_that_fails(self):
        for fault in ("cut", "stall"):
            with self.subTest(fault):
                process = self.train("--read_timeout_s", "10")
                seen = []

                def fail(first):
                    # From the first rows on, a few times.
                    if "GET" in first and not seen:
                        seen.append(first)
                        setattr(self.network, fault, 7 if fault == "cut" else 2)

                self.network.on_request = fail
                text, _ = process.communicate(timeout=200)
                self.assertEqual(process.returncode, 0, text)
                self.assertRegex(text, r"(?m)^train .* 60000 examples in")
                self.assertEqual(getattr(self.network, fault), 0)

    def test_a_wrong_key_ends_the_job_with_one_line_and_no_secret(self):
        process = self.train(AWS_SECRET_ACCESS_KEY="hunter2hunter2")
        text, _ = process.communicate(timeout=200)
        self.assertEqual(process.returncode, 1, text)
        self.assertIn("s3: bucket 'logs' refused the key (403 SignatureDoesNotMatch)", text)
        self.assertNotIn("hunter2", text + self.logs())
        self.assertNotIn(self.s3.secret, text + self.logs())


if __name__ == "__main__":
    unittest.main()
