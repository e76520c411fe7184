"""Metrics over the examples of all workers."""

import pathlib
import subprocess
import sys
import unittest

import numpy as np

from oarlock_testing import oarlock

HERE = pathlib.Path(__file__).absolute().parent
EXAMPLES = 20000

# Evaluates every other example, in two pieces.
WORKER = """
import sys
sys.path.insert(0, %(tests)r)
from evaluation_test import predictions_of
from oarlock_testing import oarlock

rank = %(rank)d
with oarlock.join(%(address)r, rank=rank, world=2, token_file=%(token)r) as job:
    labels, predictions = predictions_of(%(seed)d)
    evaluation = job.evaluation("test")
    for begin in (rank, rank + 2):
        evaluation.add(labels[begin::4], predictions[begin::4])
    print(repr(tuple(evaluation.sum())))
"""


def predictions_of(seed):
    """Labels and predictions of some use, with ties."""
    random = np.random.default_rng(seed)
    labels = (random.random(EXAMPLES) < 0.2).astype(np.float32)
    scores = labels + random.normal(0, 1.5, EXAMPLES) - 2
    return labels, np.round(1 / (1 + np.exp(-scores)), 4).astype(np.float32)


def auc_of(labels, predictions):
    """Mann and Whitney, 1947: ties count half."""
    values, inverse, counts = np.unique(predictions, return_inverse=True,
                                        return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positives = labels.sum()
    below = ranks[labels == 1].sum() - positives * (positives + 1) / 2
    return below / (positives * (len(labels) - positives))


class EvaluationTest(unittest.TestCase):

    def check(self, result, labels, predictions):
        self.assertEqual(result.examples, len(labels))
        self.assertAlmostEqual(result.label_mean, labels.mean(), 6)
        self.assertAlmostEqual(result.auc, auc_of(labels, predictions), 4)
        p = np.clip(predictions.astype(np.float64), 2**-24, 1 - 2**-24)
        logloss = -np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p))
        self.assertAlmostEqual(result.logloss, logloss, 6)

    def test_the_sums_of_two_workers(self):
        labels, predictions = predictions_of(7)
        with oarlock.LocalCluster(servers=2) as cluster:
            workers = [subprocess.Popen(
                [sys.executable, "-c", WORKER % {
                    "tests": str(HERE), "address": cluster.address, "rank": rank,
                    "token": cluster.token_file, "seed": 7}],
                stdout=subprocess.PIPE, text=True) for rank in range(2)]
            told = [worker.communicate(timeout=60)[0] for worker in workers]
            self.assertEqual([worker.returncode for worker in workers], [0, 0])
            self.assertEqual(told[0], told[1])
            name, *values = eval(told[0])  # NOLINT: a tuple that it printed.
            self.check(oarlock.EvaluationResult(name, *values), labels, predictions)
            self.assertEqual(name, "test/0")
            with cluster.connect() as reader:
                listed = reader.status()["evaluations"]
                self.assertEqual([each["work"] for each in listed], ["test/0"])
                self.assertEqual(listed[0]["auc"], values[1])

    def test_the_job_knows_what_was_trained_when_a_worker_has_left(self):
        with oarlock.LocalCluster() as cluster, cluster.connect() as reader:
            for turn in range(20):
                with cluster.join() as job:
                    steps = sum(1 for _ in job.lease("train", total=100, block=10))
                self.assertEqual(steps, 10)
                progress, = (each["progress"] for each in reader.status()["phases"])
                self.assertEqual((progress["phase"], progress["examples"],
                                  progress["steps"]), ("train", "100", "10"))

    def test_each_evaluation_is_of_its_own(self):
        labels, predictions = predictions_of(8)
        with oarlock.LocalCluster() as cluster, cluster.join() as job:
            for begin in (0, 100):
                evaluation = job.evaluation("test")
                self.assertEqual(evaluation.epoch, begin // 100)
                evaluation.add(labels[begin:], predictions[begin:])
                self.check(evaluation.sum(), labels[begin:], predictions[begin:])
            with self.assertRaisesRegex(oarlock.FailedPreconditionError,
                                        "'test/1' was summed up before"):
                evaluation.sum()
            nothing = job.evaluation("nothing").sum()
            self.assertEqual(nothing.examples, 0)
            self.assertTrue(np.isnan(nothing.auc))

    def test_what_is_no_label_or_no_probability_is_refused_as_a_whole(self):
        with oarlock.LocalCluster() as cluster, cluster.join() as job:
            evaluation = job.evaluation()
            evaluation.add([0, 1], [0.0, 1.0])
            for labels, predictions, why in (
                    ([1, 2], [0.5, 0.5], "label 1 is 2; legal are 0 and 1"),
                    ([1, 0], [0.5, 1.5], "prediction 1 is 1.5; legal are prob"),
                    ([1, 0], [np.nan, 0], "prediction 0 is nan"),
                    ([1], [0.5, 0.5], r"labels are \(1,\), predictions \(2,\)")):
                with self.assertRaisesRegex(oarlock.InvalidArgumentError, why):
                    evaluation.add(labels, predictions)
            list(job.lease("train", total=1))
            with self.assertRaisesRegex(oarlock.InvalidArgumentError,
                                        "'train/0' is a work"):
                job.evaluation("train").add([1], [0.5])
            for i in range(15):
                job.evaluation(f"more{i}").add([1], [0.5])
            with self.assertRaisesRegex(oarlock.ResourceExhaustedError,
                                        "legal are 16"):
                job.evaluation("onemore").add([1], [0.5])
            result = evaluation.sum()
            self.assertEqual((result.examples, result.auc), (2, 1.0))
            self.assertLess(result.logloss, 1e-6)


if __name__ == "__main__":
    unittest.main()
