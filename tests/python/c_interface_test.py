"""The C interface as programs see it: header, symbols, and what it leaves alone."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from oarlock_testing import ROOT, oarlock

PROGRAM = os.environ["OARLOCK_C_PROGRAM"]
LIBRARY = os.environ["OARLOCK_LIBRARY"]

WHAT_THE_C_PROGRAM_SAYS = """\
run 1 of 1 workers
table has its id
epoch 0: 4 parts
epoch 1: 4 parts
row 7: -199.5 -199.5 -199.5
refused with code 3, in a line
closed: code 101
"""


class CInterfaceTest(unittest.TestCase):

    def test_a_c_program_trains_with_header_and_library_alone(self):
        with oarlock.LocalCluster(servers=2) as cluster:
            config = json.dumps({"server_endpoints": cluster.server_endpoints,
                                 "token_file": cluster.token_file})
            run = subprocess.run([PROGRAM, config], capture_output=True, text=True,
                                 timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        first, rest = run.stdout.split("\n", 1)
        self.assertRegex(first, r"^version \d+\.\d+\.\d+, interface 1$")
        self.assertEqual(rest, WHAT_THE_C_PROGRAM_SAYS)

    def test_the_library_shows_the_functions_of_its_header_alone(self):
        header = (ROOT / "capi/include/oarlock/oarlock.h").read_text()
        declared = set(re.findall(r"\b(oarlock_\w+)\(", header))
        listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True,
                                capture_output=True, text=True).stdout
        shown = {line.split()[-1].split("@")[0] for line in listed.splitlines()
                 if line.split()[-2] != "A"}
        self.assertEqual(shown, declared)

    def test_its_soname_is_that_of_the_interface(self):
        listed = subprocess.run(["objdump", "-p", LIBRARY], check=True,
                                capture_output=True, text=True).stdout
        self.assertRegex(listed, r"SONAME\s+liboarlock\.so\.1\n")


# Run in a process of its own: what unittest does to a process is not asked about.
WHAT_STAYS = """
import ctypes, json, os, pathlib, signal, sys
sys.path.insert(0, %(tests)r)
from oarlock_testing import descriptors, oarlock, thread_names
import numpy as np

GRPC = ("event_engine", "default-executo", "resolver-execut", "grpc_global_tim",
        "timer_manager")

def state():
    libc = ctypes.CDLL(None)
    handlers = {n: str(signal.getsignal(n)) for n in signal.valid_signals()}
    status = pathlib.Path("/proc/self/status").read_text()
    masks = [line for line in status.splitlines() if line.startswith("Sig")]
    return {"handlers": handlers, "masks": masks, "environment": dict(os.environ),
            "locale": libc.setlocale(6, None), "descriptors": descriptors(),
            # gRPC has a pool of its own, which grows and shrinks as it likes.
            "threads": [name for name in thread_names()
                        if not name.startswith(GRPC)]}

def work():
    with oarlock.join(%(address)r, rank=0, world=1, token_file=%(token)r) as job:
        table = job.create_table("t", dim=2, optimizer=oarlock.Sgd(1.0))
        for step in range(%(steps)d):
            rows = table.pull(np.arange(step, step + 10))
            with job.step() as push:
                push.push(rows, np.ones((10, 2), np.float32))
        threads = thread_names()
        # That pool has as many as cores, and a few more.
        assert len(threads) < 2 * os.cpu_count() + 20, threads
    return threads

# The first use loads libraries and starts gRPC's own threads, which stay.
work()
before = state()
inside = work()
after = state()
print(json.dumps({"before": before, "after": after, "inside": inside}))
"""


class ProcessTest(unittest.TestCase):

    def test_a_client_leaves_its_process_as_it_was(self):
        with oarlock.LocalCluster() as cluster:
            script = WHAT_STAYS % {
                "tests": str(pathlib.Path(__file__).absolute().parent),
                "address": cluster.address, "token": cluster.token_file,
                "steps": 200}
            run = subprocess.run([sys.executable, "-c", script], text=True,
                                 capture_output=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr, "")
        lines = run.stdout.splitlines()
        self.assertEqual(len(lines), 1, run.stdout)
        told = json.loads(lines[0])
        for name, value in told["before"].items():
            self.assertEqual(told["after"][name], value, name)

    def test_importing_changes_nothing_and_loads_no_library(self):
        script = (
            "import sys, signal, os, threading\n"
            f"sys.path.insert(0, {str(ROOT / 'python')!r})\n"
            "before = (threading.active_count(), signal.getsignal(signal.SIGINT))\n"
            "import oarlock\n"
            "assert 'numpy' not in sys.modules and 'ctypes' not in sys.modules\n"
            "maps = open('/proc/self/maps').read()\n"
            "assert 'oarlock.so' not in maps and 'grpc' not in maps\n"
            "assert before == (threading.active_count(),\n"
            "                  signal.getsignal(signal.SIGINT))\n")
        run = subprocess.run([sys.executable, "-c", script], text=True,
                             capture_output=True, timeout=60)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    unittest.main()
