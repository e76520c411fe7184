#!/usr/bin/env python3
"""What the log of pushes costs a training job, end to end.

  bench/log_cost.py [--turns 7] [--rows 1000000] [--batch_size 512]
                    [--folder DIR] [--json FILE]

A turn trains CTR-DNN on generated Criteo text with 2 servers and 2 workers:
without checkpoints, with a checkpoint folder, and with --durability log at its
defaults. Ratios are taken within a turn; printed are medians, with the least
and the largest.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from suite import programs

FILES = 4


def flags_of(kind, folder):
    if kind == "plain":
        return []
    flags = ["--checkpoint_dir", str(folder / "checkpoints")]
    return flags + (["--durability", "log"] if kind == "log" else [])


def train(kind, options, folder):
    work = folder / "run"
    shutil.rmtree(work, ignore_errors=True)
    subprocess.run(
        [programs.OARLOCK, "train", "--server_num", "2", "--worker_num", "2",
         "--train_files", str(folder / "part-*"), "--batch_size",
         str(options.batch_size), "--log_dir", str(work / "logs"),
         *flags_of(kind, work)],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    summary = json.loads((work / "logs/summary.json").read_text())
    return summary["examples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--json")
    options = parser.parse_args()
    kinds = ("plain", "checkpoint", "log")
    turns = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        subprocess.run(
            [programs.OARLOCK, "generate", "criteo", "--rows",
             str(options.rows), "--files", str(FILES), "--out", name],
            check=True, stdout=subprocess.DEVNULL)
        for _ in range(options.turns):
            turns.append({kind: train(kind, options, folder)
                          for kind in kinds})
    for kind in kinds:
        speeds = [turn[kind] for turn in turns]
        ratios = [turn[kind] / turn["plain"] for turn in turns]
        print(f"{kind:10s} {statistics.median(speeds):9.0f} examples/s, "
              f"{statistics.median(ratios):.3f} of plain "
              f"({min(ratios):.3f} to {max(ratios):.3f})")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(turns, indent=1))


if __name__ == "__main__":
    main()
