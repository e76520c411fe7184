#!/usr/bin/env python3
"""Quality on real click logs: the gates that a release has to pass.

Needs the public 137,139-row Criteo sample under OARLOCK_DATA_DIR/criteo: the
first 123,425 rows train, the last 13,714 test. Settings were chosen on the
last tenth of the training rows. Prints a table; exits 1 when a gate is missed,
0 with one line when the rows are not there.
"""

import json
import lzma
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))

import harness  # noqa: E402

OARLOCK = os.environ["OARLOCK_BIN"]
SEEDS = (1, 2, 3)
# Asynchronous runs differ by themselves, by about half of what is looked for.
CRASH_SEEDS = (1, 2, 3, 4, 5)
TRAIN_ROWS = 123_425
MODELS = {
    "lr": ["--model", "lr", "--learning_rate", "0.04", "--epochs", "2"],
    "lr bucket": ["--model", "lr", "--learning_rate", "0.04", "--epochs", "2",
                  "--dense_transform", "bucket"],
    "lr ftrl": ["--model", "lr", "--optimizer", "ftrl", "--loss", "sum",
                "--learning_rate", "0.1", "--dense_transform", "bucket"],
    "deepfm": ["--model", "deepfm", "--learning_rate", "0.02"],
    "ctr_dnn": ["--model", "ctr_dnn", "--learning_rate", "0.01"],
}
AUC_GATES = {"lr": .750, "lr bucket": .753, "lr ftrl": .752, "deepfm": .751,
             "ctr_dnn": .753}
LOGLOSS_GATE = .500
# Batch size -> how far 2x2 may lie from local on the mean.
DISTANCE_GATES = {100: .003, 512: .003, 1024: .006}
LOCAL = []
TWO_BY_TWO = ["--server_num", "2", "--worker_num", "2"]


def prepare(folder):
    sample = pathlib.Path(os.environ.get("OARLOCK_DATA_DIR", ""),
                          "criteo/criteo_kaggle_sample_137k.txt.xz")
    if not sample.is_file():
        return False
    with lzma.open(sample, "rt", newline="\n") as lines:
        rows = lines.readlines()
    (folder / "train.txt").write_text("".join(rows[:TRAIN_ROWS]))
    (folder / "test.txt").write_text("".join(rows[TRAIN_ROWS:]))
    return True


def train(folder, flags, seed):
    log_dir = folder / "logs"
    subprocess.run(
        [OARLOCK, "train", "--train_files", str(folder / "train.txt"),
         "--test_files", str(folder / "test.txt"), "--seed", str(seed),
         "--log_dir", str(log_dir), *flags],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        timeout=600)
    return json.loads((log_dir / "summary.json").read_text())


def pid_of_server(log_dir, index):
    """The process that writes serverlog.index."""
    log = (log_dir / f"serverlog.{index}").resolve()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "fd/2").resolve() == log:
                return int(process.name)
        except OSError:
            continue
    raise RuntimeError(f"nobody writes {log}")


