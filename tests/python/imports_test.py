"""The package beside others with C++ of their own, in all orders of import."""

import importlib.util
import itertools
import os
import re
import subprocess
import sys
import tempfile
import unittest

from oarlock_testing import ROOT

# What of each a fresh process uses after all were imported.
USES = {
    "oarlock": """
with oarlock.LocalCluster() as cluster, cluster.join() as job:
    table = job.create_table("t", 2, oarlock.Sgd(1.0))
    rows = table.pull([1, 2, 3])
    with job.step() as step:
        step.push(rows, np.ones((3, 2)))
    assert table.pull([2]).values.tolist() == [[-1, -1]]
""",
    "grpc": """
from concurrent import futures
server = grpc.server(futures.ThreadPoolExecutor(1))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    grpc.channel_ready_future(channel).result(30)
server.stop(None).wait()
""",
    "pyarrow": """
# Not Parquet: a process that only reads such a table ends by itself with signal 6
# about once in 100 times (pyarrow 26.0.1).
import pyarrow.ipc
table = pyarrow.table({"a": [1, 2]})
sink = pyarrow.BufferOutputStream()
with pyarrow.ipc.new_stream(sink, table.schema) as writer:
    writer.write_table(table)
assert pyarrow.ipc.open_stream(sink.getvalue()).read_all()["a"].to_pylist() == [1, 2]
""",
    "torch": """
weight = torch.ones(3, requires_grad=True)
(weight * 2).sum().backward()
assert weight.grad.tolist() == [2, 2, 2]
""",
}

# Shows the names of these libraries to all that are loaded after them.
LOAD = """
import ctypes
for path in %r:
    ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
"""

# A step before the libraries are loaded, and one after.
LOAD_BETWEEN = """
cluster = oarlock.LocalCluster()
job = cluster.join()
table = job.create_table("t", 2, oarlock.Sgd(1.0))
rows = table.pull([1, 2, 3])
with job.step() as step:
    step.push(rows, np.ones((3, 2)))
%s
with job.step() as step:
    step.push(rows, np.ones((3, 2)))
assert table.pull([2]).values.tolist() == [[-2, -2]]
job.leave()
cluster.close()
"""

# What a fresh process has loaded by `import oarlock` alone.
ALONE = """
import pathlib, sys
before = set(sys.modules)
import oarlock
assert "LocalCluster" in dir(oarlock)
print(sorted(name for name in set(sys.modules) - before
             if name.partition(".")[0] in ("ctypes", "numpy", "oarlock")))
print("liboarlock" in pathlib.Path("/proc/self/maps").read_text())
"""


def debian_libraries():
    """Paths of the libraries of gRPC, protobuf and Abseil on this machine."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], check=True,
                            capture_output=True, text=True).stdout
    return sorted(set(re.findall(
        r"x86-64.* => (\S+/lib(?:protobuf|gpr|grpc|grpc\+\+|absl_\w+)\.so\.\S+)",
        listed)))


class ImportsTest(unittest.TestCase):

    def expect_no_output(self, code):
        # gRPC of PyPI tells of the end of its own server.
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", code],
            env={**os.environ, "GRPC_VERBOSITY": "ERROR"}, cwd=ROOT / "python",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_the_package_alone_loads_neither_numpy_nor_the_library(self):
        done = subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT / "python",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60)
        self.assertEqual(done.stdout, "['oarlock']\nFalse\n")

    def test_all_orders(self):
        # Debian's torch is where its package is installed.
        names = [name for name in USES if importlib.util.find_spec(name)]
        print(f"beside each other: {', '.join(names)}")
        self.assertIn("pyarrow", names)
        for order in itertools.permutations(names):
            with self.subTest(order=order):
                code = "".join(
                    ["import numpy as np\n"]
                    + [f"import {name}\n" for name in order]
                    + [USES[name] for name in order])
                self.expect_no_output(code)

    def test_beside_libraries_whose_names_all_see(self):
        paths = debian_libraries()
        self.assertRegex(" ".join(paths), "libabsl.*libgrpc.*libprotobuf")
        load = LOAD % paths
        modules = "import numpy as np\nimport oarlock\n"
        for order, code in {
                "they are first": load + modules + USES["oarlock"],
                "they are second": modules + LOAD_BETWEEN % load}.items():
            with self.subTest(order):
                self.expect_no_output(code)


    def test_another_grpc_whose_names_all_see_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            library = f"{folder}/libother.so"
            subprocess.run(["gcc", "-shared", "-x", "c", "-o", library, "-"],
                           input="void grpc_init(void) {}", text=True, check=True)
            code = LOAD % [library] + """
import oarlock
try:
    oarlock.connect("127.0.0.1:1")
except oarlock.FailedPreconditionError as error:
    assert "another gRPC" in str(error), error
else:
    raise AssertionError("it was not refused")
"""
            self.expect_no_output(code)

if __name__ == "__main__":
    unittest.main()
