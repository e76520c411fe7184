#!/usr/bin/env python3
"""Speed of whole training runs beside what the machine can do.

In turn, several times: the matrix products of CTR-DNN alone on all cores
(//bench/dense:dense_ceiling, which shares no code with the product), a local
run with as many threads as cores, and 2 servers with 2 workers. Text is read
and parsed inside the measured time. Prints medians, spread, and ratios to the
ceiling of the same turn.

  bazel build //cli:oarlock //bench/dense:dense_ceiling
  python3 bench/end_to_end.py [--rows 400000] [--batch_size 512] [--turns 5]
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
OARLOCK = ROOT / "bazel-bin/cli/oarlock"
CEILING = ROOT / "bazel-bin/bench/dense/dense_ceiling"


def ceiling(batch, cores):
    output = subprocess.run(
        [CEILING, "--batch", str(batch), "--threads", str(cores)], check=True,
        capture_output=True, text=True).stdout
    return float(re.search(r"(\d+) examples/s", output).group(1))


def train(folder, flags):
    subprocess.run(
        [OARLOCK, "train", "--train_files", f"{folder}/data/part-*",
         "--log_dir", f"{folder}/logs", *flags], check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(pathlib.Path(folder, "logs/summary.json").read_text())


def show(name, speeds, ratios):
    print(f"{name:32s} {statistics.median(speeds):8.0f} examples/s "
          f"({min(speeds):.0f} to {max(speeds):.0f})   "
          f"{statistics.median(ratios):.2f} of the ceiling")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    batch = ["--batch_size", str(args.batch_size)]
    limits, local, cluster = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [OARLOCK, "generate", "criteo", "--rows", str(args.rows),
             "--out", f"{folder}/data"], check=True,
            stdout=subprocess.DEVNULL)
        for _ in range(args.turns):
            limits.append(ceiling(args.batch_size, cores))
            local.append(train(folder, batch + ["--thread_num", str(cores)]))
            cluster.append(train(folder, batch + [
                "--server_num", "2", "--worker_num", "2"]))
    local_speeds = [run["examples_per_second"] for run in local]
    cluster_speeds = [run["examples_per_second"] for run in cluster]
    show("dense math alone", limits, [1.0])
    show(f"local, {cores} threads", local_speeds,
         [a / b for a, b in zip(local_speeds, limits)])
    show("2 servers x 2 workers", cluster_speeds,
         [a / b for a, b in zip(cluster_speeds, limits)])
    ratios = [a / b for a, b in zip(cluster_speeds, local_speeds)]
    print(f"2x2 over local: {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f})")
    stages = cluster[-1]["stage_seconds_per_step"]
    print("a step of 2x2:", "  ".join(
        f"{name} {seconds * 1e3:.2f} ms" for name, seconds in stages.items()))


if __name__ == "__main__":
    main()
