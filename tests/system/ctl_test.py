"""What `oarlock ctl` shows of a job that runs, and `oarlock server`.

The rows are made here: 26 slots of Zipf ids, and one id that nearly every row
has. So it is known which key is hot and how hot the others can be.
"""

import json
import random
import subprocess
import unittest

import harness

NUM_WORKERS = 2
ROWS = 12000
NUM_SLOTS = 26
NUM_DENSE = 13
IDS_PER_SLOT = 20000
ZIPF_EXPONENT = 1.05
PLANTED_KEY = 987654321
PLANTED_SHARE = .95
# A worker names a key once a batch. In small ones few keys but the planted
# come every time; the likeliest id of a slot is in an eighth of the rows.
BATCH_SIZE = 2
CTL_DEADLINE_S = 60


def zipf_cumulative(count):
    total = 0
    cumulative = []
    for rank in range(1, count + 1):
        total += rank ** -ZIPF_EXPONENT
        cumulative.append(total)
    return cumulative


def write_rows(path, seed):
    """Multi-slot text, whose ids are keys as they are."""
    source = random.Random(seed)
    cumulative = zipf_cumulative(IDS_PER_SLOT)
    columns = []
    for slot in range(NUM_SLOTS):
        first = 1000000 * (slot + 1)
        columns.append(source.choices(range(first, first + IDS_PER_SLOT),
                                      cum_weights=cumulative, k=ROWS))
    dense = f"{NUM_DENSE} " + " ".join(["0.5"] * NUM_DENSE)
    with open(path, "w", encoding="ascii") as file:
        for row in range(ROWS):
            ids = [column[row] for column in columns]
            if source.random() < PLANTED_SHARE:
                ids[0] = PLANTED_KEY
            slots = " ".join(f"1 {key}" for key in ids)
            file.write(f"{dense} {slots} 1 {source.randrange(2)}\n")


