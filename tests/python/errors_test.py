"""Errors, the log, forks, Ctrl-C: what a client does when something is wrong."""

import builtins
import gc
import logging
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import numpy as np

from oarlock_testing import eventually, oarlock

HERE = pathlib.Path(__file__).absolute().parent


def work_elsewhere(address, token, results):
    """A process of multiprocessing: a reader of its own."""
    try:
        with oarlock.connect(address, token_file=token) as reader:
            results.put(float(reader.table("t").pull([1]).values[0, 0]))
    except oarlock.Error as error:
        results.put(repr(type(error).__name__))


class ErrorsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = oarlock.LocalCluster(servers=2)
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        self.job = self.cluster.join()
        self.addCleanup(self.job.leave)
        self.table = self.job.create_table("t", 1, oarlock.Sgd(1.0), 0.5)

    def test_declarations_say_in_one_line_what_is_wrong(self):
        for create, why in (
                (lambda: self.job.create_table("a", 1, oarlock.Sgd(float("nan"))),
                 "optimizer.learning_rate is nan; legal are finite numbers"),
                (lambda: self.job.create_table("a", 1, oarlock.Optimizer(0.1)),
                 r"choose one, such as Adagrad\(0.1\)"),
                (lambda: self.job.create_table("a", 1, oarlock.Sgd(1j)),
                 "learning_rate is 1j, of type complex"),
                (lambda: self.job.create_table("a", 1, oarlock.Sgd(1.0), "high"),
                 "initial is 'high'; legal are a number, Uniform"),
                (lambda: self.job.create_dense("a", {"w": (2,)}, oarlock.Sgd(1.0),
                                               {"v": 1.0}),
                 "initial has 'v', which is no parameter; they are w")):
            with self.assertRaisesRegex(oarlock.InvalidArgumentError, why) as raised:
                create()
            self.assertEqual(str(raised.exception).count("\n"), 0)

    def test_numbers_of_numpy_are_numbers(self):
        table = self.job.create_table(
            "numpy", np.int64(2), oarlock.Sgd(np.float32(0.5)), np.float64(0.25),
            seed=np.uint32(7))
        np.testing.assert_array_equal(table.pull([1]).values, [[0.25, 0.25]])

    def test_errors_are_oarlocks_and_pythons_and_of_one_line(self):
        classes = {
            oarlock.InvalidArgumentError: ValueError,
            oarlock.NotFoundError: KeyError,
            oarlock.TimeoutError: builtins.TimeoutError,
            oarlock.UnavailableError: ConnectionError,
            oarlock.FencedError: ConnectionError,
            oarlock.UnauthenticatedError: PermissionError,
        }
        for own, pythons in classes.items():
            self.assertTrue(issubclass(own, (oarlock.Error,)))
            self.assertTrue(issubclass(own, pythons))
        with self.assertRaises(oarlock.NotFoundError) as raised:
            self.job.table("absent")
        self.assertEqual(str(raised.exception).count("\n"), 0)
        self.assertNotIn("'\"", str(raised.exception)[:1])
        with self.assertRaises(oarlock.UnavailableError) as raised:
            oarlock.connect("127.0.0.1:1", connect_timeout_s=0.2)
        self.assertIn("no server answered at 127.0.0.1:1 within 200ms",
                      str(raised.exception))
        with tempfile.NamedTemporaryFile("w") as token:
            token.write("another token, which is as long as it has to be")
            token.flush()
            with self.assertRaises(oarlock.UnauthenticatedError):
                oarlock.connect(self.cluster.address, token_file=token.name)
        with self.assertRaisesRegex(oarlock.InvalidArgumentError, "no_such_field"):
            oarlock.connect(self.cluster.address, no_such_field=1)

    def test_a_wait_ends_when_its_time_is_over_and_the_operation_goes_on(self):
        with oarlock.LocalCluster() as cluster, \
                cluster.join(rank=0, world=2) as first:
            with self.assertRaisesRegex(oarlock.TimeoutError,
                                        "not done within 0.05 s"):
                first.barrier("start", timeout=0.05)
            with cluster.join(rank=1, world=2) as second:
                second.barrier("start")
                first.barrier("start")

    def test_the_librarys_lines_are_pythons_log(self):
        lines = []
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(record)
        logging.getLogger("oarlock").addHandler(handler)
        logging.getLogger("oarlock").setLevel(logging.INFO)
        self.addCleanup(logging.getLogger("oarlock").removeHandler, handler)
        # A server that is waited for is mentioned.
        with self.assertRaises(oarlock.UnavailableError):
            oarlock.connect("127.0.0.1:1", connect_timeout_s=7)
        self.assertTrue(eventually(lambda: any(
            "waiting for server 0 at 127.0.0.1:1" in record.getMessage()
            for record in lines)), [record.getMessage() for record in lines])

    def test_ctrl_c_ends_a_pull_whose_array_is_dropped(self):
        timer = signal.setitimer
        caught = 0
        previous = signal.signal(signal.SIGALRM, self._interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, previous)
        keys = np.arange(20000)
        for turn in range(60):
            out = np.empty((20000, 1), np.float32)
            try:
                # It may come before this returns.
                timer(signal.ITIMER_REAL, 1e-4 * (1 + turn % 10))
                self.table.pull(keys, out=out)
                timer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                caught += 1
            del out
            gc.collect()
        timer(signal.ITIMER_REAL, 0)
        self.assertGreater(caught, 0)
        np.testing.assert_array_equal(self.table.pull([1]).values, [[0.5]])

    @staticmethod
    def _interrupt(number, frame):
        raise KeyboardInterrupt

    def test_ctrl_c_ends_every_wait(self):
        script = (
            "import sys\n"
            f"sys.path.insert(0, {str(HERE)!r})\n"
            "from oarlock_testing import oarlock\n"
            "job = oarlock.join(sys.argv[1], rank=0, world=2,"
            " token_file=sys.argv[2])\n"
            "try:\n"
            "    print('waits', flush=True)\n"
            "    job.barrier('nobody else comes')\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', flush=True)\n"
            "job.leave(KeyboardInterrupt())\n")
        with oarlock.LocalCluster() as cluster:
            waits = subprocess.Popen(
                [sys.executable, "-c", script, cluster.address,
                 cluster.token_file], stdout=subprocess.PIPE, text=True)
            self.assertEqual(waits.stdout.readline(), "waits\n")
            waits.send_signal(signal.SIGINT)
            self.assertEqual(waits.stdout.readline(), "interrupted\n")
            self.assertEqual(waits.wait(timeout=30), 0)
            waits.stdout.close()

    def test_a_thread_counts_on_during_a_wait(self):
        counted = [0]
        stop = threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        self.table.pull(np.arange(200000))
        after = counted[0]
        stop.set()
        thread.join()
        self.assertGreater(after, before)

    def test_a_forked_child_is_refused_and_the_parent_goes_on(self):
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self.table.pull([1])
            except oarlock.ForkedError as error:
                os.write(told, str(error).encode())
                code = 0
            finally:
                # Finalizers, too, touch nothing.
                del self.table
                gc.collect()
                os._exit(code)
        os.close(told)
        _, status = os.waitpid(child, 0)
        text = os.read(ready, 1000).decode()
        os.close(ready)
        self.assertEqual(status, 0)
        self.assertIn("was forked from one that uses Oarlock", text)
        np.testing.assert_array_equal(self.table.pull([1]).values, [[0.5]])

    # The socket of forkserver lies there, and its path has to be short.
    @unittest.mock.patch.object(tempfile, "tempdir", "/tmp")
    def test_processes_of_multiprocessing(self):
        for method, wanted in (("fork", "'ForkedError'"), ("spawn", 0.5),
                               ("forkserver", 0.5)):
            context = multiprocessing.get_context(method)
            results = context.Queue()
            process = context.Process(
                target=work_elsewhere,
                args=(self.cluster.address, self.cluster.token_file, results))
            process.start()
            self.assertEqual(results.get(timeout=60), wanted, method)
            process.join()
            np.testing.assert_array_equal(self.table.pull([1]).values, [[0.5]])

    def test_two_jobs_in_one_process(self):
        with oarlock.LocalCluster() as cluster, cluster.join() as other:
            table = other.create_table("t", 2, oarlock.Sgd(1.0), 7.0)
            with other.step() as step:
                step.push(table.pull([1]), np.ones((1, 2)))
            np.testing.assert_array_equal(table.pull([1]).values, [[6, 6]])
            np.testing.assert_array_equal(self.table.pull([1]).values, [[0.5]])

    def test_a_job_that_is_drained_tells_its_workers(self):
        with oarlock.LocalCluster() as cluster:
            job = cluster.join()
            with cluster.connect() as reader:
                reader.drain("a test of drains")

            def told():
                try:
                    job.check_alive()
                except oarlock.CancelledError as error:
                    return "a test of drains" in str(error)
                return False

            self.assertTrue(eventually(told))
            with self.assertRaises(oarlock.CancelledError):
                next(job.lease("train", total=10))
            job.leave()


if __name__ == "__main__":
    unittest.main()