def train_with_crash(folder, flags, seed):
    """Trains while server 1 dies once, in the middle of the epoch."""
    log_dir = folder / "logs"
    shutil.rmtree(log_dir, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder) as checkpoints:
        job = subprocess.Popen(
            [OARLOCK, "train", "--train_files", str(folder / "train.txt"),
             "--test_files", str(folder / "test.txt"), "--seed", str(seed),
             "--log_dir", str(log_dir), "--checkpoint_dir", checkpoints,
             "--durability", "log", "--max_restart", "1", "--print_period",
             "10", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = log_dir / "workerlog.0"
        harness.eventually(
            lambda: " step 60 " in harness.read_text(log) or
            job.poll() is not None, 600)
        if job.poll() is not None:
            raise RuntimeError(f"the job ended too early; see {log_dir}")
        os.kill(pid_of_server(log_dir, 1), signal.SIGKILL)
        if job.wait(timeout=600) != 0:
            raise RuntimeError(f"the job failed; see {log_dir}")
    if "replayed" not in (log_dir / "serverlog.1").read_text():
        raise RuntimeError("server 1 has not come back from its log")
    return json.loads((log_dir / "summary.json").read_text())


class Board:
    def __init__(self, folder):
        self.folder = folder
        self.missed = 0

    def mean(self, name, flags, seeds=SEEDS, train=train):
        runs = [train(self.folder, flags, seed) for seed in seeds]
        auc = [run["test_auc"] for run in runs]
        logloss = statistics.mean(run["test_logloss"] for run in runs)
        speed = statistics.median(run["examples_per_second"] for run in runs)
        print(f"{name:44s} AUC {statistics.mean(auc):.4f} "
              f"({min(auc):.4f} to {max(auc):.4f})  logloss {logloss:.4f}  "
              f"{speed:8.0f} examples/s", flush=True)
        return statistics.mean(auc), logloss

    def gate(self, what, holds):
        print(f"    {'holds ' if holds else 'MISSED'} {what}", flush=True)
        self.missed += not holds


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if not prepare(folder):
            print("skipped: the Criteo sample is not under OARLOCK_DATA_DIR")
            return 0
        board = Board(folder)
        for model, flags in MODELS.items():
            for place, cluster in (("local", LOCAL), ("2x2", TWO_BY_TWO)):
                auc, logloss = board.mean(f"{model} {place}", flags + cluster)
                board.gate(f"AUC at least {AUC_GATES[model]}",
                           auc >= AUC_GATES[model])
                board.gate(f"logloss at most {LOGLOSS_GATE}",
                           logloss <= LOGLOSS_GATE)
        for threads in (1, 2):
            for batch, distance in DISTANCE_GATES.items():
                flags = MODELS["ctr_dnn"] + ["--batch_size", str(batch),
                                             "--thread_num", str(threads)]
                local, _ = board.mean(
                    f"ctr_dnn local batch {batch} threads {threads}", flags)
                both, _ = board.mean(
                    f"ctr_dnn 2x2 batch {batch} threads {threads}",
                    flags + TWO_BY_TWO)
                board.gate(f"2x2 within {distance} of local: "
                           f"{both - local:+.4f}", abs(both - local) <= distance)
        flags = MODELS["ctr_dnn"] + ["--batch_size", "100"]
        one, _ = board.mean("ctr_dnn 1x1 batch 100", flags + [
            "--server_num", "1", "--worker_num", "1"])
        many, _ = board.mean("ctr_dnn 4 servers x 8 workers batch 100",
                             flags + ["--server_num", "4",
                                      "--worker_num", "8"])
        board.gate(f"4x8 within .003 of 1x1: {many - one:+.4f}",
                   abs(many - one) <= .003)
        flags = MODELS["ctr_dnn"] + ["--mode", "sync"]
        local, _ = board.mean("ctr_dnn sync local batch 200",
                              flags + ["--batch_size", "200"])
        both, _ = board.mean("ctr_dnn sync 2x2 batch 100",
                             flags + ["--batch_size", "100"] + TWO_BY_TWO)
        board.gate(f"sync 2x2 within .001 of local: {both - local:+.4f}",
                   abs(both - local) <= .001)
        flags = MODELS["ctr_dnn"] + TWO_BY_TWO
        whole, _ = board.mean("ctr_dnn 2x2 batch 512", flags, CRASH_SEEDS)
        crashed, _ = board.mean("ctr_dnn 2x2 batch 512, server 1 killed",
                                flags, CRASH_SEEDS, train_with_crash)
        board.gate(f"within .001 of the undisturbed: {crashed - whole:+.4f}",
                   abs(crashed - whole) <= .001)
        quick = ["--dense_transform", "quick_start"]
        auc, _ = board.mean("ctr_dnn quick start's constants",
                            MODELS["ctr_dnn"] + quick)
        board.gate("AUC at least .747", auc >= .747)
        auc, _ = board.mean("ctr_dnn quick start's constants, range 1",
                            MODELS["ctr_dnn"] + quick + ["--init_range", "1"])
        board.gate("AUC at least .70", auc >= .70)
        print(f"{board.missed} gates missed")
        return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
