"""Servers and workers are killed again and again while workers push and
checkpoints are made: no acknowledged push is lost, none is applied twice, and
every example's gradients reach every row and every dense parameter once. The
same holds over a network that drops, delays, repeats and cuts what it carries.

The workers count, so that parameters tell what was applied to them:
tests/stress/counting_worker.cc (OARLOCK_COUNTING_WORKER) pushes as fast as it
can, tests/stress/counting_trainer.cc (OARLOCK_COUNTING_TRAINER) trains over
leased data with the whole training loop. What counting cannot see, every update
rule with its state, statistics, dense tables and the order of pushes, is
compared with a model: tests/stress/replay_oracle.cc (OARLOCK_REPLAY_ORACLE). The
faulty network is tests/stress/faulty_proxy (OARLOCK_FAULTY_PROXY), between each
server and all others.

OARLOCK_KILLS is how often each test kills (default 8; the two with trainers
share them, the one with the model kills 2 times for 5, those over the faulty
network and in other modes than async a fifth), OARLOCK_FAULTY_S how long the network without kills is tried,
OARLOCK_SEED what is random (default: the time, printed).
"""

import glob
import json
import os
import random
import re
import signal
import time
import unittest

import harness

SERVERS = 3
KILLS = int(os.environ.get("OARLOCK_KILLS", "8"))
SEED = int(os.environ.get("OARLOCK_SEED", str(int(time.time()))))
FAULTY_S = float(os.environ.get("OARLOCK_FAULTY_S", "4"))
FAULTY_KILLS = max(2, KILLS // 5)
# Of workers in half_async, and in ssp.
MODE_KILLS = max(2, KILLS // 5)
# From a kill to the next one.
LONGEST_PAUSE_S = .6
SERVING_DEADLINE_S = 60

COUNTING_WORKERS = 2

ORACLE_WORKERS = 3
ORACLE_KILLS = max(1, KILLS * 2 // 5)
# Longer than a checkpoint of all its tables takes, mostly.
ORACLE_LONGEST_PAUSE_S = 2
# Every other death is one between writing a push down and applying it, which a
# kill at random hits rarely: the push is in the log and is sent again. It comes
# within so many records.
ORACLE_FAULT = "log.append.after_write"
ORACLE_FAULT_RECORDS = 300

TRAINERS = 3
DATA_ROWS = 24000
DATA_FILES = 3
# Of the lines of a file one in so many is no example.
BAD_LINE_PERIOD = 997
STEP_MS = 10
# What a pass may take over the faulty network; three times what it takes on a
# busy machine.
LONGEST_PASS_S = 10
# A kill takes about so many passes, at this pace.
KILLS_PER_EPOCH = 1
# A worker that is killed stays away for up to AWAY_S: its lease runs out, or a
# successor takes its place before. The job waits for one 3 s longer.
LEASE_S = 2
AWAY_S = 3

# Of calls that carry parameters, and of the others, which are rarer. A cut hits
# all connections of a server.
DATA_FAULTS = "drop=.01,delay=.02,duplicate=.02"
CONTROL_FAULTS = "drop=.05,delay=.1,duplicate=.15"
CUT_INTERVAL_MS = 1500
DATA_CALLS = {"Batch", "PullDense", "PullSparse", "PushDense", "PushSparse"}


class KillTest(harness.SystemTest):
    """Servers that come back with every acknowledged push."""

    num_partitions = 16
    # Whether everybody calls the servers over the faulty network.
    faulty = False

    def start_cluster(self, workers, *flags):
        self.num_workers = workers
        self.server_flags = flags
        ports = harness.free_ports(2 * SERVERS if self.faulty else SERVERS)
        # Where a server listens, and where others find it.
        self.own_endpoints = [f"127.0.0.1:{port}" for port in ports[:SERVERS]]
        self.endpoints = [f"127.0.0.1:{port}" for port in ports[-SERVERS:]]
        if self.faulty:
            self.start_proxy(ports[:SERVERS], ports[SERVERS:])
        self.servers = [self.start_server(i, 0) for i in range(SERVERS)]

    def start_proxy(self, targets, ports):
        routes = ",".join(f"{port}={target}"
                          for port, target in zip(ports, targets))
        self.proxy = self.start(
            harness.program("OARLOCK_FAULTY_PROXY"), str(SEED), routes,
            DATA_FAULTS, CONTROL_FAULTS, str(CUT_INTERVAL_MS), name="proxy")
        self.await_text(self.proxy.stderr_path, "forwards")

    def fault_counts(self):
        """What the proxy has last said that it has done."""
        lines = self.proxy.stdout.splitlines(keepends=True)
        lines = [line for line in lines if line.endswith("\n")]
        return json.loads(lines[-1]) if lines else {}

    def missing_faults(self):
        """Those that have not happened, on both planes where calls repeat."""
        counts = self.fault_counts()
        twice = set(counts.pop("duplicates", ()))
        missing = [kind for kind, count in counts.items() if not count]
        if not twice & DATA_CALLS:
            missing.append("duplicates of data")
        if not twice - DATA_CALLS:
            missing.append("duplicates of control")
        return missing

    def await_faults(self):
        """Until faults of every kind have happened: a storm is as short as the
        machine is fast, and cuts come by the clock."""
        if not self.faulty:
            return

        def happened():
            self.proxy.send(signal.SIGUSR1)
            return not self.missing_faults()

        self.await_true(happened, harness.PROGRESS_DEADLINE_S,
                        "faults of every kind")

    def check_faults(self):
        """Ends the proxy, which has done all that it can."""
        if not self.faulty:
            return
        self.proxy.send(signal.SIGTERM)
        self.await_success(self.proxy)
        counts = self.fault_counts()
        print(json.dumps(counts))
        self.assertEqual(counts["seed"], SEED)
        self.assertEqual(self.missing_faults(), [], self.report())

    def start_server(self, index, restarts, fault=""):
        endpoints = list(self.endpoints)
        endpoints[index] = self.own_endpoints[index]
        name = f"server{index}.{restarts}"
        variables = {"OARLOCK_RESTART": str(restarts)} if restarts else {}
        if fault:
            variables["OARLOCK_FAULT"] = f"{fault}@{restarts}"
        process = self.start(
            harness.oarlock(), "server", "--pserver_endpoints",
            ",".join(endpoints), "--current_endpoint",
            endpoints[index], "--trainers", str(self.num_workers),
            "--checkpoint_dir", self.path("ckpt"), "--checkpoint_interval_s",
            "0.3", "--durability", "log", "--log_bytes_max", "4194304",
            "--num_partitions", str(self.num_partitions), *self.server_flags,
            name=name, **variables)
        self.await_text(process.stderr_path, r"listening on",
                        SERVING_DEADLINE_S)
        return process

    def kill(self, process):
        process.send(signal.SIGKILL)
        self.await_end(process)

    def newest_checkpoint(self):
        name = harness.read_text(self.path("ckpt", "CURRENT")).split(" ")[0]
        return int(name.removeprefix("ckpt-")) if name else 0

    def pause(self, chance, processes, longest_s=LONGEST_PAUSE_S):
        """Waits at random; all processes must live on."""
        end = time.monotonic() + chance.uniform(0, longest_s)
        harness.await_condition(
            lambda: time.monotonic() >= end or
            not all(process.running() for process in processes),
            longest_s * 2)
        for process in processes:
            self.assertTrue(process.running(), self.report())

    def await_servers(self):
        for server in self.servers:
            self.await_success(server)
        self.assertGreater(self.newest_checkpoint(), 1)
        print(f"{self.newest_checkpoint()} cuts")
        self.check_faults()


class ServersKilledTest(KillTest):

    def storm(self, kills, calm_s):
        """Kills, and then lets the workers push for calm_s seconds more."""
        print(f"seed {SEED}, {kills} kills")
        chance = random.Random(SEED)
        self.start_cluster(COUNTING_WORKERS)
        stop = self.path("stop")
        workers = [
            self.start(harness.program("OARLOCK_COUNTING_WORKER"),
                       ",".join(self.endpoints), str(i), str(SEED + i), stop,
                       name=f"worker{i}")
            for i in range(COUNTING_WORKERS)]
        self.await_true(lambda: self.newest_checkpoint() >= 1,
                        harness.PROGRESS_DEADLINE_S, "a checkpoint")
        for kill in range(kills):
            index = chance.randrange(SERVERS)
            self.pause(chance, workers)
            self.kill(self.servers[index])
            self.servers[index] = self.start_server(index, kill + 1)
        end = time.monotonic() + calm_s
        harness.await_condition(
            lambda: time.monotonic() >= end or
            not all(worker.running() for worker in workers), calm_s + 1)
        # After a failure the next checkpoint takes its time.
        self.await_true(lambda: self.newest_checkpoint() > 1,
                        harness.PROGRESS_DEADLINE_S, "another checkpoint")
        self.await_faults()
        with open(stop, "w", encoding="utf-8"):
            pass
        for worker in workers:
            self.await_success(worker)
            self.assertRegex(worker.stdout, r"every row exact")
            print(worker.stdout.strip())
        self.await_servers()

    def test_every_push_is_applied_once_whoever_is_killed(self):
        self.storm(KILLS, 0)


class FaultyServersKilledTest(ServersKilledTest):
    faulty = True

    def test_every_push_is_applied_once_whoever_is_killed(self):
        self.storm(FAULTY_KILLS, 0)

    def test_every_push_is_applied_once_when_nobody_is_killed(self):
        self.storm(0, FAULTY_S)


class ModelTest(KillTest):

    # So that each of the oracle's lanes has some to itself.
    num_partitions = 32

    def test_rows_state_and_dense_are_those_of_the_acknowledged_pushes(self):
        print(f"seed {SEED}, {ORACLE_KILLS} kills")
        chance = random.Random(SEED)
        self.start_cluster(ORACLE_WORKERS, "--tier_dir", self.path("tier"))
        stop, ended = self.path("stop"), self.path("ended")
        oracle = self.start(
            harness.program("OARLOCK_REPLAY_ORACLE"), ",".join(self.endpoints),
            str(SEED), stop, ended, self.path("ckpt"), name="oracle")
        self.await_true(lambda: self.newest_checkpoint() >= 1,
                        harness.PROGRESS_DEADLINE_S, "a checkpoint")
        fault = ""
        for kill in range(1, ORACLE_KILLS + 1):
            if fault:
                self.await_end(self.servers[index])
                fault = ""
            else:
                self.pause(chance, [oracle], ORACLE_LONGEST_PAUSE_S)
                # The coordinator is one of them in any case.
                index = 0 if kill == 1 else chance.randrange(SERVERS)
                self.kill(self.servers[index])
                if kill < ORACLE_KILLS:
                    records = chance.randint(1, ORACLE_FAULT_RECORDS)
                    fault = f"{ORACLE_FAULT}:{records}"
            self.servers[index] = self.start_server(index, kill, fault)
        self.pause(chance, [oracle], ORACLE_LONGEST_PAUSE_S)
        self.touch(stop)
        self.await_servers()
        self.touch(ended)
        self.await_success(oracle)
        self.assertRegex(oracle.stdout, r"dense blocks exact")
        print(oracle.stdout.strip())

    def touch(self, path):
        with open(path, "w", encoding="utf-8"):
            pass


class WorkersKilledTest(KillTest):

    def setUp(self):
        super().setUp()
        harness.generate_criteo(self.folder, DATA_ROWS, DATA_FILES, seed=5)
        for path in glob.glob(self.path("part-*")):
            with open(path, encoding="utf-8") as file:
                lines = file.readlines()
            lines[::BAD_LINE_PERIOD] = ["no example\n"] * len(
                lines[::BAD_LINE_PERIOD])
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(lines)

    def start_trainer(self, index):
        self.starts += 1
        return self.start(
            harness.program("OARLOCK_COUNTING_TRAINER"),
            ",".join(self.endpoints), str(index), self.path("part-*"),
            str(self.epochs), str(STEP_MS), self.path("hurry"), self.mode,
            name=f"worker{index}.{self.starts}")

    def running(self):
        return [worker for worker in self.trainers if worker is not None]

    def kill_trainer(self, chance):
        """Kills one that runs; it is started again at once or later."""
        index = chance.choice([i for i, worker in enumerate(self.trainers)
                               if worker is not None])
        self.kill(self.trainers[index])
        self.trainers[index] = None
        # Not twice in a row: killed again before it has registered, it would be
        # away for longer than a job waits for a successor.
        away = chance.random() < .3 and not self.was_away[index]
        self.was_away[index] = away
        self.back_at[index] = time.monotonic() + (
            chance.uniform(0, AWAY_S) if away else 0)
        self.start_missing(time.monotonic())

    def start_missing(self, now):
        """Starts those whose time has come, and one if none runs."""
        for index, worker in enumerate(self.trainers):
            if worker is None and (now >= self.back_at[index] or
                                   not self.running()):
                self.trainers[index] = self.start_trainer(index)

    def kill_server(self, chance, kill):
        index = chance.randrange(SERVERS)
        self.kill(self.servers[index])
        return lambda: self.servers.__setitem__(
            index, self.start_server(index, kill + 1))

    def storm(self, seed, kills, victims, mode="async"):
        print(f"seed {seed}, {kills} kills, {mode}")
        self.mode = mode
        chance = random.Random(seed)
        self.epochs = max(3, kills // KILLS_PER_EPOCH)
        self.starts = 0
        self.start_cluster(TRAINERS, "--lease_s", str(LEASE_S))
        self.trainers = [self.start_trainer(i) for i in range(TRAINERS)]
        self.back_at = [0] * TRAINERS
        self.was_away = [False] * TRAINERS
        self.await_true(lambda: self.newest_checkpoint() >= 1,
                        harness.PROGRESS_DEADLINE_S, "a checkpoint")
        for kill in range(kills):
            self.pause(chance, self.running())
            self.start_missing(time.monotonic())
            victim = chance.choice(victims)
            restart_server = lambda: None
            if victim != "worker":
                restart_server = self.kill_server(chance, kill)
            if victim != "server":
                self.kill_trainer(chance)
            restart_server()
        self.start_missing(float("inf"))
        self.await_faults()
        with open(self.path("hurry"), "w", encoding="utf-8"):
            pass
        for worker in self.trainers:
            self.await_success(worker, max(harness.JOB_DEADLINE_S,
                                           self.epochs * LONGEST_PASS_S))
        self.assertRegex(self.trainers[0].stdout,
                         r"every row and every dense parameter exact")
        print(self.trainers[0].stdout.strip())
        log = "".join(process.stderr for process in self.processes)
        print(f"{len(re.findall('completed push', log))} pushes completed, "
              f"{len(re.findall('had left in', log))} other repairs")
        self.await_servers()

    def test_every_example_counts_once_whichever_workers_are_killed(self):
        self.storm(SEED, KILLS - KILLS // 2, ["worker"])

    def test_every_example_counts_once_whoever_is_killed(self):
        self.storm(SEED + 1, KILLS // 2, ["worker", "server", "both"])


    def test_every_example_counts_once_in_half_async(self):
        self.storm(SEED + 2, MODE_KILLS, ["worker", "both"], "half_async")

    def test_every_example_counts_once_in_ssp(self):
        self.storm(SEED + 3, MODE_KILLS, ["worker", "both"], "ssp")


class FaultyWorkersKilledTest(WorkersKilledTest):
    faulty = True

    def test_every_example_counts_once_in_half_async(self):
        self.skipTest("over a good network")

    def test_every_example_counts_once_in_ssp(self):
        self.skipTest("over a good network")

    def test_every_example_counts_once_whichever_workers_are_killed(self):
        self.storm(SEED, FAULTY_KILLS // 2, ["worker"])

    def test_every_example_counts_once_whoever_is_killed(self):
        self.storm(SEED + 1, FAULTY_KILLS - FAULTY_KILLS // 2,
                   ["worker", "server", "both"])


if __name__ == "__main__":
    unittest.main()
