"""Periodic evaluations, and training that ends because of them or by
command."""

import os
import re
import signal
import subprocess
import unittest

import harness

TRAIN_ROWS = harness.GENERATED_ROWS * 3 // 4
LONG_EPOCH_ROWS = 600000
LONG_TEST_ROWS = 400000
LR = ["--model", "lr", "--batch_size", "128"]
# Parameters that do not move get no better.
STUCK = [*LR, "--learning_rate", "0"]
RESTART = ["--max_restart", "1", "--lease_s", "2", "--print_period", "10"]


class EvaluationTest(harness.SystemTest):

    def train(self, *flags, **variables):
        return self.start_train(*harness.data_flags(), *flags, **variables)

    def cluster(self, *flags, **variables):
        return self.train("--server_num", "2", "--worker_num", "2", *flags,
                          **variables)

    def test_training_goes_on_while_it_is_evaluated(self):
        # One epoch that is long enough for several evaluations.
        harness.generate_criteo(self.path("data"), LONG_EPOCH_ROWS, 1, seed=5)
        job = self.start_train(
            "--server_num", "2", "--worker_num", "2", *LR, "--learning_rate",
            "0.05", "--train_files", self.path("data", "part-0"),
            "--test_files", harness.test_files(), "--evaluate_period", "6000")
        self.await_success(job)
        summary = self.summary()
        self.assertEqual(summary["examples"], LONG_EPOCH_ROWS)
        self.assertEqual(summary["stop_reason"], "")
        beside = [evaluation for evaluation in summary["evaluations"]
                  if evaluation["phase_name"].startswith("evaluation/")]
        self.assertTrue(beside, summary)
        for evaluation in beside:
            self.assertEqual(evaluation["examples"],
                             harness.GENERATED_ROWS // 4)
            self.assertTrue(.4 < evaluation["auc"] < .9, evaluation)
            self.assertGreaterEqual(evaluation["trained_examples"], 6000)
        self.assertRegex(
            harness.read_text(self.path("logs", "workerlog.0")),
            r"evaluation/0 after \d+ trained examples: auc 0\.\d+ +logloss 0")

    def kill_worker(self, index, log_dir, awaited, of=None):
        """When the log of one of the workers `of` (itself) has `awaited`."""
        logs = [self.path(log_dir, f"workerlog.{number}")
                for number in ([index] if of is None else of)]
        self.await_true(
            lambda: any(re.search(awaited, harness.read_text(log))
                        for log in logs),
            harness.PROGRESS_DEADLINE_S, f"{awaited!r} in one of {logs}")
        os.kill(self.pid_of_role("worker", index), signal.SIGKILL)

    def test_test_files_are_looked_at_before_anything_is_trained(self):
        with open(harness.test_files(), encoding="utf-8") as lines, \
                open(self.path("nolabel"), "w", encoding="utf-8") as out:
            out.writelines(line.split("\t", 1)[1] for line in lines)
        for cluster in ([], ["--server_num", "1", "--worker_num", "2"]):
            job = self.start_train(
                *cluster, *LR, "--epochs", "1000", "--train_files",
                harness.train_files(), "--test_files", harness.test_files(),
                self.path("nolabel"))
            self.assertEqual(self.await_end(job), 1, self.report())
            self.assertRegex(job.stderr, r"too many malformed lines: 101, .*the "
                             r"first is \S*nolabel:1: 39 fields")
            self.assert_nothing_runs()
            self.assertFalse(os.path.exists(self.path("logs",
                                                      "summary.json")))

    def test_a_failing_evaluation_first_keeps_what_was_trained(self):
        with open(harness.test_files(), encoding="utf-8") as lines:
            good = lines.readlines()
        with open(self.path("late"), "w", encoding="utf-8") as out:
            out.writelines(good[:500] + ["no example\n"] * 200)
        job = self.start_train(
            "--server_num", "2", "--worker_num", "2", *LR, "--train_files",
            harness.train_files(), "--test_files", self.path("late"),
            "--checkpoint_dir", "kept", "--checkpoint_interval_s", "0")
        self.assert_fails(
            job, "too many malformed lines: 101, .*; what was trained is in a "
            "checkpoint of --checkpoint_dir: correct this, and go on with "
            "--resume", code=1)
        again = self.start_train(
            "--server_num", "2", "--worker_num", "2", *LR, "--train_files",
            harness.train_files(), "--test_files", harness.test_files(),
            "--checkpoint_dir", "kept", "--resume", "--log_dir", "again")
        self.await_success(again)
        self.assertIn("epoch 1 was trained before",
                      harness.read_text(self.path("again", "workerlog.0")))

    def test_a_worker_killed_in_an_evaluation_changes_nothing(self):
        # One planted model; rounds, so that all jobs have the same bits.
        harness.generate_criteo(self.path("train"), TRAIN_ROWS, 3, seed=6)
        harness.generate_criteo(self.path("test"), LONG_TEST_ROWS, 1, seed=6)
        flags = ["--server_num", "2", "--worker_num", "2", *LR, "--mode",
                 "sync", "--learning_rate", "0.05", "--epochs", "3",
                 "--train_files", self.path("train", "part-*"),
                 "--test_files", self.path("test", "part-0"), *RESTART]
        self.await_success(self.start_train(*flags, "--log_dir", "whole"))
        whole = self.summary("whole")
        expected = whole["evaluations"]
        self.assertGreater(expected[-1]["auc"], .7)
        for killed in (0, 1):
            logs = f"killed{killed}"
            job = self.start_train(*flags, "--log_dir", logs)
            self.kill_worker(killed, logs, r"test epoch 2 step \d+")
            self.await_success(job)
            self.assertRegex(job.stderr, f"worker {killed} .*; restart 1 of 1")
            self.assertIn(
                "this worker's share of epoch 2 was trained before",
                harness.read_text(self.path(logs, f"workerlog.{killed}")))
            summary = self.summary(logs)
            self.assertEqual(summary["examples"], whole["examples"])
            evaluations = summary["evaluations"]
            self.assertEqual([e["auc"] for e in evaluations],
                             [e["auc"] for e in expected])
            self.assertEqual([e["examples"] for e in evaluations],
                             [LONG_TEST_ROWS] * 3)

    def test_a_worker_of_a_program_with_its_own_loop_is_replaced(self):
        harness.generate_criteo(self.path("test"), LONG_TEST_ROWS, 1, seed=6)
        for killed in (0, 1):
            logs = f"killed{killed}"
            job = self.start(
                harness.oarlock(), "launch", "--server_num", "2",
                "--worker_num", "2", "--max_restart", "1", "--log_dir", logs,
                harness.ctr_train(), *LR, "--epochs", "2", "--train_files",
                harness.train_files(), "--test_files",
                self.path("test", "part-0"), "--lease_s", "2",
                "--print_period", "10")
            # The last epoch: behind it nobody waits but at the end. One
            # worker may evaluate all of it before the other gets a range.
            self.kill_worker(killed, logs, r"test epoch 2 step \d+", of=(0, 1))
            self.await_success(job)
            self.assertRegex(job.stderr, f"worker {killed} .*; restart 1 of 1")
            self.assert_nothing_runs()

    def test_a_worker_killed_while_the_best_is_kept_is_replaced(self):
        for killed in (0, 1):
            logs = f"killed{killed}"
            job = self.cluster(
                *STUCK, "--epochs", "3", "--early_stop_metric", "auc",
                "--early_stop_patience", "9", "--checkpoint_dir",
                self.path(f"ckpt{killed}"), "--checkpoint_interval_s", "0",
                *RESTART, "--log_dir", logs,
                OARLOCK_FAULT="cut.commit.before_manifest:1:3000")
            self.kill_worker(killed, logs, "test/0 after .* auc", of=[0])
            self.await_success(job)
            self.assertRegex(job.stderr, f"worker {killed} .*; restart 1 of 1")
            evaluations = self.summary(logs)["evaluations"]
            self.assertEqual([(e["phase_name"], e["best"]) for e in evaluations],
                             [("test/0", True), ("test/1", False),
                              ("test/2", False)])
            self.assertTrue(os.path.exists(evaluations[0]["checkpoint"]),
                            evaluations)

    def test_a_worker_killed_in_an_evaluation_after_a_resume_is_replaced(self):
        harness.generate_criteo(self.path("data"), LONG_TEST_ROWS, 2, seed=6)
        flags = ["--server_num", "2", "--worker_num", "2", *LR,
                 "--train_files", self.path("data", "part-0"),
                 "--test_files", self.path("data", "part-1"), "--epochs", "3",
                 "--checkpoint_dir", self.path("ckpt"), *RESTART]
        # Its epoch is cut short, and evaluated.
        job = self.start_train(*flags, "--log_dir", "stopped")
        self.await_text(self.path("stopped", "workerlog.0"),
                        r"train epoch 1 step")
        subprocess.run([harness.oarlock(), "ctl", "stop", "--log_dir",
                        self.path("stopped")], check=True,
                       stdout=subprocess.DEVNULL,
                       timeout=harness.JOB_DEADLINE_S)
        self.await_success(job)
        self.assertEqual(
            [e["phase_name"] for e in self.summary("stopped")["evaluations"]],
            ["test/0"])
        # It is trained to its end, and evaluated again.
        job = self.start_train(*flags, "--resume", "--log_dir", "resumed")
        self.kill_worker(1, "resumed", r"test epoch 1 step \d+", of=(0, 1))
        self.await_success(job)
        self.assertRegex(job.stderr, "worker 1 .*; restart 1 of 1")
        self.assertEqual(
            [e["phase_name"] for e in self.summary("resumed")["evaluations"]],
            ["test/0", "test/0", "test/1", "test/2"])

    def check_early_stop(self, *flags):
        job = self.cluster(*STUCK, "--epochs", "1000", "--early_stop_metric",
                           "auc", "--early_stop_patience", "2", *flags)
        self.await_success(job)
        self.assert_nothing_runs()
        summary = self.summary()
        self.assertEqual(summary["examples"], 3 * TRAIN_ROWS)
        self.assertEqual([evaluation["best"]
                          for evaluation in summary["evaluations"]],
                         [True, False, False])
        self.assertRegex(summary["stop_reason"],
                         r"^early stop: AUC .* in test/0 after \d+ examples, "
                         r"and 2 evaluations since then were no better$")
        self.assertRegex(job.stdout, r"(?m)^stopped +early stop: AUC")
        self.assertRegex(job.stdout, r"(?m)^best +AUC 0\.\d+ .* test/0")
        return summary

    def test_training_that_gets_no_better_stops(self):
        self.check_early_stop()

    def test_rounds_that_get_nothing_better_stop(self):
        self.check_early_stop("--mode", "sync")

    def test_the_best_checkpoint_stays_beside_the_newest(self):
        folder = self.path("ckpt")
        summary = self.check_early_stop(
            "--checkpoint_dir", folder, "--checkpoint_interval_s", "0",
            "--checkpoint_keep", "1")
        best = harness.read_text(os.path.join(folder, "BEST")).strip()
        current = harness.read_text(
            os.path.join(folder, "CURRENT")).split(" ")[0]
        self.assertEqual(summary["evaluations"][0]["checkpoint"],
                         os.path.join(folder, best))
        self.assertNotEqual(best, current)
        self.assertEqual(
            {name for name in os.listdir(folder) if name.startswith("ckpt-")},
            {best, current})
        subprocess.run([harness.oarlock(), "checkpoint", "verify",
                        os.path.join(folder, best)], check=True,
                       stdout=subprocess.DEVNULL,
                       timeout=harness.JOB_DEADLINE_S)

    def test_a_command_stops_training_and_the_job_ends_well(self):
        job = self.cluster(*LR, "--epochs", "1000", "--print_period", "5")
        self.await_text(self.path("logs", "workerlog.0"), r"step \d+")
        endpoint = re.search(r"(?m)^servers +([^,\s]+)", job.stdout).group(1)
        subprocess.run([harness.oarlock(), "ctl", "stop", "--server", endpoint,
                        "--log_dir", self.path("logs"), "--reason",
                        "good enough"], check=True,
                       stdout=subprocess.DEVNULL,
                       timeout=harness.JOB_DEADLINE_S)
        self.await_success(job)
        self.assert_nothing_runs()
        summary = self.summary()
        self.assertEqual(summary["stop_reason"], "good enough")
        self.assertLess(summary["examples"], 1000 * TRAIN_ROWS)
        # What was trained is evaluated.
        self.assertTrue(summary["evaluations"])

    def test_evaluations_of_nothing_are_refused(self):
        for flags in (["--evaluate_period", "100"],
                      ["--early_stop_metric", "auc"]):
            process = self.start_train(
                "--train_files", harness.train_files(), *flags)
            self.assert_fails(process, f"{flags[0]}.*needs test files", code=2)


if __name__ == "__main__":
    unittest.main()
