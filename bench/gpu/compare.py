#!/usr/bin/env python3
"""How many times as fast as PyTorch's Oarlock's steps are.

  bench/gpu/compare.py FILE...

of what step_bench and torch_step.py have printed: a line for each model, batch,
kind of numbers and optimizer that both have measured, of the computation alone.
The goals, for batches of 4,096: three times eager PyTorch, and one and a half
times the faster of compiled PyTorch without CUDA graphs and with them.
"""

import re
import sys

GOAL_BATCH = 4096
GOALS = {"eager": 3, "compiled": 1.5}

OARLOCK = re.compile(
    r"oarlock (?P<model>\w+) +batch +(?P<batch>\d+) +(?P<numbers>\w+) +graphs "
    r"(?P<optimizer>\w+ )?compute +(?P<ms>[\d.]+) ms")
TORCH = re.compile(
    r"torch (?P<way>\w+) +(?P<model>\w+) +batch +(?P<batch>\d+) +"
    r"(?P<numbers>\w+) +(?P<optimizer>\w+ )?compute +(?P<ms>[\d.]+) ms")


def step_of(match):
    return (match["model"], int(match["batch"]), match["numbers"],
            (match["optimizer"] or "").strip())


def read(lines):
    """Milliseconds of Oarlock's steps, and of PyTorch's by the way of
    running."""
    oarlock, torch = {}, {}
    for line in lines:
        # The optimizer's word may be missing, but is not "compute".
        if match := OARLOCK.match(line):
            oarlock[step_of(match)] = float(match["ms"])
        elif match := TORCH.match(line):
            torch.setdefault(step_of(match), {})[match["way"]] = float(
                match["ms"])
    return oarlock, torch


def ratios(ms, of_torch):
    """PyTorch's time over Oarlock's, by the name of a goal."""
    found = {}
    if "eager" in of_torch:
        found["eager"] = of_torch["eager"] / ms
    compiled = [of_torch[way] for way in ("compiled", "graphs")
                if way in of_torch]
    if compiled:
        found["compiled"] = min(compiled) / ms
    return found


def verdict(batch, name, ratio):
    if batch != GOAL_BATCH:
        return ""
    return (f" (goal {GOALS[name]:g}: "
            f"{'reached' if ratio >= GOALS[name] else 'MISSED'})")


def report(lines):
    oarlock, torch = read(lines)
    out = []
    for step in sorted(oarlock.keys() & torch.keys()):
        model, batch, numbers, optimizer = step
        shown = [f"{ratio:5.2f} x {name}{verdict(batch, name, ratio)}"
                 for name, ratio in ratios(oarlock[step],
                                           torch[step]).items()]
        out.append(f"{model:8s} batch {batch:6d} {numbers:9s} {optimizer:5s}"
                   f"{oarlock[step]:8.3f} ms  " + "  ".join(shown))
    return out


def main():
    lines = []
    for path in sys.argv[1:]:
        with open(path) as file:
            lines += file.read().splitlines()
    found = report(lines)
    if not found:
        sys.exit("compare: no step was measured of both; legal are the outputs "
                 "of step_bench and of torch_step.py")
    print("\n".join(found))


if __name__ == "__main__":
    main()
