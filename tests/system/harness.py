"""Starts the finished programs as a user would, and looks at how they end.

Paths of the programs come from OARLOCK_BIN (oarlock), OARLOCK_CTR,
OARLOCK_MNIST, OARLOCK_CIFAR10 and OARLOCK_RESNET (examples/*/train),
OARLOCK_SCORE (examples/score/score) and OARLOCK_INTEROP_PEER
(tests/system/interop_peer).
Every process that a test starts carries a mark in its environment, which its
children inherit: what a job left running is found by that mark, wherever it
went in the process tree.
"""

import atexit
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import uuid

MARK = "OARLOCK_SYSTEM_TEST_MARK"
POLL_INTERVAL_S = 0.02
# Deadlines are there so that nothing waits for ever: far above what things take,
# also where both cores are busy with other tests.
# From the start of a job that trains to its end.
JOB_DEADLINE_S = 240
# From the cause of a failure to the end of all processes.
FAILURE_DEADLINE_S = 60
# Until a worker that waits notices that its server is up.
CONNECT_DEADLINE_S = 60
# Until the workers of a job print their first progress.
PROGRESS_DEADLINE_S = 120

GENERATED_ROWS = 24000
GENERATED_FILES = 4

# Variables that say what a process is, of this shell or of whoever runs the
# tests.
_ROLE_VARIABLE = re.compile(
    r"^(PADDLE_.*|TRAINING_ROLE|POD_IP|FLAGS_START_PORT|FLAGS_selected_gpus"
    r"|OARLOCK_INSECURE|OARLOCK_RESTART|OARLOCK_RESTART_TOGETHER)$")


# Background jobs of a shell ignore SIGINT, and their children inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def program(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        raise RuntimeError(
            f'{variable} is "{path}", which cannot be run; set it to the path '
            "of the built program")
    return os.path.abspath(path)


def oarlock():
    return program("OARLOCK_BIN")


def ctr_train():
    return program("OARLOCK_CTR")


def generate_criteo(folder, rows, files, seed):
    """Synthetic training files part-*, and test files, in `folder`."""
    subprocess.run(
        [oarlock(), "generate", "criteo", "--rows", str(rows),
         "--files", str(files), "--seed", str(seed), "--out", folder],
        check=True, stdout=subprocess.DEVNULL, timeout=JOB_DEADLINE_S)


