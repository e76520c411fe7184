"""Sync mode: rounds of every table, from Python."""

import threading
import unittest

import numpy as np

from oarlock_testing import oarlock

WORLD = 2


class SyncTest(unittest.TestCase):

    def run_workers(self, cluster, work):
        """Runs work(job) in a thread for each worker; raises what one raised."""
        failures = []

        def run(rank):
            try:
                with cluster.join(rank=rank, world=WORLD, mode="sync") as job:
                    work(job)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=run, args=(rank,))
                   for rank in range(WORLD)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
            self.assertFalse(thread.is_alive())
        if failures:
            raise failures[0]

    def tables(self, job, order):
        makers = {
            "a": lambda: job.create_table("a", 2, oarlock.Adagrad(0.1),
                                          oarlock.Uniform(0.5), seed=5),
            "b": lambda: job.create_table("b", 1, oarlock.Sgd(1.0)),
            "d": lambda: job.create_dense("d", {"w": (5,)}, oarlock.Sgd(1.0),
                                          block_size=2),
        }
        made = {name: makers[name]() for name in order}
        return made["a"], made["b"], made["d"]

    def train(self, cluster, order="abd", checkpoint_at=None):
        """Values of all tables after a pass whose steps touch one table each."""
        result = []

        def work(job):
            a, b, d = self.tables(job, order)
            for step_number, part in enumerate(
                    job.lease("train", total=90, block=10)):
                with job.step(part) as step:
                    if part.begin % 30 == 0:
                        rows = a.pull(part.indices % 7)
                        gradients = np.sin(np.arange(20) + part.begin)
                        step.push(rows, rows.scatter_add(
                            gradients.reshape(10, 2)))
                    elif part.begin % 30 == 10:
                        rows = b.pull(part.indices)
                        step.push(rows, np.full((len(rows), 1), 2.0))
                    else:
                        step.push_dense(d, {"w": np.arange(5) + part.begin})
                if job.rank == 0 and step_number == checkpoint_at:
                    thread = threading.Thread(target=lambda: result.append(
                        checkpoints.checkpoint()))
                    threads.append(thread)
                    thread.start()
            job.barrier("looked")
            if job.rank == 0:
                result.append((a.pull(np.arange(7)).gather(),
                               b.pull(np.arange(90)).gather(), d.pull()["w"]))

        threads = []
        with cluster.connect(mode="sync") as checkpoints:
            self.run_workers(cluster, work)
            for thread in threads:
                thread.join()
        return result

    def test_steps_that_touch_one_of_three_tables_do_not_hang(self):
        with oarlock.LocalCluster(servers=2) as cluster:
            _, b, w = self.train(cluster)[0]
        # The mean over two workers of what one of them pushed.
        touched = np.arange(90).reshape(9, 10)[1::3].reshape(-1)
        wanted = np.zeros((90, 1))
        wanted[touched] = -1
        np.testing.assert_array_equal(b, wanted)
        np.testing.assert_array_equal(
            w, -sum((np.arange(5) + begin) / members
                    # The second worker has no part in the last round.
                    for begin, members in ((20, 2), (50, 2), (80, 1))))

    def test_tables_declared_in_another_order_have_the_same_bits(self):
        results = []
        for order in ("abd", "dba"):
            with oarlock.LocalCluster(servers=2) as cluster:
                results.append(self.train(cluster, order)[0])
        for first, second in zip(*results):
            np.testing.assert_array_equal(first, second)

    def test_a_cut_falls_between_rounds(self):
        with oarlock.LocalCluster(servers=2) as cluster:
            made = self.train(cluster, checkpoint_at=1)
        self.assertEqual(len(made), 2)
        folders = [each for each in made if isinstance(each, str)]
        self.assertEqual(len(folders), 1)
        self.assertIn("ckpt-", folders[0])

    def test_a_step_outside_of_rounds_is_refused(self):
        with oarlock.LocalCluster() as cluster, \
                cluster.join(mode="sync") as job:
            table = job.create_table("t", 1, oarlock.Sgd(1.0))
            with self.assertRaisesRegex(oarlock.FailedPreconditionError,
                                        "join them first"):
                with job.step() as step:
                    step.push(table.pull([1]), np.ones((1, 1)))
            job.join_rounds()
            with job.step() as step:
                step.push(table.pull([1]), np.ones((1, 1)))
            job.leave_rounds()
            np.testing.assert_array_equal(table.pull([1]).values, [[-1]])

    def test_tables_of_two_modes_are_refused(self):
        with oarlock.LocalCluster() as cluster:
            with cluster.join() as job:
                job.create_table("t", 1, oarlock.Sgd(1.0))
            with cluster.connect(mode="sync") as reader:
                self.assertEqual(reader.table("t").mode, "async")
            with cluster.join(mode="sync") as job:
                with self.assertRaisesRegex(oarlock.InvalidArgumentError,
                                            "is of mode async"):
                    job.table("t")


if __name__ == "__main__":
    unittest.main()
