#!/usr/bin/env python3
"""What a Bazel command compiled: units, and the seconds that they took.

  units.py PROFILE

PROFILE is Bazel's command.profile.gz. A unit that came from the compile cache
is an action without a process of its own.
"""

import bisect
import collections
import gzip
import json
import sys


def compiled(events):
    """(units compiled, their seconds, units that came from the cache)."""
    processes = collections.defaultdict(list)
    for event in events:
        if event.get("name") == "subprocess.run":
            processes[event["tid"]].append(event["ts"])
    for starts in processes.values():
        starts.sort()
    units, microseconds, cached = 0, 0, 0
    for event in events:
        if (event.get("cat") != "action processing" or
                not event["name"].startswith("Compiling ")):
            continue
        starts = processes[event["tid"]]
        first = bisect.bisect_left(starts, event["ts"])
        if first < len(starts) and starts[first] <= event["ts"] + event["dur"]:
            units += 1
            microseconds += event["dur"]
        else:
            cached += 1
    return units, microseconds / 1e6, cached


def main():
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} PROFILE", file=sys.stderr)
        return 2
    with gzip.open(sys.argv[1], "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    units, seconds, cached = compiled(events)
    print(f"{units} units compiled in {seconds:.0f} core-seconds, "
          f"{cached} from the cache")
    return 0


if __name__ == "__main__":
    sys.exit(main())
