"""Jobs on every format of lines, from files and through commands. What a
checkpoint says of the format is all that those who score with it need.
"""

import gzip
import os
import unittest

import harness
import scoring

FILES = 4
ROWS_A_FILE = 1000
SEED = 29
# Sync, so that what a test learns does not depend on how the machine is loaded:
# of stale gradients at such a rate one job in many learns nothing.
TRAIN = ["--mode", "sync", "--batch_size", "64", "--learning_rate", "0.05"]


def libsvm_row(source):
    """A feature tells the label, mostly; another's value says nothing."""
    hint = source.randrange(2)
    label = hint if source.random() < .8 else 1 - hint
    return f"{label} {10 + hint}:1 {20 + source.randrange(50)}:0.5"


def slots_row(source):
    """Three slots and no dense feature. One of the second slot's values tells
    the label, mostly; the first has no value in every third line or so.
    """
    hint = source.randrange(2)
    label = hint if source.random() < .8 else 1 - hint
    slots = [[source.randrange(50) for _ in range(source.randrange(3))],
             [100 + source.randrange(50), 10 + hint],
             [200 + source.randrange(50) for _ in range(3)]]
    return " ".join(f"{len(slot)} {' '.join(map(str, slot))}".strip()
                    for slot in slots) + f" 1 {label}"


SLOTS = ["--data_format", "multi_slot", "--dense_dim", "0", "--num_slots", "3"]


