"""What older programs have written is read: the files of tests/golden.

A golden push log was made under another boot of another system, where no
program goes on from it. Here it goes on from a copy that says it is of this
boot, as if the job had died a moment ago.
"""

import array
import json
import math
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import unittest

import xxhash

import harness

GOLDEN = pathlib.Path(__file__).absolute().parents[1] / "golden"
FORMATS = sorted(path.name for path in GOLDEN.glob("format_*"))
ROWS = 400
# Of a golden push log; the job has EPOCHS epochs.
LOGGED_EXAMPLES = 100
EPOCHS = 3
MODEL = ["--model", "wide_deep", "--data_format", "multi_slot", "--dense_dim",
         "1", "--num_slots", "2", "--embedding_size", "2", "--hidden_sizes",
         "4", "--optimizer", "adagrad", "--learning_rate", "0.1", "--accessor",
         "ctr", "--batch_size", "20"]
KEEP = ["--num_partitions", "4", "--checkpoint_interval_s", "0"]
# Processors differ in whether they round between a product and a sum.
RELATIVE, ABSOLUTE = 1e-4, 1e-6

OTHER_BOOT = "00000000-0000-0000-0000-000000000000"

# docs/push_log_format.md
SEGMENT_HEADER_BYTES = 32
RECORD_HEADER = struct.Struct("<4sIQQQQ")


def boot_id():
    """As base/boot_id.h has it."""
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def with_boot_id(segment, before, now):
    """A log's segment whose records name another boot of the system."""
    number = struct.unpack_from("<Q", segment, 8)[0]
    out = bytearray(segment[:SEGMENT_HEADER_BYTES])
    while len(out) < len(segment):
        place = len(out)
        magic, kind, cut, synced, size, _ = RECORD_HEADER.unpack_from(
            segment, place)
        assert magic == b"OLKR", place
        begin = place + RECORD_HEADER.size + 8
        content = segment[begin:begin + size].replace(before, now)
        header = RECORD_HEADER.pack(magic, kind, cut, synced, size,
                                    xxhash.xxh3_64_intdigest(content))
        seed = (number * 2**36 + place) % 2**64
        out += header + struct.pack(
            "<Q", xxhash.xxh3_64_intdigest(header, seed=seed)) + content
    return bytes(out)


def floats(text):
    return [float(word) for word in text.split()]


