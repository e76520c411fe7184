"""`oarlock checkpoint copy`: to another folder, to a store of S3's kind, and back."""

import contextlib
import itertools
import logging
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from oarlock_testing import ROOT, eventually
from oarlock import _copy, _find, _folders, errors

MIB = 1 << 20
SECRET = "sesame-sesame-sesame"


class Relay:
    """Between a client and a server: it stops in the middle when it is told so."""

    def __init__(self, port):
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._left = None
        self._open = threading.Event()
        self._open.set()
        self.has_stopped = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop_after(self, size):
        """Lets so many bytes through, of both directions."""
        self.has_stopped.clear()
        with self._lock:
            self._left = size

    def go_on(self):
        with self._lock:
            self._left = None
        self._open.set()

    def close(self):
        self._listener.close()
        self.go_on()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client):
        with client, socket.create_connection(("127.0.0.1", self._port)) as server:
            back = threading.Thread(target=self._carry, args=(server, client),
                                    daemon=True)
            back.start()
            self._carry(client, server)
            back.join()

    def _carry(self, source, target):
        try:
            while True:
                part = source.recv(65536)
                with self._lock:
                    if self._left is not None:
                        self._left -= len(part)
                        if self._left < 0:
                            self._open.clear()
                            self.has_stopped.set()
                self._open.wait()
                if not part:
                    break
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # The other direction ends, too.
            for end in (source, target):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


def setUpModule():
    """Two checkpoints of a job, the second one newer: first, second; and its folder as
    the job has left it."""
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    CopyCase.shared = shared = pathlib.Path(scratch.name)
    case = CopyCase()
    case.setUp()
    case.command("generate", "criteo", "--rows", "600", "--files", "2", "--seed", "5",
                 "--out", shared / "data")
    CopyCase.first, CopyCase.second = shared / "first", shared / "second"
    for original, flags in ((case.first, ["--epochs", "1"]),
                            (case.second, ["--epochs", "2", "--resume"])):
        case.train(shared / "job", *flags)
        shutil.copytree(shared / "job", original, ignore=of_a_job)
        for name in os.listdir(original):
            if name not in ("CURRENT", (original / "CURRENT").read_text().split()[0]):
                shutil.rmtree(original / name)
    case.doCleanups()


class CopyCase(unittest.TestCase):
    """What tests of copies share."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.environment = {}

    def start(self, *words):
        return subprocess.Popen(
            [_find.program().path, *map(str, words)], text=True,
            env={**os.environ, "OARLOCK_PYTHON": sys.executable,
                 "PYTHONPATH": str(ROOT / "python"), **self.environment},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def command(self, *words, code=0):
        """What it prints; on standard error where it fails."""
        process = self.start(*words)
        out, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, code, f"{words}\n{out}{err}")
        return err if code else out

    def train(self, folder, *flags):
        """Dense layers have a file of several pieces."""
        self.command(
            "train", "--train_files", self.shared / "data/part-*", "--log_dir",
            self.scratch / "logs", "--server_num", "2", "--worker_num", "1", "--model",
            "deepfm", "--hidden_sizes", "3200,2900", "--checkpoint_dir", folder,
            "--checkpoint_interval_s", "0", "--lease_s", "60", *flags)

    def copy(self, source, target, code=0):
        return self.command("checkpoint", "copy", source, target, code=code)

    def fails(self, source, target, pattern):
        """The copy fails with one line."""
        text = self.copy(source, target, code=1)
        self.assertRegex(text, pattern)
        self.assertRegex(text, r"\A.+\n\Z")
        self.assertNotIn("Traceback", text)

    def assert_is(self, folder, original):
        """The folder's current checkpoint is sound, and that of the original."""
        self.command("checkpoint", "verify", folder)
        self.command("checkpoint", "diff", folder, original)
        self.assertEqual((folder / "CURRENT").read_bytes(),
                         (original / "CURRENT").read_bytes())

    def assert_has_nothing_else(self, folder):
        current = (folder / "CURRENT").read_text().split()[0]
        self.assertEqual(sorted(os.listdir(folder)), ["CURRENT", current])


