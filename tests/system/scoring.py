"""What tests of scores have in common: `oarlock infer`, exported models and the
readers of them in examples/score.
"""

import math
import os
import random

import harness

SCORE_PY = os.path.abspath(os.path.join(
    os.path.dirname(__file__), "..", "..", "examples", "score", "score.py"))


def read_scores(path):
    return [float(line) for line in harness.read_text(path).splitlines()]


def rows_of(make_row, seed, count):
    """Lines by make_row(source of randomness)."""
    source = random.Random(seed)
    return [make_row(source) for _ in range(count)]


class ScoringTest(harness.SystemTest):

    def write_lines(self, name, lines):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)

    def infer(self, *flags, out="scores.txt", **variables):
        return self.start(harness.oarlock(), "infer", "--out", out, *flags,
                          **variables)

    def scores(self, *flags, files=None, out="scores.txt", **variables):
        process = self.await_success(self.infer(
            "--files", files or harness.test_files(), *flags, out=out,
            **variables))
        return read_scores(self.path(out)), process

    def assert_close(self, a, b, relative=1e-5):
        """nan is close to nan alone."""
        self.assertEqual([math.isnan(x) for x in a],
                         [math.isnan(y) for y in b])
        for line, (x, y) in enumerate(zip(a, b)):
            if math.isnan(x):
                continue
            self.assertLessEqual(abs(x - y), relative * max(abs(x), abs(y)),
                                 f"line {line}: {x} {y}")

    def export(self, folder, checkpoint="checkpoints"):
        return self.start(harness.oarlock(), "checkpoint", "export-model",
                          checkpoint, "--output", folder)

    def key_files(self, folder):
        """Of an exported model: one for each table of rows."""
        return sorted(name for name in os.listdir(self.path(folder))
                      if name.endswith(".keys.bin"))

    def readers(self, model, *flags, files=None):
        """Both readers of exported models, started."""
        files = files or harness.test_files()
        return (self.start(harness.program("OARLOCK_SCORE"), *flags, model,
                           files),
                self.start("/usr/bin/python3", SCORE_PY, *flags, model, files))

    def assert_readers_agree(self, scores, model, *flags, files=None):
        for reader in self.readers(model, *flags, files=files):
            self.await_success(reader)
            self.assert_close(
                scores, [float(s) for s in reader.stdout.splitlines()])
