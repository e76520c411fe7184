"""Jobs on every format of lines, from files and through commands. What a
checkpoint says of the format is all that those who score with it need.
"""

import gzip
import random
import unittest

import harness
import scoring

FILES = 4
ROWS_A_FILE = 2000
SEED = 29
TRAIN = ["--batch_size", "64", "--learning_rate", "0.05"]


def libsvm_row(source):
    """A feature tells the label, mostly; another's value says nothing."""
    hint = source.randrange(2)
    label = hint if source.random() < .8 else 1 - hint
    return f"{label} {10 + hint}:1 {20 + source.randrange(50)}:0.5"


class FormatsTest(scoring.ScoringTest):

    def write_rows(self, make_row):
        """part-0 to part-3 of rows by make_row(source of randomness)."""
        source = random.Random(SEED)
        for number in range(FILES):
            with open(self.path(f"part-{number}"), "w",
                      encoding="ascii") as file:
                for _ in range(ROWS_A_FILE):
                    file.write(make_row(source) + "\n")

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
        self.write_rows(libsvm_row)
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
        # It knows what the lines are, and that readers do not know them.
        self.assert_fails(self.export("model"), r"trained on libsvm text",
                          code=1)

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


if __name__ == "__main__":
    unittest.main()
