"""What /metrics of servers and workers tells a scraper while a job trains."""

import math
import os
import re
import time
import unittest
import urllib.error
import urllib.request

import harness

NUM_SERVERS = 2
NUM_WORKERS = 2
SCRAPE_TIMEOUT_S = 10

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_SUFFIXES = {"counter": [""], "gauge": [""],
             "histogram": ["_bucket", "_sum", "_count"],
             "summary": ["", "_sum", "_count"]}

# The document's tables: | `name` | kind | unit | labels | meaning |
_ROW = re.compile(r"^\| `(oarlock_\w+)` \| (\w+) \| \w+ \| ([\w, ]*) \|")
DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                        "docs", "metrics.md")


class Exposition:
    """A scrape, parsed by the rules of the text format 0.0.4."""

    def __init__(self, text):
        self.types = {}
        self.helps = {}
        self.samples = {}  # (name, sorted labels) -> value
        assert text.endswith("\n"), "the last line has no end"
        for line in text.splitlines():
            self._parse(line)
        self._check_histograms()

    def _parse(self, line):
        comment = re.match(rf"# (HELP|TYPE) ({_NAME}) (.*)$", line)
        if comment:
            kind, name, rest = comment.groups()
            where = self.helps if kind == "HELP" else self.types
            assert name not in where, f"two {kind} lines: {line}"
            assert not any(self.family_of(n) == name for n, _ in self.samples
                           if name in self.types), f"after samples: {line}"
            where[name] = rest
            return
        sample = _SAMPLE.match(line)
        assert sample, f"not a sample: {line}"
        name, labels, value = sample.groups()
        assert self.family_of(name), f"no TYPE before: {line}"
        pairs = _LABEL.findall(labels or "")
        rebuilt = ",".join(f'{k}="{v}"' for k, v in pairs)
        assert rebuilt == (labels or ""), f"labels: {line}"
        key = (name, tuple(sorted(pairs)))
        assert key not in self.samples, f"twice: {line}"
        self.samples[key] = float(value)

    def family_of(self, name):
        """The declared metric that a sample's name belongs to."""
        for family, kind in self.types.items():
            if name in [family + suffix for suffix in _SUFFIXES[kind]]:
                return family
        return None

    def _check_histograms(self):
        for name, kind in self.types.items():
            if kind != "histogram":
                continue
            series = {}
            for (sample, labels), value in self.samples.items():
                if sample == name + "_bucket":
                    rest = tuple(x for x in labels if x[0] != "le")
                    series.setdefault(rest, []).append(
                        (float(dict(labels)["le"]), value))
            assert series, f"{name} has no buckets"
            for labels, buckets in series.items():
                counts = [count for _, count in sorted(buckets)]
                assert counts == sorted(counts), f"{name} falls: {buckets}"
                assert sorted(buckets)[-1][0] == math.inf
                assert counts[-1] == self.samples[name + "_count", labels]
                assert (name + "_sum", labels) in self.samples

    def value(self, metric, **labels):
        return self.samples[metric, tuple(sorted(labels.items()))]

    def sum(self, metric, **labels):
        """Over all samples that have these labels."""
        return sum(value for (name, have), value in self.samples.items()
                   if name == metric and set(labels.items()) <= set(have))

    def counters(self):
        return {key: value for key, value in self.samples.items()
                if self.types[self.family_of(key[0])] == "counter"}


def documented():
    """Name -> (kind, labels) of the document's tables."""
    rows = filter(None, map(_ROW.match, harness.read_text(DOCUMENT).split("\n")))
    return {row[1]: (row[2], set(filter(None, row[3].split(", "))))
            for row in rows}


