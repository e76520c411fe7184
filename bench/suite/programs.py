"""The things that measure: programs of the bench, and whole training runs.

Each has measure(name), which makes one repetition and returns its figures,
and close().
"""

import concurrent.futures
import contextlib
import itertools
import json
import lzma
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


def free_endpoints(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]


class Servers:
    """Server processes of a job of its own, named "bench"."""

    def __init__(self, num_servers, num_workers, flags=()):
        self.folder = tempfile.TemporaryDirectory()
        self.endpoints = ",".join(free_endpoints(num_servers))
        self.num_workers = num_workers
        self.flags = flags
        self.log = open(f"{self.folder.name}/server.log", "a+")
        self.restarts = [0] * num_servers
        self.processes = [self._start(i) for i in range(num_servers)]

    def _start(self, index):
        endpoint = self.endpoints.split(",")[index]
        variables = {"TRAINING_ROLE": "PSERVER",
                     "PADDLE_PSERVERS_IP_PORT_LIST": self.endpoints,
                     "POD_IP": "127.0.0.1",
                     "PADDLE_PORT": endpoint.split(":")[1],
                     "PADDLE_TRAINERS_NUM": str(self.num_workers)}
        if self.restarts[index]:
            variables["OARLOCK_RESTART"] = str(self.restarts[index])
        return subprocess.Popen(
            [OARLOCK, "train", "--job_id", "bench", "--log_dir",
             self.folder.name, *self.flags], stdout=self.log, stderr=self.log,
            env={**os.environ, **variables})

    def kill_and_restart(self, index):
        """As kill -9, and a supervisor that notices at once."""
        self.processes[index].kill()
        self.processes[index].wait()
        self.restarts[index] += 1
        self.processes[index] = self._start(index)

    def text_of_log(self):
        self.log.seek(0)
        return self.log.read()

    def show_log(self):
        print(self.text_of_log())

    def close(self):
        """They end by themselves when their workers have finished."""
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            process.kill()
            process.wait()
        self.log.close()
        self.folder.cleanup()


class ClientAndServer(Program):
    """The product's client, one worker, beside one server process."""

    def __init__(self, path, arguments=()):
        self.servers = Servers(1, 1)
        try:
            super().__init__(path, ["--server", self.servers.endpoints,
                                    "--job", "bench", *arguments])
        except RuntimeError:
            self.servers.show_log()
            raise

    def close(self):
        super().close()
        self.servers.close()


class TwoWorkers:
    """Two clients beside two server processes; both measure at once."""

    def __init__(self, path, arguments):
        self.servers = Servers(2, 2)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            self.workers = list(pool.map(
                lambda worker: Program(path, [
                    "--server", self.servers.endpoints, "--job", "bench",
                    "--worker", worker, "--workers", "2", *arguments]),
                ["0", "1"]))

    def measure(self, name):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            figures = list(pool.map(lambda one: one.measure(name),
                                    self.workers))
        seconds = (max(one["end"] for one in figures) -
                   min(one["begin"] for one in figures))
        return {"examples_per_second":
                sum(one["examples"] for one in figures) / seconds}

    def close(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(Program.close, self.workers))
        self.servers.close()


class RealRows:
    """The first rows of the real click logs, as text."""

    def __init__(self, num_rows):
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/rows.txt"
        with lzma.open(real_data(), "rt") as rows, open(self.path, "w") as out:
            out.writelines(itertools.islice(rows, num_rows))

    def close(self):
        self.folder.cleanup()


def real_data():
    """The file of real click logs, or None where there is none."""
    folder = os.environ.get("OARLOCK_DATA_DIR", ROOT.parent / "shared/data")
    return next(pathlib.Path(folder).glob("criteo/*.txt.xz"), None)


# As in docs/update_rules.md, which has the AUC.
LR_FLAGS = ["--optimizer", "ftrl", "--loss", "sum", "--learning_rate", "0.1",
            "--dense_transform", "bucket"]


class Training:
    """Whole runs on generated Criteo text, and the dense ceiling.

    Names: "ceiling BATCH MATH"; "local MODEL BATCH MATH": one process, a thread
    for each core; "cluster MODEL BATCH MATH": 2 servers x 2 workers. MATH is
    float32 or bfloat16.
    """

    # Of one thread and repetition of the ceiling.
    CEILING_EXAMPLES = 4096

    def __init__(self, num_rows):
        self.folder = tempfile.TemporaryDirectory()
        subprocess.run(
            [OARLOCK, "generate", "criteo", "--rows", str(num_rows), "--out",
             f"{self.folder.name}/data"], check=True,
            stdout=subprocess.DEVNULL)

    def measure(self, name):
        what, *rest = name.split()
        if what == "ceiling":
            return self._ceiling(int(rest[0]), rest[1])
        model, batch, math = rest
        flags = ["--model", model, "--batch_size", batch, "--dense_math", math]
        if model == "lr":
            flags += LR_FLAGS
        if what == "cluster":
            flags += ["--server_num", "2", "--worker_num", "2"]
        else:
            flags += ["--thread_num", str(CORES)]
        return self._train(flags)

    def _ceiling(self, batch, math):
        output = subprocess.run(
            [BIN / "bench/dense/dense_ceiling", "--type", math, "--batch",
             str(batch),
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
