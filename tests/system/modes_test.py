"""Jobs in half_async and ssp mode train, say so, and survive a worker."""

import os
import signal
import unittest

import harness

TRAIN_ROWS = harness.GENERATED_ROWS * 3 // 4
# As in smoke_test.py: between guessing and the planted model.
LEAST_TEST_AUC = .62
MOST_TEST_AUC = .82

FLAGS = ["--server_num", "2", "--worker_num", "2", "--thread_num", "2",
         "--batch_size", "64", "--model", "lr", "--learning_rate", "0.05"]


class ModesTest(harness.SystemTest):

    def assert_trained(self, job, mode, at_least=TRAIN_ROWS,
                       at_most=TRAIN_ROWS, least_auc=LEAST_TEST_AUC):
        self.await_success(job)
        self.assert_nothing_runs()
        summary = self.summary()
        self.assertEqual(
            (summary["servers"], summary["workers"], summary["mode"]),
            (2, 2, mode), summary)
        self.assertTrue(at_least <= summary["examples"] <= at_most, summary)
        self.assertTrue(least_auc < summary["test_auc"] < MOST_TEST_AUC,
                        summary)
        for share in ("p50", "p99"):
            self.assertGreaterEqual(summary[f"staleness_{share}"], 0, summary)
        return summary

    def train(self, mode, *flags):
        return self.start_train(*FLAGS, *harness.data_flags(), "--mode", mode,
                                *flags, name="launcher")

    def test_half_async_trains(self):
        job = self.train("half_async")
        self.assert_trained(job, "half_async")

    def test_ssp_trains(self):
        job = self.train("ssp", "--staleness_bound", "2")
        self.assert_trained(job, "ssp")

    def test_ssp_without_lead_trains(self):
        job = self.train("ssp", "--staleness_bound", "0", "--split",
                         "interleaved")
        self.assert_trained(job, "ssp")

    def test_dense_gradients_have_a_rate_by_their_age(self):
        job = self.train("async", "--dense_staleness_power", ".5")
        summary = self.assert_trained(job, "async")
        self.assertGreater(summary["dense_staleness_p99"], 0, summary)
        for flags, message in (
                (("async", "--dense_quorum", ".5"),
                 r"--dense_staleness_power is 0\.5 and --dense_quorum 0\.5"),
                (("sync",),
                 r"--dense_staleness_power is 0\.5, but --mode is sync"),
                (("async", "--optimizer", "ftrl"),
                 r"--dense_staleness_power is 0\.5 with --optimizer ftrl")):
            job = self.train(*flags, "--dense_staleness_power", ".5")
            self.assert_fails(job, message, code=2)

    def test_threads_keep_rows(self):
        for mode in ("async", "half_async"):
            job = self.train(mode, "--row_cache_rows", "5000",
                             "--row_cache_steps", "4")
            summary = self.assert_trained(job, mode)
            self.assertTrue(.1 < summary["row_cache_hit_rate"] < .95, summary)
        self.assertRegex(job.stdout, r"row cache [\d.]+ % of the rows")
        job = self.train("sync", "--row_cache_rows", "5000")
        self.assert_fails(
            job, r"--row_cache_rows is 5000, but --mode is sync", code=2)

    def test_dense_gradients_of_all_threads_make_one_update(self):
        job = self.train("async", "--dense_quorum", "1")
        self.assert_trained(job, "async")

    def assert_survives(self, mode, *flags):
        """A worker is killed while it trains; its successor goes on."""
        job = self.train(mode, *flags, "--max_restart", "1", "--epochs", "12",
                         "--print_period", "5", "--lease_s", "2")
        log = self.path("logs", "workerlog.1")
        self.await_text(log, r"train epoch \d+ step")
        os.kill(self.pid_of_role("worker", 1), signal.SIGKILL)
        # Each counts in the tables once, in the summary as often as somebody
        # has computed it and lived to report it. So many epochs over few rows
        # teach less than one.
        self.assert_trained(job, mode, at_least=9 * TRAIN_ROWS,
                            at_most=13 * TRAIN_ROWS, least_auc=.56)
        self.assertRegex(job.stderr, r"worker 1 \(pid \d+\) ended with signal 9")

    def test_half_async_survives_a_worker(self):
        self.assert_survives("half_async")

    def test_a_quorum_survives_a_worker(self):
        self.assert_survives("async", "--dense_quorum", "1")

    def test_ssp_survives_a_worker(self):
        self.assert_survives("ssp")


if __name__ == "__main__":
    unittest.main()
