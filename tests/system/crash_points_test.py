"""Processes are killed (SIGKILL) at every step of a cut, of a log, of tiers and
of a restore that a fault_points.h names. What is current afterwards is sound,
and training goes on as if nothing had been.
"""

import concurrent.futures
import os
import re
import signal
import subprocess
import unittest

import harness

SEED = 11
SERVING_DEADLINE_S = 60
# From the life that is to die to its death.
DEATH_DEADLINE_S = 60
# Jobs at a time: they mostly wait.
JOBS = 3

# One server of two dies there, in its turn, with a log: no push is lost, none
# counts twice. That of other points of the log, which a server with small
# pushes does not reach, tests/storage/push_log_crash_test.cc looks at.
WITH_A_LOG = [
    "log.append.before_write:9",
    "log.append.after_write:9",
    "log.open.before_truncate",
    "log.open.after_truncate",
    "log.roll.before_header",
    "log.roll.after_header",
    "cut.freeze.before",
    "cut.freeze.after",
    "cut.save.between_units",
    "cut.save.before_publish",
    "cut.save.after_publish",
    "cut.close.before_trim",
    "log.trim.between_segments",
    "restore.before_load",
    "restore.between_units",
    "restore.before_replay",
    "restore.between_records:5",
    "tier.demote.before_write",
    "tier.demote.after_write",
    "tier.promote.before_insert",
]
ELSEWHERE = ["log.append.half_written"]

# All processes of a job without a log end; how many cuts are published then.
WITHOUT_A_LOG = {
    "cut.freeze.before:2": 1,
    "cut.freeze.after:2": 1,
    "cut.save.between_units:1": 0,
    "cut.save.before_publish:2": 1,
    "cut.save.after_publish:2": 1,
    "cut.commit.before_manifest:2": 1,
    "cut.commit.before_current:1": 0,
    "cut.commit.before_current:2": 1,
    "cut.commit.after_current:2": 2,
    "cut.close.before_trim:2": 2,
    "cut.remove.without_manifest:1": 3,
}
# Of the job that resumes.
RESTORES = ["restore.before_load", "restore.between_units:3"]


def name_of(fault):
    return fault.split(":")[0]


