"""Event files, read by a reader that shares nothing with their writer."""

import glob
import importlib.util
import math
import time
import unittest

import event_reader
import harness

EPOCHS = 3
# The AUC comes with every few reports of the workers: not all points have it.
TRAIN_TAGS = {"train/loss", "train/examples_per_second"}
TEST_TAGS = {"test/auc", "test/logloss"}
# A float32 of a double.
FLOAT_ERROR = 1e-6


class TensorboardTest(harness.SystemTest):

    def files(self):
        return sorted(glob.glob(self.path("events", "events.out.tfevents.*")))

    def train(self, *flags):
        return self.await_success(self.start_train(
            *harness.data_flags(), "--model", "lr", "--learning_rate", "0.05",
            "--batch_size", "128", "--epochs", str(EPOCHS),
            "--tensorboard_dir", self.path("events"),
            "--tensorboard_period_s", "0.05", *flags))

    def check_job(self, *flags):
        before = time.time()
        self.train(*flags)
        self.assertEqual(len(self.files()), 1, self.report())
        events = event_reader.events(self.files()[0])
        self.assertEqual(events[0].file_version, "brain.Event:2")
        for event in events:
            self.assertTrue(before - 1 <= event.wall_time <= time.time() + 1)
        training = [event for event in events
                    if "train/loss" in event.scalars]
        self.assertTrue(training, self.report())
        for event in training:
            self.assertLessEqual(TRAIN_TAGS, set(event.scalars))
            self.assertTrue(0 < event.scalars["train/loss"] < 1)
            self.assertGreater(event.scalars["train/examples_per_second"], 0)
        steps = [event.step for event in training]
        self.assertEqual(steps, sorted(set(steps)))
        return events, training

    def test_curves_are_those_of_the_summary(self):
        events, training = self.check_job("--server_num", "1", "--worker_num",
                                          "2")
        summary = self.summary()
        # The last point has all.
        self.assertAlmostEqual(training[-1].scalars["train/auc"],
                               summary["train_auc"], delta=FLOAT_ERROR)
        seen = [(event.step, event.scalars) for event in events
                if "test/auc" in event.scalars]
        expected = summary["evaluations"]
        self.assertEqual(len(seen), EPOCHS, self.report())
        self.assertEqual([evaluation["phase_name"] for evaluation in expected],
                         [f"test/{epoch}" for epoch in range(EPOCHS)])
        for (step, scalars), evaluation in zip(seen, expected):
            self.assertEqual(set(scalars), TEST_TAGS)
            self.assertEqual(step, evaluation["trained_steps"])
            for name in ("auc", "logloss"):
                self.assertTrue(math.isclose(
                    scalars[f"test/{name}"], evaluation[name],
                    rel_tol=FLOAT_ERROR))
        self.assertAlmostEqual(summary["test_auc"], expected[-1]["auc"])
        self.assertTrue(any("train/staleness_p99" in event.scalars
                            for event in training))

    def test_a_local_run_has_them_too_and_each_run_has_a_file(self):
        self.check_job()
        self.train()
        self.assertEqual(len(self.files()), 2)

    def test_the_reader_notices_any_flipped_bit(self):
        self.train()
        with open(self.files()[0], "rb") as file:
            data = bytearray(file.read())
        self.assertTrue(list(event_reader.records(bytes(data))))
        for at in range(0, min(len(data), 400)):
            data[at] ^= 1 << (at % 8)
            with self.assertRaises(event_reader.DamagedFile, msg=at):
                list(event_reader.records(bytes(data)))
            data[at] ^= 1 << (at % 8)

    @unittest.skipUnless(importlib.util.find_spec("tensorboard"),
                         "the tensorboard package is not installed")
    def test_tensorboard_reads_them(self):
        from tensorboard.backend.event_processing import event_accumulator
        self.train()
        board = event_accumulator.EventAccumulator(self.path("events"))
        board.Reload()
        self.assertLessEqual(TRAIN_TAGS | TEST_TAGS,
                             set(board.Tags()["scalars"]))
        self.assertEqual(len(board.Scalars("test/auc")), EPOCHS)

    def test_a_folder_that_cannot_be_written_ends_the_job(self):
        with open(self.path("events"), "w", encoding="ascii"):
            pass
        self.assert_fails(
            self.start_train(*harness.data_flags(), "--model", "lr",
                             "--tensorboard_dir", self.path("events")),
            r"oarlock train: cannot write .*events.out.tfevents", code=1)


if __name__ == "__main__":
    unittest.main()
