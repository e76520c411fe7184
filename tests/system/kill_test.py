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
network and in other modes than async a fifth), OARLOCK_FAULTS how many faults
of the network come when nobody is killed (default 500), OARLOCK_SEED what is
random (default: the time, printed).
"""

import contextlib
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
FAULTS = int(os.environ.get("OARLOCK_FAULTS", "500"))
FAULTY_KILLS = max(2, KILLS // 5)
# Of workers in half_async, and in ssp.
MODE_KILLS = max(2, KILLS // 5)
# Of the kills so many come as soon as the one before is over. The others come
# when the servers' logs have grown by some of `longest_pause_bytes`.
AT_ONCE = .2
SERVING_DEADLINE_S = 60

COUNTING_WORKERS = 2

ORACLE_WORKERS = 3
ORACLE_KILLS = max(1, KILLS * 2 // 5)
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
# What an epoch may take over the faulty network; three times what it takes on
# a busy machine.
LONGEST_EPOCH_S = 10
# A kill takes about so many epochs, at this pace.
KILLS_PER_EPOCH = 1
# A worker that is killed may stay away until its lease has run out, or a
# successor takes its place before. The job waits for one 3 s longer.
LEASE_S = 2
AWAY = .3

# Of calls that carry parameters, and of the others, which are rarer. A cut hits
# all connections of a server.
DATA_FAULTS = "drop=.01,delay=.02,duplicate=.02"
CONTROL_FAULTS = "drop=.05,delay=.1,duplicate=.15"
CUT_INTERVAL_MS = 1500
FAULT_KINDS = ("dropped_requests", "dropped_responses", "delayed_requests",
               "delayed_responses", "duplicates_now", "duplicates_late", "cuts")
# A tenth of what comes in a second.
SLOWEST_FAULTS_PER_S = 10
# What the proxy says of them at a time is shorter.
COUNTS_BYTES = 8192
DATA_CALLS = {"Batch", "PullDense", "PullSparse", "PushDense", "PushSparse"}


class Growth:
    """Bytes that have come into the files of a folder since it was made."""

    def __init__(self, folder):
        self.folder = folder
        self.sizes = self.sizes_now()
        self.bytes = 0

    def sizes_now(self):
        sizes = {}
        for folder, _, files in os.walk(self.folder):
            for name in files:
                path = os.path.join(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    sizes[path] = os.path.getsize(path)
        return sizes

    def look(self):
        # Files are cut short and go, too.
        before, self.sizes = self.sizes, self.sizes_now()
        self.bytes += sum(max(0, size - before.get(path, 0))
                          for path, size in self.sizes.items())
        return self.bytes


class KillTest(harness.SystemTest):
    """Servers that come back with every acknowledged push."""

    num_partitions = 16
    longest_pause_bytes = 0
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
        with open(self.proxy.stdout_path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - COUNTS_BYTES))
            whole, _, _ = file.read().rpartition(b"\n")
        line = whole.rpartition(b"\n")[2]
        return json.loads(line) if line else {}

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

    def await_faults(self, count=0):
        """Until faults of every kind have happened, and so many in all: a storm
        is as short as the machine is fast, and cuts come by the clock."""
        if not self.faulty:
            return

        def happened():
            self.check_living()
            self.proxy.send(signal.SIGUSR1)
            counts = self.fault_counts()
            return counts and not self.missing_faults() and sum(
                counts[kind] for kind in FAULT_KINDS) >= count

        self.await_true(
            happened,
            harness.PROGRESS_DEADLINE_S + count / SLOWEST_FAULTS_PER_S,
            f"{count} faults, of every kind")

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

        def started():
            self.tend()
            # One that is to die may do so before it listens: it logs before.
            if not process.running():
                self.assertTrue(fault, self.report())
                return True
            return re.search("listening on",
                             harness.read_text(process.stderr_path))

        self.await_true(started, SERVING_DEADLINE_S, f"{name} listening")
        return process

    def kill(self, process):
        process.send(signal.SIGKILL)
        self.await_end(process)

    def newest_checkpoint(self):
        name = harness.read_text(self.path("ckpt", "CURRENT")).split(" ")[0]
        return int(name.removeprefix("ckpt-")) if name else 0

    def living(self):
        """Those who must run while servers are killed."""
        return []

    def check_living(self):
        for process in self.living():
            self.assertTrue(process.running(), self.report())

    def tend(self):
        """What is to be done while a test waits."""

    def log_growth(self):
        return Growth(self.path("ckpt", "log"))

    def pause(self, chance):
        """Until the logs have grown by a random number of bytes; all who push
        must live on."""
        growth = self.log_growth()
        wanted = 0 if chance.random() < AT_ONCE else chance.randint(
            1, self.longest_pause_bytes)

        def grown():
            self.tend()
            self.check_living()
            return growth.look() >= wanted

        self.await_true(grown, harness.PROGRESS_DEADLINE_S,
                        f"{wanted} bytes more in the logs")

    def await_servers(self):
        for server in self.servers:
            self.await_success(server)
        self.assertGreater(self.newest_checkpoint(), 1)
        print(f"{self.newest_checkpoint()} cuts")
        self.check_faults()


class ServersKilledTest(KillTest):

    longest_pause_bytes = 4_000_000
    workers = ()

    def living(self):
        return self.workers

    def storm(self, kills, faults=0):
        """Kills, and lets the workers push until so many faults have come."""
        print(f"seed {SEED}, {kills} kills, {faults} faults")
        chance = random.Random(SEED)
        self.start_cluster(COUNTING_WORKERS)
        stop = self.path("stop")
        self.workers = [
            self.start(harness.program("OARLOCK_COUNTING_WORKER"),
                       ",".join(self.endpoints), str(i), str(SEED + i), stop,
                       name=f"worker{i}")
            for i in range(COUNTING_WORKERS)]
        self.await_true(lambda: self.newest_checkpoint() >= 1,
                        harness.PROGRESS_DEADLINE_S, "a checkpoint")
        for kill in range(kills):
            index = chance.randrange(SERVERS)
            self.pause(chance)
            self.kill(self.servers[index])
            self.servers[index] = self.start_server(index, kill + 1)
        # After a failure the next checkpoint takes its time.
        self.await_true(lambda: self.newest_checkpoint() > 1,
                        harness.PROGRESS_DEADLINE_S, "another checkpoint")
        self.await_faults(faults)
        with open(stop, "w", encoding="utf-8"):
            pass
        for worker in self.workers:
            self.await_success(worker)
            self.assertRegex(worker.stdout, r"every row exact")
            print(worker.stdout.strip())
        self.await_servers()

    def test_every_push_is_applied_once_whoever_is_killed(self):
        self.storm(KILLS)


class FaultyServersKilledTest(ServersKilledTest):
    faulty = True
    longest_pause_bytes = 2_000_000

    def test_every_push_is_applied_once_whoever_is_killed(self):
        self.storm(FAULTY_KILLS)

    def test_every_push_is_applied_once_when_nobody_is_killed(self):
        self.storm(0, FAULTS)


class ModelTest(KillTest):

    # So that each of the oracle's threads has some to itself.
    num_partitions = 32
    longest_pause_bytes = 6_000_000
    oracle = None

    def living(self):
        return [self.oracle]

    def pause_model(self, chance):
        """As long as a checkpoint of all its tables takes, mostly."""
        if chance.random() < .5:
            before = self.newest_checkpoint()
            self.await_true(lambda: self.newest_checkpoint() > before,
                            harness.PROGRESS_DEADLINE_S, "a checkpoint")
        self.pause(chance)

    def test_rows_state_and_dense_are_those_of_the_acknowledged_pushes(self):
        print(f"seed {SEED}, {ORACLE_KILLS} kills")
        chance = random.Random(SEED)
        self.start_cluster(ORACLE_WORKERS, "--tier_dir", self.path("tier"))
        stop, ended = self.path("stop"), self.path("ended")
        self.oracle = self.start(
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
                self.pause_model(chance)
                # The coordinator is one of them in any case.
                index = 0 if kill == 1 else chance.randrange(SERVERS)
                self.kill(self.servers[index])
                if kill < ORACLE_KILLS:
                    records = chance.randint(1, ORACLE_FAULT_RECORDS)
                    fault = f"{ORACLE_FAULT}:{records}"
            self.servers[index] = self.start_server(index, kill, fault)
        self.pause_model(chance)
        self.touch(stop)
        self.await_servers()
        self.touch(ended)
        self.await_success(self.oracle)
        self.assertRegex(self.oracle.stdout, r"dense blocks exact")
        print(self.oracle.stdout.strip())

    def touch(self, path):
        with open(path, "w", encoding="utf-8"):
            pass


class WorkersKilledTest(KillTest):

    # An epoch brings about 30 MB, so a kill comes before it is over.
    longest_pause_bytes = 8_000_000

    def setUp(self):
        super().setUp()
        self.trainers = []
        # Of those that are killed and not started again: when to do it.
        self.is_due = {}
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
            str(self.epochs), str(STEP_MS), self.path("speed_up"), self.mode,
            name=f"worker{index}.{self.starts}")

    def living(self):
        return [worker for worker in self.trainers if worker is not None]

    def kill_trainer(self, chance):
        """Kills one that runs; it is started again at once or later."""
        index = chance.choice([i for i, worker in enumerate(self.trainers)
                               if worker is not None])
        worker = self.trainers[index]
        self.kill(worker)
        self.trainers[index] = None
        # Of one that has not registered no lease runs out.
        away = chance.random() < AWAY and "registered, " in worker.stderr
        until_lost = chance.random() < .5
        wanted = chance.randint(1, self.longest_pause_bytes)
        growth = self.log_growth()

        def is_due():
            if not away or self.is_lost(worker):
                return True
            return not until_lost and growth.look() >= wanted

        self.is_due[index] = is_due
        self.tend()

    def is_lost(self, worker):
        """Whether its lease has run out."""
        return any(
            f"process {worker.pid}) was silent" in server.stderr
            for server in self.processes if server.name.startswith("server0."))

    def tend(self):
        """Starts those whose time has come, and one if none runs."""
        for index, worker in enumerate(self.trainers):
            if worker is None and (not self.living() or
                                   self.is_due[index]()):
                self.trainers[index] = self.start_trainer(index)

    def start_missing(self):
        for index, worker in enumerate(self.trainers):
            if worker is None:
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
        self.await_true(lambda: self.newest_checkpoint() >= 1,
                        harness.PROGRESS_DEADLINE_S, "a checkpoint")
        for kill in range(kills):
            self.pause(chance)
            victim = chance.choice(victims)
            restart_server = lambda: None
            if victim != "worker":
                restart_server = self.kill_server(chance, kill)
            if victim != "server":
                self.kill_trainer(chance)
            restart_server()
        self.start_missing()
        self.await_faults()
        with open(self.path("speed_up"), "w", encoding="utf-8"):
            pass
        for worker in self.trainers:
            self.await_success(worker, max(harness.JOB_DEADLINE_S,
                                           self.epochs * LONGEST_EPOCH_S))
        self.assertRegex(self.trainers[0].stdout,
                         r"every row and every dense parameter exact")
        print(self.trainers[0].stdout.strip())
        log = "".join(process.stderr for process in self.processes)
        print(f"{len(re.findall('completed push', log))} pushes completed, "
              f"{len(re.findall('had left in', log))} other push completions")
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
    longest_pause_bytes = 2_000_000

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
