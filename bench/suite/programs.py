"""The things that measure: programs of the bench, and whole training runs.

Each has measure(name), which makes one repetition and returns its figures,
and close().
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "bazel-bin"
OARLOCK = BIN / "cli/oarlock"
CORES = len(os.sched_getaffinity(0))

# Huge pages for whatever a program gets from malloc: what the alternatives
# would have if their users knew (glibc 2.35 and later).
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


class Program:
    """A program of bench/common/repetitions.h under --serve."""

    def __init__(self, path, arguments=(), environment=None):
        self.path = path
        self.process = subprocess.Popen(
            [BIN / path, *arguments, "--serve"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})})
        self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.path} ended with exit code "
                               f"{self.process.wait()}; run it by hand")
        return json.loads(line)

    def measure(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return self._answer()["figures"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class ClientAndServer(Program):
    """The product's client beside a server process of a job of its own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        endpoint = f"127.0.0.1:{port}"
        self.log = open(f"{self.folder.name}/server.log", "w+")
        self.server = subprocess.Popen(
            [OARLOCK, "train", "--job_id", "bench", "--log_dir",
             self.folder.name], stdout=self.log, stderr=self.log,
            env={**os.environ, "TRAINING_ROLE": "PSERVER",
                 "PADDLE_PSERVERS_IP_PORT_LIST": endpoint,
                 "POD_IP": "127.0.0.1", "PADDLE_PORT": str(port),
                 "PADDLE_TRAINERS_NUM": "1"})
        try:
            super().__init__("bench/wire/client_bench",
                             ["--server", endpoint, "--job", "bench"])
        except RuntimeError:
            self.log.seek(0)
            print(self.log.read())
            raise

    def close(self):
        super().close()
        # It ends by itself when its one worker has finished.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.server.wait(timeout=20)
        self.server.kill()
        self.server.wait()
        self.log.close()
        self.folder.cleanup()


class Training:
    """Whole runs on generated Criteo text, and the dense ceiling.

    Names: "ceiling BATCH"; "local MODEL BATCH": one process, a thread for
    each core; "cluster MODEL BATCH": 2 servers x 2 workers.
    """

    # Of one thread and repetition of the ceiling.
    CEILING_EXAMPLES = 4096

    def __init__(self, num_rows):
        self.folder = tempfile.TemporaryDirectory()
        subprocess.run(
            [OARLOCK, "generate", "criteo", "--rows", str(num_rows), "--out",
             f"{self.folder.name}/data"], check=True,
            stdout=subprocess.DEVNULL)
        help_text = subprocess.run([OARLOCK, "train", "--help"], text=True,
                                   capture_output=True).stdout
        # The rule of linear models; a binary without it shows what it has.
        self.lr_optimizer = "ftrl" if "ftrl" in help_text else "adagrad"

    def measure(self, name):
        what, *rest = name.split()
        if what == "ceiling":
            return self._ceiling(int(rest[0]))
        model, batch = rest
        flags = ["--model", model, "--batch_size", batch]
        if model == "lr":
            flags += ["--optimizer", self.lr_optimizer]
        if what == "cluster":
            flags += ["--server_num", "2", "--worker_num", "2"]
        else:
            flags += ["--thread_num", str(CORES)]
        return self._train(flags)

    def _ceiling(self, batch):
        output = subprocess.run(
            [BIN / "bench/dense/dense_ceiling", "--batch", str(batch),
             "--threads", str(CORES), "--repetitions", "7", "--steps",
             str(max(1, self.CEILING_EXAMPLES // batch))], check=True,
            capture_output=True, text=True).stdout
        speed = re.search(r"(\d+) examples/s", output).group(1)
        return {"examples_per_second": float(speed)}

    def _train(self, flags):
        folder = self.folder.name
        outcome = subprocess.run(
            [OARLOCK, "train", "--train_files", f"{folder}/data/part-*",
             "--log_dir", f"{folder}/logs", *flags], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if outcome.returncode != 0:
            raise RuntimeError(f"oarlock train {' '.join(flags)} ended with "
                               f"exit code {outcome.returncode}:\n"
                               f"{outcome.stdout}")
        return json.loads(
            pathlib.Path(folder, "logs/summary.json").read_text())

    def close(self):
        self.folder.cleanup()
