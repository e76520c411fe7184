#!/usr/bin/env python3
"""Data-parallel training on images: how speed grows with ranks, how much of the
communication backward hides, what 8 and 32 nodes would do, and PyTorch beside it.

  bench/data_parallel.py [--turns 5] [--only TEXT] [--torch PYTHON]
                         [--bucket_kb 1024] [--json FILE]

A turn of a network on synthetic images: one process on one core alone; two such
processes at once that know nothing of each other; two ranks, a core each, every
one with as large a batch; two servers and two workers in sync mode, one of each
on a core. Two busy cores may each be slower than one alone, by memory and clock,
so speed is given as a fraction of both: of the two processes, which is what
communication costs, and of twice the one alone.

A turn of CIFAR-10 on the real images, batch 32: one process with all cores, two
ranks of 16, and PyTorch with as many threads (bench/peers/torch_cifar10.py, run
by the python that --torch names).

Who is first changes from turn to turn, ratios are taken within a turn, printed
are medians and quartiles. Rows that begin with PREDICTION are not measured: see
bench/suite/scaling_model.py.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench/suite"))

import figures  # noqa: E402: in bench/suite
import image_runs  # noqa: E402
import programs  # noqa: E402
import scaling_model  # noqa: E402
from figures import Beside  # noqa: E402

CORES = sorted(os.sched_getaffinity(0))[:2]
BATCH = 32
FRACTION_WANTED = .95
PYTORCH_WANTED = 1.3
# Images as CIFAR-10's: those of ImageNet would take an hour.
RESNET_FLAGS = ["--depth", "18", "--image_size", "32", "--synthetic_images",
                "192"]

# Sums that the model's link is fitted to, in bytes: the latency's and the
# bandwidth's. Between them the second cache makes sums faster than those of
# gradients, which come from memory after a backward.
SUMS = {"16 KB": 16 << 10, "1 MB": 1 << 20, "8 MB": 8 << 20}
# Ranks that share the cores: the ring's formula, checked.
MORE_RANKS = (3, 4)
CHECKED_SUM = "1 MB"

# What is assumed of networks between real nodes, and the predicted sizes.
NETWORK_LATENCY = 20e-6
NETWORK_GBIT = (10, 25)
NODES = (8, 32)


def networks(options):
    """Those whose program is built."""
    def example(name, folder, epochs, flags=()):
        return image_runs.Network(
            name, programs.BIN / "examples" / folder / "train",
            ["--synthetic", "--bucket_kb", str(options.bucket_kb), *flags],
            BATCH, epochs)

    result = []
    for network in (example("MNIST", "mnist", 6),
                    example("CIFAR-10", "cifar10", 6),
                    example("ResNet-18", "resnet", 3, RESNET_FLAGS)):
        if options.only not in network.name:
            continue
        if not network.program.exists():
            print(f"skipped: {network.name}; {network.program} is not built")
            continue
        result.append(network)
    return result


def in_turns(num_turns, kinds):
    """What each kind's function gives, a list over the turns."""
    values = {name: [] for name in kinds}
    names = list(kinds)
    for turn in range(num_turns):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            values[name].append(kinds[name]())
    return values


def speeds(summaries):
    return [image_runs.images_per_second(one) for one in summaries]


def step_of(summary):
    """The model's Step of a process alone; as long as its median epoch says."""
    updates = summary["updates"]
    seconds = sum(epoch["seconds"] for epoch in summary["epochs"])
    scale = (summary["batch_size"] / image_runs.images_per_second(summary) /
             (seconds / updates))
    parts = {part: summary[f"{part}_seconds"] / updates
             for part in ("forward", "backward", "update")}
    return scaling_model.Step(
        **{part: value * scale for part, value in parts.items()},
        rest=max(0, seconds / updates - sum(parts.values())) * scale,
        gradient_bytes=summary["gradient_bytes"],
        finals=[(final["first_byte"], final["seconds"] * scale)
                for final in summary["gradients_final"]])


class Sums:
    """All-reduces over loopback, nothing else running."""

    def __init__(self):
        self._programs = {
            ranks: programs.Program("bench/collective/allreduce_bench",
                                    ["--ranks", str(ranks)])
            for ranks in (len(CORES), *MORE_RANKS)}

    def measure(self, ranks, name):
        """(bytes, seconds, CPU seconds of a rank)."""
        found = self._programs[ranks].measure(name)
        return (SUMS[name], found["p50_us"] / 1e6,
                found["cpu_us"] / 1e6 / ranks)

    def close(self):
        for program in self._programs.values():
            program.close()


