"""The things that measure: programs of the bench, and whole training runs.

Each has measure(name), which makes one repetition and returns its figures,
and close(). Programs come from a folder of what was built: bazel-bin of this
tree, or that of another commit. What goes wrong is a Failed, and a
NotOnThisCpu where the product refuses what this CPU lacks.
"""

import concurrent.futures
import contextlib
import itertools
import json
import lzma
import os
import pathlib
import re
import select
import socket
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "bazel-bin"
OARLOCK_PATH = "cli/oarlock"
OARLOCK = BIN / OARLOCK_PATH
CORES = len(os.sched_getaffinity(0))

# Huge pages for whatever a program gets from malloc: what the alternatives
# would have if their users knew (glibc 2.35 and later).
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

# The longest that a program may take to get ready, for a repetition and to
# end; a training run may take as long.
RESPONSE_LIMIT_S = 300

# How `oarlock train` refuses --dense_math bfloat16: its exit code, and how its
# sentence begins (nn/onednn/onednn_backend.cc).
REFUSED_EXIT_CODE = 1
NO_BFLOAT16 = ("products in bfloat16 need a CPU with AVX512_BF16 or AMX, and "
               "this one has neither")


class Failed(RuntimeError):
    """A measurement came to nothing; the message is its reason."""


class NotOnThisCpu(Exception):
    """The product says that this CPU lacks what a measurement needs."""


def started(command, **options):
    """The process of a command."""
    try:
        return subprocess.Popen(command, **options)
    except OSError as error:
        raise Failed(f"{command[0]} does not start: {error.strerror}; "
                     "build it first") from error


def ended(command):
    """Exit code and output of a command that ends by itself."""
    process = started(command, text=True, stdout=subprocess.PIPE,
                      stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=RESPONSE_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        process.terminate()  # a launcher ends its children, too
        process.communicate()
        raise Failed(f"{command[0]} ran for more than {RESPONSE_LIMIT_S} s"
                     ) from error
    return process.returncode, output


def output_of(command):
    """What a command printed; it must end well."""
    exit_code, output = ended(command)
    if exit_code != 0:
        said = output.strip().splitlines()
        raise Failed(f"{' '.join(map(str, command[:2]))} ended with exit code "
                     f"{exit_code}: {said[-1] if said else 'it said nothing'}")
    return output


class Program:
    """A program of bench/common/repetitions.h under --serve."""

    def __init__(self, path, arguments=(), environment=None, built=BIN):
        self.path = path
        self.process = started(
            [built / path, *arguments, "--serve"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})})
        self._response()

    def _response(self):
        # Nothing is left in the file's buffer: each response is one line.
        output = self.process.stdout
        if not select.select([output], [], [], RESPONSE_LIMIT_S)[0]:
            self.process.kill()
            raise Failed(f"{self.path} has not answered for "
                         f"{RESPONSE_LIMIT_S} s")
        line = output.readline()
        if not line:
            raise Failed(f"{self.path} ended with exit code "
                         f"{self.process.wait()}; run it by hand")
        return json.loads(line)

    def measure(self, name):
        # One that has ended answers with nothing, which says more.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
        return self._response()["figures"]

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=RESPONSE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def free_endpoints(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]


class Servers:
    """Server processes of a job of its own, named "bench"."""

    def __init__(self, num_servers, num_workers, flags=(), built=BIN):
        self.oarlock = built / OARLOCK_PATH
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
        return started(
            [self.oarlock, "train", "--job_id", "bench", "--log_dir",
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

    def abandon(self):
        """As close, for those whose workers never finish."""
        for process in self.processes:
            process.kill()
        self.close()

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

    def __init__(self, path, arguments=(), built=BIN):
        self.servers = Servers(1, 1, built=built)
        try:
            super().__init__(path, ["--server", self.servers.endpoints,
                                    "--job", "bench", *arguments], built=built)
        except Failed:
            self.servers.show_log()
            self.servers.abandon()
            raise

    def close(self):
        super().close()
        self.servers.close()


class TwoWorkers:
    """Two clients beside two server processes; both measure at once."""

    def __init__(self, path, arguments, built=BIN):
        self.servers = Servers(2, 2, built=built)
        try:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                self.workers = list(pool.map(
                    lambda worker: Program(path, [
                        "--server", self.servers.endpoints, "--job", "bench",
                        "--worker", worker, "--workers", "2", *arguments],
                        built=built),
                    ["0", "1"]))
        except Failed:
            self.servers.show_log()
            self.servers.abandon()
            raise

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
    # Enough for a response.
    PROBE_ROWS = 1000

    def __init__(self, num_rows, built=BIN):
        self.built = built
        self.folder = tempfile.TemporaryDirectory()
        # Of a math: None where it is there, or why not.
        self._refusals = {"float32": None}
        self._generate("data", num_rows)

    def measure(self, name):
        what, *rest = name.split()
        # Before the ceiling, too, which is killed where oneDNN lacks them.
        self._require(rest[-1])
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
        output_of(self._train_command("data", flags))
        return json.loads(pathlib.Path(self.folder.name, "logs/summary.json")
                          .read_text(encoding="utf-8"))

    def _require(self, math):
        """Raises NotOnThisCpu where the product refuses this math."""
        if math not in self._refusals:
            self._generate("probe", self.PROBE_ROWS)
            self._refusals[math] = refusal(*ended(self._train_command(
                "probe", ["--dense_math", math, "--thread_num", "1"])))
        if self._refusals[math] is not None:
            raise NotOnThisCpu(self._refusals[math])

    def _ceiling(self, batch, math):
        output = output_of(
            [self.built / "bench/dense/dense_ceiling", "--type", math,
             "--batch", str(batch), "--threads", str(CORES),
             "--repetitions", "7", "--steps",
             str(max(1, self.CEILING_EXAMPLES // batch))])
        speed = re.search(r"(\d+) examples/s", output).group(1)
        return {"examples_per_second": float(speed)}

    def _generate(self, name, num_rows):
        output_of([self.built / OARLOCK_PATH, "generate", "criteo", "--rows",
                   str(num_rows), "--out", f"{self.folder.name}/{name}"])

    def _train_command(self, data, flags):
        folder = self.folder.name
        return [self.built / OARLOCK_PATH, "train", "--train_files",
                f"{folder}/{data}/part-*", "--log_dir", f"{folder}/logs",
                *flags]

    def close(self):
        self.folder.cleanup()


def refusal(exit_code, output):
    """What `oarlock train` says this CPU lacks, or None: it trained, or failed
    for another reason, which the row will show."""
    if exit_code == REFUSED_EXIT_CODE and NO_BFLOAT16 in output:
        return NO_BFLOAT16
    return None
