"""What bench/modes.py asks for is the mode that it names."""

import pathlib
import sys
import unittest

sys.path.insert(
    0, str(pathlib.Path(__file__).absolute().parents[2] / "bench/suite"))

import mode_runs  # noqa: E402: in bench/suite


class ModeRunsTest(unittest.TestCase):

    def test_threads_of_half_async_have_others_to_meet(self):
        found = 0
        for mode in mode_runs.MODES.values():
            flags = mode.flags(10)
            if flags[flags.index("--mode") + 1] != "half_async":
                continue
            found += 1
            threads = flags[flags.index("--thread_num") + 1]
            self.assertGreater(int(threads), 1)
        self.assertGreater(found, 0)

    def test_jobs_of_a_size_have_as_many_threads_in_every_mode(self):
        for size in (1, 2, 5, 10, 20):
            for name, mode in mode_runs.MODES.items():
                with self.subTest(mode=name, size=size):
                    flags = mode.flags(size)
                    threads = int(flags[flags.index("--thread_num") + 1])
                    total = mode.workers(size) * threads
                    self.assertLessEqual(size, total)
                    self.assertLess(total, size + threads)

    def test_half_async_and_async_of_two_threads_differ_in_the_mode_alone(self):
        for size in (1, 5, 10, 20):
            of_async = mode_runs.MODES["async, 2 threads"]
            half = mode_runs.MODES["half_async, 2 threads"]
            self.assertEqual(of_async.workers(size), half.workers(size))
            self.assertEqual(
                [flag for flag in half.flags(size) if flag != "half_async"],
                [flag for flag in of_async.flags(size) if flag != "async"])


if __name__ == "__main__":
    unittest.main()