class CtlTest(harness.SystemTest):

    def ctl(self, verb, endpoint, *flags, code=0):
        """What `oarlock ctl` prints."""
        done = subprocess.run(
            [harness.oarlock(), "ctl", verb, "--server", endpoint, *flags],
            env=self.environment(), capture_output=True, text=True,
            timeout=CTL_DEADLINE_S, check=False)
        self.assertEqual(done.returncode, code, done.stderr + self.report())
        return done.stdout if code == 0 else done.stderr

    def ctl_json(self, verb, endpoint, *flags):
        return json.loads(self.ctl(verb, endpoint, "--json", *flags))

    def start_job(self, epochs):
        """Servers and workers of a job on the planted rows; its endpoints."""
        data = self.path("rows")
        write_rows(data, seed=17)
        endpoints = [f"127.0.0.1:{port}" for port in harness.free_ports(2)]
        common = ["--pserver_endpoints", ",".join(endpoints), "--trainers",
                  str(NUM_WORKERS)]
        self.servers = [
            self.start(harness.oarlock(), "server", *common,
                       "--current_endpoint", endpoint, name=f"server{i}")
            for i, endpoint in enumerate(endpoints)]
        self.workers = [
            self.start_train(
                *common, "--role", "TRAINER", "--trainer_id", str(i),
                "--model", "lr", "--data_format", "multi_slot",
                "--sparse_feature_dim", "0", "--train_files", data,
                "--batch_size", str(BATCH_SIZE), "--epochs", str(epochs),
                name=f"worker{i}")
            for i in range(NUM_WORKERS)]
        for server in self.servers:
            self.await_text(server.stderr_path, "listening on")
        return endpoints

    def pushed_rows(self, endpoint):
        tables = self.ctl_json("tables", endpoint)["tables"]
        return sum(table["total"]["pushed_rows"] for table in tables
                   if table["kind"] == "sparse")

    def test_the_planted_key_leads_the_hot_keys_of_a_running_job(self):
        endpoints = self.start_job(epochs=1000)
        # About 4,000 keys of them were looked at.
        self.await_true(lambda: self.pushed_rows(endpoints[1]) > 1000000,
                        harness.JOB_DEADLINE_S, "a million rows pushed")

        # Any server tells of all.
        responses = [self.ctl_json("hot-keys", endpoint, "--top", "5")
                     for endpoint in endpoints]
        for response in responses:
            self.assertEqual(response["silent_servers"], [])
            [table] = response["tables"]
            self.assertEqual(len(table["keys"]), 5)
            self.assertGreater(table["pull_samples"], 1000)
            self.assertEqual(table["keys"][0]["key"], str(PLANTED_KEY),
                             response)
            for kind, total in (("pulls", "pulled_rows"),
                                ("pushes", "pushed_rows")):
                hot = table["keys"][0][kind]
                # It is in every batch, with 2 * 26 ids less what repeats: more
                # than 1 / 52 of all, less than 1 / 40, four times what any
                # other has. Twice the error, which holds in 19 of 20 cases, is
                # as good as certain.
                self.assertGreater(hot["share"] + 2 * hot["share_error"],
                                   1 / 52)
                self.assertLess(hot["share"] - 2 * hot["share_error"], 1 / 40)
                self.assertLess(hot["share_error"], hot["share"])
                self.assertAlmostEqual(hot["share"] * table[total],
                                       hot["rows"], delta=1)

        text = self.ctl("hot-keys", endpoints[0], "--table",
                        responses[0]["tables"][0]["name"], "--top", "1")
        # An estimate: between 1 and 3 %.
        self.assertRegex(text, rf"(?m)^{PLANTED_KEY} +[1-3]\.\d+ %")
        self.assertIn("no sparse table is named 'x'",
                      self.ctl("hot-keys", endpoints[0], "--table", "x",
                               code=1))

        status = self.ctl_json("status", endpoints[1])
        self.assertEqual(status["job"]["num_servers_alive"], 2)
        self.assertEqual(len(status["servers"]), 2)
        [sparse] = [table for table in status["tables"]
                    if table["kind"] == "sparse"]
        # The planted key lies where its partition is the most loaded one.
        hot = responses[0]["tables"][0]["keys"][0]
        skew = sparse["skew_across_partitions"]["pulled_rows"]
        self.assertEqual((skew["partition"], skew["server"]),
                         (hot["partition"], hot["server"]))
        self.assertGreater(skew["max_over_mean"], 1.5)
        self.assertEqual(
            sum(share["rows"] for share in sparse["servers"]),
            sparse["total"]["rows"])
        text = self.ctl("status", endpoints[0])
        self.assertRegex(text, r"rows pulled +\d\.\d\d  server \d +\d+\.\d\d  "
                               r"partition \d+, server \d")

        self.ctl("drain", endpoints[0])
        for process in self.servers + self.workers:
            self.await_end(process, harness.FAILURE_DEADLINE_S)
        self.assert_nothing_runs()

    def test_a_server_that_died_is_named_and_the_others_tell(self):
        endpoints = self.start_job(epochs=1000)
        self.await_true(lambda: self.pushed_rows(endpoints[0]) > 0,
                        harness.JOB_DEADLINE_S, "rows pushed")
        self.servers[1].popen.kill()
        self.await_end(self.servers[1])
        text = self.ctl("tables", endpoints[0])
        self.assertRegex(text, r"(?m)^server 1 at \S+ is left out, it did not "
                               r"answer: ")
        self.assertRegex(text, r"(?m)^ +0 +[1-9]")

    def test_oarlock_server_serves_a_job_to_its_end(self):
        self.start_job(epochs=1)
        for process in self.workers + self.servers:
            self.await_success(process)
        self.assert_nothing_runs()
        summary = self.summary()
        self.assertEqual(
            (summary["servers"], summary["workers"], summary["examples"]),
            (2, NUM_WORKERS, ROWS), summary)
        self.assertIn("server 1 of 2: ",
                      self.servers[1].stderr.splitlines()[0])

    def test_oarlock_server_knows_neither_models_nor_data(self):
        for flag in ("--model", "--train_files", "--role"):
            process = self.start(harness.oarlock(), "server", flag, "x")
            self.assert_fails(process, flag, code=2)

    def test_oarlock_server_without_endpoints_says_what_is_missing(self):
        process = self.start(harness.oarlock(), "server")
        self.assert_fails(process, "oarlock server: .*--pserver_endpoints",
                          code=2)


if __name__ == "__main__":
    unittest.main()
