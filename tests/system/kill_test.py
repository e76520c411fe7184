"""Servers are killed again and again while workers push and checkpoints are
made: no acknowledged push is lost, none is applied twice.

The workers (tests/stress/counting_worker.cc) count: each row is the number of
pushes that reached it. OARLOCK_COUNTING_WORKER is their path, OARLOCK_KILLS how
often servers are killed (default 20), OARLOCK_SEED what is random (default: the
time, printed).
"""

import os
import random
import signal
import time
import unittest

import harness

SERVERS = 3
WORKERS = 2
KILLS = int(os.environ.get("OARLOCK_KILLS", "20"))
SEED = int(os.environ.get("OARLOCK_SEED", str(int(time.time()))))
# From a kill to the next one.
LONGEST_PAUSE_S = .6
SERVING_DEADLINE_S = 20


def counting_worker():
    return harness.program("OARLOCK_COUNTING_WORKER")


class KillTest(harness.SystemTest):

    def start_server(self, index, restarts):
        name = f"server{index}.{restarts}"
        variables = {"OARLOCK_RESTART": str(restarts)} if restarts else {}
        process = self.start(
            harness.oarlock(), "server", "--pserver_endpoints",
            ",".join(self.endpoints), "--current_endpoint",
            self.endpoints[index], "--trainers", str(WORKERS),
            "--checkpoint_dir", self.path("ckpt"), "--checkpoint_interval_s",
            "0.3", "--durability", "log", "--log_bytes_max", "4194304",
            "--num_partitions", "16", name=name, **variables)
        self.await_text(process.stderr_path, r"listening on",
                        SERVING_DEADLINE_S)
        return process

    def newest_checkpoint(self):
        name = harness.read_text(self.path("ckpt", "CURRENT")).split(" ")[0]
        return int(name.removeprefix("ckpt-")) if name else 0

    def test_every_push_is_applied_once_whoever_is_killed(self):
        print(f"seed {SEED}, {KILLS} kills")
        chance = random.Random(SEED)
        self.endpoints = [f"127.0.0.1:{port}"
                          for port in harness.free_ports(SERVERS)]
        servers = [self.start_server(i, 0) for i in range(SERVERS)]
        stop = self.path("stop")
        workers = [
            self.start(counting_worker(), ",".join(self.endpoints), str(i),
                       str(SEED + i), stop, name=f"worker{i}")
            for i in range(WORKERS)]
        self.await_true(lambda: self.newest_checkpoint() >= 1,
                        harness.PROGRESS_DEADLINE_S, "a checkpoint")
        for kill in range(KILLS):
            index = chance.randrange(SERVERS)
            end = time.monotonic() + chance.uniform(0, LONGEST_PAUSE_S)
            harness.await_condition(
                lambda: time.monotonic() >= end or
                not all(worker.running() for worker in workers),
                LONGEST_PAUSE_S * 2)
            for worker in workers:
                self.assertTrue(worker.running(), self.report())
            servers[index].send(signal.SIGKILL)
            self.await_end(servers[index])
            servers[index] = self.start_server(index, kill + 1)
        with open(stop, "w", encoding="utf-8"):
            pass
        for worker in workers:
            self.await_success(worker)
            self.assertRegex(worker.stdout, r"every row exact")
            print(worker.stdout.strip())
        for server in servers:
            self.await_success(server)
        self.assertGreater(self.newest_checkpoint(), 1)
        print(f"{self.newest_checkpoint()} cuts")


if __name__ == "__main__":
    unittest.main()
