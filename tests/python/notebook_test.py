"""Notebooks: a Jupyter kernel dies or a cell fails in a step, and the notebook runs
again on the same servers."""

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import tempfile
import unittest
import unittest.mock

import nbclient
import nbformat
import numpy as np

from cluster_test import is_there
from oarlock_testing import (children_of, eventually, is_stopped, oarlock, pushes_of,
                             server_pid)

HERE = pathlib.Path(__file__).absolute().parent
KEYS = np.arange(40)

IMPORTS = """
import os, pathlib, signal, sys, threading
sys.path.insert(0, %(tests)r)
from oarlock_testing import oarlock
import numpy as np
"""

# In the step of the fourth part it says so, and waits until it may push. Where that
# is allowed already it goes on.
TRAINING = [IMPORTS, """
folder = pathlib.Path(%(folder)r)
job = oarlock.join(%(address)r, token_file=%(token)r)
""", """
table = job.create_table("t", 1, oarlock.Sgd(1.0))
rows = table.pull(np.arange(40))
""", """
count = repaired = 0
for part in job.lease("train", total=100, block=10):
    gradients = np.ones((40, 1), np.float32)
    with job.step(part) as step:
        step.push(rows, gradients)
        gradients[:] = 1e20
        if count == 3:
            (folder / "in a step").touch()
            while not (folder / "may push").exists():
                threading.Event().wait(0.01)
    count += 1
    repaired += part.repairs
job.leave()
print(count, repaired)
"""]

# Fails in the step of the fourth part, but once.
FAILING = [IMPORTS, """
failures = [%(failure)s]
""", """
with oarlock.join(%(address)r, token_file=%(token)r, wait_for_rank=None) as job:
    table = job.create_table("t", 1, oarlock.Sgd(1.0))
    rows = table.pull(np.arange(40))
    count = repaired = 0
    for part in job.lease("train", total=100, block=10):
        gradients = np.ones((40, 1), np.float32)
        with job.step(part) as step:
            step.push(rows, gradients)
            gradients[:] = 1e20
            if count == 3 and failures:
                %(fail)s
        count += 1
        repaired += part.repairs
print(count, repaired)
"""]

# The servers are the kernel's own.
OWN_SERVERS = [IMPORTS, """
cluster = oarlock.LocalCluster(servers=2)
job = cluster.join()
table = job.create_table("t", 1, oarlock.Sgd(1.0))
rows = table.pull(np.arange(40))
print(cluster.pid, cluster.log_dir)
""", """
for part in job.lease("train", total=100, block=10):
    with job.step(part) as step:
        step.push(rows, np.ones((40, 1)))
        if part.begin == 30:
            pathlib.Path(%(folder)r, "in a step").touch()
            threading.Event().wait()
"""]


def output(cell):
    """What a cell has printed."""
    return "".join(each["text"] for each in cell.outputs
                   if each["output_type"] == "stream")


class NotebookTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # Kernels are of this Python, and read and write nothing at home.
        home = {name: str(self.folder / "home") for name in (
            "HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR")}
        changed = unittest.mock.patch.dict(os.environ, home)
        changed.start()
        self.addCleanup(changed.stop)
        threads = concurrent.futures.ThreadPoolExecutor()
        self.addCleanup(threads.shutdown)
        self.begin = threads.submit

    def cluster(self, **flags):
        cluster = oarlock.LocalCluster(servers=2, **flags)
        self.addCleanup(cluster.close)
        return cluster

    def notebook(self, cells, cluster=None, **words):
        """A client that has a notebook of these cells, and no kernel yet."""
        words.update(tests=str(HERE), folder=str(self.folder))
        if cluster is not None:
            words.update(address=cluster.address, token=cluster.token_file)
        return nbclient.NotebookClient(
            nbformat.v4.new_notebook(cells=[
                nbformat.v4.new_code_cell(cell.strip() % words) for cell in cells]),
            kernel_name="python3", timeout=100)

    def run_cell(self, client, index):
        client.execute_cell(client.nb.cells[index], index)
        return output(client.nb.cells[index])

    def is_in_a_step(self):
        return (self.folder / "in a step").exists()

    def kill_kernel(self, client):
        os.kill(client.km.provisioner.pid, signal.SIGKILL)

    def expect_values(self, cluster, pushed):
        with cluster.connect() as reader:
            values = reader.table("t").pull(KEYS).gather()[:, 0]
            np.testing.assert_array_equal(values, np.full(40, -pushed))
            self.assertIn("ckpt-", reader.checkpoint())

    def run_to_the_end(self, cluster):
        """What the last cell prints: parts, and those of them that were repaired."""
        (self.folder / "may push").touch()
        client = self.notebook(TRAINING, cluster)
        client.execute()
        return output(client.nb.cells[-1])

    @contextlib.contextmanager
    def a_kernel_is_killed_in_a_step(self, cluster):
        """The block begins when the kernel has pushed three times, and is in the
        fourth step; at its end the kernel is killed."""
        client = self.notebook(TRAINING, cluster)
        running = self.begin(client.execute)
        try:
            self.assertTrue(eventually(self.is_in_a_step))
            yield
        finally:
            self.kill_kernel(client)
            failure = running.exception()
        self.assertIsInstance(failure, nbclient.exceptions.DeadKernelError)

    def test_a_kernel_is_killed_in_a_step_before_its_push(self):
        cluster = self.cluster(lease_s=1)
        with self.a_kernel_is_killed_in_a_step(cluster):
            pass
        self.assertEqual(self.run_to_the_end(cluster), "10 0\n")
        # Three pushes, and ten of the second run.
        self.expect_values(cluster, 13)

    def test_a_kernel_is_killed_in_a_push_that_one_server_has(self):
        cluster = self.cluster(lease_s=1)
        with self.a_kernel_is_killed_in_a_step(cluster), cluster.connect() as reader:
            self.assertEqual(pushes_of(reader, "t"), 3)
            stopped = server_pid(cluster, 1)
            os.kill(stopped, signal.SIGSTOP)
            # The other threads go on until the one that got the signal runs.
            self.assertTrue(eventually(lambda: is_stopped(stopped)))
            (self.folder / "may push").touch()
            self.assertTrue(eventually(lambda: pushes_of(reader, "t") == 4))
        # It comes back without what it had not read.
        os.kill(stopped, signal.SIGKILL)
        self.assertEqual(self.run_to_the_end(cluster), "11 1\n")
        # Three pushes, the one that was completed, and ten of the second run.
        self.expect_values(cluster, 14)

    def fail_and_run_again(self, failure, fail, name):
        """Raises what it is told to in a step of a cell, and runs the cell again."""
        # Nothing that the failed cell leaves may have to run out.
        cluster = self.cluster(lease_s=60)
        client = self.notebook(FAILING, cluster, failure=failure, fail=fail)
        with client.setup_kernel():
            self.run_cell(client, 0)
            self.run_cell(client, 1)
            with self.assertRaises(nbclient.exceptions.CellExecutionError) as failed:
                self.run_cell(client, 2)
            self.assertEqual(failed.exception.ename, name)
            self.assertEqual(self.run_cell(client, 2), "10 0\n")
        # Three pushes, and ten of the second time.
        self.expect_values(cluster, 13)

    def test_a_cell_that_raises_in_a_step_runs_again_at_once(self):
        self.fail_and_run_again("KeyError('a typo')", "raise failures.pop()",
                                "KeyError")

    def test_a_cell_that_is_interrupted_in_a_step_runs_again_at_once(self):
        self.fail_and_run_again(
            "signal.SIGINT",
            "os.kill(os.getpid(), failures.pop()); threading.Event().wait()",
            "KeyboardInterrupt")

    def start_servers(self, client):
        """Runs the cells that start servers; the pids, and their folder."""
        self.run_cell(client, 0)
        pid, log_dir = self.run_cell(client, 1).split()
        pids = [int(pid), *children_of(int(pid))]
        self.assertGreaterEqual(len(pids), 3)
        return pids, pathlib.Path(log_dir).parent

    def expect_nothing_left(self, pids, folder):
        self.assertTrue(eventually(
            lambda: not folder.exists() and not any(map(is_there, pids)), seconds=10),
            [pid for pid in pids if is_there(pid)])

    def test_servers_of_a_kernel_end_when_it_is_killed_in_a_step(self):
        client = self.notebook(OWN_SERVERS)
        with client.setup_kernel():
            pids, folder = self.start_servers(client)

            def kill():
                self.assertTrue(eventually(self.is_in_a_step))
                self.kill_kernel(client)

            killed = self.begin(kill)
            with self.assertRaises(nbclient.exceptions.DeadKernelError):
                self.run_cell(client, 2)
            killed.result()
            self.expect_nothing_left(pids, folder)

    def test_servers_of_a_kernel_end_when_it_is_shut_down(self):
        client = self.notebook(OWN_SERVERS)
        with client.setup_kernel():
            pids, folder = self.start_servers(client)
        self.expect_nothing_left(pids, folder)


if __name__ == "__main__":
    unittest.main()