class CrashPointsTest(harness.SystemTest):

    def cut(self, directory):
        name = harness.read_text(self.path(directory, "CURRENT")).split(" ")[0]
        return int(name.removeprefix("ckpt-")) if name else 0

    def assert_sound(self, directory, fault):
        if self.cut(directory) == 0:
            return
        result = subprocess.run(
            [harness.oarlock(), "checkpoint", "verify", self.path(directory)],
            capture_output=True, text=True, timeout=harness.JOB_DEADLINE_S)
        self.assertEqual(result.returncode, 0, fault + ": " + result.stderr)

    def test_every_point_is_one_of_those_below(self):
        wrong = subprocess.run(
            [harness.oarlock(), "train"], capture_output=True, text=True,
            timeout=harness.JOB_DEADLINE_S,
            env=self.environment(OARLOCK_FAULT="nowhere"))
        self.assertEqual(wrong.returncode, 2)
        known = re.search(r"legal are (.*)", wrong.stderr).group(1).split(", ")
        used = [name_of(fault) for fault in
                [*WITH_A_LOG, *ELSEWHERE, *WITHOUT_A_LOG, *RESTORES]]
        self.assertEqual(sorted(set(used)), sorted(known))

    # -- one server, with a log --------------------------------------------

    def start_server(self, index, restarts=0, fault=""):
        variables = {"OARLOCK_RESTART": str(restarts)} if restarts else {}
        if fault:
            variables["OARLOCK_FAULT"] = f"{fault}@{restarts}"
        return self.start(
            harness.oarlock(), "server", "--pserver_endpoints",
            ",".join(self.endpoints), "--current_endpoint",
            self.endpoints[index], "--trainers", "1",
            "--checkpoint_dir", self.path("ckpt"), "--checkpoint_interval_s",
            "0", "--durability", "log", "--tier_dir", self.path("tier"),
            "--num_partitions", "4", name=f"server{index}.{restarts}",
            **variables)

    def await_serving(self, server):
        """Or dead, of a fault before it served."""
        self.await_true(
            lambda: "listening on" in server.stderr or not server.running(),
            SERVING_DEADLINE_S, f"{server.name} serves")

    def ask_for_checkpoint(self, name):
        return self.start(
            harness.oarlock(), "ctl", "checkpoint", "--server",
            self.endpoints[0], "--timeout_s", "30", name=name)

    def test_with_a_log_a_server_that_dies_anywhere_loses_and_doubles_nothing(
            self):
        self.endpoints = [f"127.0.0.1:{port}"
                          for port in harness.free_ports(2)]
        servers = [self.start_server(i) for i in range(2)]
        for server in servers:
            self.await_serving(server)
        stop = self.path("stop")
        # Half of its rows are in memory.
        worker = self.start(
            harness.program("OARLOCK_COUNTING_WORKER"),
            ",".join(self.endpoints), "0", str(SEED), stop, str(512 << 10),
            name="worker")
        self.await_true(
            lambda: "counts" in subprocess.run(
                [harness.oarlock(), "ctl", "tables", "--server",
                 self.endpoints[1]], capture_output=True, text=True,
                timeout=harness.JOB_DEADLINE_S).stdout,
            SERVING_DEADLINE_S, "a table")
        self.await_success(self.ask_for_checkpoint("first"))
        servers[1].send(signal.SIGKILL)
        self.await_end(servers[1])
        for restarts, fault in enumerate(WITH_A_LOG, start=1):
            before = self.cut("ckpt")
            servers[1] = self.start_server(1, restarts, fault)
            self.await_serving(servers[1])
            if servers[1].running():
                self.ask_for_checkpoint(f"checkpoint{restarts}")
            code = self.await_end(servers[1], DEATH_DEADLINE_S)
            self.assertEqual(code, -signal.SIGKILL, fault + self.report())
            self.assertTrue(worker.running(), fault + self.report())
            self.assert_sound("ckpt", fault)
            if name_of(fault) in ("cut.close.before_trim",
                                  "log.trim.between_segments"):
                self.assertGreater(self.cut("ckpt"), before, fault)
            elif name_of(fault).startswith(("cut.", "log.roll", "restore.")):
                self.assertEqual(self.cut("ckpt"), before, fault)
        servers[1] = self.start_server(1, len(WITH_A_LOG) + 1)
        self.await_serving(servers[1])
        before = self.cut("ckpt")
        self.await_success(self.ask_for_checkpoint("last"))
        self.assertGreater(self.cut("ckpt"), before)
        self.assert_sound("ckpt", "last")
        with open(stop, "w", encoding="utf-8"):
            pass
        self.await_success(worker)
        self.assertRegex(worker.stdout, r"every row exact")
        for server in servers:
            self.await_success(server)

    # -- all processes, without a log --------------------------------------

    def train(self, name, *flags, **variables):
        return self.start_train(
            "--log_dir", name, *harness.data_flags(), "--mode", "sync",
            "--model", "deepfm", "--batch_size", "128", "--epochs", "9",
            "--num_partitions", "16", "--server_num", "2", "--worker_num", "1",
            *flags, name=name, **variables)

    def published(self, name, directory):
        """Cuts that the job has published; one that had to wait for something
        and was opened again has used up a number."""
        seen = re.findall(r"checkpoint \S*ckpt-(\d+): .* MB in",
                          harness.read_text(self.path(name, "serverlog.0")))
        return {int(cut) for cut in seen} | {self.cut(directory)} - {0}

    def die_and_resume(self, number, fault, published):
        name, directory = f"job{number}", f"ckpt{number}"
        flags = ["--checkpoint_dir", self.path(directory),
                 "--checkpoint_interval_s", "0.1"]

        def dies(job):
            self.assertNotEqual(self.await_end(job), 0, fault + job.describe())
            self.assertIn("signal 9", job.stderr, fault)
            self.assert_sound(directory, fault)

        dies(self.train(name, *flags, OARLOCK_FAULT=fault))
        self.assertEqual(len(self.published(name, directory)), published, fault)
        current = self.cut(directory)
        if current > 0 and number < len(RESTORES):
            fault = RESTORES[number]
            dies(self.train(name + "restore", *flags, "--resume",
                            OARLOCK_FAULT=fault))
            self.assertEqual(self.cut(directory), current, fault)
        # Its last checkpoint alone: a cut that is open when a job ends may leave
        # a folder beyond the current one, which is not what is looked for here.
        self.await_success(self.train(name + "resumed", *flags, "--resume",
                                      "--checkpoint_interval_s", "0"))
        self.assertGreater(self.cut(directory), current, fault)
        self.assert_sound(directory, fault)
        self.await_success(self.start(
            harness.oarlock(), "checkpoint", "diff", self.path("undisturbed"),
            self.path(directory), name=name + "diff"))
        # What was left half made or half removed is gone.
        self.assertLessEqual(
            len([entry for entry in os.listdir(self.path(directory))
                 if entry.startswith("ckpt-")]), 2, fault)

    def test_without_a_log_a_job_that_dies_anywhere_ends_with_the_same_bits(
            self):
        self.await_success(self.train(
            "alone", "--checkpoint_dir", self.path("undisturbed")))
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for outcome in [
                    pool.submit(self.die_and_resume, number, fault, published)
                    for number, (fault, published)
                    in enumerate(WITHOUT_A_LOG.items())]:
                outcome.result()


if __name__ == "__main__":
    unittest.main()
