"""Jobs in geo mode, as users start them."""

import os
import re
import signal
import unittest

import harness

TRAIN_ROWS = harness.GENERATED_ROWS * 3 // 4
# Of two runs of a job, which differ by the order of pushes, in either mode; and
# of one epoch over a few rows.
MOST_AUC_DIFFERENCE = .03
LEAST_TEST_AUC = .62
BATCH_SIZE = 128
PRINT_PERIOD = 10

JOB = ["--server_num", "2", "--worker_num", "2", "--batch_size",
       str(BATCH_SIZE), "--model", "lr", "--learning_rate", "0.05"]


class GeoTest(harness.SystemTest):

    def train(self, name, *flags):
        job = self.start_train(*JOB, *harness.data_flags(), "--log_dir", name,
                               *flags, name=name)
        self.await_success(job)
        self.assert_nothing_runs()
        self.assertEqual(job.stderr.count("error"), 0, job.stderr)
        return self.summary(name)

    def test_it_learns_what_async_learns(self):
        asynchronous = self.train("async")
        geo = self.train("geo", "--mode", "geo", "--geo_steps", "5")
        self.assertEqual(geo["mode"], "geo")
        self.assertEqual(geo["examples"], TRAIN_ROWS)
        self.assertEqual(geo["examples"], asynchronous["examples"])
        self.assertGreater(geo["test_auc"], LEAST_TEST_AUC)
        self.assertAlmostEqual(geo["test_auc"], asynchronous["test_auc"],
                               delta=MOST_AUC_DIFFERENCE)

    def test_a_killed_worker_is_replaced(self):
        job = self.start_train(
            *JOB, *harness.data_flags(), "--mode", "geo", "--geo_steps", "3",
            "--epochs", "8", "--max_restart", "1", "--lease_s", "2",
            "--print_period", str(PRINT_PERIOD), name="launcher")
        log = self.path("logs", "workerlog.1")
        self.await_text(log, rf"train epoch 1 step {PRINT_PERIOD}\b")
        os.kill(self.pid_of_role("worker", 1), signal.SIGKILL)
        most_steps = int(re.findall(r"train epoch \d+ step (\d+)",
                                    harness.read_text(log))[-1]) + PRINT_PERIOD
        self.await_success(job)
        self.assert_nothing_runs()
        summary = self.summary()
        # What the dead worker trained since its last report is not in the sum,
        # and what it did not push, and a successor trained again, may be.
        self.assertGreaterEqual(summary["examples"],
                                8 * TRAIN_ROWS - most_steps * BATCH_SIZE)
        self.assertGreater(summary["test_auc"], LEAST_TEST_AUC)

    def test_it_goes_on_from_its_checkpoint(self):
        checkpoints = ["--checkpoint_dir", self.path("ckpt")]
        self.train("first", "--mode", "geo", "--geo_steps", "5",
                   *checkpoints)
        second = self.train("second", "--mode", "geo", "--epochs", "2",
                            "--resume", *checkpoints)
        self.assertEqual(second["examples"], TRAIN_ROWS)
        self.assertGreater(second["test_auc"], LEAST_TEST_AUC)

    def test_flags_that_contradict_it_are_refused(self):
        for flags in (["--admission", "count"], ["--push_format", "bfloat16"],
                      ["--dense_interval_steps", "2"]):
            job = self.start_train(*JOB, *harness.data_flags(), "--mode",
                                   "geo", *flags, name=flags[0].strip("-"))
            self.assert_fails(
                job, rf"{flags[0]} is {flags[1]}, but --mode is geo", code=2)
        job = self.start_train(*JOB, *harness.data_flags(), "--geo_steps", "5")
        self.assert_fails(job, r"--geo_steps is 5, but --mode is async",
                          code=2)


if __name__ == "__main__":
    unittest.main()
