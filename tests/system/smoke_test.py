"""Whole jobs, as the README starts them: they train, and say what came out."""

import glob
import re
import shutil
import unittest

import harness

SUMMARY_FIELDS = {
    "examples", "examples_per_second", "seconds", "train_auc",
    "train_logloss", "test_auc", "test_logloss", "servers", "workers", "mode",
    "model",
}
TRAIN_ROWS = harness.GENERATED_ROWS * 3 // 4
# Guessing reaches an AUC of .5 and a logloss of .57, the planted model an AUC
# of .81; one epoch over a few rows lies between.
LEAST_TEST_AUC = .62
MOST_TEST_LOGLOSS = .565
MOST_TEST_AUC = .82

# Settings with which these few rows teach something.
LEARNING = ["--batch_size", "128"]
LR = ["--model", "lr", "--learning_rate", "0.05"]
DEEPFM = ["--model", "deepfm"]
# With the default rate a network is sure of what it has learnt from these rows;
# how much depends on how old the workers' gradients get, and on a busy machine
# they get old.
STALE = ["--epochs", "2", "--learning_rate", "0.005"]
# The example's own are the quick start's, with which they would not.
EXAMPLE = [*LEARNING, *DEEPFM, "--epochs", "1", "--optimizer", "adagrad",
           "--learning_rate", "0.01", "--init_range", "0.01", "--loss", "mean",
           "--dense_transform", "log1p"]


