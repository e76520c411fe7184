#!/usr/bin/env python3
"""How long a server's crash holds up the pushes of a job under load.

  bench/recovery.py [--turns 10] [--rows 2000000] [--log_bytes_max 1073741824]
                    [--folder DIR] [--json FILE]

One worker pulls, computes and pushes with durability `log` beside two servers.
When the log of server 1 is nearly at its limit the server is killed and started
again; printed is the longest time from sending a push to its response: from
just before the kill to the first push that is applied again.
"""

import argparse
import json
import pathlib
import re
import statistics
import tempfile
import threading
import time

from suite import programs

# A log this full is one at its limit: a little more makes a checkpoint.
NEARLY = 0.9


def bytes_of(folder):
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            pass
    return total


def crash(servers, load, log, limit):
    load.measure("one percent")  # makes a checkpoint, which trims the log
    while bytes_of(log) < NEARLY * limit:
        load.measure("briefly")
    size = bytes_of(log)
    killer = threading.Timer(0.5, servers.kill_and_restart, [1])
    killer.start()
    figures = load.measure("quiet")
    killer.join()
    return {"log_bytes": size, "seconds": figures["push_longest_us"] / 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--log_bytes_max", type=int, default=1 << 30)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        servers = programs.Servers(2, 1, [
            "--checkpoint_dir", folder, "--checkpoint_interval_s", "0",
            "--durability", "log",
            "--log_bytes_max", str(options.log_bytes_max)])
        load = programs.Program("bench/checkpoint/load_bench", [
            "--server", servers.endpoints, "--rows", str(options.rows),
            "--seconds", "2", "--compute_us", "1000"])
        log = pathlib.Path(folder) / "log/server-001"
        turns = []
        for _ in range(options.turns):
            turns.append(crash(servers, load, log, options.log_bytes_max))
            print(json.dumps(turns[-1]), flush=True)
        replays = re.findall(r"replayed (\d+) pushes of the log in ([\d.]+) s",
                             servers.text_of_log())
        load.close()
        servers.close()
    times = sorted(turn["seconds"] for turn in turns)
    print(f"kill -9 to the first push applied again: "
          f"{statistics.median(times):.2f} s ({times[0]:.2f} to "
          f"{times[-1]:.2f}); replays: {replays}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(turns, indent=1))


if __name__ == "__main__":
    main()
