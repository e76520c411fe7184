"""A job that outlives its workers: runs, readers, deaths."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np

from oarlock_testing import eventually, oarlock

HERE = pathlib.Path(__file__).absolute().parent

# A worker that says when it is in a step, and waits there to be killed.
WORKER = """
import sys, threading
sys.path.insert(0, %(tests)r)
from oarlock_testing import oarlock
import numpy as np
job = oarlock.join(%(address)r, rank=%(rank)d, world=%(world)d,
                   token_file=%(token)r)
table = job.create_table("t", 1, oarlock.Sgd(1.0))
count = 0
for part in job.lease(%(name)r, total=%(total)d, block=10):
    rows = table.pull(part.indices)
    with job.step(part) as step:
        step.push(rows, np.ones((len(part), 1)))
        count += 1
        if count == %(stop_at)d:
            print("in a step", flush=True)
            threading.Event().wait()
job.leave()
print("done", count, flush=True)
"""


class RunsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        # A worker that was killed is taken for dead after a second.
        cls.cluster = oarlock.LocalCluster(servers=2, lease_s=1)
        cls.addClassCleanup(cls.cluster.close)

    def worker(self, stop_at=0, name="train", total=100, rank=0, world=1):
        script = WORKER % {
            "tests": str(HERE), "address": self.cluster.address, "rank": rank,
            "world": world, "token": self.cluster.token_file, "name": name,
            "total": total, "stop_at": stop_at}
        process = subprocess.Popen([sys.executable, "-c", script], text=True,
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def values(self, table, total=100):
        return table.pull(np.arange(total)).gather()[:, 0]

    def test_runs_of_one_three_and_two_workers_with_the_same_names(self):
        name = self.id()
        for round_number, world in enumerate((1, 3, 2), 1):
            seen = []

            def work(rank):
                with self.cluster.join(rank=rank, world=world) as job:
                    table = job.create_table(name, 1, oarlock.Sgd(1.0))
                    job.barrier("start")
                    for part in job.lease("train", total=300, block=10):
                        rows = table.pull(part.indices)
                        with job.step(part) as step:
                            step.push(rows, np.ones((len(part), 1)))
                        seen.append(len(part))
                    job.barrier("end")

            threads = [threading.Thread(target=work, args=(rank,))
                       for rank in range(world)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sum(seen), 300)
            with self.cluster.connect() as reader:
                np.testing.assert_array_equal(
                    self.values(reader.table(name), 300),
                    np.full(300, -round_number))
                self.assertTrue(reader.status()["run_is_over"])

    def test_a_rank_that_is_taken_is_refused_and_its_holder_goes_on(self):
        with self.cluster.join() as job:
            table = job.create_table(self.id(), 1, oarlock.Sgd(1.0))
            with self.assertRaisesRegex(oarlock.AlreadyExistsError,
                                        f"process {os.getpid()}"):
                self.cluster.join(rank=0, wait_for_rank=0)
            with self.assertRaisesRegex(oarlock.FailedPreconditionError,
                                        "has 1 workers"):
                self.cluster.join(rank=0, world=2)
            with job.step() as step:
                step.push(table.pull([1]), np.ones((1, 1)))
            job.check_alive()

    def test_who_takes_a_rank_over_fences_its_holder(self):
        first = self.cluster.join()
        table = first.create_table(self.id(), 1, oarlock.Sgd(1.0))
        second = self.cluster.join(take_over=True)
        self.addCleanup(second.leave)

        def push():
            with first.step() as step:
                step.push(table.pull([1]), np.ones((1, 1)))

        def refused():
            try:
                push()
            except oarlock.FencedError:
                return True
            return False

        self.assertTrue(eventually(refused))
        with self.assertRaises(ConnectionError):
            first.leave()

    def test_a_killed_program_runs_again_on_the_same_servers(self):
        name = self.id()
        killed = self.worker(stop_at=4, name=name)
        self.assertEqual(killed.stdout.readline(), "in a step\n")
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        again = self.worker(name=name)
        self.assertEqual(again.wait(timeout=60), 0)
        self.assertEqual(again.stdout.read(), "done 10\n")
        with self.cluster.connect() as reader:
            table = reader.table("t")
            values = self.values(table)
            # Three parts were trained by both.
            self.assertEqual(int(-values.sum()), 130)

    def test_who_leaves_by_an_exception_gives_its_part_to_the_others(self):
        jobs = [self.cluster.join(rank=rank, world=2) for rank in range(2)]
        self.addCleanup(jobs[1].leave)
        tables = [job.create_table(self.id(), 1, oarlock.Sgd(1.0)) for job in jobs]
        with self.assertRaises(KeyError):
            with jobs[0]:
                for part in jobs[0].lease("train", total=100, block=10):
                    raise KeyError("a typo")
        seen = 0
        for part in jobs[1].lease("train", total=100, block=10):
            rows = tables[1].pull(part.indices)
            with jobs[1].step(part) as step:
                step.push(rows, np.ones((len(part), 1)))
            seen += len(part)
        self.assertEqual(seen, 100)
        np.testing.assert_array_equal(self.values(tables[1]), np.full(100, -1))

    def test_the_first_of_a_run_may_change_rates_and_nothing_else(self):
        name = self.id()
        for rate in (1.0, 0.5):
            with self.cluster.join() as job:
                table = job.create_table(name, 1, oarlock.Sgd(rate))
                with self.assertRaisesRegex(oarlock.AlreadyExistsError,
                                            "learning_rate"):
                    job.create_table(name, 1, oarlock.Sgd(2.0))
                with job.step() as step:
                    step.push(table.pull([7]), np.ones((1, 1)))
        with self.cluster.join() as job:
            with self.assertRaisesRegex(oarlock.AlreadyExistsError, "dim"):
                job.create_table(name, 2, oarlock.Sgd(1.0))
            table = job.create_table(name, 1, oarlock.Sgd(1.0))
            np.testing.assert_array_equal(table.pull([7]).values, [[-1.5]])

    def test_who_leaves_at_once_may(self):
        for _ in range(100):
            self.cluster.join().leave()

    def test_a_checkpoint_is_made_between_and_in_runs(self):
        for _ in range(2):
            with self.cluster.join() as job:
                table = job.create_table(self.id(), 1, oarlock.Sgd(1.0))
                for part in job.lease("train", total=50, block=10):
                    rows = table.pull(part.indices)
                    with job.step(part) as step:
                        step.push(rows, np.ones((len(part), 1)))
                    if part.begin == 20:
                        self.assertIn("ckpt-", job.checkpoint())
            with self.cluster.connect() as reader:
                self.assertIn("ckpt-", reader.checkpoint())


if __name__ == "__main__":
    unittest.main()
