"""What goes wrong ends soon, with one clear line, and leaves nothing running.

Every test is about one failure that users meet. The line that explains it is
on stderr, once; a usage error (command line, environment) ends with exit
code 2.
"""

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import unittest

import harness

# More than any test waits for, so that what is killed was in the middle.
ENDLESS = ["--model", "lr", "--batch_size", "128", "--epochs", "100000",
           "--print_period", "10"]
# What a launcher says of the process that failed first.
ENDED = r"(server|worker) \d \(pid \d+\) ended with (exit code [1-9]|signal)"
PROGRESS = r"train epoch \d+ step \d+"


class LogFolderTest(harness.SystemTest):

    def test_two_jobs_do_not_share_their_logs(self):
        cluster = ["--server_num", "1", "--worker_num", "1"]
        data = ["--train_files", harness.train_files()]
        for flags in (cluster, []):
            job = self.start_train(*flags, *data, *ENDLESS)
            self.await_text(self.path("logs", "workerlog.0") if flags
                            else job.stderr_path, PROGRESS)
            for others in (cluster, []):
                other = self.start_train(*others, *data, "--model", "lr")
                self.assertEqual(
                    self.await_end(other, harness.FAILURE_DEADLINE_S), 1)
                self.assertRegex(other.stderr, "oarlock train: another job "
                                 "writes to the log folder logs .*--log_dir")
            job.send(signal.SIGKILL)
            self.await_end(job)
            # The kernel has released it.
            self.await_success(self.start_train(*data, "--model", "lr"))
            self.assert_nothing_runs()

    def test_a_log_folder_that_cannot_be_written_is_noticed_at_once(self):
        with open(self.path("file"), "w", encoding="utf-8") as file:
            file.write("not a folder")
        flags = ["--train_files", harness.train_files(), "--log_dir", "file"]
        for cluster in ([], ["--server_num", "1", "--worker_num", "1"]):
            self.assert_fails(
                self.start_train(*flags, *ENDLESS, *cluster),
                "oarlock train: the log folder file cannot be made: .*"
                "; give a folder that can be written by --log_dir", code=1)


