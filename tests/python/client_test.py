"""The numpy client: tables, pulls, steps, leases."""

import asyncio
import pickle
import threading
import unittest

import numpy as np

from oarlock_testing import oarlock


class ClientTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = oarlock.LocalCluster(servers=2)
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        self.job = self.cluster.join()
        self.addCleanup(self.job.leave)

    def table(self, dim=3, initial=0.0, **options):
        return self.job.create_table(self.id(), dim, oarlock.Sgd(1.0), initial,
                                     **options)

    def test_a_pull_finds_duplicates_once_and_gathers_them(self):
        table = self.table(initial=0.5)
        keys = np.array([[7, 8, 7], [9, 9, 9]])
        rows = table.pull(keys)
        self.assertEqual(rows.values.shape, (3, 3))
        self.assertEqual(rows.inverse.shape, (2, 3))
        self.assertEqual(rows.inverse.dtype, np.int32)
        np.testing.assert_array_equal(rows.keys[rows.inverse], keys)
        self.assertEqual(rows.gather().shape, (2, 3, 3))
        np.testing.assert_array_equal(rows.gather(), np.full((2, 3, 3), 0.5))

    def test_a_step_is_what_the_rule_says(self):
        table = self.table()
        keys = np.array([1, 2, 1, 5])
        gradients = np.arange(12, dtype=np.float32).reshape(4, 3)
        rows = table.pull(keys)
        with self.job.step() as step:
            step.push(rows, rows.scatter_add(gradients))
        wanted = {key: -gradients[keys == key].sum(0) for key in (1, 2, 5)}
        after = table.pull([1, 2, 5, 6])
        for key, value in zip(after.keys, after.values):
            np.testing.assert_array_equal(value, wanted.get(int(key), np.zeros(3)))

    def test_gradients_may_be_overwritten_once_they_are_pushed(self):
        table = self.table()
        rows = table.pull(np.arange(1000))
        gradients = np.ones((1000, 3), np.float32)
        with self.job.step() as step:
            step.push(rows, gradients)
            gradients[:] = 1e30
        np.testing.assert_array_equal(table.pull(np.arange(1000)).values,
                                      np.full((1000, 3), -1))

    def test_any_integers_are_keys_and_signed_ones_are_extended(self):
        table = self.table(dim=1)
        wide = np.array([3, -5, 2**31 - 1], np.int64)
        rows = table.pull(wide)
        with self.job.step() as step:
            step.push(rows, rows.scatter_add(np.array([[1], [2], [4]])))
        for dtype in (np.int32, np.int64):
            np.testing.assert_array_equal(
                table.pull(wide.astype(dtype)).gather()[:, 0], [-1, -2, -4])
        unsigned = wide.view(np.uint64)
        np.testing.assert_array_equal(table.pull(unsigned).gather()[:, 0],
                                      [-1, -2, -4])
        np.testing.assert_array_equal(
            table.pull(np.array([3], np.uint8)).values, [[-1]])

    def test_padding_takes_no_gradient_and_gives_zeros(self):
        table = self.table(dim=2, initial=0.5)
        keys = np.array([[4, -1], [-1, -1], [4, 6]])
        with self.assertRaisesRegex(ValueError, "give padding=-1"):
            table.pull(keys)
        rows = table.pull(keys, padding=-1)
        self.assertEqual(len(rows), 2)
        gathered = rows.gather()
        np.testing.assert_array_equal(gathered[keys == -1], np.zeros((3, 2)))
        np.testing.assert_array_equal(gathered[keys != -1], np.full((3, 2), 0.5))
        with self.job.step() as step:
            step.push(rows, rows.scatter_add(np.ones((3, 2, 2))))
        np.testing.assert_array_equal(table.pull([4, 6]).gather(),
                                      [[-1.5, -1.5], [-0.5, -0.5]])
        # The row that -1 would have as a key.
        key = np.array([2**64 - 1], np.uint64)
        np.testing.assert_array_equal(table.pull(key).values, [[0.5, 0.5]])

    def test_keys_of_floats_are_refused_and_texts_are_hashed(self):
        table = self.table(dim=1)
        with self.assertRaisesRegex(oarlock.InvalidArgumentError, "float64"):
            table.pull(np.array([1.0, 2.0]))
        with self.assertRaises(ValueError):
            table.pull([None])
        # XXH64, seed 0; FeatureHash in base/mix.h has the same vectors.
        self.assertEqual(list(oarlock.hash_texts(["", "68fd1e64", b"68fd1e64"])),
                         [0xef46db3751d8e999, 0x5d3ccd85c9c22fe4,
                          0x5d3ccd85c9c22fe4])
        rows = table.pull(np.array(["a", "b", "a"]))
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows.keys[rows.inverse[1]], oarlock.hash_texts(["b"])[0])

    def test_wrong_shapes_are_refused_before_anything_is_sent(self):
        table = self.table()
        rows = table.pull([1, 2])
        step = self.job.step()
        for gradients in (np.ones((2, 2)), np.ones((3, 3)), np.ones(6)):
            with self.assertRaisesRegex(oarlock.InvalidArgumentError, "is wanted"):
                step.push(rows, gradients)
        with self.assertRaisesRegex(oarlock.InvalidArgumentError, "1 keys"):
            rows.scatter_add(np.ones((1, 3)))
        step.push(rows, np.ones((2, 3)))
        with self.assertRaisesRegex(oarlock.InvalidArgumentError, "already"):
            step.push(rows, np.ones((2, 3)))
        for out in (np.empty((2, 3)), np.empty((1, 3), np.float32),
                    np.empty((3, 2), np.float32).T):
            with self.assertRaisesRegex(oarlock.InvalidArgumentError, "writable"):
                table.pull([1, 2], out=out)
        with self.assertRaisesRegex(ValueError, "finite|nan|NaN"):
            with self.job.step() as other:
                other.push(rows, np.full((2, 3), np.nan))

    def test_several_tables_in_one_pull_and_one_step(self):
        first = self.job.create_table(self.id() + "1", 2, oarlock.Sgd(1.0), 1.0)
        second = self.job.create_table(self.id() + "2", 4, oarlock.Sgd(0.5))
        dense = self.job.create_dense(self.id() + "d", {"w": (2, 3), "b": (3,)},
                                      oarlock.Sgd(1.0), {"w": 1.0})
        a, b = self.job.pull([(first, [1, 2]), (second, [[3], [3]])])
        np.testing.assert_array_equal(a.values, np.ones((2, 2)))
        self.assertEqual(b.values.shape, (1, 4))
        with self.job.step() as step:
            step.push(a, np.ones((2, 2)))
            step.push(b, np.ones((1, 4)))
            step.push_dense(dense, {"b": [1, 2, 3]})
        np.testing.assert_array_equal(first.pull([1]).values, [[0, 0]])
        np.testing.assert_array_equal(second.pull([3]).values, [[-0.5] * 4])
        values = dense.pull()
        np.testing.assert_array_equal(values["w"], np.ones((2, 3)))
        np.testing.assert_array_equal(values["b"], [-1, -2, -3])
        with self.assertRaisesRegex(KeyError, "no parameter 'c'"):
            dense.join({"c": 1})

    def test_shows_and_clicks_reach_admission(self):
        table = self.table(
            dim=1, ctr=oarlock.Ctr(non_click_coefficient=1.0, click_coefficient=10.0),
            admission=oarlock.ShowClickAdmission(12.0))
        for shows, clicks, there in ((3, 0, False), (1, 1, True)):
            rows = table.pull([8])
            with self.job.step() as step:
                step.push(rows, np.ones((1, 1)), shows=[shows], clicks=[clicks])
            self.assertEqual(table.pull([8]).values[0, 0] != 0, there)

    def test_a_work_is_leased_once_and_says_when_it_is_finished(self):
        table = self.table(dim=1)
        seen = np.zeros(1000, np.int64)
        for part in self.job.lease(self.id(), total=1000, block=300):
            self.assertFalse(part.repairs)
            np.testing.assert_array_equal(part.indices,
                                          np.arange(part.begin, part.end))
            seen[part.indices] += 1
            rows = table.pull(part.indices)
            with self.job.step(part) as step:
                step.push(rows, np.ones((len(part), 1)))
            with self.assertRaisesRegex(oarlock.FailedPreconditionError,
                                        "each part takes one step"):
                self.job.step(part).begin().result()
        np.testing.assert_array_equal(seen, np.ones(1000))
        np.testing.assert_array_equal(table.pull(np.arange(1000)).values,
                                      np.full((1000, 1), -1))
        with self.assertRaisesRegex(oarlock.FailedPreconditionError,
                                    "is finished"):
            next(self.job.lease(self.id(), total=1000, block=300))
        # Or it is begun anew.
        parts = []

        def lease(again):
            parts.extend(part.indices for part in self.job.lease(
                self.id(), total=1000, block=10, again=again))

        lease(again=True)
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)),
                                      np.arange(1000))
        # Another epoch is another work.
        self.assertEqual(sum(len(part) for part in self.job.lease(
            self.id(), epoch=1, total=1000, block=300)), 1000)

    def test_threads_share_the_parts_of_a_lease(self):
        parts = []

        def lease():
            for part in self.job.lease(self.id(), total=3000, block=10):
                parts.append(part.indices)

        # More than the coordinator answers at a time: some wait for others.
        threads = [threading.Thread(target=lease) for _ in range(24)]
        begun = threading.excepthook
        failures = []
        threading.excepthook = failures.append
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        threading.excepthook = begun
        self.assertEqual(failures, [])
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)),
                                      np.arange(3000))

    def test_a_step_that_is_left_by_an_exception_pushes_nothing_of_it(self):
        table = self.table(dim=1)
        with self.assertRaises(ZeroDivisionError):
            for part in self.job.lease(self.id(), total=10, block=5):
                rows = table.pull(part.indices)
                with self.job.step(part) as step:
                    step.push(rows, np.ones((5, 1)))
                    raise ZeroDivisionError
        np.testing.assert_array_equal(table.pull(np.arange(10)).values,
                                      np.zeros((10, 1)))
        self.assertEqual(
            sum(len(part) for part in self.job.lease(self.id(), total=10, block=5)),
            5)

    def test_threads_share_a_job(self):
        table = self.table(dim=1)

        def work():
            for _ in range(50):
                rows = table.pull(np.arange(100))
                with self.job.step() as step:
                    step.push(rows, np.ones((100, 1)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(table.pull(np.arange(100)).values,
                                      np.full((100, 1), -200))

    def test_futures_are_waited_for_awaited_and_cancelled(self):
        table = self.table()
        future = table.pull_async([1, 2])
        self.assertEqual(len(future.result(10)), 2)
        self.assertTrue(future.done())

        async def pull():
            first, second = await asyncio.gather(table.pull_async([1]),
                                                 table.pull_async([2, 3]))
            return len(first), len(second)

        self.assertEqual(asyncio.run(pull()), (1, 2))
        other = self.cluster.connect()
        self.addCleanup(other.close)

    def test_a_reader_pulls_and_changes_nothing(self):
        self.table(initial=0.25)
        with self.cluster.connect() as reader:
            self.assertFalse(reader.is_worker)
            table = reader.table(self.id())
            self.assertEqual((table.dim, table.name), (3, self.id()))
            np.testing.assert_array_equal(table.pull([1]).values, [[0.25] * 3])
            with self.assertRaisesRegex(oarlock.FailedPreconditionError, "reader"):
                reader.create_table("other", 1, oarlock.Sgd(1.0))
            with self.assertRaisesRegex(oarlock.FailedPreconditionError, "reader"):
                reader.step().begin()
            with self.assertRaises(KeyError):
                reader.table("nothing of this name")
        status = self.job.status()
        self.assertEqual(len(status["workers"]), 1)
        rows = [self.job.call("ServerAdminService/GetServerStatus", server=i)
                for i in range(2)]
        self.assertEqual(sum(int(table["rows"]) for each in rows
                             for table in each["tables"]
                             if table["config"]["name"] == self.id()), 0)

    def test_tables_that_differ_are_refused_with_the_difference(self):
        table = self.table()
        self.assertGreater(table.id, 1024)
        self.assertIs(self.table(), table)
        with self.assertRaisesRegex(oarlock.AlreadyExistsError, "dim"):
            self.table(dim=4)
        with self.assertRaisesRegex(ValueError, "mode is 'geo'"):
            self.cluster.join(rank=0, mode="geo")

    def test_nothing_of_a_job_can_be_pickled(self):
        table = self.table()
        for thing in (self.job, table, table.pull([1]), self.job.step(),
                      table.pull_async([1]), self.cluster):
            with self.assertRaisesRegex(TypeError, "pickled"):
                pickle.dumps(thing)

    def test_a_checkpoint_and_a_barrier(self):
        self.table()
        self.job.barrier(self.id())
        self.assertIn("ckpt-", self.job.checkpoint())


if __name__ == "__main__":
    unittest.main()
