"""How fast the Python client is beside the C++ client and one of generated stubs.

    client.py [--turns N] [--steps N] [--json FILE]

Each turn has steps of all of them on the same server, in another order each time: a
pull of 13,312 rows of 16 floats into an array of the caller, and a push of as many
gradients. Printed are medians over the turns, and ratios to the C++ client's time with
their quartiles. The C++ client runs with malloc's own settings and with those that
workers have (oarlock.keep_memory()), Python likewise.

Run after `bazel build //capi //cli:oarlock //bench/python:client_steps`, by an
interpreter with numpy; the stubs are made and run by Debian's (python3-grpcio).
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402

import oarlock  # noqa: E402

KEYS, DIM, BATCHES = 13312, 16, 20
STEPS = ROOT / "bazel-bin/bench/python/client_steps"


def mix(x):
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        return z ^ (z >> np.uint64(31))


def keys_of(step):
    first = np.uint64(step % BATCHES * KEYS)
    return mix(np.arange(KEYS, dtype=np.uint64) + first) >> np.uint64(24)


def python_steps():
    """Run in a process of its own: argv are those of client_steps.cc."""
    _, _, servers, token_file, rank, world, name, keep = sys.argv
    if int(keep):
        oarlock.keep_memory()
    job = oarlock.join(servers, rank=int(rank), world=int(world),
                       token_file=token_file)
    table = job.table(name)
    out = np.empty((KEYS, DIM), np.float32)
    gradients = np.full((KEYS, DIM), 1e-3, np.float32)
    batches = [keys_of(step) for step in range(BATCHES)]
    step = 0
    for line in sys.stdin:
        pulls, pushes = [], []
        for _ in range(int(line)):
            keys = batches[step % BATCHES]
            step += 1
            begin = time.perf_counter()
            rows = table.pull(keys, out=out)
            pulled = time.perf_counter()
            with job.step() as push:
                push.push(rows, gradients[:len(rows)])
            pushed = time.perf_counter()
            pulls.append((pulled - begin) * 1e6)
            pushes.append((pushed - pulled) * 1e6)
        print(f"{statistics.median(pulls):.1f} {statistics.median(pushes):.1f}",
              flush=True)
    job.leave()


def make_stubs(folder):
    messages = [str(path.relative_to(ROOT)) for path in sorted(
        pathlib.Path(ROOT, "proto", "v1").glob("*.proto"))]
    subprocess.run(
        ["protoc", f"--proto_path={ROOT}", f"--python_out={folder}",
         "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin",
         f"--grpc_python_out={folder}",
         *messages], check=True, cwd=ROOT)


class Program:

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)

    def run(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args} ended: {self.process.wait()}")
        return [float(word) for word in line.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with oarlock.LocalCluster(durability="checkpoint") as cluster, \
            tempfile.TemporaryDirectory() as stubs:
        with cluster.join() as job:
            table = job.create_table("rows", DIM, oarlock.Adagrad(0.05),
                                     oarlock.Uniform(0.01))
            for step in range(BATCHES):
                rows = table.pull(keys_of(step))
                with job.step() as push:
                    push.push(rows, np.full((len(rows), DIM), 1e-3, np.float32))
        make_stubs(stubs)
        address, token = cluster.address, cluster.token_file
        me = [sys.executable, __file__, "--as-python"]
        programs = {
            "C++": Program(STEPS, address, token, 0, 5, "rows", 0),
            "Python": Program(*me, address, token, 1, 5, "rows", 0),
            "C++, memory kept": Program(STEPS, address, token, 2, 5, "rows", 1),
            "Python, memory kept": Program(*me, address, token, 3, 5, "rows", 1),
            "grpcio stubs": Program("/usr/bin/python3",
                                    pathlib.Path(__file__).with_name("stub_steps.py"),
                                    stubs, address, token, 4, 5, "rows"),
        }
        for program in programs.values():
            program.run(BATCHES)
        times = {name: [] for name in programs}
        for turn in range(arguments.turns):
            order = list(programs)
            random.Random(turn).shuffle(order)
            for name in order:
                times[name].append(programs[name].run(
                    max(3, arguments.steps // (8 if "stubs" in name else 1))))
        for program in programs.values():
            program.close()
    print(f"{'':22}{'pull us':>9}{'push us':>9}   pull+push / C++'s")
    figures = {}
    for name, all_times in times.items():
        base = times["C++, memory kept" if "kept" in name else "C++"]
        ratios = sorted(sum(own) / sum(other)
                        for own, other in zip(all_times, base))
        low, median, high = (ratios[len(ratios) * q // 4] for q in (1, 2, 3))
        pull, push = (statistics.median(t[i] for t in all_times) for i in (0, 1))
        figures[name] = {"pull_us": pull, "push_us": push, "ratio": median,
                         "quartiles": [low, high]}
        print(f"{name:22}{pull:9.0f}{push:9.0f}   {median:.3f} ({low:.3f} to "
              f"{high:.3f})")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=1),
                                                encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-python"]:
        python_steps()
    else:
        main()