class GoldenTest(harness.SystemTest):

    def setUp(self):
        super().setUp()
        self.assertTrue(FORMATS, f"there is nothing in {GOLDEN}")

    def golden(self, version, *parts):
        return str(GOLDEN.joinpath(version, *parts))

    def copy(self, version, name):
        """A copy that may be written to."""
        to = shutil.copytree(self.golden(version, name),
                             self.path(version, name))
        for folder, _, files in os.walk(to):
            for path in [folder] + [os.path.join(folder, one)
                                    for one in files]:
                os.chmod(path, 0o755)
        return to

    def oarlock(self, *words):
        done = subprocess.run([harness.oarlock(), *words], capture_output=True,
                              text=True, timeout=harness.JOB_DEADLINE_S)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done.stdout

    def export(self, checkpoint):
        path = self.path("rows.txt")
        self.oarlock("checkpoint", "export", checkpoint, "--table",
                     "embedding", "--output", path)
        return harness.read_text(path)

    def assert_close(self, actual, expected):
        self.assertEqual(len(actual), len(expected))
        for one, other in zip(actual, expected):
            self.assertTrue(
                math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE),
                f"{one} is far from {other}")

    # -- checkpoints -------------------------------------------------------

    def test_a_golden_checkpoint_is_sound_and_has_its_rows(self):
        for version in FORMATS:
            with self.subTest(version):
                checkpoint = self.golden(version, "checkpoint")
                self.assertIn("is sound", self.oarlock("checkpoint", "verify",
                                                       checkpoint))
                self.assertEqual(
                    self.export(checkpoint),
                    harness.read_text(
                        self.golden(version, "checkpoint_rows.txt")))
                # Digests are of what lies there, whoever computes them.
                with open(self.golden(version, "checkpoint.json"),
                          encoding="utf-8") as file:
                    expected = json.load(file)
                found = json.loads(self.oarlock("checkpoint", "inspect",
                                                "--json", checkpoint))
                for field in ("cut", "job_id", "format_version", "tables",
                              "coverage", "rounds", "num_partitions"):
                    self.assertEqual(found[field], expected[field], field)

    def train(self, version, name, checkpoint, epochs, *flags):
        self.await_success(self.start_train(
            "--server_num", "1", "--worker_num", "2", *MODEL, *KEEP, "--mode",
            "sync", "--epochs", str(epochs), "--train_files",
            self.golden(version, "clicks.txt"), "--checkpoint_dir", checkpoint,
            "--resume", "--log_dir", name, *flags, name=name))
        return self.summary(name)

    def test_a_job_goes_on_from_a_golden_checkpoint(self):
        for version in FORMATS:
            with self.subTest(version):
                checkpoint = self.copy(version, "checkpoint")
                # Nothing is left to train, so its end is where it began.
                done = self.train(version, f"{version}.done", checkpoint,
                                  EPOCHS)
                self.assertEqual(done["examples"], 0)
                self.oarlock("checkpoint", "diff", checkpoint,
                             self.golden(version, "checkpoint"))
                more = self.train(version, f"{version}.more", checkpoint,
                                  EPOCHS + 2)
                self.assertEqual(more["examples"], 2 * ROWS)

    # -- push logs ---------------------------------------------------------

    def log_of_boot(self, version, now):
        """A copy of the golden push log, as if it had been written there."""
        directory = self.copy(version, "push_log")
        log = pathlib.Path(directory, "log")
        words = (log / "RUN").read_text().split(" ")
        before, words[1] = words[1], now
        self.assertEqual(len(before), len(words[1]))
        (log / "RUN").write_text(" ".join(words))
        for segment in (log / "coordinator").glob("*.log"):
            segment.write_bytes(with_boot_id(
                segment.read_bytes(), before.encode(), words[1].encode()))
        return directory

    def start_server(self, version, directory):
        port, = harness.free_ports(1)
        self.endpoint = f"127.0.0.1:{port}"
        server = self.start(
            harness.oarlock(), "server", "--pserver_endpoints", self.endpoint,
            "--current_endpoint", self.endpoint, "--trainers", "1", *KEEP,
            "--durability", "log", "--checkpoint_dir", directory, "--resume",
            name=f"server.{version}")
        self.await_text(server.stderr_path, "listening on")
        return server

    def test_a_job_goes_on_from_a_golden_push_log(self):
        for version in FORMATS:
            with self.subTest(version):
                directory = self.log_of_boot(version, boot_id())
                server = self.start_server(version, directory)
                self.assertIn("goes on from the logs of the run before",
                              server.stderr)
                # Without a worker: nothing but the log can be in it.
                self.oarlock("ctl", "checkpoint", "--server", self.endpoint)
                self.assert_close(
                    floats(self.export(directory)),
                    floats(harness.read_text(
                        self.golden(version, "push_log_rows.txt"))))
                model = self.path(f"model.{version}")
                self.oarlock("checkpoint", "export-model", directory,
                             "--output", model)
                dense = array.array("f")
                dense.frombytes(pathlib.Path(model, "dense.bin").read_bytes())
                self.assert_close(dense, floats(harness.read_text(
                    self.golden(version, "push_log_dense.txt"))))
                worker = self.start_train(
                    "--role", "TRAINER", "--trainer_id", "0",
                    "--pserver_endpoints", self.endpoint, "--trainers", "1",
                    *MODEL, "--dense_interval_steps", "1", "--epochs",
                    str(EPOCHS), "--train_files",
                    self.golden(version, "clicks.txt"), "--pipe_command",
                    "cat", "--log_dir", f"worker.{version}",
                    name=f"worker.{version}")
                self.await_success(worker)
                self.await_success(server)
                # What was trained before is not trained again.
                self.assertEqual(
                    self.summary(f"worker.{version}")["examples"],
                    EPOCHS * ROWS - LOGGED_EXAMPLES)

    def test_a_push_log_of_another_boot_is_refused_in_one_line(self):
        for version in FORMATS:
            with self.subTest(version):
                server = self.start_server(
                    version, self.log_of_boot(version, OTHER_BOOT))
                self.assertRegex(
                    server.stderr, r"goes on without the logs in .*: they are "
                    "of another boot of the system")
                server.send(signal.SIGKILL)
                self.await_end(server)


if __name__ == "__main__":
    unittest.main()
