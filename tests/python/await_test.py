"""Futures that coroutines wait for."""

import asyncio
import os
import signal
import threading
import unittest

import numpy as np

from oarlock_testing import children_of, descriptors, eventually, is_stopped, oarlock


class AwaitTest(unittest.TestCase):

    def setUp(self):
        self.cluster = oarlock.LocalCluster(servers=2)
        self.addCleanup(self.cluster.close)
        self.job = self.cluster.join()
        self.addCleanup(self.job.leave)
        self.table = self.job.create_table("t", 2, oarlock.Sgd(1.0))

    async def train(self, first, steps):
        for i in range(steps):
            rows = await self.table.pull_async(np.arange(first, first + 50))
            step = self.job.step()
            step.push(rows, np.ones((50, 2)))
            await step.begin()

    def test_many_coroutines_of_one_loop(self):
        async def all_of_them():
            await asyncio.gather(*[self.train(100 * i, 20) for i in range(16)])
            # No thread of a pool waits for them.
            self.assertFalse([each for each in threading.enumerate()
                              if each.name.startswith("asyncio_")])

        asyncio.run(all_of_them())
        for i in range(16):
            values = self.table.pull(np.arange(100 * i, 100 * i + 50)).values
            np.testing.assert_array_equal(values, np.full((50, 2), -20))

    def test_loops_of_several_threads(self):
        failures = []

        def run(first):
            try:
                asyncio.run(self.train(first, 50))
            except BaseException as failure:  # Told by the test's own thread.
                failures.append(failure)

        before = descriptors()
        threads = [threading.Thread(target=run, args=[1000 * i]) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(descriptors(), before)
        for i in range(4):
            values = self.table.pull(np.arange(1000 * i, 1000 * i + 50)).values
            np.testing.assert_array_equal(values, np.full((50, 2), -50))

    def test_the_loop_goes_on_while_it_waits_and_a_task_is_cancelled(self):
        servers = children_of(self.cluster.pid)

        async def wait():
            for pid in servers:
                os.kill(pid, signal.SIGSTOP)
            try:
                self.assertTrue(eventually(lambda: all(map(is_stopped, servers))))
                waiting = asyncio.ensure_future(
                    asyncio.wait_for(self.table.pull_async([1]), 0.3))
                turns = 0
                while not waiting.done():
                    await asyncio.sleep(0.001)
                    turns += 1
                with self.assertRaises(asyncio.TimeoutError):
                    waiting.result()
                self.assertGreater(turns, 20)
            finally:
                for pid in servers:
                    os.kill(pid, signal.SIGCONT)
            return (await self.table.pull_async([7])).values.shape

        self.assertEqual(asyncio.run(wait()), (1, 2))

    def test_errors_are_raised(self):
        async def wait():
            future = self.table.pull_async([1])
            self.job.leave()
            with self.assertRaises(oarlock.Error):
                await self.table.pull_async([1])
            return future

        asyncio.run(wait())


if __name__ == "__main__":
    unittest.main()
