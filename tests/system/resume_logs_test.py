"""All processes of a job with --durability log are killed, again and again, and
it goes on with --resume: every example's gradients reach every row and every
dense parameter once, and what was trained is not trained again.

The workers count (tests/stress/counting_trainer.cc). OARLOCK_LIVES is how often
all die in each storm (default 3), OARLOCK_SEED what is random (default: the
time, printed).
"""

import json
import os
import random
import re
import signal
import subprocess
import time
import unittest

import harness

SERVERS = 2
LIVES = int(os.environ.get("OARLOCK_LIVES", "3"))
SEED = int(os.environ.get("OARLOCK_SEED", str(int(time.time()))))
DATA_ROWS = 12000
DATA_FILES = 3
STEP_MS = 20
EPOCHS = 8
TOTAL = EPOCHS * DATA_ROWS
# The most of all examples that a life trains before it ends.
LONGEST_LIFE = .15
# The same where the time to die may come before the first example.
SHORTEST_LIFE = .02
# Examples that a worker may have computed in vain when it is killed.
UNDER_WAY = 1500
GOES_ON = "goes on from the logs of the run before"


def examples_of(endpoint):
    """What this run has trained so far, 0 while nobody answers."""
    result = subprocess.run(
        [harness.oarlock(), "ctl", "status", "--server", endpoint, "--json"],
        capture_output=True, text=True, timeout=harness.JOB_DEADLINE_S)
    if result.returncode != 0:
        return 0
    job = json.loads(result.stdout)["job"]
    if job is None:
        return 0
    return sum(phase["examples"] for phase in job["phases"]
               if phase["phase"] == "train")


class RolesTest(harness.SystemTest):
    """Servers and workers that a supervisor starts."""

    def setUp(self):
        super().setUp()
        harness.generate_criteo(self.folder, DATA_ROWS, DATA_FILES, seed=5)
        self.endpoints = [f"127.0.0.1:{port}"
                          for port in harness.free_ports(SERVERS)]
        self.lives = 0

    def start_all(self, workers, *flags):
        self.lives += 1
        self.servers = [
            self.start(
                harness.oarlock(), "server", "--pserver_endpoints",
                ",".join(self.endpoints), "--current_endpoint", endpoint,
                "--trainers", str(workers), "--checkpoint_dir",
                self.path("ckpt"), "--durability", "log", "--resume",
                "--num_partitions", "16", *flags,
                name=f"server{i}.{self.lives}")
            for i, endpoint in enumerate(self.endpoints)]
        self.trainers = [
            self.start(
                harness.program("OARLOCK_COUNTING_TRAINER"),
                ",".join(self.endpoints), str(i), self.path("part-*"),
                str(EPOCHS), str(STEP_MS), self.path("speed_up"), "async",
                name=f"worker{i}.{self.lives}")
            for i in range(workers)]

    def kill_in_any_order(self, chance):
        victims = self.servers + self.trainers
        chance.shuffle(victims)
        for process in victims:
            process.send(signal.SIGKILL)
        for process in victims:
            self.await_end(process)

    def fail_job(self, chance):
        """The job fails; workers that wait for servers do so in vain."""
        chance.choice(self.servers).send(signal.SIGTERM)
        for process in self.servers:
            self.await_end(process)
        self.servers = []
        self.kill_in_any_order(chance)

    def finish(self):
        """The examples that the last run trained."""
        with open(self.path("speed_up"), "w", encoding="utf-8"):
            pass
        for process in self.trainers + self.servers:
            self.await_success(process)
        said = self.trainers[0].stdout
        self.assertRegex(said, r"every row and every dense parameter exact")
        print(said.strip())
        return int(re.search(r"this run trained (\d+)", said).group(1))