class FormatsTest(scoring.ScoringTest):

    def write_parts(self, make_row):
        """part-0 to part-3, of rows as scoring.rows_of has them."""
        rows = scoring.rows_of(make_row, SEED, FILES * ROWS_A_FILE)
        for number in range(FILES):
            begin = number * ROWS_A_FILE
            self.write_lines(f"part-{number}",
                             rows[begin:begin + ROWS_A_FILE])

    def train(self, *flags, workers=2, log_dir="logs"):
        """A job on part-0 to part-2, tested on part-3, with a checkpoint."""
        self.await_success(self.start_train(
            "--server_num", "1", "--worker_num", str(workers), "--log_dir",
            log_dir, *TRAIN, "--train_files", "part-[012]", "--test_files",
            "part-3", "--checkpoint_dir", "checkpoints", *flags))
        self.assert_nothing_runs()
        return self.summary(log_dir)

    def test_what_was_trained_through_a_command_as_libsvm_is_scored_as_such(
            self):
        self.write_parts(libsvm_row)
        summary = self.train("--model", "lr", "--data_format", "libsvm",
                             "--pipe_command", "cat")
        self.assertEqual(summary["examples"], 3 * ROWS_A_FILE)
        self.assertGreater(summary["test_auc"], .7)
        checkpoint = ["--checkpoint", "checkpoints"]
        scores, process = self.scores(*checkpoint, files="part-3")
        self.assertIn(f"AUC       {summary['test_auc']:.6f}", process.stdout)
        piped, _ = self.scores(*checkpoint, "--pipe_command", "cat",
                               files="part-3")
        self.assert_close(scores, piped, relative=0)
        # The checkpoint knows what the lines are, and so does what is exported.
        self.await_success(self.export("model"))
        self.assert_readers_agree(scores, "model", files="part-3")

    def test_a_command_may_write_criteo_text_if_that_is_said(self):
        criteo = ["--data_format", "criteo", "--pipe_command", "gzip -dc"]
        for number in range(FILES):
            with open(f"{harness.data_dir()}/part-{number}", "rb") as file, \
                    gzip.open(self.path(f"part-{number}"), "wb") as packed:
                packed.writelines(file.readlines()[:ROWS_A_FILE])
        summary = self.train("--model", "lr", *criteo)
        self.assertEqual(summary["examples"], 3 * ROWS_A_FILE)
        # The format is in the checkpoint, the command is not.
        _, process = self.scores(
            "--checkpoint", "checkpoints", "--pipe_command", "gzip -dc",
            files="part-3")
        self.assertIn(f"AUC       {summary['test_auc']:.6f}", process.stdout)
        # Not said, it is multi-slot text.
        self.assert_fails(
            self.start_train("--model", "lr", "--train_files", "part-0",
                             "--pipe_command", "gzip -dc"),
            r"too many malformed lines.*the dense slot", code=1)

    def test_lines_of_three_slots_and_no_dense_features_are_trained_and_scored(
            self):
        self.write_parts(slots_row)
        for model in ("deepfm", "dlrm"):
            with self.subTest(model):
                checkpoints = ["--checkpoint_dir", "ckpt_" + model]
                first = self.train("--model", model, *SLOTS, *checkpoints,
                                   log_dir="first_" + model)
                self.assertEqual(first["examples"], 3 * ROWS_A_FILE)
                self.assertEqual(first["bad_lines"], 0)
                self.assertGreater(first["test_auc"], .7)
                again = self.train("--model", model, *SLOTS, *checkpoints,
                                   "--resume", "--epochs", "2", workers=3,
                                   log_dir="again_" + model)
                self.assertGreater(again["test_auc"], .7)
                # The checkpoint says the rest.
                scores, process = self.scores("--checkpoint", "ckpt_" + model,
                                              files="part-3")
                self.assertEqual(len(scores), ROWS_A_FILE)
                self.assertIn(f"AUC       {again['test_auc']:.6f}",
                              process.stdout)
                self.await_success(self.export("model_" + model,
                                               "ckpt_" + model))
                self.assert_readers_agree(scores, "model_" + model,
                                          files="part-3")

    def test_lines_of_three_slots_come_in_through_a_command_and_online(self):
        self.write_parts(slots_row)
        # Nobody says what a command writes: it is multi-slot text.
        summary = self.train("--model", "lr", "--pipe_command", "cat",
                             "--dense_dim", "0", "--num_slots", "3")
        self.assertGreater(summary["test_auc"], .7)
        os.mkdir(self.path("in"))
        for name in ("part-0", "part-1"):
            os.rename(self.path(name), self.path("in", name))
        self.await_success(self.start_train(
            "--server_num", "1", "--worker_num", "2", "--log_dir", "online",
            "--model", "lr", *TRAIN, *SLOTS, "--watch_dir", "in",
            "--watch_idle_s", "1", "--watch_poll_s", "0.05"))
        evaluations = self.summary("online")["evaluations"]
        self.assertEqual([e["file"] for e in evaluations],
                         ["part-0", "part-1"])
        self.assertGreater(evaluations[1]["auc"], .7)

    def test_a_shape_that_cannot_be_is_one_line(self):
        self.write_parts(slots_row)
        self.train("--model", "deepfm", *SLOTS)
        train = ["--train_files", "part-0", "--model"]
        for flags, pattern, code in (
                (["lr", "--dense_dim", "0"],
                 r"--dense_dim is 0, but a line of --data_format criteo always "
                 r"has 13; .* or use --data_format multi_slot", 2),
                (["lr", "--data_format", "libsvm", "--num_slots", "3"],
                 r"--num_slots is 3, but .* libsvm always has 1", 2),
                (["lr", *SLOTS, "--num_slots", "0"],
                 r'--num_slots is "0"; it must be .* 1 to 4096', 2),
                (["dlrm", *SLOTS, "--num_slots", "1"],
                 r"1 slot without dense features", 2),
                (["lr", *SLOTS, "--dense_norm", "data"],
                 r"--dense_norm is data, but --dense_dim is 0", 2),
                (["lr", *SLOTS, "--num_slots", "4"],
                 r"too many malformed lines.*--num_slots", 1)):
            with self.subTest(" ".join(flags)):
                self.assert_fails(self.start_train(*train, *flags), pattern,
                                  code=code)
        self.assert_fails(
            self.infer("--checkpoint", "checkpoints", "--num_slots", "2",
                       "--files", "part-3"),
            r"deepfm needs a table 'dense'", code=2)


if __name__ == "__main__":
    unittest.main()
