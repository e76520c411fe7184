#!/usr/bin/env python3
"""What checkpoints cost a job: latencies and speed of a worker under load
while one is made, bytes and seconds of an increment, and the disk beside it.

  bench/checkpoints.py [--turns 5] [--rows 10000000] [--servers 2]
                       [--folder DIR] [--json FILE]

A turn: the load alone, the load while a checkpoint is made, a checkpoint after
1 % of the rows changed at random, and as many bytes as a whole table has with
O_DIRECT. Ratios are taken within a turn; printed are medians, with the least
and the largest.
"""

import argparse
import json
import pathlib
import re
import statistics
import tempfile

from suite import programs


def newest_parts(folder):
    """(bytes, longest seconds, whether all rows) of the newest checkpoint."""
    manifest = max(folder.glob("ckpt-*/MANIFEST")).read_text()
    sizes = [int(n) for n in re.findall(r"written_bytes: (\d+)", manifest)]
    seconds = [float(n) for n in re.findall(r"write_seconds: (\S+)", manifest)]
    return sum(sizes), max(seconds), "full: true" in manifest


def spread(values, digits=2):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})")


def measure(options, folder):
    servers = programs.Servers(
        options.servers, 1,
        ["--checkpoint_dir", str(folder), "--checkpoint_keep", "2"])
    load = programs.Program("bench/checkpoint/load_bench", [
        "--server", servers.endpoints, "--rows", str(options.rows)])
    disk = programs.Program("bench/storage/raw_disk",
                            ["--folder", f"{options.folder}/raw"])
    whole_bytes, whole_seconds, _ = newest_parts(folder)
    rates = [whole_bytes / whole_seconds]
    turns = []
    for _ in range(options.turns):
        turn = {"quiet": load.measure("quiet"),
                "checkpoint": load.measure("checkpoint")}
        turn["under load"] = newest_parts(folder)
        # What was pushed while it was made, and if that is much all rows again,
        # so that the next one has its own changes alone.
        load.measure("one percent")
        load.measure("one percent")
        turn["one percent"] = load.measure("one percent")
        turn["increment"] = newest_parts(folder)
        turn["disk"] = disk.measure("raw write")
        turns.append(turn)
    load.close()
    disk.close()
    servers.close()
    return {"whole": [whole_bytes, whole_seconds], "rates": rates,
            "turns": turns}


def report(result):
    turns = result["turns"]

    def ratio(name):
        return [t["checkpoint"][name] / t["quiet"][name] for t in turns]

    whole_bytes, whole_seconds = result["whole"]
    disk = [t["disk"]["bytes_per_second"] for t in turns]
    print(f"all rows: {whole_bytes / 1e6:.0f} MB in {whole_seconds:.2f} s, of "
          f"O_DIRECT {spread([whole_bytes / whole_seconds / d for d in disk])}")
    print("while one is made, over without")
    print("  batches per second", spread(ratio("batches_per_second")))
    print("  pull p99          ", spread(ratio("pull_p99_us")))
    for name in ("pull_p99_us", "push_p99_us", "push_longest_us"):
        for which in ("quiet", "checkpoint"):
            values = [t[which][name] / 1e3 for t in turns]
            print(f"  {which:10} {name[:-3]:13} ms {spread(values, 1)}")
    print("  seconds           ",
          spread([t["checkpoint"]["seconds"] for t in turns]))
    print("  bytes of all rows' ",
          spread([t["under load"][0] / whole_bytes for t in turns]))
    print("1 % of the rows changed")
    print("  bytes of all rows' ",
          spread([t["increment"][0] / whole_bytes for t in turns], 3))
    print("  seconds of writing ",
          spread([t["increment"][1] / whole_seconds for t in turns], 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        result = measure(options, pathlib.Path(folder))
    report(result)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
