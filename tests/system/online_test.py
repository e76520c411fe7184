"""Online training: files that come into a folder are predicted, trained once
each whatever dies, and told in the summary.

Every example has a key of its own and tables count how often an example with a
key was trained (--accessor ctr), so a checkpoint tells of each example whether
it was trained, and how often.
"""

import collections
import os
import random
import signal
import subprocess
import unittest

import harness

NUM_SLOTS = 26
NUM_DENSE = 13
ROWS = 6000
# So that a process can be killed while a file is trained.
MANY_ROWS = 40000
# So that one can be killed while it predicts.
TEST_ROWS = 200000
SEED = 17


class OnlineTest(harness.SystemTest):

    def setUp(self):
        super().setUp()
        self.rows = 0
        os.mkdir(self.path("in"))

    def add_file(self, name, rows=ROWS):
        """A file of new examples, complete when it has its name."""
        source = random.Random(SEED + self.rows)
        dense = f"{NUM_DENSE} " + " ".join(["0.5"] * NUM_DENSE)
        others = " ".join(["0"] * (NUM_SLOTS - 2))
        with open(self.path("in", name + ".tmp"), "w",
                  encoding="ascii") as file:
            for row in range(self.rows, self.rows + rows):
                # The second slot tells the label, mostly.
                hint = source.randrange(2)
                label = hint if source.random() < .8 else 1 - hint
                file.write(f"{dense} 1 {1000 + row} 1 {1 + hint} {others} "
                           f"1 {label}\n")
        self.rows += rows
        os.rename(self.path("in", name + ".tmp"), self.path("in", name))

    def train(self, name, *flags, workers=2, watch=None):
        return self.start_train(
            "--server_num", "2", "--worker_num", str(workers), "--log_dir",
            name, "--watch_dir", watch or self.path("in"), "--watch_poll_s",
            "0.05", "--checkpoint_dir", self.path("ckpt"),
            "--checkpoint_interval_s", "0", "--model", "lr",
            "--learning_rate", "0.05", "--data_format", "multi_slot",
            "--sparse_feature_dim", "0", "--accessor", "ctr",
            "--batch_size", "64", "--init_range", "0", *flags, name=name)

    def await_trained(self, job, file):
        self.await_text(self.path(job.name, "workerlog.0"),
                        f"file {file} of epoch .* is trained")

    def end_well(self, job, last_file):
        """When the file is trained. A limit for the time without a new file
        would end the job before a slow test has written it."""
        self.await_trained(job, last_file)
        job.send(signal.SIGTERM)
        self.await_success(job)
        self.assert_nothing_runs()

    def check_all_trained_once(self):
        rows = self.path("rows.txt")
        subprocess.run(
            [harness.oarlock(), "checkpoint", "export", self.path("ckpt"),
             "--output", rows], check=True, stdout=subprocess.DEVNULL,
            timeout=harness.JOB_DEADLINE_S)
        shows = {}
        with open(rows, encoding="ascii") as file:
            for line in file:
                words = line.split()
                shows[int(words[0])] = float(words[1])
        counts = collections.Counter(
            shows.get(1000 + row, 0) for row in range(self.rows))
        self.assertEqual(counts, {1: self.rows}, self.report())

    def predicted(self, name):
        return [(evaluation["phase_name"], evaluation["file"],
                 evaluation["examples"])
                for evaluation in self.summary(name)["evaluations"]]

    def test_files_are_predicted_then_trained_in_their_order(self):
        self.add_file("part-10")
        self.add_file("part-9")
        job = self.train("job")
        self.await_trained(job, "part-10")
        self.add_file("part-11")
        self.end_well(job, "part-11")
        self.assertEqual(self.predicted("job"), [
            (f"predict/{i}", name, ROWS)
            for i, name in enumerate(["part-9", "part-10", "part-11"])])
        summary = self.summary("job")
        self.assertEqual(summary["examples"], 3 * ROWS)
        # Nothing was known of the first file; of the last ones the hints.
        aucs = [evaluation["auc"] for evaluation in summary["evaluations"]]
        self.assertEqual(aucs[0], .5, aucs)
        self.assertGreater(aucs[2], .7)
        self.check_all_trained_once()

    def test_a_file_waits_for_its_marker(self):
        self.add_file("a")
        self.add_file("b")
        with open(self.path("in", "b.done"), "w", encoding="ascii"):
            pass
        job = self.train("job", "--watch_marker", ".done", "--watch_idle_s",
                         "1")
        self.await_success(job)
        self.assertEqual(self.predicted("job"), [("predict/0", "b", ROWS)])
        self.assertRegex(self.summary("job")["stop_reason"],
                         "no new file came into")

    def add_folder(self, name, parts, rows=ROWS):
        """A folder of new examples, complete with its marker."""
        os.makedirs(self.path("in", name))
        for part in range(parts):
            self.add_file(f"{name}/part-{part}", rows)
        with open(self.path("in", name, "_SUCCESS"), "w", encoding="ascii"):
            pass

    def pattern(self):
        return self.path("in", "day=*", "hour=*")

    def test_folders_are_trained_when_they_are_complete(self):
        self.add_folder("day=1/hour=10", 3)
        self.add_folder("day=1/hour=9", 1)
        job = self.train("job", watch=self.pattern())
        self.await_trained(job, "day=1/hour=10")
        self.add_folder("day=2/hour=1", 2)
        self.end_well(job, "day=2/hour=1")
        self.assertEqual(self.predicted("job"), [
            ("predict/0", "day=1/hour=9", ROWS),
            ("predict/1", "day=1/hour=10", 3 * ROWS),
            ("predict/2", "day=2/hour=1", 2 * ROWS)])
        self.check_all_trained_once()

    def test_a_folder_that_was_stopped_midway_is_gone_on_with(self):
        self.add_folder("day=1/hour=1", 1)
        self.add_folder("day=1/hour=2", 2, MANY_ROWS)
        job = self.train("first", "--print_period", "5", watch=self.pattern())
        self.await_text(self.path("first", "workerlog.1"),
                        r"train epoch 2 step")
        job.send(signal.SIGTERM)
        self.await_success(job)
        self.assertLess(self.summary("first")["examples"],
                        ROWS + 2 * MANY_ROWS)
        # None of those with which it was begun.
        with open(self.path("in/day=1/hour=2/part-00"), "w",
                  encoding="ascii") as file:
            file.write("malformed\n" * 1000)
        again = self.train("again", "--resume", "--watch_idle_s", "1",
                           workers=3, watch=self.pattern())
        self.await_success(again)
        self.assertEqual(self.summary("again")["bad_lines"], 0)
        self.assertEqual(self.predicted("again"), [
            ("predict/0", "day=1/hour=1", ROWS),
            ("predict/1", "day=1/hour=2", 2 * MANY_ROWS)])
        self.check_all_trained_once()

    def test_sigterm_ends_it_well_and_resume_goes_on(self):
        self.add_file("a")
        job = self.train("first")
        self.await_trained(job, "a")
        self.add_file("b", MANY_ROWS)
        job.send(signal.SIGTERM)
        self.await_success(job)
        self.assert_nothing_runs()
        self.assertEqual(self.summary("first")["stop_reason"], "signal 15")
        self.add_file("c")
        again = self.train("again", "--resume", "--watch_idle_s", "1",
                           workers=3)
        self.await_success(again)
        self.assertNotIn("a", [file for phase_name, file, _
                               in self.predicted("again")
                               if phase_name != "predict/0"])
        self.check_all_trained_once()

    def test_a_file_that_was_stopped_midway_is_gone_on_with(self):
        self.add_file("a")
        self.add_file("b", MANY_ROWS)
        job = self.train("first", "--print_period", "5")
        self.await_text(self.path("first", "workerlog.1"),
                        r"train epoch 2 step")
        job.send(signal.SIGTERM)
        self.await_success(job)
        self.assertLess(self.summary("first")["examples"], ROWS + MANY_ROWS)
        again = self.train("again", "--resume", "--watch_idle_s", "1")
        self.await_success(again)
        # The figure of before any of it was trained stands.
        self.assertEqual(self.predicted("again"),
                         [("predict/0", "a", ROWS),
                          ("predict/1", "b", MANY_ROWS)])
        self.check_all_trained_once()

    def test_ctl_stop_ends_it_well(self):
        self.add_file("a")
        job = self.train("job")
        self.await_trained(job, "a")
        self.assertEqual(
            os.stat(self.path("job", "token")).st_mode & 0o777, 0o600)
        endpoint = job.stdout.split("servers   ")[1].split(",")[0]
        refused = self.start(harness.oarlock(), "ctl", "stop", "--server",
                             endpoint)
        self.assertEqual(self.await_end(refused), 1)
        self.assertIn("the call carries no token", refused.stderr)
        subprocess.run([harness.oarlock(), "ctl", "stop", "--log_dir",
                        self.path("job")], check=True, stdout=subprocess.DEVNULL,
                       timeout=harness.JOB_DEADLINE_S)
        self.await_success(job)
        self.assertEqual(self.summary("job")["stop_reason"],
                         "oarlock ctl stop")
        self.assert_fails(
            self.start(harness.oarlock(), "ctl", "stop", "--log_dir",
                       self.path("job")),
            "is not that of a running job", code=2)
        self.check_all_trained_once()

    def kill_while_b_is_trained(self, role, index, *flags):
        self.add_file("a")
        self.add_file("b", MANY_ROWS)
        job = self.train("job", "--max_restart", "2", "--print_period", "5",
                         "--lease_s", "2", *flags)
        self.await_text(self.path("job", "workerlog.1"),
                        r"train epoch 2 step")
        os.kill(self.pid_of_role(role, index), signal.SIGKILL)
        self.await_true(lambda: "restart" in job.stderr,
                        harness.PROGRESS_DEADLINE_S, "a restart")
        self.add_file("c")
        self.end_well(job, "c")
        self.assertEqual({file for _, file, _ in self.predicted("job")},
                         {"a", "b", "c"})
        self.check_all_trained_once()

    def test_a_worker_that_dies_costs_no_example(self):
        self.kill_while_b_is_trained("worker", 1)

    def test_the_first_worker_that_dies_costs_no_example(self):
        self.kill_while_b_is_trained("worker", 0)

    def test_a_worker_that_dies_in_an_evaluation_is_replaced(self):
        harness.generate_criteo(self.folder, TEST_ROWS, 1, seed=5)
        with open(self.path("part-0"), encoding="ascii") as file:
            labels = [line[0] for line in file]
        # As lines of files, of keys that nothing is known of.
        with open(self.path("test"), "w", encoding="ascii") as file:
            for label in labels:
                file.write(f"{NUM_DENSE} " + " ".join(["0.5"] * NUM_DENSE) +
                           " 0" * NUM_SLOTS + f" 1 {label}\n")
        for killed in (0, 1):
            self.add_file(f"a{killed}")
            job = self.train(f"job{killed}", "--resume", "--max_restart", "1",
                             "--lease_s", "2", "--print_period", "5",
                             "--test_files", self.path("test"))
            self.await_text(
                self.path(f"job{killed}", f"workerlog.{killed}"),
                rf"test epoch {2 * killed + 1} step")
            os.kill(self.pid_of_role("worker", killed), signal.SIGKILL)
            self.await_true(lambda: "restart" in job.stderr,
                            harness.PROGRESS_DEADLINE_S, "a restart")
            self.add_file(f"b{killed}")
            self.end_well(job, f"b{killed}")
        self.check_all_trained_once()

    def test_a_server_that_dies_takes_all_back_to_the_last_file(self):
        self.kill_while_b_is_trained("server", 1)

    def test_a_coordinator_with_a_log_that_dies_costs_no_example(self):
        self.kill_while_b_is_trained("server", 0, "--durability", "log")

    def test_a_job_of_which_nothing_is_left_goes_on(self):
        self.add_file("a")
        job = self.train("first", "--print_period", "5")
        self.await_trained(job, "a")
        self.add_file("b", MANY_ROWS)
        self.await_text(self.path("first", "workerlog.1"),
                        r"train epoch 2 step")
        self.kill_all()
        self.assert_nothing_runs()
        again = self.train("again", "--resume", "--watch_idle_s", "1")
        self.await_success(again)
        self.check_all_trained_once()

    def test_two_sources_of_data_are_refused(self):
        self.assert_fails(
            self.train("job", "--train_files", harness.train_files()),
            "--watch_dir .* says what is trained", code=2)

    def test_a_folder_that_is_not_there_is_named(self):
        process = self.start_train("--watch_dir", self.path("nowhere"),
                                   "--model", "lr")
        self.assert_fails(process, "oarlock train: cannot look into "
                          "--watch_dir .*nowhere", code=1)


if __name__ == "__main__":
    unittest.main()
