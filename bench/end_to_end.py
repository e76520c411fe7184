#!/usr/bin/env python3
"""Speed of whole training runs beside what the machine can do.

In turn, several times: the matrix products of CTR-DNN alone on all cores
(//bench/dense:dense_ceiling, which shares no code with the product), a local
run with as many threads as cores, and 2 servers with 2 workers. Text is read
and parsed inside the measured time. Prints medians, spread, and ratios to the
ceiling of the same turn; with --json also writes a list of objects like those
of bench/run.sh, plus the time of each stage of a step.

  bazel build //cli:oarlock //bench/dense:dense_ceiling
  python3 bench/end_to_end.py [--rows 400000] [--batch_size 512] [--turns 5]
      [--model ctr_dnn] [--json FILE]
"""

import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "suite"))
import figures  # noqa: E402: found through the line above
import programs  # noqa: E402


def speeds(runs):
    return [one["examples_per_second"] for one in runs]


def result(name, ours, limits):
    ratios = [a / b for a, b in zip(ours, limits)]
    return {
        "name": name, "ours": statistics.median(ours), "unit": "examples/s",
        "limit": statistics.median(limits),
        "ratio_to_limit": statistics.median(ratios),
        "peer": None, "ratio_to_peer": None,
        "spread": {"ours": figures.quartiles(ours),
                   "ratio_to_limit": figures.quartiles(ratios)},
        "turns": len(ours)}


def show(line):
    low, high = line["spread"]["ours"]
    low_ratio, high_ratio = line["spread"]["ratio_to_limit"]
    print(f"{line['name']:28s} {line['ours']:8.0f} examples/s "
          f"({low:.0f} to {high:.0f})   {line['ratio_to_limit']:.2f} "
          f"({low_ratio:.2f} to {high_ratio:.2f}) of the ceiling "
          f"{line['limit']:.0f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--model", default="ctr_dnn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    what = f"{args.model} {args.batch_size}"
    limits, local, cluster = [], [], []
    training = programs.Training(args.rows)
    for _ in range(args.turns):
        limits.append(training.measure(f"ceiling {args.batch_size} float32"))
        local.append(training.measure(f"local {what} float32"))
        cluster.append(training.measure(f"cluster {what} float32"))
    training.close()
    lines = [result(f"{what}, local", speeds(local), speeds(limits)),
             result(f"{what}, 2 x 2", speeds(cluster), speeds(limits))]
    stages = cluster[-1].get("stage_seconds_per_step", {})
    lines[1]["stage_seconds_per_step"] = stages
    for line in lines:
        show(line)
    ratios = [a / b for a, b in zip(speeds(cluster), speeds(local))]
    print(f"2 x 2 over local: {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f})")
    print("a step of 2 x 2:", "  ".join(
        f"{name} {seconds * 1e3:.2f} ms" for name, seconds in stages.items()))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
