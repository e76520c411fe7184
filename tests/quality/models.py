#!/usr/bin/env python3
"""Every model on real click logs: the table of docs/models.md and its gates.

Needs the public 137,139-row Criteo sample under OARLOCK_DATA_DIR/criteo, as
quality.py does. One epoch over the first 123,425 rows, local, three seeds; AUC
on the last 13,714. A gate is the reference score of the model's family minus
.003, and where there is none .750 for networks and .747 for factorization
machines. With --tail the same settings on the last tenth of the training rows,
fitted to the nine before: the rows to choose settings on. Models to run may be
named. Prints a table; exits 1 when a gate is missed, 0 with one line
when the rows are not there.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

import quality

BUCKET = ["--dense_transform", "bucket"]
# Model -> settings and gate. All are chosen on the tail: those of lr and fm of
# a grid, those of deepfm and ctr_dnn in quality.py, and of the others the
# learning rate, of .01, .02, .04 and the next where the best was at an end.
MODELS = {
    "lr": (["--optimizer", "ftrl", "--loss", "sum", "--learning_rate", "0.1",
            "--l2", "1", "--batch_size", "128", *BUCKET], .7545),
    "fm": (["--learning_rate", "0.02", "--l2", "0.0001", "--batch_size", "128",
            "--embedding_size", "8", *BUCKET], .7474),
    "ffm": (["--learning_rate", "0.02", "--embedding_size", "4", *BUCKET],
            .747),
    "wide_deep": (["--learning_rate", "0.04"], .750),
    "deepfm": (["--learning_rate", "0.02"], .7512),
    "dcn": (["--learning_rate", "0.02"], .750),
    "dcn_v2": (["--learning_rate", "0.04"], .750),
    "xdeepfm": (["--learning_rate", "0.02"], .750),
    "dlrm": (["--learning_rate", "0.04"], .7504),
    "ctr_dnn": (["--learning_rate", "0.01"], .7532),
    "autoint": (["--learning_rate", "0.02"], .750),
}


def keep_tail(folder):
    """Makes the training rows' last tenth the test."""
    rows = (folder / "train.txt").read_text().splitlines(keepends=True)
    cut = len(rows) * 9 // 10
    (folder / "train.txt").write_text("".join(rows[:cut]))
    (folder / "test.txt").write_text("".join(rows[cut:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL",
                        help=f"of {', '.join(MODELS)}; none: all")
    parser.add_argument("--tail", action="store_true",
                        help="on the last tenth of the training rows")
    arguments = parser.parse_args()
    for name in arguments.models:
        if name not in MODELS:
            parser.error(f"model is {name}; legal are {', '.join(MODELS)}")
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if not quality.prepare(folder):
            print("skipped: the Criteo sample is not under OARLOCK_DATA_DIR")
            return 0
        if arguments.tail:
            keep_tail(folder)
        print("| model | AUC | seeds from, to | logloss | examples/s | gate |")
        print("| --- | --- | --- | --- | --- | --- |", flush=True)
        for model in arguments.models or MODELS:
            flags, gate = MODELS[model]
            runs = [quality.train(folder, ["--model", model, *flags], seed)
                    for seed in quality.SEEDS]
            auc = [run["test_auc"] for run in runs]
            mean = statistics.mean(auc)
            logloss = statistics.mean(run["test_logloss"] for run in runs)
            speed = statistics.median(
                run["examples_per_second"] for run in runs)
            holds = arguments.tail or mean >= gate
            print(f"| {model} | {mean:.4f} | {min(auc):.4f} to {max(auc):.4f} "
                  f"| {logloss:.4f} | {speed:,.0f} | {gate:.4f}"
                  f"{'' if holds else ' MISSED'} |", flush=True)
            missed += not holds
    print(f"{missed} gates missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