class SmokeTest(harness.SystemTest):

    def assert_trained(self, process, *, servers, workers, model="ctr_dnn",
                       mode="async", examples=TRAIN_ROWS):
        self.await_success(process)
        self.assert_nothing_runs()
        summary = self.summary()
        self.assertLessEqual(SUMMARY_FIELDS, summary.keys())
        self.assertEqual(
            (summary["servers"], summary["workers"], summary["model"],
             summary["mode"], summary["examples"]),
            (servers, workers, model, mode, examples), summary)
        self.assertGreater(summary["seconds"], 0)
        self.assertAlmostEqual(
            summary["examples_per_second"] * summary["seconds"], examples,
            delta=examples * .01)
        self.assertGreater(summary["test_auc"], LEAST_TEST_AUC, summary)
        self.assertLess(summary["test_auc"], MOST_TEST_AUC, summary)
        self.assertLess(summary["test_logloss"], MOST_TEST_LOGLOSS, summary)
        # Measured while it trains, from the first guesses on.
        self.assertTrue(.4 < summary["train_auc"] < .9, summary)
        self.assertTrue(0 < summary["train_logloss"] < .7, summary)
        # A job that went well has nothing to complain about.
        self.assertEqual(process.stderr.count("error"), 0, process.stderr)
        return summary

    def train_cluster(self, servers, workers, *flags, train_files=None):
        return self.start_train(
            "--server_num", str(servers), "--worker_num", str(workers),
            "--train_files", train_files or harness.train_files(),
            "--test_files", harness.test_files(), *LEARNING, *flags)

    def test_two_servers_and_two_workers_train_ctr_dnn(self):
        job = self.train_cluster(2, 2, *STALE)
        self.assert_trained(job, servers=2, workers=2,
                            examples=2 * TRAIN_ROWS)
        self.assertRegex(job.stdout, r"2 servers, 2 workers")
        self.assertRegex(job.stdout, r"(?m)^test +AUC 0\.\d+ +logloss 0\.\d+")
        self.assertRegex(job.stdout, r"summary +logs/summary\.json")
        for log in ("serverlog.0", "serverlog.1", "workerlog.0",
                    "workerlog.1"):
            self.assertTrue(harness.read_text(self.path("logs", log)), log)

    def test_two_servers_and_two_workers_train_lr(self):
        job = self.train_cluster(2, 2, *LR)
        self.assert_trained(job, servers=2, workers=2, model="lr")

    def test_two_servers_and_two_workers_train_deepfm(self):
        job = self.train_cluster(2, 2, *DEEPFM, *STALE)
        self.assert_trained(job, servers=2, workers=2, model="deepfm",
                            examples=2 * TRAIN_ROWS)

    def test_sync_mode_trains_with_two_servers_and_two_workers(self):
        job = self.train_cluster(2, 2, "--mode", "sync", *LR)
        self.assert_trained(job, servers=2, workers=2, model="lr", mode="sync")

    def test_one_file_is_shared_by_three_workers(self):
        one_file = self.path("all")
        with open(one_file, "wb") as all_rows:
            for part in sorted(glob.glob(harness.train_files())):
                with open(part, "rb") as rows:
                    shutil.copyfileobj(rows, all_rows)
        job = self.train_cluster(4, 3, *LR, "--print_period", "1",
                                 train_files=one_file)
        self.assert_trained(job, servers=4, workers=3, model="lr")
        for worker in range(3):
            self.assertRegex(
                harness.read_text(self.path("logs", f"workerlog.{worker}")),
                r"train epoch 1 step \d+", f"worker {worker} did nothing")

    def test_four_threads_share_one_worker(self):
        job = self.train_cluster(1, 1, *LR, "--thread_num", "4")
        self.assert_trained(job, servers=1, workers=1, model="lr")

    def test_a_local_run_needs_no_servers(self):
        job = self.start_train(*harness.data_flags(), *LEARNING, *DEEPFM)
        self.assert_trained(job, servers=0, workers=1, model="deepfm")
        self.assertRegex(job.stderr.splitlines()[0],
                         r"no PADDLE_\* variable is set: local run")

    def test_the_example_trains_locally(self):
        job = self.start(harness.ctr_train(), "--is_local", "1",
                         *harness.data_flags(), *EXAMPLE, "--thread_num", "2")
        self.assert_trained(job, servers=0, workers=1, model="deepfm")
        # Says what it is, as every process does.
        self.assertRegex(job.stderr.splitlines()[0], r"I local +\S")

    def test_the_launcher_runs_the_example(self):
        job = self.start(
            harness.oarlock(), "launch", "--server_num", "2", "--worker_num",
            "2", harness.ctr_train(), *harness.data_flags(), *EXAMPLE,
            "--thread_num", "1")
        self.assert_trained(job, servers=2, workers=2, model="deepfm")

    def test_logs_of_the_last_run_are_kept(self):
        for _ in range(2):
            self.await_success(self.train_cluster(
                1, 1, *LR))
        for name in ("serverlog.0", "workerlog.0", "summary.json"):
            for suffix in ("", ".old"):
                self.assertTrue(
                    harness.read_text(self.path("logs", name + suffix)),
                    f"{name}{suffix} is missing or empty")

    def test_every_command_explains_itself(self):
        help_text = self.await_success(
            self.start(harness.oarlock(), "--help")).stdout
        commands = re.findall(r"(?m)^  ([a-z-]+)  ", help_text)
        self.assertLessEqual({"train", "launch", "generate", "ctl"},
                             set(commands))
        for command in commands:
            text = self.await_success(
                self.start(harness.oarlock(), command, "--help")).stdout
            self.assertIn("Examples:", text, command)

    def test_every_way_to_ask_for_the_version_tells_the_same(self):
        texts = [self.await_success(self.start(harness.oarlock(), word)).stdout
                 for word in ("--version", "version")]
        self.assertRegex(
            texts[0], r"^oarlock \d+\.\d+\.\d+ \((development build|commit "
            r"[0-9a-f]{40})\)\nwire protocol \d+, "
            r"checkpoint format \d+, built with(out)? CUDA\n$")
        self.assertEqual(texts[0], texts[1])
        self.assert_fails(self.start(harness.oarlock(), "--version", "3"),
                          r"^oarlock version: ", code=2)


if __name__ == "__main__":
    unittest.main()
