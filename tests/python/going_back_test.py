"""A worker dies in a push that one server has and the other has not."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

from oarlock_testing import (eventually, is_stopped, oarlock, pushes_of,
                             server_pid)

from oarlock import _find, _library, _operation  # The path is set by now.

HERE = pathlib.Path(__file__).absolute().parent
KEYS = np.arange(40)

# Pushes 1 to each key and overwrites what it pushed: `whole` times, then once more
# when it is told so, and says that it has begun.
WORKER = """
import itertools, sys, threading
sys.path.insert(0, %(tests)r)
from oarlock_testing import oarlock
import numpy as np
job = oarlock.join(%(address)r, token_file=%(token)r, mode=%(mode)r, **%(join)r)
table = job.create_table("t", 1, oarlock.Sgd(1.0))
keys = np.arange(40)
rows = table.pull(keys)

def push(part):
    gradients = np.ones((40, 1))
    with job.step(part) as step:
        step.push(rows, gradients)
        gradients[:] = 1e20

parts = iter(lambda: None, 0)
if %(leases)r:
    parts = itertools.chain(*(job.lease(%(name)r, total=100, block=10, again=again)
                              for again in (False, True)))
for _ in range(%(whole)d):
    push(next(parts))
part = next(parts)
print("ready", flush=True)
sys.stdin.readline()
push(part)
threading.Event().wait()
"""


class GoingBackTest(unittest.TestCase):

    def setUp(self):
        self.cluster = oarlock.LocalCluster(servers=2, lease_s=1)
        self.addCleanup(self.cluster.close)

    def tear(self, whole, leases=True, mode="async", checkpoint_before=False,
             name="train", **join):
        """A worker pushes `whole` times, and dies in the push after that, of which
        server 0 has its share and server 1 has not."""
        script = WORKER % {
            "tests": str(HERE), "address": self.cluster.address,
            "token": self.cluster.token_file, "mode": mode, "join": join,
            "leases": leases, "whole": whole, "name": name}
        worker = subprocess.Popen([sys.executable, "-c", script], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for undo in (worker.stdin.close, worker.stdout.close, worker.wait,
                     worker.kill):
            self.addCleanup(undo)
        self.assertEqual(worker.stdout.readline(), "ready\n")
        with self.cluster.connect() as reader:
            if checkpoint_before:
                reader.checkpoint()
            before = pushes_of(reader, "t")
            stopped = server_pid(self.cluster, 1)
            os.kill(stopped, signal.SIGSTOP)
            # The other threads go on until the one that got the signal runs.
            self.assertTrue(eventually(lambda: is_stopped(stopped)))
            worker.stdin.write("go\n")
            worker.stdin.flush()
            self.assertTrue(eventually(lambda: pushes_of(reader, "t") > before))
        worker.kill()
        worker.wait()
        # It comes back without what it had not read.
        os.kill(stopped, signal.SIGKILL)

    def values(self):
        with self.cluster.connect() as reader:
            values = reader.table("t").pull(KEYS).gather()[:, 0]
        self.assertEqual(len(set(values.tolist())), 1, values)
        return -values[0]

    def train(self, name, **join):
        """Another run: 100 examples in parts of ten."""
        with self.cluster.join(**join) as job:
            table = job.create_table("t", 1, oarlock.Sgd(1.0))
            count = repaired = 0
            for part in job.lease(name, total=100, block=10):
                rows = table.pull(KEYS)
                with job.step(part) as step:
                    step.push(rows, np.ones((40, 1)))
                count += 1
                repaired += part.repairs
        return count, repaired

    def test_a_run_that_leases_the_same_work_completes_the_push(self):
        self.tear(whole=3)
        count, repaired = self.train("train")
        self.assertEqual((count, repaired), (11, 1))
        # Three pushes, the one that was completed, and ten of this run.
        self.assertEqual(self.values(), 14)
        with self.cluster.connect() as reader:
            self.assertIn("ckpt-", reader.checkpoint())

    def test_a_second_turn_goes_on_in_the_next_run(self):
        self.tear(whole=13)
        self.assertEqual(self.train("train"), (11, 1))
        self.assertEqual(self.values(), 24)

    def test_a_run_of_another_work_has_the_servers_go_back_to_the_beginning(self):
        self.tear(whole=3)
        with self.cluster.connect() as reader:
            # It says so at once.
            with self.assertRaisesRegex(oarlock.FailedPreconditionError,
                                        "'train/0' to some servers only"):
                reader.checkpoint(timeout=20)
        with self.assertLogs("oarlock", "WARNING") as log:
            count, repaired = self.train("other")
        self.assertIn("the servers go back", log.output[0])
        self.assertEqual((count, repaired), (10, 0))
        self.assertEqual(self.values(), 10)
        with self.cluster.connect() as reader:
            self.assertIn("ckpt-", reader.checkpoint())

    def test_a_run_without_parts_has_the_servers_go_back(self):
        self.tear(whole=2, checkpoint_before=True)
        with self.cluster.join() as job:
            table = job.create_table("t", 1, oarlock.Sgd(1.0))
            rows = table.pull(KEYS)
            with job.step() as step:
                step.push(rows, np.ones((40, 1)))
        # The checkpoint has two pushes.
        self.assertEqual(self.values(), 3)

    def test_a_push_without_a_part_has_the_servers_go_back_by_itself(self):
        self.tear(whole=3, leases=False)
        self.assertTrue(eventually(lambda: self.values_or_none() == 0))
        self.assertEqual(self.train("train"), (10, 0))
        self.assertEqual(self.values(), 10)

    def test_whole_pushes_stay_and_the_checkpoint_is_the_newest(self):
        self.tear(whole=4, leases=False, checkpoint_before=True)
        self.assertTrue(eventually(lambda: self.values_or_none() == 4))
        self.assertEqual(self.train("train"), (10, 0))
        self.assertEqual(self.values(), 14)

    def test_on_death_cut(self):
        self.tear(whole=3, on_death="cut")
        self.assertTrue(eventually(lambda: self.values_or_none() == 0))
        self.assertEqual(self.train("train"), (10, 0))
        self.assertEqual(self.values(), 10)

    def test_a_part_of_a_round_has_the_servers_go_back(self):
        self.tear(whole=2, mode="sync")
        self.assertTrue(eventually(lambda: self.values_or_none() == 0))
        self.assertEqual(self.train("train", mode="sync"), (10, 0))
        self.assertEqual(self.values(), 10)

    def test_the_other_workers_of_the_run_are_told(self):
        other = self.cluster.join(rank=1, world=2, on_death="cut")
        table = other.create_table("t", 1, oarlock.Sgd(1.0))
        with other.step() as step:
            step.push(table.pull(KEYS), np.ones((40, 1)))
        self.tear(whole=0, leases=True, rank=0, world=2, on_death="cut")

        def is_told():
            try:
                other.check_alive()
            except oarlock.FencedError as error:
                self.assertIn("have gone back to the newest cut", str(error))
                self.assertIn("join again", str(error))
                return True
            return False

        self.assertTrue(eventually(is_told))
        with self.assertRaises(oarlock.FencedError):
            other.leave()
        self.assertTrue(eventually(lambda: self.values_or_none() == 0))

    def test_a_worker_that_pushes_meanwhile_is_told_the_same(self):
        for turn in range(6):
            other = self.cluster.join(rank=1, world=2)
            table = other.create_table("t", 1, oarlock.Sgd(1.0))
            told = []

            def push():
                rows = table.pull(KEYS)
                try:
                    while True:
                        with other.step() as step:
                            step.push(rows, np.ones((40, 1)))
                except oarlock.Error as error:
                    told.append(error)

            pushing = threading.Thread(target=push)
            pushing.start()
            first = self.cluster.join(rank=0, world=2)
            _operation.run(_library.library().leave_begin, first._handle,
                           _library.LEAVE_ROLL_BACK, b"a test", 6)
            pushing.join()
            self.assertIsInstance(told[0], oarlock.FencedError, told[0])
            self.assertRegex(str(told[0]), "have gone back .* join again")
            for job in (first, other):
                try:
                    job.leave()
                except oarlock.Error:
                    pass

    def test_a_server_dies_while_the_servers_go_back(self):
        seed = int(os.environ.get("OARLOCK_SEED", "0")) or random.SystemRandom(
            ).getrandbits(32)
        print("seed", seed, flush=True)
        moments = random.Random(seed)
        for index in (0, 1, 0, 1):
            job = self.cluster.join(wait_for_rank=30)
            table = job.create_table("t", 1, oarlock.Sgd(1.0))
            np.testing.assert_array_equal(table.pull(KEYS).values, 0)
            with job.step() as step:
                step.push(table.pull(KEYS), np.ones((40, 1)))
            pid = server_pid(self.cluster, index)
            leave = _operation.begin(_library.library().leave_begin, job._handle,
                                     _library.LEAVE_ROLL_BACK, b"a test", 6)
            threading.Event().wait(moments.uniform(0, 0.06))
            os.kill(pid, signal.SIGKILL)
            for end in (lambda: leave.wait(60), job.leave):
                try:
                    end()
                except (oarlock.FencedError, oarlock.FailedPreconditionError):
                    pass  # It had happened, or the client had left.
        with self.cluster.join(wait_for_rank=30) as job:
            np.testing.assert_array_equal(job.table("t").pull(KEYS).values, 0)

    def test_a_sync_run_does_not_go_on_with_parts_of_an_async_one(self):
        self.tear(whole=3)
        with self.cluster.join(mode="sync") as job, \
                self.assertLogs("oarlock", "WARNING") as log:
            table = job.create_table("s", 1, oarlock.Sgd(1.0))
            for part in job.lease("train", total=100, block=10):
                with job.step(part) as step:
                    step.push(table.pull(KEYS), np.ones((40, 1)))
        self.assertIn("the servers go back", log.output[0])
        with self.cluster.connect() as reader:
            np.testing.assert_array_equal(reader.table("s").pull(KEYS).values, -10)
            np.testing.assert_array_equal(reader.table("t").pull(KEYS).values, 0)

    def test_the_engine_has_the_servers_go_back(self):
        # Also from a phase that has the name of its own first one.
        program = _find.program().path
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [program, "generate", "criteo", "--out", f"{folder}/data", "--files",
                 "1", "--rows", "500"], check=True, stdout=subprocess.DEVNULL)
            for name in ("train", "other"):
                self.tear(whole=3, name=name)
                with self.cluster.connect() as reader:
                    self.assertTrue(eventually(
                        lambda: "LOST" in str(reader.status()["workers"])))
                done = subprocess.run(
                    [program, "train", "--role", "TRAINER", "--pserver_endpoints",
                     self.cluster.address, "--token_file", self.cluster.token_file,
                     "--trainers", "1", "--trainer_id", "0", "--train_files",
                     f"{folder}/data", "--log_dir", f"{folder}/log"],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                    timeout=100)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn(f"pushed a part of '{name}/0'", done.stdout)
                self.assertEqual(self.values(), 0)

    def test_nobody_goes_back_where_nothing_is_partial(self):
        for on_death in ("repair", "cut"):
            before = self.cluster_runs()
            script = WORKER % {
                "tests": str(HERE), "address": self.cluster.address,
                "token": self.cluster.token_file, "mode": "async",
                "join": {"on_death": on_death}, "leases": True, "whole": 3,
                "name": "train"}
            with subprocess.Popen([sys.executable, "-c", script], text=True,
                                  stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as worker:
                self.assertEqual(worker.stdout.readline(), "ready\n")
                worker.kill()
            self.train("other", on_death=on_death)
            self.assertEqual(self.cluster_runs() - before, 2)
        self.assertEqual(self.values(), 26)

    def test_a_server_of_a_run_that_goes_back_keeps_its_port_and_its_readers(self):
        with self.cluster.connect() as reader:
            self.tear(whole=3, leases=False)
            generation = self.generation(reader, 0)
            self.assertTrue(eventually(
                lambda: self.generation(reader, 0) != generation))
            values = reader.table("t").pull(KEYS).values
            np.testing.assert_array_equal(values, 0)
            pids = {server_pid(self.cluster, 0), server_pid(self.cluster, 1)}
        self.assertEqual(len(pids), 2)

    def generation(self, reader, server):
        status = reader.call("ServerAdminService/GetServerStatus", server=server)
        return int(status["server_generation"])

    def cluster_runs(self):
        with self.cluster.connect() as reader:
            return int(reader.status().get("run", 0))

    def values_or_none(self):
        with self.cluster.connect() as reader:
            values = reader.table("t").pull(KEYS).gather()[:, 0]
        return -values[0] if len(set(values.tolist())) == 1 else None


if __name__ == "__main__":
    unittest.main()
