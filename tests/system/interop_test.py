"""A client of another language: made from the .proto files alone.

wire_client.py speaks to servers through protoc's Python stubs; what it does
there must be what the C++ client does.
"""

import atexit
import functools
import glob
import json
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest

import harness

# Debian's python3-grpcio belongs to Debian's interpreter, whichever python3
# comes first on the path.
PYTHON = "/usr/bin/python3"
HERE = pathlib.Path(__file__).absolute().parent
ROOT = HERE.parent.parent

SPARSE_TABLE = """
id: 1 name: "embedding" mode: ASYNC reduction: SUM seed: 99
optimizer { learning_rate: 0.5 warmup_steps: 3
            adagrad { initial_accumulator: 0.1 } }
sparse { dim: 3 initializer { uniform_range: 0.5 } accessor: PLAIN }
"""
# Blocks of 4, the last one of 3.
DENSE_TABLE = """
id: 2 name: "dense" mode: ASYNC reduction: SUM seed: 99
optimizer { learning_rate: 0.25 adam {} }
dense { size: 23 block_size: 4 parameters {
  name: "all" shape: 23 initializer { normal_stddev: 1 } } }
"""
NUM_PUSHES = 20
DIM, SIZE = 3, 23
# How far the AUC of the same model, trained by the two, may lie apart: order
# of examples and staleness differ.
MOST_AUC_DISTANCE = .005


def interop_peer():
    return harness.program("OARLOCK_INTEROP_PEER")


@functools.lru_cache(maxsize=None)
def stubs_dir():
    """A folder with protoc's output for proto/, made once."""
    folder = tempfile.mkdtemp(prefix="oarlock_stubs_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    plugin = shutil.which("grpc_python_plugin")
    messages = [str(path.relative_to(ROOT)) for path in sorted(
        pathlib.Path(ROOT, "proto", "v1").glob("*.proto"))]
    subprocess.run(
        ["protoc", f"--proto_path={ROOT}", f"--python_out={folder}",
         f"--plugin=protoc-gen-grpc_python={plugin}",
         f"--grpc_python_out={folder}", *messages],
        check=True, cwd=ROOT, timeout=harness.FAILURE_DEADLINE_S)
    return folder


def exact_gradient(random_source, count):
    """Numbers that 16 bits of either format hold."""
    return [random_source.randrange(-128, 128) / 64 for _ in range(count)]


class InteropTest(harness.SystemTest):

    def start_servers(self, count):
        """Of a job with one worker; their endpoints, comma separated."""
        ports = harness.free_ports(count)
        endpoints = ",".join(f"127.0.0.1:{port}" for port in ports)
        for port in ports:
            self.start_train(
                name=f"server{port}", TRAINING_ROLE="PSERVER",
                PADDLE_PSERVERS_IP_PORT_LIST=endpoints,
                PADDLE_TRAINERS_NUM="1", POD_IP="127.0.0.1",
                PADDLE_PORT=str(port))
        return endpoints

    def run_client(self, *arguments, name="python"):
        """Its output, when servers and client have ended well."""
        client = self.start(PYTHON, str(HERE / "interop_client.py"),
                            stubs_dir(), *arguments, name=name)
        return self.output_of(client)

    def output_of(self, client):
        self.await_success(client)
        for process in self.processes:
            self.await_success(process)
        return client.stdout

    def write(self, name, text):
        path = self.path(name)
        pathlib.Path(path).write_text(text, encoding="utf-8")
        return path

    def write_pushes(self, seed):
        r = random.Random(seed)
        keys = [r.randrange(1 << 64) for _ in range(300)] + [0, (1 << 64) - 1]
        lines = []
        for _ in range(NUM_PUSHES):
            for key in r.sample(keys, 100):
                lines.append((key, *exact_gradient(r, DIM)))
            lines.append(("dense", *exact_gradient(r, SIZE)))
            lines.append(("push",))
        return self.write("pushes", "".join(
            " ".join(map(str, line)) + "\n" for line in lines))

    def test_the_same_pushes_make_the_same_tables_as_the_cpp_clients(self):
        files = [self.write("sparse.textproto", SPARSE_TABLE),
                 self.write("dense.textproto", DENSE_TABLE),
                 self.write_pushes(seed=1)]
        python = self.run_client("replay", self.start_servers(2), *files)
        peer = self.output_of(self.start(
            interop_peer(), self.start_servers(2), *files, name="cpp"))
        # The arithmetic is the servers': no digit differs.
        self.assertEqual(python, peer)
        self.assertGreater(len(peer.splitlines()), 250)

    def test_logistic_regression_learns_what_oarlock_train_learns(self):
        job = self.start_train(
            "--server_num", "1", "--worker_num", "1", "--model", "lr",
            "--batch_size", "128", "--learning_rate", "0.05",
            *harness.data_flags())
        self.await_success(job)
        expected = self.summary()
        actual = json.loads(self.run_client(
            "train", self.start_servers(2),
            ",".join(sorted(glob.glob(harness.train_files()))),
            harness.test_files()))
        self.assertAlmostEqual(actual["test_auc"], expected["test_auc"],
                               delta=MOST_AUC_DISTANCE)
        self.assertAlmostEqual(actual["test_logloss"],
                               expected["test_logloss"],
                               delta=MOST_AUC_DISTANCE)
        self.assertGreater(actual["test_auc"], .62)


if __name__ == "__main__":
    unittest.main()
