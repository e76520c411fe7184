"""A table ten times its memory budget trains to what it does in memory."""

import json
import os
import signal
import subprocess
import unittest

import harness

# What a job's parameters decide, and its clock does not.
RESULTS = ("examples", "train_auc", "train_logloss", "test_auc",
           "test_logloss")
# Little enough for the rows of the generated data to be ten times as many.
BUDGET = ["--memory_budget_mb", "1", "--num_partitions", "4"]
SCRATCH = "OARLOCK_SCRATCH"


class TiersTest(harness.SystemTest):

    def train(self, name, *flags):
        """A sync job, which repeats."""
        return self.start_train(
            "--mode", "sync", "--batch_size", "256", "--model", "deepfm",
            "--embedding_size", "16", "--num_partitions", "4",
            "--log_dir", name, *harness.data_flags(), *flags, name=name)

    def results(self, name, *flags):
        self.await_success(self.train(name, *flags))
        self.assert_nothing_runs()
        summary = self.summary(name)
        return {field: summary[field] for field in RESULTS}

    def scratch_folders(self, folder):
        return [path for path, _, files in os.walk(self.path(folder))
                if SCRATCH in files]

    def tables(self, endpoint):
        result = subprocess.run(
            [harness.oarlock(), "ctl", "tables", "--server", endpoint,
             "--json"],
            capture_output=True, timeout=harness.FAILURE_DEADLINE_S)
        return json.loads(result.stdout)["tables"] if result.stdout else []

    def test_servers_and_a_local_run_end_with_the_bits_of_memory(self):
        job = ["--server_num", "2", "--worker_num", "2"]
        self.assertEqual(self.results("disk", *job, *BUDGET),
                         self.results("memory", *job))
        self.assertEqual(self.results("local_disk", *BUDGET),
                         self.results("local_memory"))
        # Scratch goes with its process.
        for name in ("disk", "local_disk"):
            self.assertEqual(self.scratch_folders(name), [])

    def start_cluster(self, port, name):
        """One server and one worker that train until they are ended."""
        variables = {
            "PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{port}",
            "PADDLE_TRAINERS_NUM": "1", "POD_IP": "127.0.0.1",
            "PADDLE_PORT": str(port), "PADDLE_TRAINER_ID": "0"}
        flags = ["--mode", "sync", "--batch_size", "256", "--model", "deepfm",
                 "--embedding_size", "16", "--epochs", "100000",
                 "--tier_dir", self.path("tier"), *harness.data_flags(),
                 *BUDGET]
        server = self.start_train(*flags, name=name + "_server",
                                  TRAINING_ROLE="PSERVER", **variables)
        worker = self.start_train(*flags, name=name + "_worker",
                                  TRAINING_ROLE="TRAINER", **variables)
        return server, worker

    def cold_rows(self, port):
        for table in self.tables(f"127.0.0.1:{port}"):
            if table["kind"] == "sparse":
                total = table["total"]
                self.assertEqual(total["rows"],
                                 total["memory_rows"] + total["cold_rows"])
                return total["cold_rows"]
        return 0

    def test_what_a_killed_server_left_is_wiped_by_the_next(self):
        [port] = harness.free_ports(1)
        server, worker = self.start_cluster(port, "first")
        self.await_true(lambda: self.cold_rows(port) > 40000,
                        harness.PROGRESS_DEADLINE_S, "rows on disk")
        server.send(signal.SIGKILL)
        self.await_end(server)
        worker.send(signal.SIGKILL)
        self.await_end(worker)
        [scratch] = self.scratch_folders("tier")
        stale = os.path.join(scratch, "data", "left_by_the_first")
        with open(stale, "w", encoding="utf-8") as file:
            file.write("x")

        server, worker = self.start_cluster(port, "second")
        self.await_true(lambda: self.cold_rows(port) > 40000,
                        harness.PROGRESS_DEADLINE_S, "rows on disk")
        self.assertFalse(os.path.exists(stale))
        text = subprocess.run(
            [harness.oarlock(), "ctl", "tables", "--server",
             f"127.0.0.1:{port}"],
            check=True, capture_output=True, text=True,
            timeout=harness.FAILURE_DEADLINE_S).stdout
        self.assertRegex(text, r"memory budget 1\.0 MiB\n"
                               r"server +rows in memory +on disk")

    def test_files_of_somebody_else_end_the_job_with_one_line(self):
        foreign = self.path("tier", "server-0", "table-1")
        os.makedirs(foreign)
        with open(os.path.join(foreign, "thesis"), "w",
                  encoding="utf-8") as file:
            file.write("ten years")
        job = self.train("foreign", "--tier_dir", self.path("tier"), *BUDGET)
        self.assert_fails(job, r"table-1 is to hold rows on disk but has files "
                               r"of somebody else \(thesis\)")
        self.assertTrue(os.path.exists(os.path.join(foreign, "thesis")))


if __name__ == "__main__":
    unittest.main()
