"""What Python declares gives the rows that C++ declares: the same batches, the same
bits.

A program of the C++ client (tests/client/replay_batches.cc) creates the tables of
rules_tables.txt, and Python those of rules_cases.py, on servers of their own. Both
push the same rounds to all tables. A tick of logical time ends with each epoch, so that
what is evicted does not depend on the time that the test takes.
"""

import dataclasses
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unittest

import numpy as np

import rules_cases
from oarlock_testing import ROOT, oarlock
from oarlock import rules

TABLES = ROOT / "tests" / "python" / "rules_tables.txt"
EPOCHS, ROUNDS = 5, 6
NUM_KEYS, BATCH = 600, 250
# Of a round, of the end of an epoch, and of the end: see replay_batches.cc.
ROUND_WORD, EPOCH_WORD, END_WORD = 1, 2, 3
COUNTERS = ("rows", "admitted_rows", "rejected_keys", "evicted_rows")


@dataclasses.dataclass
class Batch:
    """One round. All but `dense` have an entry for each key; keys occur twice."""

    keys: np.ndarray
    gradients: np.ndarray
    shows: np.ndarray
    clicks: np.ndarray
    dense: np.ndarray

    def to_bytes(self):
        """As replay_batches.cc reads it."""
        return b"".join([
            struct.pack("<II", ROUND_WORD, self.keys.size), self.keys.tobytes(),
            self.gradients.tobytes(), self.shows.tobytes(), self.clicks.tobytes(),
            struct.pack("<I", self.dense.size), self.dense.tobytes()])


def random_gradients(generator, shape):
    """Mostly around 1; some are as small as a float32 gets, or so large that their
    squares are infinite, but no sum of a batch is."""
    values = (generator.standard_normal(shape)
              * 10 ** generator.uniform(-4, 1, shape)).astype(np.float32)
    odd = generator.random(shape) < 0.004
    values[odd] = generator.choice(
        np.array([1e-45, -1e-39, 1e-30, -0.0, 3e7, -1e19, 1e36], np.float32),
        np.count_nonzero(odd))
    return values


def random_batches(generator, keys):
    """[EPOCHS][ROUNDS]. An epoch has its own part of the keys, some of them often."""
    def batch(epoch):
        window = keys[80 * epoch:80 * epoch + 280]
        chosen = window[(len(window) * generator.random(BATCH) ** 2).astype(int)]
        shows = generator.integers(0, 4, BATCH).astype(np.float32)
        return Batch(chosen, random_gradients(generator, (BATCH, rules_cases.DIM)),
                     shows, np.floor(shows * generator.random(BATCH) ** 2
                                     ).astype(np.float32) * np.float32(0.75),
                     random_gradients(generator, rules_cases.SIZE))

    return [[batch(epoch) for _ in range(ROUNDS)] for epoch in range(EPOCHS)]


def bits(array):
    return np.ascontiguousarray(array, np.float32).reshape(-1).view(np.uint32)


@dataclasses.dataclass
class Outcome:
    """What a cluster held.

    Attributes:
        rows: {table: [EPOCHS][floats] uint32}, the bits at the end of each epoch.
        counters: {table: {one of COUNTERS: over all servers}}.
        configs: {table: JSON of TableConfig}, as the servers have it.
        checkpoint: a folder.
    """

    rows: dict
    counters: dict
    configs: dict
    checkpoint: str


class RulesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        seed = int(os.environ.get("OARLOCK_SEED", random.SystemRandom().randrange(
            2**32)))
        print(f"seed {seed}: OARLOCK_SEED={seed} repeats it", flush=True)
        generator = np.random.default_rng(seed)
        cls.keys = np.unique(generator.integers(0, 2**64, NUM_KEYS, np.uint64))
        generator.shuffle(cls.keys)
        cls.batches = random_batches(generator, cls.keys)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.text = TABLES.read_text()
        cls.names = re.findall('^name: "([^"]*)"', cls.text, re.MULTILINE)
        cls.cpp = cls.run_on_cluster("cpp", cls.replay)
        cls.python = cls.run_on_cluster("python", cls.train)

    # -- Both sides -----------------------------------------------------------

    @classmethod
    def run_on_cluster(cls, name, work):
        """The Outcome of work(cluster), which returns Outcome.rows."""
        with oarlock.LocalCluster(
                servers=2, num_partitions=16, tick_per_epoch=True,
                checkpoint_dir=str(cls.folder / name)) as cluster:
            rows = work(cluster)
            counters, configs = {}, {}
            with cluster.connect(mode="sync") as reader:
                for server in range(2):
                    status = reader.call("ServerAdminService/GetServerStatus",
                                         server=server)
                    for table in status["tables"]:
                        config = table["config"]
                        configs[config["name"]] = config
                        counts = counters.setdefault(
                            config["name"], dict.fromkeys(COUNTERS, 0))
                        for counter in COUNTERS:
                            counts[counter] += int(table[counter])
                return Outcome(rows, counters, configs, reader.checkpoint())

    @classmethod
    def replay(cls, cluster):
        """The C++ program."""
        keys = struct.pack("<II", EPOCH_WORD, cls.keys.size) + cls.keys.tobytes()
        batches, rows = cls.folder / "batches", cls.folder / "rows"
        batches.write_bytes(
            b"".join(b"".join(map(Batch.to_bytes, epoch)) + keys
                     for epoch in cls.batches) + struct.pack("<I", END_WORD))
        subprocess.run(
            [os.environ["OARLOCK_REPLAY_BATCHES"], cluster.address, cluster.job_id,
             cluster.token_file, str(TABLES), str(batches), str(rows)],
            check=True, timeout=300)
        sizes = [rules_cases.SIZE if name in rules_cases.DENSE
                 else cls.keys.size * rules_cases.DIM for name in cls.names]
        epochs = np.fromfile(rows, "<u4").reshape(EPOCHS, sum(sizes))
        pieces = np.split(epochs, np.cumsum(sizes)[:-1], axis=1)
        return dict(zip(cls.names, pieces))

    @classmethod
    def train(cls, cluster, names=None, statistics=True):
        """The same in Python, with the tables declared in the order of `names`."""
        found = {}
        with cluster.join(mode="sync") as job:
            tables = {name: rules_cases.create(job, name)
                      for name in names or cls.names}
            for epoch, batches in enumerate(cls.batches):
                for part in job.lease("train", epoch=epoch, total=ROUNDS, block=1):
                    cls.push(job, part, tables, batches[part.begin], statistics)
                for name, table in tables.items():
                    values = (table.join(table.pull()) if name in rules_cases.DENSE
                              else table.pull(cls.keys).gather())
                    found.setdefault(name, []).append(bits(values))
        return {name: np.array(epochs) for name, epochs in found.items()}

    @staticmethod
    def push(job, part, tables, batch, statistics):
        pulled = job.pull([(table, batch.keys) for name, table in tables.items()
                           if name in rules_cases.SPARSE])
        distinct = len(pulled[0])
        gradients = pulled[0].scatter_add(batch.gradients)
        shows, clicks = (np.bincount(pulled[0].inverse, each, distinct)
                         for each in (batch.shows, batch.clicks))
        with job.step(part) as step:
            for rows in pulled:
                if statistics and "ctr" in rules_cases.SPARSE[rows.table.name]:
                    step.push(rows, gradients, shows=shows, clicks=clicks)
                else:
                    step.push(rows, gradients)
            for name in rules_cases.DENSE:
                if name in tables:
                    step.push_dense(tables[name], batch.dense)

    # -- What is the same, and what is not ------------------------------------

    def assert_same(self, outcome, names):
        for name in names:
            with self.subTest(table=name):
                np.testing.assert_array_equal(outcome.rows[name],
                                              self.cpp.rows[name])
                self.assertEqual(outcome.counters[name], self.cpp.counters[name])
                self.assertEqual(outcome.configs[name], self.cpp.configs[name])
        # Optimizer state and statistics too.
        compared = subprocess.run(
            [oarlock.program(), "checkpoint", "diff", outcome.checkpoint,
             self.cpp.checkpoint], stdout=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(compared.returncode, 0, compared.stdout)

    def assert_different(self, names):
        """No two of these tables have the same bits."""
        owners = {}
        for name in names:
            with self.subTest(table=name):
                owner = owners.setdefault(self.python.rows[name].tobytes(), name)
                self.assertEqual(owner, name)

    def test_tables_from_python_have_the_bits_of_those_from_cpp(self):
        self.assertEqual({*self.names},
                         {*rules_cases.SPARSE, *rules_cases.DENSE})
        self.assert_same(self.python, self.names)

    def test_tables_declared_in_another_order_have_the_same_bits(self):
        reverse = self.names[::-1]
        self.assert_same(self.run_on_cluster(
            "reverse", lambda cluster: self.train(cluster, reverse)), reverse)

    def test_shows_and_clicks_decide_who_comes_and_who_goes(self):
        names = ["sgd", "show_click", "low_score", "lowest", "decay", "divided"]
        without = self.run_on_cluster("without", lambda cluster: self.train(
            cluster, names, statistics=False))
        for name in names:
            with self.subTest(table=name):
                self.assertEqual(
                    np.array_equal(without.rows[name], self.python.rows[name]),
                    name == "sgd")
        self.assertEqual(without.counters["show_click"]["rows"], 0)
        self.assertEqual(without.counters["low_score"]["rows"], 0)

    def test_each_rule_and_option_makes_other_rows(self):
        self.assert_different(rules_cases.OPTIMIZERS)
        self.assert_different([*rules_cases.INITIALS, "sgd"])
        self.assert_different([*rules_cases.ADMISSIONS, "sgd", "divided"])
        self.assert_different([*rules_cases.EVICTIONS, "sgd", "everything"])
        self.assert_different(rules_cases.DENSE)

    def test_rules_that_let_rows_go_let_some_go_and_some_stay(self):
        for name, declared in rules_cases.SPARSE.items():
            counters = self.python.counters[name]
            with self.subTest(table=name, **counters):
                self.assertEqual(counters["rejected_keys"] > 0,
                                 "admission" in declared)
                self.assertEqual(counters["evicted_rows"] > 0,
                                 "eviction" in declared)
                self.assertGreater(counters["rows"], 0)
                self.assertEqual(counters["admitted_rows"],
                                 counters["rows"] + counters["evicted_rows"])

    def test_each_argument_of_each_rule_has_a_case(self):
        given = set()
        for declared in [*rules_cases.SPARSE.values(), *rules_cases.DENSE.values()]:
            for rule in declared.values():
                if dataclasses.is_dataclass(rule):
                    given.update((type(rule).__name__, field.name)
                                 for field in dataclasses.fields(rule)
                                 if getattr(rule, field.name) is not None)
        common = {field.name for field in dataclasses.fields(rules.Optimizer)}
        for name, kind in vars(rules).items():
            if not dataclasses.is_dataclass(kind) or kind is rules.Optimizer:
                continue
            # What all optimizers have is the same code: one of them has it.
            wanted = {(name, field.name) for field in dataclasses.fields(kind)
                      if field.name not in common or name == "Sgd"
                      or field.name == "learning_rate"}
            with self.subTest(rule=name):
                self.assertEqual(wanted - given, set())


if __name__ == "__main__":
    unittest.main()
