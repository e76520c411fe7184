"""LocalCluster: what it starts, and that nothing of it is left."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np

from oarlock_testing import children_of, eventually, oarlock, processes_named

HERE = pathlib.Path(__file__).absolute().parent

SCRIPT = """
import os, sys, threading
sys.path.insert(0, %(tests)r)
from oarlock_testing import oarlock
cluster = oarlock.LocalCluster(servers=2)
print(cluster.pid, os.path.dirname(cluster.log_dir), flush=True)
%(then)s
"""


def is_there(pid):
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1]
    except OSError:
        return False
    return state.split()[0] != "Z"


class ClusterTest(unittest.TestCase):

    def start(self, then):
        """A process with a cluster; the pids of all that it has started, and the
        folder."""
        script = SCRIPT % {"tests": str(HERE), "then": then}
        process = subprocess.Popen([sys.executable, "-c", script], text=True,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        pid, folder = process.stdout.readline().split()
        pids = [int(pid), *children_of(int(pid))]
        self.assertGreaterEqual(len(pids), 3)
        return process, pids, pathlib.Path(folder)

    def expect_nothing_left(self, pids, folder):
        for pid in pids:
            self.assertTrue(eventually(lambda: not is_there(pid)), pid)
        self.assertTrue(eventually(lambda: not folder.exists()), folder)

    def test_closing_leaves_no_process_and_no_file(self):
        cluster = oarlock.LocalCluster(servers=2)
        folder = pathlib.Path(cluster.log_dir).parent
        pids = [cluster.pid, *children_of(cluster.pid)]
        self.assertTrue((folder / "logs/serverlog.1").exists())
        cluster.close()
        cluster.close()
        self.expect_nothing_left(pids, folder)
        with self.assertRaisesRegex(oarlock.ClosedError, "closed"):
            cluster.join()

    def test_it_ends_with_its_process_whatever_that_dies_of(self):
        for then in ("os.kill(os.getpid(), 9)", "os._exit(3)", "os.abort()",
                     "sys.exit()"):
            process, pids, folder = self.start(then)
            process.wait()
            self.expect_nothing_left(pids, folder)

    def test_it_ends_with_its_process_though_a_forked_child_lives(self):
        process, pids, folder = self.start(
            "child = os.fork()\n"
            "if child == 0: threading.Event().wait(60); os._exit(0)\n"
            "print(child, flush=True)\n"
            "os.kill(os.getpid(), 9)")
        child = int(process.stdout.readline())
        self.addCleanup(os.kill, child, signal.SIGKILL)
        process.wait()
        self.expect_nothing_left(pids, folder)
        self.assertTrue(is_there(child))

    def test_it_outlives_the_thread_that_made_it(self):
        clusters = []
        thread = threading.Thread(
            target=lambda: clusters.append(oarlock.LocalCluster()))
        thread.start()
        thread.join()
        with clusters[0] as cluster, cluster.join() as job:
            table = job.create_table("t", 1, oarlock.Sgd(1.0))
            self.assertEqual(len(table.pull([1, 2])), 2)

    def test_many_are_made_at_a_time(self):
        pids = []

        def work():
            with oarlock.LocalCluster(servers=2) as cluster, \
                    cluster.join() as job:
                pids.extend([cluster.pid, *children_of(cluster.pid)])
                table = job.create_table("t", 1, oarlock.Sgd(1.0))
                with job.step() as step:
                    step.push(table.pull([1]), np.ones((1, 1)))

        for _ in range(2):
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertGreaterEqual(len(pids), 24)
        for pid in pids:
            self.assertTrue(eventually(lambda: not is_there(pid)), pid)

    def test_a_server_that_dies_comes_back_with_all_that_it_had(self):
        with oarlock.LocalCluster(servers=2) as cluster, cluster.join() as job:
            table = job.create_table("t", 1, oarlock.Sgd(1.0))
            servers = [pid for pid in children_of(cluster.pid)
                       if b"\0server\0" in pathlib.Path(
                           f"/proc/{pid}/cmdline").read_bytes()]
            self.assertEqual(len(servers), 2)
            keys = np.arange(100)
            for step_number in range(1, 6):
                rows = table.pull(keys)
                with job.step() as step:
                    step.push(rows, np.ones((100, 1)))
                if step_number in (2, 4):
                    os.kill(servers[step_number // 4], signal.SIGKILL)
            np.testing.assert_array_equal(table.pull(keys).values,
                                          np.full((100, 1), -5))

    def test_what_does_not_start_says_why(self):
        with self.assertRaisesRegex(oarlock.UnavailableError,
                                    "unknown flag --nonsense"):
            oarlock.LocalCluster(nonsense=1)
        with self.assertRaisesRegex(oarlock.UnavailableError,
                                    "--servers is 0|servers"):
            oarlock.LocalCluster(servers=0)
        self.assertEqual(processes_named("nonsense"), [])

    def test_it_passes_a_role_whatever_the_environment_says(self):
        others = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "3",
                  "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:1", "RANK": "1",
                  "WORLD_SIZE": "4", "SLURM_PROCID": "1", "SLURM_NTASKS": "2",
                  "TF_CONFIG": "{}"}
        before = dict(os.environ)
        os.environ.update(others)
        try:
            with oarlock.LocalCluster() as cluster, cluster.join() as job:
                self.assertEqual((job.rank, job.world), (0, 1))
        finally:
            os.environ.clear()
            os.environ.update(before)


if __name__ == "__main__":
    unittest.main()