class CopyTest(CopyCase):
    """From folder to folder."""

    def test_a_copy_is_sound_and_has_only_the_current_checkpoint(self):
        target = self.scratch / "new/backup"
        text = self.copy(self.shared / "job", target)
        self.assertRegex(text, r"copied ckpt-\d+ to .*: \d+ files, (\d+) bytes; of them "
                               r"new \d+ files, \1 bytes")
        self.assert_is(target, self.second)
        self.assert_has_nothing_else(target)

    def test_a_checkpoint_is_copied_by_its_name(self):
        name = (self.second / "CURRENT").read_text().split()[0]
        self.copy(self.second / name, self.scratch / "backup")
        self.assert_is(self.scratch / "backup", self.second)

    def test_a_second_copy_makes_no_file_anew(self):
        target = self.scratch / "backup"
        self.copy(self.first, target)
        inodes = {path: path.stat().st_ino for path in target.rglob("*")}
        self.assertIn("of them new 0 files, 0 bytes", self.copy(self.first, target))
        self.assertEqual(inodes, {path: path.stat().st_ino
                                  for path in target.rglob("*")})

    def test_the_next_copy_takes_what_has_changed_and_removes_the_older_one(self):
        target = self.scratch / "backup"
        self.copy(self.first, target)
        # A file of the same size and sum under another number.
        source = self.scratch / "source"
        shutil.copytree(self.first, source)
        next_cut(source)
        self.assertIn("of them new 0 files", self.copy(source, target))
        self.assert_is(target, source)
        self.assert_has_nothing_else(target)
        self.copy(self.second, target)
        self.assert_is(target, self.second)
        self.assert_has_nothing_else(target)

    def test_a_file_of_the_copy_that_is_damaged_or_away_is_copied_again(self):
        target = self.scratch / "backup"
        self.copy(self.first, target)
        files = sorted(target.rglob("server-*/*.sst"),
                       key=lambda path: path.stat().st_size)[-3:]
        damage(files[0])
        files[1].unlink()
        files[2].write_bytes(b"")
        stray = files[0].parent / "stray"
        stray.write_text("x")
        self.assertIn("of them new 3 files", self.copy(self.first, target))
        self.assertFalse(stray.exists())
        self.assert_is(target, self.first)

    def test_a_damaged_file_of_the_older_copy_does_not_come_into_the_next_one(self):
        target, source = self.scratch / "backup", self.scratch / "source"
        self.copy(self.first, target)
        damage(next(path for path in target.rglob("server-*/*")
                    if path.stat().st_size > 0))
        shutil.copytree(self.first, source)
        next_cut(source)
        self.assertIn("of them new 1 files", self.copy(source, target))
        self.assert_is(target, source)

    def test_what_is_damaged_or_no_checkpoint_is_not_copied(self):
        target, source = self.scratch / "backup", self.scratch / "source"
        self.fails(source, target, "there is no checkpoint in .*source")
        source.mkdir()
        self.fails(source, target, "there is no checkpoint in .*source")
        self.copy(self.first, target)
        source.rmdir()
        shutil.copytree(self.second, source)
        name = (source / "CURRENT").read_text().split()[0]
        victim = next(path for path in source.rglob("server-*/*")
                      if path.stat().st_size > 9)
        whole = victim.read_bytes()
        damage(victim)
        self.fails(source, target, f"{victim} has the XXH3 .*its manifest says")
        victim.write_bytes(whole[:-1])
        self.fails(source, target, f"{victim} has the XXH3")
        victim.unlink()
        self.fails(source, target, f"{victim} is missing")
        os.mkfifo(victim)
        self.fails(source, target, f"{victim} is no regular file")
        victim.unlink()
        victim.write_bytes(whole)
        manifest = source / name / "MANIFEST"
        text = manifest.read_bytes()
        for other in (text[:-1], text.replace(b"cut:", b"cat:", 1), b""):
            manifest.write_bytes(other)
            self.fails(source, target, "MANIFEST ")
        manifest.unlink()
        self.fails(source, target, "MANIFEST is missing; CURRENT names it")
        (source / "CURRENT").write_text("ckpt-1 0\n")
        self.fails(source, target, "CURRENT is not a line")
        self.assert_is(target, self.first)

    def test_a_manifest_cannot_name_files_elsewhere(self):
        for name in ("../x", "a/b", "..", "."):
            source = self.scratch / "source"
            shutil.copytree(self.first, source)
            reseal(source, lambda text, name=name: re.sub(
                r'name: "[^"]*\.sst"', f'name: "{name}"', text, count=1))
            self.fails(source, self.scratch / "backup", "which is not legal")
            shutil.rmtree(source)
        self.assertEqual(os.listdir(self.scratch), ["backup"])

    def test_another_version_of_the_format_is_refused(self):
        source = self.scratch / "source"
        shutil.copytree(self.first, source)
        reseal(source, lambda text: text.replace("format_version: 1",
                                                 "format_version: 2"))
        self.fails(source, self.scratch / "backup", "is of format 2")

    def test_folders_that_are_no_copies_are_left_as_they_are(self):
        target = self.scratch / "backup"
        target.mkdir()
        (target / "notes").write_text("x")
        self.fails(self.first, target, r"has files of somebody else \(notes\)")
        (target / "notes").unlink()
        (target / "log").mkdir()
        self.fails(self.first, target, "is the folder of a job")
        (target / "log").rmdir()
        self.copy(self.first, target)
        # The same number, of another job.
        source = self.scratch / "source"
        shutil.copytree(self.first, source)
        reseal(source, lambda text: text.replace('job_id: "', 'job_id: "x', 1))
        self.fails(source, target, "has another ckpt-[0-9]+, of another job")
        self.assert_is(target, self.first)
        damage(target / "CURRENT")
        self.fails(self.second, target, "has a damaged copy, which is left as it is")
        (self.scratch / "file").write_text("x")
        self.fails(self.first, self.scratch / "file", "file")

    def test_one_copy_at_a_time(self):
        target = self.scratch / "backup"
        with _folders.folder_of(str(target)).locked():
            self.fails(self.first, target, "another process copies to")
        self.copy(self.first, target)

    def test_wrong_command_lines_are_usage_errors(self):
        for words in (("copy",), ("copy", self.first), ("copy", "a", "b", "c"),
                      ("copy", self.first, ""),
                      ("copy", self.first, self.first / "x"),
                      ("copy", self.first, f"s3://id:{SECRET}@bucket/ctr"),
                      ("copy", self.first, "memory://x")):
            self.assertNotIn(SECRET, self.command("checkpoint", *words, code=2))

    def test_what_is_not_installed_is_named(self):
        self.environment = {"OARLOCK_PYTHON": "/no/such/python"}
        self.fails(self.first, self.scratch / "backup", "'/no/such/python'.*--python")
        # Debian's Python has neither the package nor fsspec.
        self.environment = {"OARLOCK_PYTHON": "/usr/bin/python3", "PYTHONPATH": ""}
        self.fails(self.first, self.scratch / "backup",
                   "No module named 'oarlock'; install the package")
        self.environment["PYTHONPATH"] = str(ROOT / "python")
        self.fails(self.first, "s3://bucket/ctr", "pip install fsspec s3fs")
        self.environment = {}
        self.fails(self.first, "gs://bucket/ctr", "pip install gcsfs")
        self.fails(self.first, "xyz://bucket/ctr", "cannot be reached.*xyz")

    def test_a_copy_that_is_killed_leaves_the_older_one_or_the_newer_one_whole(self):
        seed = random.randrange(1 << 32)
        print("seed", seed)
        choose = random.Random(seed)
        target = self.scratch / "backup"
        self.copy(self.first, target)
        originals = itertools.cycle([self.second, self.first])
        names = {(folder / "CURRENT").read_bytes(): folder
                 for folder in (self.first, self.second)}
        for original in itertools.islice(originals, 8):
            name = (original / "CURRENT").read_text().split()[0]
            wanted = choose.randrange(1, 12)
            process = self.start("checkpoint", "copy", original, target)
            eventually(lambda name=name, wanted=wanted, process=process: (
                len(list((target / name).rglob("*"))) >= wanted
                or process.poll() is not None))
            process.kill()
            process.communicate(timeout=240)
            self.assert_is(target, names[(target / "CURRENT").read_bytes()])
            # What it has left is in nobody's way.
            self.copy(original, target)
            self.assert_is(target, original)
            self.assert_has_nothing_else(target)

    def test_the_folder_of_a_job_that_trains_is_copied(self):
        folder = self.scratch / "live"
        job = self.start(
            "train", "--train_files", self.shared / "data/part-*", "--log_dir",
            self.scratch / "logs", "--server_num", "2", "--worker_num", "1",
            "--checkpoint_dir", folder, "--checkpoint_interval_s", "0.05",
            "--checkpoint_keep", "1", "--epochs", "100000")
        try:
            self.assertTrue(eventually((folder / "CURRENT").exists, 60))
            seen = set()
            for round_ in range(5):
                target = self.scratch / f"backup{round_}"
                self.copy(folder, target)
                self.command("checkpoint", "verify", target)
                seen.add((target / "CURRENT").read_text())
            self.assertEqual(len(seen), 5)
            self.assertIsNone(job.poll())
        finally:
            job.terminate()
            job.communicate(timeout=240)

    def test_a_job_copies_its_own_checkpoints(self):
        folder, target = self.scratch / "live", self.scratch / "backup"
        self.train(folder, "--epochs", "2", "--on_checkpoint",
                   f"{_find.program().path} checkpoint copy {folder} {target}")
        self.assert_is(target, folder)

    def test_a_job_goes_on_from_a_copy_of_a_copy(self):
        self.copy(self.second, self.scratch / "there")
        back = self.scratch / "back"
        self.copy(self.scratch / "there", back)
        self.train(back, "--epochs", "3", "--resume")
        self.assertGreater(_copy.find_checkpoint(_folders.folder_of(str(back))).name,
                           (self.second / "CURRENT").read_text())


