"""oarlock.train and Ctrl-C: once, twice, at a terminal, in a notebook, and kill -9."""

import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import nbclient
import nbformat
import pyarrow.parquet as pq

from train_testing import (FEATURES, FLAGS, command_of, eventually, is_stopped, oarlock,
                           processes_in, run, table)

HERE = pathlib.Path(__file__).absolute().parent

# Says when it is evaluated, and how it ended.
SCRIPT = """
import os, sys
sys.path.insert(0, %(tests)r)
from train_testing import FEATURES, FLAGS, oarlock
def tell(evaluation):
    print("evaluated", evaluation.name, flush=True)
try:
    result = oarlock.train("deepfm", FEATURES, data=%(folder)r + "/train.parquet",
                           test=%(folder)r + "/test.parquet", on_evaluation=tell,
                           **{**FLAGS, **%(flags)r})
    print("ended", result.summary["examples"], flush=True)
except oarlock.Interrupted as interrupted:
    assert isinstance(interrupted, KeyboardInterrupt)
    assert len(interrupted.result.evaluations) > 0
    print("interrupted", interrupted.checkpoint, interrupted, flush=True)
except KeyboardInterrupt:
    print("killed", flush=True)
"""


class TrainSignalsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        pq.write_table(table(2000, 1), self.folder / "train.parquet")
        pq.write_table(table(300, 2), self.folder / "test.parquet")

    def script(self, **flags):
        flags = {"epochs": 100000, "servers": 2, "workers": 2, **flags}
        return [sys.executable, "-c", SCRIPT % {
            "tests": str(HERE), "folder": str(self.folder), "flags": flags}]

    def environment(self):
        return {**os.environ, "TMPDIR": str(self.folder)}

    def start(self, **flags):
        process = subprocess.Popen(self.script(**flags), text=True,
                                   stdout=subprocess.PIPE, start_new_session=True,
                                   env=self.environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, process, word):
        """The rest of the first line that begins with the word."""
        for line in process.stdout:
            if line.startswith(word):
                return line[len(word):].strip()
        raise AssertionError(f"no line '{word}'; exit code {process.wait()}")

    def processes(self):
        """Of the job; the script has the folder as its own variable, too."""
        return [pid for pid in processes_in(self.folder)
                if b"on_evaluation" not in command_of(pid)]

    def expect_nothing_left(self):
        self.assertTrue(eventually(lambda: not self.processes()),
                        [command_of(pid) for pid in self.processes()])
        self.assertEqual([name for name in os.listdir(self.folder)
                          if name.startswith("oarlock-train-")], [])

    def test_once_drains_with_a_checkpoint_from_which_it_goes_on(self):
        checkpoints = self.folder / "checkpoints"
        process = self.start(checkpoint_dir=str(checkpoints))
        self.wait_for(process, "evaluated")
        self.assertGreaterEqual(len(self.processes()), 5)
        process.send_signal(signal.SIGINT)
        told = self.wait_for(process, "interrupted")
        checkpoint = told.split()[0]
        self.assertIn("its checkpoint is", told)
        self.assertEqual(process.wait(), 0)
        self.expect_nothing_left()
        self.assertEqual(pathlib.Path(checkpoint).parent, checkpoints)
        code, text = run("checkpoint", "verify", checkpoint)
        self.assertEqual(code, 0, text)

        names = []

        def stop(evaluation):
            names.append(evaluation.name)
            raise oarlock.Stop()

        result = oarlock.train(
            "deepfm", FEATURES, data=self.folder / "train.parquet",
            test=self.folder / "test.parquet", servers=1, checkpoint_dir=checkpoints,
            resume=True, epochs=100000, on_evaluation=stop, **FLAGS)
        self.assertNotEqual(names[0], "test/0")
        self.assertNotEqual(result.checkpoint, checkpoint)

    def test_once_with_restarts_allowed_starts_nothing_again(self):
        process = self.start(max_restart=5)
        self.wait_for(process, "evaluated")
        process.send_signal(signal.SIGINT)
        checkpoint = self.wait_for(process, "interrupted").split()[0]
        # It is there for as long as the exception is.
        self.assertTrue(checkpoint.startswith(str(self.folder / "oarlock-train-")))
        self.assertEqual(process.wait(), 0)
        self.expect_nothing_left()

    def test_once_without_servers_ends_it(self):
        process = self.start(servers=0, workers=1)
        self.wait_for(process, "evaluated")
        process.send_signal(signal.SIGINT)
        told = self.wait_for(process, "interrupted")
        self.assertEqual(told, "None training was interrupted; no checkpoint was made")
        self.assertEqual(process.wait(), 0)
        self.expect_nothing_left()

    def test_once_before_anything_has_begun(self):
        process = self.start()
        self.assertTrue(eventually(self.processes))
        process.send_signal(signal.SIGINT)
        # The script expects evaluations of an exception that has a result.
        process.wait()
        self.expect_nothing_left()

    def test_twice_ends_it_at_once(self):
        process = self.start(servers=1, workers=1)
        self.wait_for(process, "evaluated")
        servers = [pid for pid in self.processes() if is_server(pid)]
        self.assertEqual(len(servers), 1)
        # A server that stands still makes no checkpoint.
        os.kill(servers[0], signal.SIGSTOP)
        self.assertTrue(eventually(lambda: is_stopped(servers[0])))
        process.send_signal(signal.SIGINT)
        self.assertFalse(eventually(lambda: process.poll() is not None, 1.0))
        process.send_signal(signal.SIGINT)
        self.wait_for(process, "killed")
        self.assertEqual(process.wait(), 0)
        self.expect_nothing_left()

    def test_all_ends_with_the_process(self):
        for flags in ({}, {"servers": 0, "workers": 1}):
            with self.subTest(flags):
                process = self.start(**flags)
                self.wait_for(process, "evaluated")
                process.kill()
                process.wait()
                self.assertTrue(eventually(lambda: not self.processes()),
                                [command_of(pid) for pid in self.processes()])

    def test_servers_that_stay_are_not_drained(self):
        with oarlock.LocalCluster(servers=2) as cluster:
            process = self.start(servers=cluster.address, workers=2,
                                 token_file=cluster.token_file, job_id=cluster.job_id)
            self.wait_for(process, "evaluated")
            process.send_signal(signal.SIGINT)
            checkpoint = self.wait_for(process, "interrupted").split()[0]
            self.assertEqual(pathlib.Path(checkpoint).parent,
                             pathlib.Path(cluster.checkpoint_dir))
            self.assertEqual(process.wait(), 0)
            self.expect_nothing_left()
            with cluster.connect() as reader:
                self.assertTrue(reader.status()["run_is_over"])
            with cluster.join() as job:
                job.create_table("t", 1, oarlock.Sgd(1.0))

    def test_a_terminal_has_one_line_and_its_ctrl_c_is_pythons(self):
        pid, terminal = pty.fork()
        if pid == 0:
            words = self.script()
            os.execve(words[0], words, self.environment())
        self.addCleanup(os.close, terminal)
        text = b""
        interrupted = False
        while True:
            ready, _, _ = select.select([terminal], [], [], 60)
            self.assertTrue(ready, text)
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # Nobody has the other end.
                break
            text += piece
            if not interrupted and b"evaluated" in text and b"epoch" in text:
                interrupted = True
                os.write(terminal, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertRegex(text, rb"\r\x1b\[Kepoch +\d+/100000 ")
        self.assertRegex(text, rb"interrupted /\S+/ckpt-\d+ training was interrupted; ")
        self.expect_nothing_left()

    def test_a_notebook_has_one_display(self):
        home = self.folder / "home"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(
            SCRIPT % {"tests": str(HERE), "folder": str(self.folder),
                      "flags": {"epochs": 30, "servers": 1}})])
        names = ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR",
                 "JUPYTER_RUNTIME_DIR")
        changed = {**self.environment(), **{name: str(home) for name in names}}
        with unittest.mock.patch.dict(os.environ, changed):
            client = nbclient.NotebookClient(notebook, timeout=100,
                                             kernel_name="python3")
            client.execute()
        outputs = notebook.cells[0].outputs
        shown = [each for each in outputs if each["output_type"] == "display_data"]
        self.assertEqual(len(shown), 1, outputs)
        self.assertRegex(shown[0]["data"]["text/plain"], r"^(epoch|test ) +\d+/30 ")
        written = "".join(each["text"] for each in outputs
                          if each["output_type"] == "stream")
        self.assertIn("evaluated test/29\nended 60000\n", written)
        self.assertEqual({each.get("name") for each in outputs}, {None, "stdout"})


def is_server(pid):
    """Whether a launcher has started it as a server."""
    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    return b"TRAINING_ROLE=PSERVER" in environment.split(b"\0")


if __name__ == "__main__":
    unittest.main()