@functools.lru_cache(maxsize=None)
def data_dir():
    """A folder with GENERATED_ROWS rows in part-0 .. part-3, made once."""
    folder = tempfile.mkdtemp(prefix="oarlock_system_data_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    generate_criteo(folder, GENERATED_ROWS, GENERATED_FILES, seed=3)
    return folder


def train_files():
    """All generated rows but the last quarter, which is test_files()."""
    return os.path.join(data_dir(), "part-[012]")


def test_files():
    return os.path.join(data_dir(), "part-3")


def data_flags():
    return ["--train_files", train_files(), "--test_files", test_files()]


def free_ports(count, hosts=("127.0.0.1",)):
    """Ports that nobody listens on at the moment, on any of the hosts."""
    with contextlib.ExitStack() as stack:
        ports = []
        while len(ports) < count:
            first = stack.enter_context(socket.socket())
            first.bind((hosts[0], 0))
            port = first.getsockname()[1]
            try:
                for host in hosts[1:]:
                    other = stack.enter_context(socket.socket())
                    other.bind((host, port))
            except OSError:
                continue
            ports.append(port)
        return ports


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def eventually(condition, deadline_s):
    """Asks until condition() is true; its last value. Nothing else pauses."""
    end = time.monotonic() + deadline_s
    never = threading.Event()
    while True:
        value = condition()
        if value or time.monotonic() >= end:
            return value
        never.wait(POLL_INTERVAL_S)


class Process:
    """One started program, its output in files."""

    def __init__(self, argv, environment, folder, name):
        self.name = name
        self.argv = argv
        self.stdout_path = os.path.join(folder, name + ".stdout")
        self.stderr_path = os.path.join(folder, name + ".stderr")
        self.started_at = time.monotonic()
        with open(self.stdout_path, "wb") as out, \
                open(self.stderr_path, "wb") as err:
            self.popen = subprocess.Popen(
                argv, env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, start_new_session=True)

    @property
    def pid(self):
        return self.popen.pid

    @property
    def stdout(self):
        return read_text(self.stdout_path)

    @property
    def stderr(self):
        return read_text(self.stderr_path)

    def send(self, number):
        self.popen.send_signal(number)

    def running(self):
        return self.popen.poll() is None

    def describe(self):
        return (f"{self.name}: {' '.join(self.argv)}\n"
                f"exit code {self.popen.poll()}\n"
                f"--- stdout\n{self.stdout[-4000:]}\n"
                f"--- stderr\n{self.stderr[-4000:]}")


class SystemTest(unittest.TestCase):
    """A test with a folder of its own that leaves no process behind."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="oarlock_system_")
        self.mark = uuid.uuid4().hex
        self.processes = []
        self.addCleanup(self._clean_up)

    def _clean_up(self):
        self.kill_all()
        for process in self.processes:
            process.popen.wait(timeout=FAILURE_DEADLINE_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill_all(self):
        """kill -9 of all that this test started and what they started.

        Some end by themselves meanwhile, some start another before they end.
        """
        while pids := self.marked_pids():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    # -- starting ----------------------------------------------------------

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def environment(self, **variables):
        """This process's environment without roles, and with variables."""
        clean = {name: value for name, value in os.environ.items()
                 if not _ROLE_VARIABLE.match(name)}
        clean[MARK] = self.mark
        clean.update(variables)
        return clean

    def start(self, *argv, name=None, **variables):
        process = Process(
            list(argv), self.environment(**variables), self.folder,
            name or f"process{len(self.processes)}")
        self.processes.append(process)
        return process

    def start_train(self, *flags, name=None, **variables):
        return self.start(oarlock(), "train", *flags, name=name, **variables)

    # -- waiting -----------------------------------------------------------

    def await_true(self, condition, deadline_s, what):
        if not eventually(condition, deadline_s):
            self.fail(f"not within {deadline_s} s: {what}\n{self.report()}")

    def await_text(self, path, pattern, deadline_s=PROGRESS_DEADLINE_S):
        """Waits until the file holds a match of the pattern."""
        self.await_true(lambda: re.search(pattern, read_text(path)),
                        deadline_s, f"{pattern!r} in {path}")

    def await_end(self, process, deadline_s=JOB_DEADLINE_S):
        """The exit code; negative for a signal, as subprocess has it."""
        try:
            return process.popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return self.fail(f"not within {deadline_s} s: the end of "
                             f"{process.name}\n{self.report()}")

    def await_success(self, process, deadline_s=JOB_DEADLINE_S):
        code = self.await_end(process, deadline_s)
        self.assertEqual(code, 0, self.report())
        return process

    # -- looking -----------------------------------------------------------

    def marked_pids(self):
        """Processes of this test that run, zombies left out."""
        needle = f"{MARK}={self.mark}".encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if needle in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                continue  # ended meanwhile, or another user's
        return found

    def assert_nothing_runs(self, deadline_s=FAILURE_DEADLINE_S):
        self.await_true(lambda: not self.marked_pids(), deadline_s,
                        "the end of all processes")

    def pid_of_role(self, role, index):
        """The pid of "worker 0" or "server 1" of this test's launcher."""
        wanted = {
            "server": {"TRAINING_ROLE=PSERVER",
                       f"PADDLE_PSERVER_ID={index}"},
            "worker": {"TRAINING_ROLE=TRAINER",
                       f"PADDLE_TRAINER_ID={index}"},
        }[role]
        for pid in self.marked_pids():
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    entries = file.read().decode(errors="replace")
                if wanted <= set(entries.split("\0")):
                    return pid
        self.fail(f"{role} {index} does not run\n{self.report()}")

    def summary(self, log_dir="logs"):
        with open(self.path(log_dir, "summary.json"),
                  encoding="utf-8") as file:
            return json.load(file)

    def report(self):
        """All that the test's processes have said, for a failure."""
        texts = [process.describe() for process in self.processes]
        for folder, _, files in sorted(os.walk(self.folder)):
            for name in sorted(files):
                if re.match(r"(server|worker)log\.", name):
                    path = os.path.join(folder, name)
                    texts.append(f"--- {path}\n{read_text(path)[-2000:]}")
        for pid in self.marked_pids():
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    command = file.read().replace(b"\0", b" ").decode()
                texts.append(f"still runs: pid {pid}: {command}")
        return "\n".join(texts)

    def assert_fails(self, process, pattern, code=None,
                     deadline_s=FAILURE_DEADLINE_S):
        """Ends soon, with one line that matches on stderr and nothing left.

        The programs write their log to stderr too; one failure is one line
        there, not one of the log and one more at the end.
        """
        end = time.monotonic() + deadline_s
        actual = self.await_end(process, deadline_s)
        self.assertNotEqual(actual, 0, self.report())
        if code is not None:
            self.assertEqual(actual, code, self.report())
        self.assert_nothing_runs(max(end - time.monotonic(), 0))
        lines = [line for line in process.stderr.splitlines()
                 if re.search(pattern, line)]
        self.assertEqual(
            len(lines), 1,
            f"{len(lines)} lines of stderr match {pattern!r}, 1 must\n" +
            self.report())