class MetricsTest(harness.SystemTest):

    def scrape(self, port, host="127.0.0.1"):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{host}:{port}/metrics",
                         timeout=SCRAPE_TIMEOUT_S) as response:
            self.assertRegex(response.headers["Content-Type"], "text/plain")
            return Exposition(response.read().decode())

    def try_scrape(self, port):
        try:
            return self.scrape(port)
        except (urllib.error.URLError, ConnectionError):
            return None

    def free_run_of_ports(self, count):
        """The first of `count` ports in a row that are free now."""
        for _ in range(100):
            [first] = harness.free_ports(1)
            if first + count > 65535:
                continue
            try:
                for port in range(first, first + count):
                    with harness.socket.socket() as probe:
                        probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
        raise RuntimeError("no ports in a row are free")

    def start_cluster(self, *flags):
        """A job that trains on and on; the ports of servers and workers."""
        first = self.free_run_of_ports(NUM_SERVERS + NUM_WORKERS)
        self.job = self.start_train(
            "--server_num", str(NUM_SERVERS), "--worker_num", str(NUM_WORKERS),
            "--metrics_port", str(first), "--train_files",
            harness.train_files(), "--epochs", "1000", "--log_dir",
            self.path("logs"), *flags)
        ports = list(range(first, first + NUM_SERVERS + NUM_WORKERS))
        return ports[:NUM_SERVERS], ports[NUM_SERVERS:]

    def await_value(self, port, condition, what):
        """The first scrape of the port for which the condition holds."""
        found = []

        def holds():
            scrape = self.try_scrape(port)
            if scrape is not None and condition(scrape):
                found.append(scrape)
            return found

        self.await_true(holds, harness.JOB_DEADLINE_S, what)
        return found[0]

    def test_counters_of_all_processes_rise_as_the_job_trains(self):
        servers, workers = self.start_cluster()
        before = {
            port: self.await_value(
                port, lambda s: s.sum("oarlock_server_push_rows_total") > 0,
                "rows pushed") for port in servers}
        before.update({
            port: self.await_value(
                port, lambda s: s.sum("oarlock_worker_steps_total") > 0,
                "steps") for port in workers})

        for port, scrape in before.items():
            server = port in servers
            rising = ([("oarlock_server_pull_rows_total", {"kind": kind})
                       for kind in ("sparse", "dense")] +
                      [("oarlock_server_calls_total",
                        {"method": method, "code": "OK"})
                       for method in ("PullSparse", "PushSparse", "PushDense")]
                      + [("oarlock_server_request_bytes_total", {}),
                         ("oarlock_server_response_bytes_total", {}),
                         ("oarlock_server_call_seconds_sum", {})]
                      if server else
                      [("oarlock_worker_examples_total", {"phase": "train"}),
                       ("oarlock_worker_loss_total", {"phase": "train"}),
                       ("oarlock_worker_staleness_pushes_count", {}),
                       ("oarlock_worker_stage_seconds_total",
                        {"stage": "compute"})])
            after = self.await_value(
                port, lambda now, was=scrape, rising=rising: all(
                    now.sum(name, **labels) > was.sum(name, **labels)
                    for name, labels in rising),
                f"{rising} of port {port} to rise")
            now = after.counters()
            for key, value in scrape.counters().items():
                self.assertGreaterEqual(now[key], value, key)

        coordinator = self.await_value(
            servers[0],
            lambda s: s.sum("oarlock_coordinator_examples_total") > 0,
            "examples reported")
        self.assertEqual(
            coordinator.value("oarlock_coordinator_workers", life="alive"),
            NUM_WORKERS)
        self.assertEqual(
            coordinator.value("oarlock_coordinator_alive_servers"),
            NUM_SERVERS)
        self.assertNotIn("oarlock_coordinator_workers",
                         self.scrape(servers[1]).types)
        worker = self.await_value(
            workers[0],
            lambda s: s.value("oarlock_worker_auc", phase="train") > .4,
            "an AUC")
        self.assertLess(worker.value("oarlock_worker_auc", phase="train"), 1)
        self.job.send(harness.signal.SIGTERM)
        self.await_end(self.job, harness.FAILURE_DEADLINE_S)
        self.assert_nothing_runs()

    def test_rows_are_those_admitted_less_those_evicted(self):
        servers, _ = self.start_cluster("--mode", "sync", "--rows_max", "2048",
                                        "--evict_period_ticks", "1",
                                        "--tick_s", "0.1")
        for port in servers:
            scrape = self.await_value(
                port, lambda s: s.sum("oarlock_server_evicted_rows_total") > 0,
                "rows evicted")
            sparse = {"table": "embedding", "kind": "sparse"}
            self.assertEqual(
                scrape.value("oarlock_server_table_rows", **sparse),
                scrape.value("oarlock_server_admitted_rows_total", **sparse) -
                scrape.value("oarlock_server_evicted_rows_total", **sparse))
            self.assertGreater(
                scrape.value("oarlock_server_table_bytes", **sparse), 64 * 1024)
        self.job.send(harness.signal.SIGTERM)
        self.await_end(self.job, harness.FAILURE_DEADLINE_S)

    def test_checkpoints_and_the_log_are_reported(self):
        begun = time.time()
        servers, _ = self.start_cluster(
            "--checkpoint_dir", self.path("ckpt"), "--checkpoint_interval_s",
            "0.3", "--durability", "log")
        for port in servers:
            scrape = self.await_value(
                port, lambda s: s.sum("oarlock_server_checkpoint_cut") >= 2,
                "a second checkpoint")
            self.assertGreaterEqual(
                scrape.value("oarlock_server_cuts_total", outcome="published"),
                2)
            for name in ("held_seconds", "freeze_seconds", "save_seconds"):
                value = scrape.value(f"oarlock_server_cut_{name}_total")
                self.assertGreater(value, 0, name)
                self.assertLess(value, time.time() - begun, name)
            self.assertGreater(
                scrape.value("oarlock_server_cut_written_bytes_total"), 1000)
            current = scrape.value("oarlock_server_checkpoint_time_seconds")
            self.assertTrue(begun <= current <= time.time(), current)
            self.assertGreater(scrape.value("oarlock_server_log_bytes"), 0)
            self.assertEqual(
                scrape.value("oarlock_server_log_replayed_pushes"), 0)
        coordinator = self.scrape(servers[0])
        self.assertGreater(
            coordinator.value("oarlock_coordinator_checkpoint_seconds"), 0)
        self.assertEqual(coordinator.value(
            "oarlock_coordinator_failed_checkpoints_total"), 0)
        self.assertNotIn("oarlock_coordinator_checkpoint_seconds",
                         self.scrape(servers[1]).types)
        self.job.send(harness.signal.SIGTERM)
        self.await_end(self.job, harness.FAILURE_DEADLINE_S)

    def test_scrapes_tell_what_the_document_says(self):
        servers, workers = self.start_cluster(
            "--test_files", harness.test_files(), "--checkpoint_dir",
            self.path("ckpt"), "--checkpoint_interval_s", "0.3",
            "--on_checkpoint", "true", "--durability", "log")
        # What workers report comes with their heartbeats.
        self.await_value(
            servers[0],
            lambda s: int("oarlock_coordinator_staleness_pushes" in s.types),
            "reports")
        seen = {}
        for port in servers + workers:
            scrape = self.await_value(
                port, lambda s: s.sum("oarlock_server_push_rows_total") +
                s.sum("oarlock_worker_staleness_pushes_count") > 0, "pushes")
            for (name, labels), _ in scrape.samples.items():
                family = scrape.family_of(name)
                if family.startswith("exposer_"):
                    continue
                names = {label for label, _ in labels} - {"le"}
                seen[family] = (scrape.types[family], names)
                self.assertTrue(scrape.helps[family], family)
        self.assertEqual(seen, documented())
        self.job.send(harness.signal.SIGTERM)
        self.await_end(self.job, harness.FAILURE_DEADLINE_S)

    def test_a_port_in_use_is_one_line_and_exit_code_1(self):
        with harness.socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            [own] = harness.free_ports(1)
            endpoint = f"127.0.0.1:{own}"
            for process in (
                    self.start(harness.oarlock(), "server",
                               "--pserver_endpoints", endpoint,
                               "--current_endpoint", endpoint, "--trainers",
                               "1", "--metrics_port", port),
                    self.start_train("--train_files", harness.train_files(),
                                     "--metrics_port", port)):
                self.assert_fails(process, f"port {port} on 127.0.0.1 is in "
                                  "use", code=1)

    def test_a_port_beyond_the_last_is_a_usage_error(self):
        process = self.start_train(
            "--role", "TRAINER", "--trainer_id", "3", "--trainers", "4",
            "--pserver_endpoints", "127.0.0.1:6174", "--metrics_port", "65535",
            "--train_files", harness.train_files())
        self.assert_fails(process, "--metrics_port is 65535, which makes 65539")


if __name__ == "__main__":
    unittest.main()
