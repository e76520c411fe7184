"""Jobs that go on with what another trained: with the same model, the same
time, and what they are told of both."""

import os
import random
import subprocess
import unittest

import harness

DEEPFM = ["--model", "deepfm", "--embedding_size", "4", "--hidden_sizes", "8",
          "--batch_size", "512"]
DAYS = 7


class GoesOnTest(harness.SystemTest):

    def train(self, name, *flags, data=None):
        return self.start_train(
            "--log_dir", name, "--server_num", "1", "--worker_num", "1",
            *(harness.data_flags() if data is None else data), *flags,
            name=name)

    def test_a_resumed_job_has_the_model_that_it_had(self):
        self.await_success(
            self.train("first", *DEEPFM, "--checkpoint_dir", "ck"))
        for flags, flag in (
                (["--model", "wide_deep"], "--model wide_deep"),
                (["--sparse_feature_dim", "1000"],
                 "--sparse_feature_dim 1000"),
                (["--dense_transform", "quick_start"],
                 "--dense_transform quick_start"),
                (["--pooling", "mean"], "--pooling mean")):
            self.assert_fails(
                self.train("again", *DEEPFM, *flags, "--checkpoint_dir", "ck",
                           "--resume"),
                f"ck/ckpt-00000001 was trained with --\\S+ \\S+, and this job "
                f"has {flag}: .*give --", code=2)
        self.await_success(self.train(
            "again", *DEEPFM, "--dropout", "0.1", "--checkpoint_dir", "ck",
            "--resume", "--epochs", "2"))

    def test_a_server_elsewhere_tells_its_worker(self):
        """A worker that does not see the folder learns it when it registers."""
        self.await_success(
            self.train("first", *DEEPFM, "--checkpoint_dir", "ck"))
        port = harness.free_ports(1)[0]
        role = ["--pserver_endpoints", f"127.0.0.1:{port}", "--trainers", "1"]
        server = self.start(
            harness.oarlock(), "server", *role, "--current_endpoint",
            f"127.0.0.1:{port}", "--checkpoint_dir", self.path("ck"),
            "--resume", name="server")
        worker = self.start_train(
            "--role", "TRAINER", "--trainer_id", "0", *role,
            *harness.data_flags(), "--model", "wide_deep", name="worker")
        self.assertEqual(self.await_end(worker, harness.FAILURE_DEADLINE_S), 1,
                         self.report())
        self.assertIn(
            "worker 0 has --model wide_deep, and the parameters with which the "
            "job goes on were trained with --model deepfm; give --model deepfm",
            worker.stderr)
        server.send(15)
        self.await_end(server, harness.FAILURE_DEADLINE_S)

    def test_a_server_that_sees_another_folder_is_refused(self):
        """Before anything is trained, not at the first checkpoint."""
        ports = harness.free_ports(2)
        endpoints = ",".join(f"127.0.0.1:{port}" for port in ports)
        servers = [
            self.start(harness.oarlock(), "server", "--pserver_endpoints",
                       endpoints, "--current_endpoint", f"127.0.0.1:{port}",
                       "--trainers", "1", "--checkpoint_dir",
                       self.path(folder), name=folder)
            for port, folder in zip(ports, ("volume-a", "volume-b"))]
        self.assertEqual(
            self.await_end(servers[1], harness.FAILURE_DEADLINE_S), 1,
            self.report())
        self.assertRegex(
            servers[1].stderr,
            "server 0 has made mark-[0-9a-f]{16} in its --checkpoint_dir "
            r"\S*volume-a, and this server does not find it in its own, "
            r"\S*volume-b; all servers must see the same folder")
        servers[0].send(15)
        self.await_end(servers[0], harness.FAILURE_DEADLINE_S)

    def test_a_job_that_loads_takes_the_model_from_the_checkpoint(self):
        self.await_success(
            self.train("first", *DEEPFM, "--checkpoint_dir", "ck"))
        self.await_success(self.train(
            "second", "--load", "ck", "--checkpoint_dir", "ck2"))
        self.assertEqual(self.summary("second")["model"], "deepfm")
        self.assertEqual(self.summary("second")["warnings"], [])
        # What is said counts, and is told.
        third = self.train("third", "--load", "ck", "--dense_transform",
                           "quick_start")
        self.await_success(third)
        warning = ("ck/ckpt-00000001 was trained with --dense_transform log1p; "
                   "--dense_transform quick_start counts")
        self.assertIn(warning, self.summary("third")["warnings"][0])
        self.assertIn(warning,
                      harness.read_text(self.path("third", "workerlog.0")))

    def test_infer_takes_it_too_and_tells_what_contradicts(self):
        self.await_success(
            self.train("first", *DEEPFM, "--checkpoint_dir", "ck"))
        words = [harness.oarlock(), "infer", "--checkpoint", "ck", "--files",
                 *harness.data_flags()[-1:], "--out", "scores"]
        plain = subprocess.run(words, cwd=self.path(), capture_output=True,
                               text=True, check=False)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertNotIn("warning", plain.stderr)
        other = subprocess.run([*words, "--sparse_feature_dim", "1000"],
                               cwd=self.path(), capture_output=True, text=True,
                               check=False)
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertRegex(other.stderr, "oarlock infer: warning: "
                         "ck/ckpt-00000001 was trained with "
                         r"--sparse_feature_dim \d+; --sparse_feature_dim 1000 "
                         "counts")

    def days(self):
        """Files of clicks, in `in` too; most keys are of one day."""
        seed = 20261128
        print("seed", seed)
        draw = random.Random(seed)
        os.mkdir(self.path("in"))
        for day in range(DAYS):
            lines = []
            for _ in range(2000):
                key = draw.choice(
                    [day * 100 + draw.randrange(150), draw.randrange(50)])
                click = int(draw.random() < .3 + .4 * (key % 2))
                lines.append(f"1 {key} 1 {click}\n")
            for path in (f"day-{day}", f"in/day-{day}"):
                with open(self.path(path), "w", encoding="utf-8") as file:
                    file.writelines(lines)

    def test_daily_jobs_leave_the_table_of_one_job(self):
        self.days()
        flags = [
            "--data_format", "multi_slot", "--dense_dim", "0", "--num_slots",
            "1", "--model", "lr", "--optimizer", "adam", "--mode", "sync",
            "--thread_num", "1", "--batch_size", "100", "--tick_per_epoch",
            "--evict_idle_ticks", "3", "--accessor", "ctr",
            "--statistics_decay_rate", ".9", "--server_num", "2"]
        self.await_success(self.train(
            "one", *flags, "--watch_dir", "in", "--watch_idle_s", "1",
            "--watch_poll_s", ".05", "--checkpoint_dir", "ck-one", data=[]))
        loaded = []
        for day in range(DAYS):
            self.await_success(self.train(
                f"log-{day}", *flags, "--checkpoint_dir", f"ck-{day}", *loaded,
                data=["--train_files", f"day-{day}"]))
            loaded = ["--load", f"ck-{day}"]
        self.assertIn("evicted", harness.read_text(
            self.path(f"log-{DAYS - 1}", "serverlog.0")))
        result = subprocess.run(
            [harness.oarlock(), "checkpoint", "diff", "ck-one",
             f"ck-{DAYS - 1}"], cwd=self.path(), capture_output=True,
            text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