class StormTest(RolesTest):

    def await_examples(self, count):
        seen = 0

        def reached():
            nonlocal seen
            seen = max(seen, examples_of(self.endpoints[0]))
            return seen >= count
        self.await_true(reached, harness.PROGRESS_DEADLINE_S,
                        f"{count} examples")
        return seen

    def await_time_to_die(self, chance):
        """Some die before anybody has trained, or come back in part."""
        stage = chance.choice(["at once", "a process", "a server",
                               "all servers", "training", "training"])
        print(f"life {self.lives} ends with {stage}")
        if stage == "a process":
            path = chance.choice(self.servers + self.trainers).stderr_path
            self.await_text(path, ".")
        elif stage.endswith(("server", "servers")):
            servers = self.servers if stage == "all servers" else [
                chance.choice(self.servers)]
            for server in servers:
                self.await_text(server.stderr_path, "listening on")
        elif stage == "training":
            self.await_examples(
                chance.randint(1, int(TOTAL * SHORTEST_LIFE)))

    def test_nothing_is_trained_again_though_no_checkpoint_was_made(self):
        print(f"seed {SEED}")
        chance = random.Random(SEED)
        trained = in_vain = 0
        for life in range(LIVES):
            workers = chance.randint(1, 3)
            self.start_all(workers, "--checkpoint_interval_s", "0")
            trained += self.await_examples(
                chance.randint(1, int(TOTAL * LONGEST_LIFE)))
            if life == LIVES // 2:
                self.fail_job(chance)
            else:
                self.kill_in_any_order(chance)
            in_vain += workers * UNDER_WAY
        self.start_all(2, "--checkpoint_interval_s", "0")
        self.await_text(self.servers[0].stderr_path, GOES_ON,
                        harness.PROGRESS_DEADLINE_S)
        self.assertFalse(os.path.exists(self.path("ckpt", "CURRENT")))
        last = self.finish()
        print(f"{trained} of {TOTAL} were trained in {LIVES} runs before")
        self.assertLessEqual(last, TOTAL - trained + in_vain)

    def test_every_example_counts_once_whenever_everything_dies(self):
        print(f"seed {SEED + 1}")
        chance = random.Random(SEED + 1)
        for _ in range(LIVES * 2):
            self.start_all(chance.randint(1, 3), "--checkpoint_interval_s",
                           "0.3")
            self.await_time_to_die(chance)
            self.kill_in_any_order(chance)
        self.start_all(2, "--checkpoint_interval_s", "0.3")
        self.finish()


class LauncherTest(harness.SystemTest):

    def train(self, name, servers, *flags):
        return self.start(
            harness.oarlock(), "train", "--server_num", str(servers),
            "--worker_num", "2", "--checkpoint_dir", self.path("ckpt"),
            "--checkpoint_interval_s", "0", "--durability", "log", "--log_dir",
            self.path(name), *harness.data_flags(), "--resume", *flags,
            name=name)

    def kill_launcher(self, job):
        job.send(signal.SIGKILL)
        self.await_end(job)
        self.assert_nothing_runs()

    def start_and_kill(self, name, servers, *flags):
        job = self.train(name, servers, "--epochs", "1000", "--print_period",
                         "5", *flags)
        self.await_text(self.path(name, "workerlog.0"), r"epoch 3 step \d+")
        if "sync" not in flags:
            # It comes with the servers' first heartbeats.
            self.await_true(
                lambda: os.path.exists(self.path("ckpt", "log", "RUN")),
                harness.PROGRESS_DEADLINE_S, "the mark of a run with logs")
        self.kill_launcher(job)
        # The server that comes first takes the mark away and logs why.
        return "".join(harness.read_text(self.path(name, f"serverlog.{i}"))
                       for i in range(servers))

    def test_a_job_goes_on_from_logs_where_they_suffice_and_says_so(self):
        self.assertIn("goes on without the logs",
                      self.start_and_kill("first", 2))
        self.await_success(self.train("second", 2, "--epochs", "3",
                                      "--batch_size", "300",
                                      "--learning_rate", "0.01"))
        said = harness.read_text(self.path("second", "serverlog.0"))
        self.assertIn(GOES_ON, said)
        # Two epochs were over.
        self.assertLessEqual(self.summary("second")["examples"],
                             harness.GENERATED_ROWS)
        # That job was over: all is in its last checkpoint.
        self.assertFalse(os.path.exists(self.path("ckpt", "log", "RUN")))

    def test_a_job_of_another_shape_goes_on_from_its_checkpoint(self):
        self.start_and_kill("first", 2)
        again = self.start_and_kill("second", 1)
        self.assertRegex(again, r"without the logs in .*: they are of 2 servers")
        # Whose file it was is gone, so nobody takes the other half for whole.
        third = self.start_and_kill("third", 2)
        self.assertRegex(third, r"without the logs in .*: they are of 1 servers")

    def test_a_sync_job_goes_on_from_its_checkpoint(self):
        self.start_and_kill("first", 2, "--mode", "sync")
        self.assertNotIn(GOES_ON,
                         self.start_and_kill("second", 2, "--mode", "sync"))
        self.assertFalse(os.path.exists(self.path("ckpt", "log", "RUN")))


if __name__ == "__main__":
    unittest.main()
