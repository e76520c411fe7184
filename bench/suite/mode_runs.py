"""Training runs that compare modes: what is trained, in which mode, and how
one worker is slowed."""

import contextlib
import dataclasses
import json
import lzma
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable

TRAIN_ROWS = 123_425
# The real rows that settings are chosen on: the last tenth of those that train.
TAIL_ROWS = 12_342
SLICE_S = .005

# Threads of a job -> learning rate of rows where dense parameters make one
# update of the gradients of many; chosen on the tail, for async and sync of
# workers with one thread (docs/design/0020-quorum.md).
ROWS_RATE = {5: ".02", 10: ".04", 20: ".04"}


def rows_rate(size):
    rate = ROWS_RATE.get(size)
    return ["--embedding_learning_rate", rate] if rate else []


@dataclasses.dataclass(frozen=True)
class Mode:
    """How a job of `size` threads, `threads` a worker, is told its mode."""
    of_size: Callable[[int], list]
    threads: int = 1

    def workers(self, size):
        """As many as have so many threads, or one more."""
        return -(-size // self.threads)

    def flags(self, size):
        return ["--thread_num", str(self.threads), *self.of_size(size)]


# With one thread a worker half_async is async. So it has two, and so has an
# async beside it, with the same flags.
MODES = {
    "async, uncontrolled": Mode(lambda size: ["--mode", "async",
                                              "--dense_quorum", "0"]),
    "async": Mode(lambda size: ["--mode", "async", *rows_rate(size)]),
    "async, rate by staleness": Mode(lambda size: [
        "--mode", "async", "--dense_staleness_power", ".5",
        *rows_rate(size)]),
    "async, 2 threads": Mode(lambda size: ["--mode", "async",
                                           *rows_rate(size)], threads=2),
    "half_async, 2 threads": Mode(lambda size: ["--mode", "half_async",
                                                *rows_rate(size)], threads=2),
    "ssp 4": Mode(lambda size: ["--mode", "ssp", "--staleness_bound", "4"]),
    "ssp 0": Mode(lambda size: ["--mode", "ssp", "--staleness_bound", "0"]),
    "geo": Mode(lambda size: ["--mode", "geo"]),
    "sync": Mode(lambda size: ["--mode", "sync", *rows_rate(size)]),
}


class RealRows:
    """The Criteo sample of OARLOCK_DATA_DIR, cut into train and test."""

    def __init__(self, folder, tail=False):
        source = (pathlib.Path(os.environ["OARLOCK_DATA_DIR"]) /
                  "criteo/criteo_kaggle_sample_137k.txt.xz")
        lines = lzma.open(source).read().split(b"\n")[:-1]
        train, test = lines[:TRAIN_ROWS], lines[TRAIN_ROWS:]
        if tail:
            train, test = train[:-TAIL_ROWS], train[-TAIL_ROWS:]
        self.train = pathlib.Path(folder) / "train"
        self.test = pathlib.Path(folder) / "test"
        for path, part in ((self.train, train), (self.test, test)):
            path.write_bytes(b"\n".join(part) + b"\n")


class GeneratedRows:
    """`rows` rows of `oarlock generate criteo`, the last eighth to test; with
    `tail` that is left out, and the eighth before it tests."""

    def __init__(self, folder, oarlock, rows, tail=False):
        out = pathlib.Path(folder) / "generated"
        subprocess.run([oarlock, "generate", "criteo", "--rows", str(rows),
                        "--files", "8", "--seed", "1", "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        self.train = out / ("part-[0-5]" if tail else "part-[0-6]")
        self.test = out / ("part-6" if tail else "part-7")


def pid_of_worker(index, parent):
    """The process of worker `index` of the job that `parent` launched."""
    name = f"PADDLE_TRAINER_ID={index}".encode()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            stat = (entry / "stat").read_text()
            if int(stat.rsplit(")", 1)[1].split()[1]) != parent:
                continue
            environment = (entry / "environ").read_bytes().split(b"\0")
            if name in environment and any(
                    v.startswith(b"TRAINING_ROLE=TRAINER")
                    for v in environment):
                return int(entry.name)
    return None


class Slowed:
    """Lets worker `index` of a launched job run in one of `factor` slices of
    5 ms."""

    def __init__(self, launcher, index, factor):
        self.launcher, self.index, self.factor = launcher, index, factor
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def _run(self):
        pid = None
        while not self.over.is_set():
            pid = pid or pid_of_worker(self.index, self.launcher.pid)
            if pid is None:
                time.sleep(.02)
                continue
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(SLICE_S * (self.factor - 1))
                os.kill(pid, signal.SIGCONT)
                time.sleep(SLICE_S)
            except ProcessLookupError:
                return


def train(oarlock, folder, workers, servers, flags, slowed=None):
    """One `oarlock train`; its summary.json. Without servers: one process."""
    return train_and_log(oarlock, folder, workers, servers, flags, slowed)[0]


def train_and_log(oarlock, folder, workers, servers, flags, slowed=None):
    """As train, and what it wrote to stderr."""
    logs = pathlib.Path(folder) / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    cluster = (["--server_num", str(servers), "--worker_num", str(workers)]
               if servers else [])
    process = subprocess.Popen(
        [oarlock, "train", *cluster, "--log_dir", logs, "--connect_timeout_s",
         "300", *map(str, flags)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with Slowed(process, *slowed) if slowed else contextlib.nullcontext():
        _, errors = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, process.args))} ended with "
                           f"{process.returncode}: {errors.strip()[-400:]}")
    return json.loads((logs / "summary.json").read_text()), errors
