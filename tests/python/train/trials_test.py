"""oarlock.train as trials of hyperparameters: many in one process, several at a time."""

import concurrent.futures
import gc
import os
import pathlib
import threading
import unittest

from train_testing import (FEATURES, FLAGS, Temporary, children_of, columns,
                           descriptors, eventually, generate, oarlock, run, table,
                           thread_names)

TRIALS = 20


def listening():
    """Ports of this machine, or of this test's sandbox, on which somebody listens."""
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports


class TrialsTest(unittest.TestCase):

    def setUp(self):
        self.temporary = Temporary()
        self.temporary.__enter__()
        self.addCleanup(self.temporary.__exit__)

    def test_twenty_four_at_a_time_leave_nothing(self):
        data, test = table(2000, 1), columns(500, 2)
        threads_of = []

        def trial(number):
            here = []

            def note(evaluation):
                here.append(threading.get_ident())
                if evaluation.epoch == 1:
                    raise oarlock.Stop("two epochs are enough")

            result = oarlock.train(
                "deepfm", FEATURES, data=data, test=test, servers=number % 2,
                seed=number, epochs=50, on_evaluation=note,
                **{**FLAGS, "learning_rate": 0.01 * (1 + number)})
            threads_of.append(set(here) == {threading.get_ident()})
            return result.evaluations[-1].auc

        # What loads once stays: libraries, pools of threads.
        trial(1)
        gc.collect()
        before = (listening(), descriptors(), thread_names(), children_of(os.getpid()))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            scores = list(pool.map(trial, range(TRIALS)))
        self.assertEqual(threads_of, [True] * (TRIALS + 1))
        self.assertEqual(len(scores), TRIALS)
        self.assertGreater(max(scores), 0.6)
        gc.collect()
        self.temporary.expect_nothing_left(self)

        def now():
            return (listening(), descriptors(), thread_names(),
                    children_of(os.getpid()))

        self.assertTrue(eventually(lambda: now() == before), (now(), before))

    def test_the_same_seed_gives_the_same_bits_in_sync_mode(self):
        generate(self.temporary.path / "text", rows=2000)
        results = [
            oarlock.train("deepfm", data=self.temporary.path / "text", servers=2,
                          workers=2, mode="sync", seed=seed, batch_size=200,
                          shuffle="local")
            for seed in (5, 5, 6)]
        code, text = run("checkpoint", "diff", results[0].checkpoint,
                         results[1].checkpoint)
        self.assertEqual(code, 0, text)
        code, text = run("checkpoint", "diff", results[0].checkpoint,
                         results[2].checkpoint)
        self.assertEqual(code, 1, text)
        self.assertEqual(results[0].summary["train_logloss"],
                         results[1].summary["train_logloss"])


if __name__ == "__main__":
    unittest.main()