class StoreTest(CopyCase):
    """To and from a store."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        from moto.server import ThreadedMotoServer

        # A line for each request.
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        cls.server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)
        cls.port = cls.server.get_host_and_port()[1]

    def setUp(self):
        super().setUp()
        import boto3

        self.relay = Relay(self.port)
        self.addCleanup(self.relay.close)
        self.environment = {
            "AWS_ENDPOINT_URL": self.relay.url, "AWS_ACCESS_KEY_ID": "an-id-of-a-key",
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
        self.s3 = boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1")
        self.bucket = f"bucket-{id(self)}"
        self.s3.create_bucket(Bucket=self.bucket)
        self.url = f"s3://{self.bucket}/of/ctr"

    def keys(self):
        listed = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {each["Key"].removeprefix("of/ctr/"): each["LastModified"]
                for each in listed}

    def object(self, name):
        return self.s3.get_object(Bucket=self.bucket,
                                  Key=f"of/ctr/{name}")["Body"].read()

    def assert_store_is(self, original):
        """It has the original's current checkpoint, and nothing else."""
        current = (original / "CURRENT").read_bytes()
        name = current.split()[0].decode()
        self.assertEqual(self.object("CURRENT"), current)
        wanted = {"CURRENT"} | {
            str(path.relative_to(original)) for path in (original / name).rglob("*")
            if path.is_file() and path.name not in ("LOCK", "LOG")}
        self.assertEqual(set(self.keys()), wanted)
        for each in wanted:
            self.assertEqual(self.object(each), (original / each).read_bytes(), each)

    def test_to_a_store_and_back(self):
        self.assertGreater(max(path.stat().st_size for path in self.first.rglob("*")),
                           2 * _folders.PIECE_BYTES)
        text = self.copy(self.first, self.url + "/")
        self.assertIn(f" to {self.url}/ckpt-", text)
        self.assert_store_is(self.first)
        back = self.scratch / "back"
        self.copy(self.url, back)
        self.assert_is(back, self.first)
        self.train(back, "--epochs", "2", "--resume")

    def test_from_a_bucket_to_another(self):
        self.copy(self.first, f"s3://{self.bucket}")
        self.copy(f"s3://{self.bucket}", f"s3://{self.bucket}x", code=1)
        self.s3.create_bucket(Bucket=self.bucket + "x")
        self.copy(f"s3://{self.bucket}", f"s3://{self.bucket}x")
        self.copy(f"s3://{self.bucket}x", self.scratch / "back")
        self.assert_is(self.scratch / "back", self.first)

    def test_a_second_copy_uploads_nothing(self):
        self.copy(self.first, self.url)
        before = self.keys()
        self.assertIn("of them new 0 files, 0 bytes", self.copy(self.first, self.url))
        self.assertEqual(self.keys(), before)

    def test_the_next_copy_uploads_what_has_changed(self):
        self.copy(self.first, self.url)
        source = self.scratch / "source"
        shutil.copytree(self.first, source)
        next_cut(source)
        # Within the store: nothing of it is uploaded or read back.
        self.relay.stop_after(8 * MIB)
        self.assertIn("of them new 0 files", self.copy(source, self.url))
        self.assertFalse(self.relay.has_stopped.is_set())
        self.relay.go_on()
        self.assert_store_is(source)
        self.copy(self.second, self.url)
        self.assert_store_is(self.second)

    def test_a_copy_to_a_store_that_is_killed_leaves_the_older_one_whole(self):
        self.copy(self.first, self.url)
        before = {key: self.object(key) for key in self.keys()}
        for size in (1 * MIB, 12 * MIB, 20 * MIB):
            self.relay.stop_after(size)
            process = self.start("checkpoint", "copy", self.second, self.url)
            self.assertTrue(self.relay.has_stopped.wait(240))
            process.kill()
            process.communicate(timeout=240)
            self.relay.go_on()
            for key, value in before.items():
                self.assertEqual(self.object(key), value, key)
            back = self.scratch / f"back{size}"
            self.copy(self.url, back)
            self.assert_is(back, self.first)
        self.copy(self.second, self.url)
        self.assert_store_is(self.second)

    def test_a_copy_from_a_store_that_is_killed_leaves_the_older_one_whole(self):
        target = self.scratch / "backup"
        self.copy(self.first, target)
        self.copy(self.second, self.url)
        self.relay.stop_after(12 * MIB)
        process = self.start("checkpoint", "copy", self.url, target)
        self.assertTrue(self.relay.has_stopped.wait(240))
        process.kill()
        process.communicate(timeout=240)
        self.relay.go_on()
        self.assert_is(target, self.first)
        self.copy(self.url, target)
        self.assert_is(target, self.second)
        self.assert_has_nothing_else(target)

    def test_a_checkpoint_that_is_replaced_while_it_is_copied(self):
        self.copy(self.first, self.url)
        self.relay.stop_after(12 * MIB)
        process = self.start("checkpoint", "copy", self.url, self.scratch / "back")
        self.assertTrue(self.relay.has_stopped.wait(240))
        self.environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{self.port}"
        self.copy(self.second, self.url)
        self.relay.go_on()
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("meanwhile; its next one is copied", err)
        self.assert_is(self.scratch / "back", self.second)
        self.assert_has_nothing_else(self.scratch / "back")

    def test_an_object_that_is_away_or_shorter_is_uploaded_again(self):
        self.copy(self.first, self.url)
        files = [key for key in self.keys() if "server-" in key]
        self.s3.delete_object(Bucket=self.bucket, Key=f"of/ctr/{files[0]}")
        self.s3.put_object(Bucket=self.bucket, Key=f"of/ctr/{files[1]}", Body=b"x")
        self.assertIn("of them new 2 files", self.copy(self.first, self.url))
        self.assert_store_is(self.first)

    def test_what_a_store_refuses_is_one_line_without_secrets(self):
        self.fails(self.first, "s3://no-such-bucket/ctr", "bucket")
        self.fails("s3://no-such-bucket/ctr", self.scratch / "back",
                   "there is no checkpoint in s3://no-such-bucket/ctr")
        self.relay.close()
        self.environment["AWS_MAX_ATTEMPTS"] = "1"
        self.environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
        self.fails(self.first, self.url, "127.0.0.1:9")

    def test_secrets_of_the_environment_are_not_printed(self):
        os.environ["AWS_SECRET_ACCESS_KEY"] = SECRET
        self.addCleanup(os.environ.pop, "AWS_SECRET_ACCESS_KEY")
        text = _copy._one_line(OSError(f"signed\nwith {SECRET}"))
        self.assertEqual(text, "signed with <AWS_SECRET_ACCESS_KEY>")


