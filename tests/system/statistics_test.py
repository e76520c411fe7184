"""Shows and clicks of keys, counted by workers, added up by servers."""

import collections
import json
import random
import signal
import subprocess
import unittest

import harness
import interop_test

NUM_WORKERS = 2
ROWS = 3000
NUM_SLOTS = 26
NUM_DENSE = 13
# Few, so that examples have a key twice and batches share keys.
NUM_KEYS = 200
UNUSED_KEY = 999
# Behind the rows to be evaluated: whoever reads it waits for the test's end.
HOLD = "hold"
HOLD_THERE = f"""awk '$0 == "{HOLD}" {{fflush(); system("sleep 100000")}}
                     {{print}}'"""
CLIENT_DEADLINE_S = 60


def write_rows(path, seed):
    """Multi-slot text of 0 to 3 keys a slot; show and click of each key."""
    source = random.Random(seed)
    shows, clicks = collections.Counter(), collections.Counter()
    dense = f"{NUM_DENSE} " + " ".join(["0.5"] * NUM_DENSE)
    with open(path, "w", encoding="ascii") as file:
        for _ in range(ROWS):
            slots = [source.choices(range(1, NUM_KEYS + 1),
                                    k=source.choice((0, 1, 1, 3)))
                     for _ in range(NUM_SLOTS)]
            label = source.randrange(2)
            keys = set(key for slot in slots for key in slot)
            shows.update(keys)
            if label:
                clicks.update(keys)
            text = " ".join(" ".join(map(str, [len(slot), *slot]))
                            for slot in slots)
            file.write(f"{dense} {text} 1 {label}\n")
    return shows, clicks


class StatisticsTest(harness.SystemTest):

    def start_job(self, data, *flags):
        """Starts servers and workers; the servers' endpoints."""
        endpoints = [f"127.0.0.1:{port}" for port in harness.free_ports(2)]
        common = ["--pserver_endpoints", ",".join(endpoints), "--trainers",
                  str(NUM_WORKERS), "--lease_s", "60"]
        for endpoint in endpoints:
            self.start(harness.oarlock(), "server", *common,
                       "--current_endpoint", endpoint)
        self.workers = [
            self.start_train(
                *common, "--role", "TRAINER", "--trainer_id", str(i),
                "--model", "lr", "--data_format", "multi_slot",
                "--sparse_feature_dim", "0", "--train_files", data,
                "--test_files", data + ".test",
                "--batch_size", "64", "--thread_num", "2", "--epochs", "2",
                "--accessor", "ctr", "--pipe_command", HOLD_THERE, *flags)
            for i in range(NUM_WORKERS)]
        return endpoints

    def statistics(self, endpoints, keys):
        done = subprocess.run(
            [interop_test.PYTHON,
             str(interop_test.HERE / "statistics_client.py"),
             ",".join(endpoints), "1", *map(str, keys)],
            env=self.environment(PYTHONPATH=interop_test.stubs_dir()),
            capture_output=True, text=True, timeout=CLIENT_DEADLINE_S,
            check=False)
        self.assertEqual(done.returncode, 0, done.stderr + self.report())
        return {int(key): tuple(value)
                for key, value in json.loads(done.stdout).items()}

    def phases(self, endpoint):
        """Of the job, by name, with their examples."""
        done = subprocess.run(
            [harness.oarlock(), "ctl", "status", "--server", endpoint,
             "--json"], env=self.environment(), capture_output=True,
            text=True, timeout=CLIENT_DEADLINE_S, check=False)
        return done.stdout if done.returncode == 0 else ""

    def check_counts(self, *flags):
        data = self.path("rows")
        shows, clicks = write_rows(data, seed=29)
        with open(data, "rb") as rows, open(data + ".test", "wb") as test:
            test.write(rows.read() + f"{HOLD}\n".encode())
        endpoints = self.start_job(data, *flags)
        # While it is evaluated for the first time, nobody pushes.
        self.await_true(lambda: '"test"' in self.phases(endpoints[0]),
                        harness.JOB_DEADLINE_S, "the first evaluation")
        for worker in self.workers:
            worker.send(signal.SIGSTOP)
        status = self.phases(endpoints[0])
        expected = {key: (float(shows[key]), float(clicks[key]))
                    for key in [*shows, UNUSED_KEY]}
        self.assertEqual(self.statistics(endpoints, expected), expected,
                         status)

    def test_async_pushes_add_up_to_the_examples_of_each_key(self):
        self.check_counts()

    def test_rounds_add_up_to_the_examples_of_each_key(self):
        self.check_counts("--mode", "sync")

    def test_flags_about_statistics_without_them_are_refused(self):
        for job in ([], ["--server_num", "2", "--worker_num", "2"]):
            process = self.start_train(
                "--train_files", harness.train_files(), "--admission",
                "show_click", *job)
            self.assert_fails(process, "legal is with --accessor ctr", code=2)


if __name__ == "__main__":
    unittest.main()