def link_rows(num_turns):
    """The link of this machine, turn by turn, and rows that check its
    formula."""
    sums = Sums()
    kinds = {f"{len(CORES)} {name}":
             (lambda name=name: sums.measure(len(CORES), name))
             for name in SUMS}
    kinds.update({f"{ranks} {CHECKED_SUM}":
                  (lambda ranks=ranks: sums.measure(ranks, CHECKED_SUM))
                  for ranks in MORE_RANKS})
    values = in_turns(num_turns, kinds)
    sums.close()
    links = [scaling_model.fit(
        [values[f"{len(CORES)} {name}"][turn] for name in SUMS], len(CORES))
        for turn in range(num_turns)]
    rows = []
    for ranks in (len(CORES), *MORE_RANKS):
        # Ranks beyond the cores take turns on them.
        wait = max(1, ranks / len(CORES))
        rows.append((figures.row(
            f"all-reduce of {CHECKED_SUM}, {ranks} ranks on {len(CORES)} cores",
            "us", [one[1] * 1e6 for one in values[f"{ranks} {CHECKED_SUM}"]],
            peers=[Beside("the model's formula", [
                link.sum_seconds(SUMS[CHECKED_SUM], ranks) * wait * 1e6
                for link in links])], more_is_better=False), False))
    return links, rows


def scaling_rows(network, turns, pairs):
    """Speeds; `pairs` are those of both processes that do not communicate."""
    limit = Beside("two processes that do not communicate", pairs,
                   FRACTION_WANTED)
    twice = [2 * speed for speed in speeds(turns["alone"])]
    rows = [figures.row(
        f"{network.name}, {len(CORES)} ranks, a core each", "images/s",
        speeds(turns["ranks"]), limit,
        [Beside("twice one process alone", twice, FRACTION_WANTED)])]
    limit = Beside(limit.name, pairs)
    rows.append(figures.row(
        f"{network.name}, 2 servers x 2 workers, sync", "images/s",
        speeds(turns["servers"]), limit,
        [Beside("twice one process alone", twice)]))
    return rows


def hidden_rows(network, turns, pairs):
    """The share of communication that backward hides, told by the thread that
    waits, and by how much longer steps are: sums take CPU time from backward
    where a rank has one core, which no waiting shows."""
    waiting, lasting = [], []
    for summary, pair in zip(turns["ranks"], pairs):
        communication = summary["communication_seconds"]
        waiting.append(
            1 - summary["exposed_communication_seconds"] / communication)
        # Of a step; a rank's batch at half the speed of all.
        longer = summary["batch_size"] * (
            1 / image_runs.images_per_second(summary) - 1 / pair)
        lasting.append(1 - longer / (communication / summary["updates"]))
    name = f"{network.name}, communication hidden behind backward"
    return [figures.row(name, "of its time", waiting),
            figures.row(f"{name}, by the length of steps", "of its time",
                        lasting)]


def predicted_rows(network, turns, links, bucket_bytes):
    """The model beside what was measured here, then what it predicts."""
    measured = speeds(turns["ranks"])
    here = []
    for pair, link in zip(turns["pair"], links):
        step = max((step_of(one) for one in pair), key=lambda s: s.seconds)
        here.append(len(CORES) * network.batch_size / scaling_model.predict(
            step, link, len(CORES), bucket_bytes).step_seconds)
    rows = [figures.row(
        f"PREDICTION {network.name}, {len(CORES)} ranks of this machine",
        "images/s", here, peers=[Beside("measured", measured)])]
    for gbit in NETWORK_GBIT:
        for nodes in NODES:
            fractions = []
            for summary, link in zip(turns["alone"], links):
                step = step_of(summary)
                predicted = scaling_model.predict(
                    step, link.over(NETWORK_LATENCY, gbit * 1e9 / 8), nodes,
                    bucket_bytes)
                fractions.append(step.seconds / predicted.step_seconds)
            rows.append(figures.row(
                f"PREDICTION {network.name}, {nodes} nodes of a core, "
                f"{gbit} Gbit/s, 20 us", "of ideal", fractions))
    return rows


