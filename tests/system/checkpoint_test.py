"""Checkpoints of whole jobs: made while training, by command and at the end;
a job that died goes on from the last one."""

import json
import os
import re
import shlex
import signal
import subprocess
import unittest

import harness

# What a sync job's parameters decide, and its clock does not.
RESULTS = ("examples", "test_auc", "test_logloss")
SYNC = ["--mode", "sync", "--model", "deepfm", "--batch_size", "128"]
ASYNC = ["--model", "lr", "--learning_rate", "0.05", "--batch_size", "128"]


class CheckpointTest(harness.SystemTest):

    def train(self, name, *flags):
        return self.start_train("--log_dir", name, *harness.data_flags(),
                                *flags, name=name)

    def cluster(self, servers, workers, directory, *flags):
        return ["--server_num", str(servers), "--worker_num", str(workers),
                "--checkpoint_dir", self.path(directory), *flags]

    def current(self, directory):
        """The newest checkpoint's folder name, or an empty string."""
        return harness.read_text(self.path(directory, "CURRENT")).split(" ")[0]

    def cut(self, directory):
        name = self.current(directory)
        return int(name.removeprefix("ckpt-")) if name else 0

    def manifest(self, directory):
        return harness.read_text(
            self.path(directory, self.current(directory), "MANIFEST"))

    def coordinator(self, process):
        """The endpoint of server 0, which the first lines tell."""
        self.await_true(lambda: re.search(r"(?m)^servers +(\S+?),?[ \n]",
                                          process.stdout),
                        harness.PROGRESS_DEADLINE_S, "the servers' endpoints")
        return re.search(r"(?m)^servers +([^,\s]+)", process.stdout).group(1)

    def results(self, name):
        summary = self.summary(name)
        return {field: summary[field] for field in RESULTS}

    def test_a_job_on_a_terminal_ends_with_its_servers(self):
        """Whatever the progress line was asking when they ended."""
        for run in range(4):
            words = [harness.oarlock(), "train", "--log_dir", f"job{run}",
                     *harness.data_flags(), *ASYNC,
                     *self.cluster(2, 2, f"ckpt{run}")]
            # A job that has ended well is noticed in a second or two.
            self.await_success(
                self.start("script", "-qec", shlex.join(words), "/dev/null"),
                deadline_s=harness.JOB_DEADLINE_S)
            self.assert_nothing_runs()

    def test_a_job_leaves_a_checkpoint_of_its_end(self):
        self.await_success(self.train(
            "job", *self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0"),
            *ASYNC))
        self.assert_nothing_runs()
        self.assertEqual(self.cut("ckpt"), 1)
        self.assertIn('work: "train/0"', self.manifest("ckpt"))

    def test_a_job_that_was_done_has_nothing_left_to_train(self):
        flags = self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0")
        self.await_success(self.train("first", *flags, *SYNC))
        self.await_success(self.train("second", *flags, *SYNC, "--resume"))
        first, second = self.results("first"), self.results("second")
        for field in ("test_auc", "test_logloss"):
            self.assertEqual(first[field], second[field], self.report())

    def test_checkpoints_are_made_by_command_while_training_goes_on(self):
        job = self.train(
            "job", *self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0"),
            *ASYNC, "--epochs", "1000", "--print_period", "5")
        endpoint = self.coordinator(job)
        self.await_text(self.path("job", "workerlog.0"), r"step \d+")
        made = []
        for _ in range(3):
            result = subprocess.run(
                [harness.oarlock(), "ctl", "checkpoint", "--server", endpoint,
                 "--log_dir", self.path("job"), "--timeout_s", "30",
                 "--json"],
                capture_output=True, text=True,
                timeout=harness.JOB_DEADLINE_S)
            self.assertEqual(result.returncode, 0,
                             result.stderr + self.report())
            made.append(json.loads(result.stdout)["cut"])
        self.assertEqual(made, sorted(set(made)))
        self.assertEqual(self.cut("ckpt"), made[-1])
        # --checkpoint_keep is 2.
        self.assertEqual(
            sorted(name for name in os.listdir(self.path("ckpt"))
                   if name.startswith("ckpt-")),
            [f"ckpt-{cut:08}" for cut in made[-2:]])
        self.kill_all()
        self.assert_nothing_runs()

    def test_the_end_of_a_job_waits_for_the_command_of_its_last_checkpoint(self):
        gate, out = self.path("gate"), self.path("commands")
        os.mkfifo(gate)
        job = self.train(
            "job", *self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0"),
            *ASYNC, "--on_checkpoint",
            f"echo $OARLOCK_CHECKPOINT >>{out}; read go <{gate}; "
            f"echo $OARLOCK_CHECKPOINT_NUMBER >>{out}; echo no >&2; exit 7")
        self.await_text(out, "ckpt-00000001")
        self.await_text(self.path("job", "serverlog.0"),
                        "the command of --on_checkpoint is waited for")
        self.assertTrue(job.running(), self.report())
        # Until whoever reads is there.
        with open(gate, "w", encoding="ascii") as file:
            file.write("go\n")
        # What becomes of it does not matter to the job.
        self.await_success(job)
        self.assert_nothing_runs()
        self.assertEqual(harness.read_text(out).split(),
                         [self.path("ckpt", "ckpt-00000001"), "1"])
        self.assertRegex(harness.read_text(self.path("job", "serverlog.0")),
                         "for ckpt-00000001 failed with exit status 7 after "
                         r".* s; last line: no\n")

    def test_a_command_of_a_checkpoint_holds_nobody_up_and_dies_with_its_server(
            self):
        gate, out = self.path("gate"), self.path("commands")
        os.mkfifo(gate)
        job = self.train(
            "job", *self.cluster(1, 1, "ckpt", "--checkpoint_interval_s", "0.1"),
            *ASYNC, "--epochs", "100000", "--on_checkpoint",
            f"echo $$ >>{out}; read go <{gate}")
        self.await_true(lambda: self.cut("ckpt") >= 3,
                        harness.PROGRESS_DEADLINE_S, "three checkpoints")
        pids = [int(word) for word in harness.read_text(out).split()]
        self.assertEqual(len(pids), 1)
        os.kill(pids[0], 0)
        os.kill(self.pid_of_role("server", 0), signal.SIGKILL)

        def is_gone():
            # Or has nobody to ask what became of it.
            text = harness.read_text(f"/proc/{pids[0]}/stat")
            return not text or ") Z " in text

        self.await_true(is_gone, harness.FAILURE_DEADLINE_S,
                        "the end of the command")
        self.kill_all()
        self.assert_nothing_runs()

    def test_a_sync_job_that_died_ends_with_the_bits_of_one_that_did_not(self):
        epochs = ["--epochs", "3"]
        self.await_success(self.train(
            "undisturbed", "--server_num", "2", "--worker_num", "2", *SYNC,
            *epochs))
        flags = self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0.2")
        job = self.train("died", *flags, *SYNC, *epochs)
        self.await_true(lambda: self.cut("ckpt") >= 2,
                        harness.PROGRESS_DEADLINE_S, "a second checkpoint")
        self.assertTrue(job.running(), self.report())
        self.kill_all()
        self.assert_nothing_runs()
        self.await_success(
            self.train("resumed", *flags, *SYNC, *epochs, "--resume"))
        undisturbed, resumed = (self.results("undisturbed"),
                                self.results("resumed"))
        for field in ("test_auc", "test_logloss"):
            self.assertEqual(undisturbed[field], resumed[field],
                             self.report())

    def sync_job_whose_worker_dies(self, *flags):
        epochs = ["--epochs", "10", "--checkpoint_interval_s", "0.2"]
        self.await_success(self.train(
            "undisturbed", *self.cluster(2, 2, "sound"), *SYNC, *epochs))
        job = self.train(
            "disturbed", *self.cluster(2, 2, "died"), *SYNC, *epochs,
            "--max_restart", "1", *flags)
        self.await_true(lambda: self.cut("died") >= 2,
                        harness.PROGRESS_DEADLINE_S, "a second checkpoint")
        os.kill(self.pid_of_role("worker", 1), signal.SIGKILL)
        self.await_success(job)
        self.assertRegex(job.stderr, r"worker 1 .*restart 1 of 1 of all")
        compared = subprocess.run(
            [harness.oarlock(), "checkpoint", "diff", self.path("sound"),
             self.path("died")], capture_output=True, text=True,
            timeout=harness.JOB_DEADLINE_S)
        self.assertEqual(compared.returncode, 0,
                         compared.stdout + compared.stderr + self.report())

    def test_a_sync_job_whose_worker_dies_ends_with_the_same_bits(self):
        self.sync_job_whose_worker_dies()

    def test_a_sync_job_with_logs_whose_worker_dies_does_so_too(self):
        self.sync_job_whose_worker_dies("--durability", "log")

    def test_a_job_goes_on_with_another_number_of_servers_and_workers(self):
        flags = ["--checkpoint_interval_s", "0", *ASYNC]
        self.await_success(
            self.train("first", *self.cluster(3, 1, "ckpt"), *flags))
        self.await_success(self.train(
            "second", *self.cluster(1, 2, "ckpt"), *flags, "--epochs", "2",
            "--resume"))
        self.assertGreater(self.summary("second")["test_auc"],
                           self.summary("first")["test_auc"] - .02)
        self.assertEqual(self.manifest("ckpt").count("server_index") or
                         self.manifest("ckpt").count("servers {"), 1)

    def test_a_job_begins_with_the_parameters_of_another(self):
        self.await_success(self.train(
            "first", *self.cluster(2, 1, "ckpt"), *SYNC))
        loaded = self.train(
            "second", "--server_num", "1", "--worker_num", "1", "--load",
            self.path("ckpt"), *SYNC)
        self.await_success(loaded)
        self.assertEqual(self.summary("second")["examples"],
                         self.summary("first")["examples"])
        self.assertNotEqual(self.results("second"), self.results("first"))

    def kill_server(self, index, name):
        """kill -9 of a server when training is well under way."""
        self.await_text(self.path(name, "workerlog.0"), r"epoch 2 step \d+")
        os.kill(self.pid_of_role("server", index), signal.SIGKILL)

    def test_a_server_that_died_replays_its_log_and_nobody_else_restarts(self):
        epochs = ["--epochs", "6", "--print_period", "5"]
        self.await_success(self.train(
            "undisturbed", "--server_num", "2", "--worker_num", "2", *SYNC,
            *epochs))
        job = self.train(
            "disturbed",
            *self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0.3"),
            *SYNC, *epochs, "--durability", "log", "--max_restart", "1")
        self.await_text(self.path("disturbed", "workerlog.0"), r"step \d+")
        workers = [self.pid_of_role("worker", i) for i in range(2)]
        self.kill_server(1, "disturbed")
        self.await_true(
            lambda: "restart 1 of 1" in job.stderr,
            harness.FAILURE_DEADLINE_S, "the restart")
        self.assertEqual([self.pid_of_role("worker", i) for i in range(2)],
                         workers)
        self.await_success(job)
        self.assert_nothing_runs()
        self.assertRegex(
            harness.read_text(self.path("disturbed", "serverlog.1")),
            r"replayed \d+ pushes of the log")
        self.assertEqual(self.results("disturbed"),
                         self.results("undisturbed"), self.report())

    def test_an_async_job_outlives_a_server_with_a_log(self):
        job = self.train(
            "job", *self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0"),
            *ASYNC, "--epochs", "30", "--print_period", "5", "--durability",
            "log", "--max_restart", "1")
        self.kill_server(1, "job")
        self.await_success(job)
        self.assertEqual(self.summary("job")["examples"],
                         30 * harness.GENERATED_ROWS * 3 // 4)

    def test_a_job_returns_to_its_last_checkpoint_together(self):
        epochs = ["--epochs", "6"]
        job = self.train(
            "job",
            *self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0.2"),
            *SYNC, *epochs, "--print_period", "5", "--max_restart", "1")
        self.await_true(lambda: self.cut("ckpt") >= 2,
                        harness.PROGRESS_DEADLINE_S, "a second checkpoint")
        self.kill_server(0, "job")
        self.await_success(job)
        self.assertIn("restart 1 of 1 of all processes", job.stderr)
        self.await_success(self.train(
            "undisturbed", "--server_num", "2", "--worker_num", "2", *SYNC,
            *epochs))
        for field in ("test_auc", "test_logloss"):
            self.assertEqual(self.results("job")[field],
                             self.results("undisturbed")[field],
                             self.report())

    def kill_coordinator_often(self, job, name, kills):
        """kill -9 of server 0, each time when it has come back."""
        self.await_text(self.path(name, "workerlog.0"), r"step \d+")
        workers = [self.pid_of_role("worker", i) for i in range(2)]
        for kill in range(1, kills + 1):
            os.kill(self.pid_of_role("server", 0), signal.SIGKILL)
            self.await_true(
                lambda: len(re.findall(
                    r"replayed \d+ calls of the coordinator's log",
                    harness.read_text(self.path(name, "serverlog.0"))))
                >= kill or not job.running(),
                harness.PROGRESS_DEADLINE_S, f"return {kill} of server 0")
            self.assertTrue(job.running(), self.report())
        self.assertEqual([self.pid_of_role("worker", i) for i in range(2)],
                         workers, self.report())

    def test_a_coordinator_that_died_again_and_again_is_hardly_noticed(self):
        epochs = ["--epochs", "12", "--print_period", "5"]
        self.await_success(self.train(
            "undisturbed", "--server_num", "2", "--worker_num", "2", *SYNC,
            *epochs))
        job = self.train(
            "disturbed",
            *self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0.1"),
            *SYNC, *epochs, "--durability", "log", "--max_restart", "4")
        self.kill_coordinator_often(job, "disturbed", 4)
        self.await_success(job)
        self.assert_nothing_runs()
        self.assertNotIn("of all processes", job.stderr)
        self.assertEqual(self.results("disturbed"),
                         self.results("undisturbed"), self.report())

    def test_every_example_is_trained_once_though_the_coordinator_died(self):
        job = self.train(
            "job", *self.cluster(2, 2, "ckpt", "--checkpoint_interval_s",
                                 "0.1"),
            *ASYNC, "--epochs", "60", "--print_period", "5", "--durability",
            "log", "--max_restart", "4")
        self.kill_coordinator_often(job, "job", 4)
        self.await_success(job)
        self.assert_nothing_runs()
        self.assertEqual(self.summary("job")["examples"],
                         60 * harness.GENERATED_ROWS * 3 // 4)

    def test_a_drained_job_leaves_a_checkpoint(self):
        job = self.train(
            "job", *self.cluster(2, 2, "ckpt", "--checkpoint_interval_s", "0"),
            *ASYNC, "--epochs", "1000", "--print_period", "5")
        endpoint = self.coordinator(job)
        self.await_text(self.path("job", "workerlog.0"), r"step \d+")
        subprocess.run(
            [harness.oarlock(), "ctl", "drain", "--server", endpoint,
             "--log_dir", self.path("job")],
            check=True, stdout=subprocess.DEVNULL,
            timeout=harness.JOB_DEADLINE_S)
        self.await_end(job)
        self.assert_nothing_runs()
        self.assertEqual(self.cut("ckpt"), 1)

    def test_an_epoch_is_not_resumed_in_another_order(self):
        flags = ["--checkpoint_interval_s", "0", *ASYNC]
        # Long enough not to be over before it is drained.
        shuffled = ["--shuffle", "local", "--split", "contiguous",
                    "--repeats_per_epoch", "40"]
        job = self.train("job", *self.cluster(1, 2, "ckpt"), *flags, *shuffled,
                         "--print_period", "5")
        self.await_text(self.path("job", "workerlog.0"), r"step \d+")
        subprocess.run(
            [harness.oarlock(), "ctl", "drain", "--log_dir",
             self.path("job")],
            check=True, stdout=subprocess.DEVNULL,
            timeout=harness.JOB_DEADLINE_S)
        self.await_end(job)
        for number, (workers, order, words) in enumerate((
                (2, ["--shuffle", "global"],
                 r"--shuffle local, .*; with --shuffle global, .*"),
                (3, shuffled, "--worker_num 2; with --worker_num 3"),
                (2, [*shuffled, "--thread_num", "2"],
                 "--thread_num 1; with --thread_num 2"))):
            other = self.train(f"other{number}",
                               *self.cluster(1, workers, "ckpt"), *flags,
                               *order, "--resume")
            self.assertEqual(self.await_end(other), 1, self.report())
            self.assert_nothing_runs()
            self.assertRegex(
                other.stderr, f"phase train/0 was begun with {words} other "
                "examples stand at its places")
        self.await_success(self.train(
            "same", *self.cluster(1, 2, "ckpt"), *flags, *shuffled,
            "--resume"))

    def test_the_order_may_change_between_two_epochs(self):
        flags = ["--checkpoint_interval_s", "0", *ASYNC]
        self.await_success(
            self.train("first", *self.cluster(1, 2, "ckpt"), *flags))
        self.await_success(self.train(
            "second", *self.cluster(1, 2, "ckpt"), *flags, "--shuffle",
            "local", "--split", "contiguous", "--epochs", "2", "--resume"))
        self.await_success(self.train(
            "third", *self.cluster(1, 1, "ckpt"), *flags, "--shuffle",
            "global", "--epochs", "3", "--resume"))
        for name in ("first", "second", "third"):
            self.assertEqual(self.summary(name)["examples"],
                             harness.GENERATED_ROWS * 3 // 4, name)

    def test_the_tools_look_at_what_jobs_leave(self):
        for servers in (1, 3):
            self.await_success(self.train(
                f"job{servers}",
                *self.cluster(servers, 2, f"ckpt{servers}",
                              "--checkpoint_interval_s", "0.3"),
                *SYNC, "--epochs", "2"))
            self.tool(0, "verify", self.path(f"ckpt{servers}"))
        # Sync jobs are the same on any number of servers.
        self.tool(0, "diff", self.path("ckpt1"), self.path("ckpt3"))
        self.await_success(self.train(
            "other", *self.cluster(1, 2, "other_ckpt"), *SYNC, "--seed", "7"))
        self.tool(1, "diff", self.path("ckpt1"), self.path("other_ckpt"))
        part = self.path("ckpt3", self.current("ckpt3"), "server-001")
        name = next(file for file in sorted(os.listdir(part))
                    if file.endswith(".sst"))
        with open(os.path.join(part, name), "r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))
        self.assertIn(name, self.tool(1, "verify", self.path("ckpt3")).stderr)
        self.assert_fails(
            self.train("resumed", *self.cluster(1, 1, "ckpt3"), *SYNC,
                       "--resume"), name, code=1)

    def tool(self, code, *words):
        result = subprocess.run(
            [harness.oarlock(), "checkpoint", *words], capture_output=True,
            text=True, timeout=harness.JOB_DEADLINE_S)
        self.assertEqual(result.returncode, code,
                         result.stdout + result.stderr)
        return result

    def test_a_loss_that_is_accepted_is_reported(self):
        job = self.train(
            "job", *self.cluster(2, 1, "ckpt", "--checkpoint_interval_s", "0"),
            *ASYNC, "--epochs", "30", "--print_period", "5", "--recovery",
            "accept_loss", "--max_restart", "1")
        self.kill_server(1, "job")
        self.await_success(job)
        self.assertRegex(
            harness.read_text(self.path("job", "workerlog.0")),
            r"W .*server 1 .*without [1-9]\d* ")

    def test_a_server_without_a_checkpoint_cannot_come_back(self):
        job = self.train(
            "job", "--server_num", "2", "--worker_num", "1", *ASYNC,
            "--epochs", "1000", "--print_period", "5", "--max_restart", "1")
        self.kill_server(1, "job")
        self.assert_fails(job, r"its rows were in memory only", code=1)

    def test_a_folder_with_a_checkpoint_is_not_trained_over(self):
        flags = self.cluster(1, 1, "ckpt", "--checkpoint_interval_s", "0")
        self.await_success(self.train("first", *flags, *ASYNC))
        self.assert_fails(self.train("second", *flags, *ASYNC),
                          r"has checkpoints of job .*--resume", code=1)

    def test_resume_without_a_checkpoint_begins_at_the_beginning(self):
        self.await_success(self.train(
            "job", *self.cluster(1, 1, "ckpt"), *ASYNC, "--resume"))
        self.assertRegex(
            harness.read_text(self.path("job", "serverlog.0")),
            r"has no checkpoint: begins at the beginning")


if __name__ == "__main__":
    unittest.main()