class ManifestTest(unittest.TestCase):
    """What is no manifest is said, and costs no more than its size."""

    def test_random_changes(self):
        seed = random.randrange(1 << 32)
        print("seed", seed)
        choose = random.Random(seed)
        text = (b'format_version: 1\nservers {\n  directory: "server-000"\n  files {\n'
                b'    name: "1.sst"\n    bytes: 5\n    xxh3: 7\n  }\n}\n')
        self.assertEqual(_copy.parse_manifest("M", sealed(text)),
                         [_copy.File("server-000/1.sst", 5, 7)])
        for _ in range(3000):
            changed = bytearray(text)
            for _ in range(choose.randrange(1, 4)):
                at = choose.randrange(len(changed))
                changed[at:at + choose.randrange(3)] = choose.choice(
                    [b"", b"\n", b"{", b"}", b'"', b"-", b"\\", b"..", b"/", b"\0"])
            try:
                for file in _copy.parse_manifest("M", sealed(bytes(changed))):
                    self.assertNotIn("..", file.name.split("/"))
                    self.assertGreaterEqual(file.size, 0)
            except errors.Error as error:
                self.assertIn("M ", str(error))


def of_a_job(folder, names):
    """What no copy has."""
    del folder
    return [name for name in names if name in ("store", "log", "LOCK", "LOG")]


def damage(path):
    with open(path, "r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))


def sealed(text):
    from oarlock import _sums

    return text + b"# xxh3 %016x\n" % _sums.sum_of(text)


def reseal(folder, change):
    """Changes the manifest of the current checkpoint, with its sums."""
    from oarlock import _sums

    name = (folder / "CURRENT").read_text().split()[0]
    manifest = folder / name / "MANIFEST"
    text = sealed(change(manifest.read_text().rsplit("# xxh3", 1)[0]).encode())
    manifest.write_bytes(text)
    (folder / "CURRENT").write_text(f"{name} {_sums.sum_of(text):016x}\n")


def next_cut(folder):
    """Gives the current checkpoint another name, as if it were of a later cut that has
    all files of this one."""
    name = (folder / "CURRENT").read_text().split()[0]
    later = f"ckpt-{int(name[5:]) + 100:08d}"
    os.rename(folder / name, folder / later)
    (folder / "CURRENT").write_text(
        (folder / "CURRENT").read_text().replace(name, later))


if __name__ == "__main__":
    unittest.main()