def network_rows(network, num_turns, links, bucket_bytes):
    turns = in_turns(num_turns, {
        "alone": lambda: image_runs.alone(network, CORES[:1])[0],
        "pair": lambda: image_runs.alone(network, CORES),
        "ranks": lambda: image_runs.ranks(network, CORES),
        "servers": lambda: image_runs.with_servers(network, CORES)})
    pairs = [sum(speeds(pair)) for pair in turns["pair"]]
    return [(row, True) for row in (
        *scaling_rows(network, turns, pairs),
        *hidden_rows(network, turns, pairs),
        *predicted_rows(network, turns, links, bucket_bytes))]


def pytorch(python, folder, *flags):
    """Images/s of the peer."""
    outcome = subprocess.run(
        [python, ROOT / "bench/peers/torch_cifar10.py", "--data_dir", folder,
         "--threads", str(len(CORES)), "--batch_size", str(BATCH), *flags],
        capture_output=True, text=True)
    if outcome.returncode != 0:
        raise RuntimeError(f"the peer ended with exit code "
                           f"{outcome.returncode}:\n{outcome.stderr}")
    return json.loads(outcome.stdout)["images_per_second"]


def cifar_rows(num_turns, python):
    """The real images, our ways and PyTorch's."""
    folder = image_runs.real_images("cifar10")
    program = programs.BIN / "examples/cifar10/train"
    if folder is None or not program.exists():
        print("skipped: CIFAR-10 beside PyTorch; it needs examples/cifar10 "
              "and cifar10/ in the folder that OARLOCK_DATA_DIR names")
        return []

    def ours(processes):
        network = image_runs.Network(
            "CIFAR-10", program, ["--data_dir", str(folder)],
            BATCH // processes, epochs=3)
        return image_runs.images_per_second(
            image_runs.as_a_user_would(network, processes))

    kinds = {"one process": lambda: ours(1),
             f"launch --nproc_per_node {len(CORES)}":
                 lambda: ours(len(CORES))}
    mine = list(kinds)
    peers = {"PyTorch": [], "PyTorch, channels last": ["--channels_last"]}
    if subprocess.run([python, "-c", "import torch"],
                      stderr=subprocess.DEVNULL).returncode != 0:
        print(f"skipped: PyTorch beside CIFAR-10; {python} has none, --torch "
              f"names a python that does")
        peers = {}
    for name, flags in peers.items():
        kinds[name] = lambda flags=flags: pytorch(python, folder, *flags)
    values = in_turns(num_turns, kinds)
    return [(figures.row(
        f"CIFAR-10, {BATCH} images a step, {name}", "images/s", values[name],
        peers=[Beside(peer, values[peer], PYTORCH_WANTED) for peer in peers]),
        True) for name in mine]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=5, help="3 or more")
    parser.add_argument(
        "--only", metavar="TEXT", default="",
        help="only networks with this in their name, or PyTorch")
    parser.add_argument("--torch", metavar="PYTHON", default=sys.executable,
                        help="a python that has PyTorch")
    parser.add_argument("--bucket_kb", type=int, default=1024,
                        help="of the programs: gradients summed together")
    parser.add_argument("--json", metavar="FILE", help="where rows go")
    options = parser.parse_args()
    if options.turns < 3:
        parser.error("--turns is less than 3: there is no median of them")
    if len(CORES) < 2:
        parser.error("this needs two cores")
    return options


def main():
    options = parse()
    rows = []

    def add(found):
        for row, more_is_better in found:
            figures.show(row, more_is_better)
            rows.append(row)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))

    chosen = networks(options)
    if chosen:
        links, checks = link_rows(options.turns)
        typical = [statistics.median(values) for values in zip(
            *((link.latency * 1e6, link.bandwidth / 1e9,
               link.cpu_byte * link.bandwidth) for link in links))]
        print("a link of this machine: {:.1f} us, {:.2f} GB/s, {:.2f} of a "
              "core while bytes move".format(*typical))
        add(checks)
    for network in chosen:
        add(network_rows(network, options.turns, links,
                         options.bucket_kb << 10))
    if options.only in "PyTorch":
        add(cifar_rows(options.turns, options.torch))
    if not rows:
        sys.exit(f"nothing has {options.only!r} in its name")


if __name__ == "__main__":
    main()