class DataTest(harness.SystemTest):

    def assert_data_error(self, pattern, *flags):
        """In a local run, and in a whole cluster."""
        self.assert_fails(self.start_train("--model", "lr", *flags), pattern)
        job = self.start_train("--model", "lr", "--server_num", "2",
                               "--worker_num", "2", *flags)
        self.assert_fails(job, ENDED)
        # Among the last lines of the log of whoever failed first.
        self.assertRegex(job.stderr, pattern)

    def test_no_file_that_matches_is_an_error(self):
        self.assert_data_error(r"no data file matches 'missing/part-\*'",
                               "--train_files", "missing/part-*")

    def test_no_test_file_that_matches_is_an_error(self):
        self.assert_data_error(
            r"no data file matches 'missing/test'", "--train_files",
            harness.train_files(), "--test_files", "missing/test")

    def test_a_pipe_that_nobody_writes_is_not_data(self):
        os.mkfifo(self.path("pipe"))
        pattern = "data file 'pipe' is a pipe; legal are regular files"
        self.assert_data_error(pattern, "--train_files", "pipe")
        self.assert_data_error(pattern, "--train_files", harness.train_files(),
                               "--test_files", "pipe")

    def test_a_binary_file_is_not_data(self):
        self.assert_data_error(r"is not text: byte \d+ is NUL",
                               "--train_files", harness.oarlock())

    def test_text_of_another_format_is_not_data(self):
        path = self.path("prose.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("It was the best of times.\n" * 1000)
        self.assert_data_error(r"bad_lines_max", "--train_files", path)

    def test_a_job_that_trains_nothing_fails(self):
        path = self.path("empty.txt")
        with open(path, "w", encoding="utf-8"):
            pass
        self.assert_data_error(
            r"no example of --train_files .*empty.txt was trained: not a line "
            "was read", "--train_files", path)

    def test_test_files_without_examples_are_reported_once(self):
        for name, text in (("empty.txt", ""), ("bad.txt", "no\nline\n")):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
            flags = ["--train_files", harness.train_files(), "--test_files",
                     name, "--epochs", "2"]
            pattern = (f"--test_files {name} has no examples, so there are no "
                       "metrics")
            alone = self.await_success(
                self.start_train("--model", "lr", *flags))
            self.assertEqual(len(re.findall(pattern, alone.stderr)), 1,
                             self.report())
            # Nobody would ever stop.
            self.assert_data_error(
                pattern + " and --early_stop_metric auc would never stop",
                *flags, "--early_stop_metric", "auc")

    def test_a_model_that_diverges_ends_the_job(self):
        flags = ["--train_files", harness.train_files(), "--optimizer", "sgd",
                 "--learning_rate", "1000", "--warmup_steps", "0",
                 "--model", "deepfm"]
        pattern = "training has diverged: the loss of a batch of train/0 is"
        self.assert_fails(self.start_train(*flags), pattern)
        for mode in ("async", "half_async", "geo", "sync"):
            job = self.start_train("--server_num", "2", "--worker_num", "2",
                                   "--mode", mode, *flags)
            self.assert_fails(job, ENDED)
            self.assertRegex(job.stderr, pattern)


class RoleByRoleTest(harness.SystemTest):
    """Servers and workers started by hand, without a launcher."""

    def setUp(self):
        super().setUp()
        self.endpoint = f"127.0.0.1:{harness.free_ports(1)[0]}"

    def start_server(self, *flags, workers=1):
        server = self.start_train(
            "--role", "PSERVER", "--pserver_endpoints", self.endpoint,
            "--current_endpoint", self.endpoint, "--trainers", str(workers),
            *flags, name="server")
        self.await_text(server.stderr_path, "listening on")
        return server

    def start_worker(self, *flags, index=0, workers=1):
        return self.start_train(
            "--role", "TRAINER", "--trainer_id", str(index), "--trainers",
            str(workers), "--pserver_endpoints", self.endpoint,
            "--train_files", harness.train_files(), *ENDLESS, *flags,
            name=f"worker{index}")

    def embedding_exists(self):
        ctl = self.start(harness.oarlock(), "ctl", "tables", "--server",
                         self.endpoint)
        self.await_success(ctl)
        return "embedding" in ctl.stdout

    def alive_workers(self):
        ctl = self.start(harness.oarlock(), "ctl", "status", "--json",
                         "--server", self.endpoint)
        self.await_success(ctl)
        return [worker["worker_index"]
                for worker in json.loads(ctl.stdout)["job"]["workers"]
                if worker["life"] == "alive"]

    def test_a_port_in_use_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            endpoint = f"127.0.0.1:{port}"
            server = self.start_train(
                "--role", "PSERVER", "--pserver_endpoints", endpoint,
                "--current_endpoint", endpoint, "--trainers", "1")
            self.assert_fails(server, rf"port {port} on 127.0.0.1 is in use")

    def test_a_worker_without_servers_gives_up(self):
        worker = self.start_worker("--connect_timeout_s", "2")
        self.assert_fails(
            worker, rf"no server answered at {self.endpoint} within 2s")

    def test_a_worker_of_another_job_is_refused(self):
        server = self.start_server("--job_id", "one")
        worker = self.start_worker("--job_id", "two")
        self.assertNotEqual(
            self.await_end(worker, harness.FAILURE_DEADLINE_S), 0)
        self.assertEqual(
            len(re.findall(r"(?m)^.*belongs to job 'one'.*'two'.*$",
                           worker.stderr)), 1, worker.describe())
        # The server waits for its own workers, as if nothing had been.
        self.assertTrue(server.running(), server.describe())

    def test_a_worker_too_many_is_refused(self):
        self.start_server(workers=1)
        worker = self.start_worker(index=1, workers=2)
        self.assertNotEqual(
            self.await_end(worker, harness.FAILURE_DEADLINE_S), 0)
        self.assertRegex(worker.stderr,
                         "worker 1 is of 2 workers, and the servers were "
                         "started for 1")

    def test_a_worker_with_other_settings_is_refused(self):
        server = self.start_server(workers=2)
        first = self.start_worker("--model", "deepfm", workers=2)
        self.await_true(self.embedding_exists, harness.PROGRESS_DEADLINE_S,
                        "table embedding on the server")
        second = self.start_worker("--model", "deepfm", "--embedding_size",
                                   "16", index=1, workers=2)
        self.assertEqual(
            self.await_end(second, harness.FAILURE_DEADLINE_S), 1)
        self.assertRegex(
            second.stderr, "worker 1 has --embedding_size 16, worker 0 has "
            "--embedding_size 10; start all workers of a job with the same")
        # The job has not noticed, and takes a worker that fits.
        self.start_worker("--model", "deepfm", index=1, workers=2)
        self.await_true(lambda: self.alive_workers() == [0, 1],
                        harness.PROGRESS_DEADLINE_S, "both workers")
        for process in (first, server):
            self.assertTrue(process.running(), process.describe())

    def test_sigterm_ends_a_server_and_the_worker_says_so(self):
        server = self.start_server()
        worker = self.start_worker()
        self.await_text(worker.stderr_path, PROGRESS)
        server.send(signal.SIGTERM)
        self.assert_fails(worker, r"asked to stop before the job was over")
        self.await_end(server, harness.FAILURE_DEADLINE_S)
        self.assertIn("signal 15: draining", server.stderr)

    def test_a_killed_server_ends_its_worker_after_the_retries(self):
        server = self.start_server()
        worker = self.start_worker("--rpc_timeout_s", "2")
        self.await_text(worker.stderr_path, PROGRESS)
        server.send(signal.SIGKILL)
        self.assert_fails(
            worker, rf"^oarlock train: gave up after .*{self.endpoint}")


class KilledTest(harness.SystemTest):
    """A whole job in the middle of its training."""

    def start_job(self, *flags):
        job = self.start_train(
            "--server_num", "2", "--worker_num", "2", "--train_files",
            harness.train_files(), *ENDLESS, *flags, name="launcher")
        for worker in range(2):
            self.await_text(self.path("logs", f"workerlog.{worker}"),
                            PROGRESS)
        return job

    def kill_role(self, role, index, number, *flags):
        job = self.start_job(*flags)
        os.kill(self.pid_of_role(role, index), number)
        return job

    def test_a_killed_worker_ends_the_job(self):
        job = self.kill_role("worker", 1, signal.SIGKILL)
        self.assert_fails(job, r"worker 1 \(pid \d+\) ended with signal 9",
                          code=128 + signal.SIGKILL)

    def test_a_killed_worker_ends_a_sync_job(self):
        job = self.kill_role("worker", 0, signal.SIGKILL, "--mode", "sync")
        self.assert_fails(job, r"worker 0 \(pid \d+\) ended with signal 9",
                          code=128 + signal.SIGKILL)

    def test_a_killed_coordinator_ends_the_job(self):
        job = self.kill_role("server", 0, signal.SIGKILL)
        self.assert_fails(job, r"server 0 \(pid \d+\) ended with signal 9",
                          code=128 + signal.SIGKILL)

    def test_a_killed_server_ends_the_job(self):
        job = self.kill_role("server", 1, signal.SIGKILL)
        self.assert_fails(job, r"server 1 \(pid \d+\) ended with signal 9",
                          code=128 + signal.SIGKILL)

    def assert_stack_of_crash(self, role, index, log, function):
        job = self.start_job()
        # The kernel may give a signal of the process to any thread.
        pid = self.pid_of_role(role, index)
        self.assertEqual(
            ctypes.CDLL(None).tgkill(pid, pid, int(signal.SIGSEGV)), 0)
        self.assert_fails(job, rf"{role} {index} \(pid \d+\) ended with "
                          "signal 11", code=128 + signal.SIGSEGV)
        stack = harness.read_text(self.path("logs", log)).partition(
            "crashed by SIGSEGV")[2]
        self.assertRegex(stack, rf"(?m)^  #\d+  {function}.*\+0x",
                         self.report())

    def test_a_server_that_crashes_leaves_its_stack_in_its_log(self):
        self.assert_stack_of_crash("server", 1, "serverlog.1",
                                   r"oarlock::Fleet::RunServer\(\)")

    def test_a_worker_that_crashes_leaves_its_stack_in_its_log(self):
        self.assert_stack_of_crash("worker", 0, "workerlog.0", "main")

    def test_a_killed_launcher_leaves_no_orphans(self):
        job = self.start_job()
        self.assertGreaterEqual(len(self.marked_pids()), 5)
        job.send(signal.SIGKILL)
        self.assertEqual(
            self.await_end(job, harness.FAILURE_DEADLINE_S), -signal.SIGKILL)
        self.assert_nothing_runs()

    def sleeper_runs(self):
        """Whether what a pipe_command below starts does."""
        for pid in self.marked_pids():
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if file.read().split(b"\0")[:2] == [b"sleep", b"1000"]:
                        return True
        return False

    def test_a_pipe_command_that_waits_dies_with_its_job(self):
        # Neither the command nor what it has started ever writes.
        flags = ["--model", "lr", "--train_files", harness.train_files(),
                 "--pipe_command", "sh -c 'sleep 1000; true' & wait"]
        for number in (signal.SIGKILL, signal.SIGTERM):
            for cluster in ([], ["--server_num", "1", "--worker_num", "2"]):
                with self.subTest(number=number, cluster=cluster):
                    job = self.start_train(*flags, *cluster)
                    self.await_true(self.sleeper_runs,
                                    harness.PROGRESS_DEADLINE_S,
                                    "the start of the command")
                    job.send(number)
                    self.assertNotEqual(
                        self.await_end(job, harness.FAILURE_DEADLINE_S), 0)
                    self.assert_nothing_runs()

    def test_sigterm_to_the_coordinator_ends_the_job(self):
        job = self.kill_role("server", 0, signal.SIGTERM)
        self.assert_fails(job, ENDED)

    def test_sigterm_to_another_server_ends_the_job(self):
        job = self.kill_role("server", 1, signal.SIGTERM)
        self.assert_fails(job, ENDED)

    def assert_stopped_by(self, number):
        job = self.start_job()
        job.send(number)
        self.assert_fails(job, r"stopping 4 processes", code=128 + number)

    def test_ctrl_c_stops_the_whole_job(self):
        self.assert_stopped_by(signal.SIGINT)

    def test_sigterm_stops_the_whole_job(self):
        self.assert_stopped_by(signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
