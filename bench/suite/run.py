#!/usr/bin/env python3
"""Runs the bench: ours, the limit and alternatives in turn, and their ratios.

Call bench/run.sh, which builds first. For each row one repetition of ours,
one of the limit and one of each alternative follow one another, several times:
what else the machine does disturbs all of them alike. A ratio is taken within
a turn; printed are medians over the turns and the quartiles of the ratios.
Ratios are of speed: 2 is twice as fast, or half the time or size.
"""

import argparse
import json
import sys
import time

import figures
import programs
import rows as bench


class Programs:
    """Starts programs of a section when they are first needed."""

    def __init__(self, starters, quick):
        self._starters = starters
        self._quick = quick
        self._running = {}
        # (program, measurement) -> the figures that it gave so far.
        self._figures = {}

    def measure(self, of):
        if of.program not in self._running:
            self._running[of.program] = self._starters[of.program](self._quick)
        figures = self._running[of.program].measure(of.measurement)
        self._figures.setdefault((of.program, of.measurement), []).append(
            figures)
        return of.value(figures)

    def latest(self, of, count):
        """Of the last repetitions, which another row had made."""
        figures = self._figures.get((of.program, of.measurement), [])
        return [of.value(one) for one in figures[-count:]]

    def close(self):
        for program in self._running.values():
            program.close()


class Turns:
    """The numbers of one row: a list over the turns for each of its parts."""

    def __init__(self, row, running, num_turns, peers_here):
        parts = {"ours": row.ours}
        if row.limit is not None:
            parts["limit"] = row.limit
        for label, peer in row.peers:
            if isinstance(peer, bench.Of):
                parts[label] = peer
        self.values = {name: [] for name in parts}
        if row.seen_by_the_row_before:
            for name, part in parts.items():
                self.values[name] = running.latest(part, num_turns)
            if self.values["ours"]:
                return
            self.values = {name: [] for name in parts}
        names = list(parts)
        for turn in range(-1 if row.warm_up else 0, num_turns):
            # Nobody is always the first, or always after the same one.
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                value = running.measure(parts[name])
                if turn >= 0:
                    self.values[name].append(value)
        for label, peer in row.peers:
            if isinstance(peer, bench.Scaled) and peer.name in peers_here:
                self.values[label] = [float(peers_here[peer.name])] * num_turns
            elif isinstance(peer, bench.Scaled):
                self.values[label] = [
                    peer.figure * limit / peer.figure_of_limit
                    for limit in self.values["limit"]]
            elif not isinstance(peer, bench.Of):
                self.values[label] = [float(peer)] * num_turns


def label_of(label, peer, peers_here):
    """Says where a figure that is not of this run comes from."""
    if not isinstance(peer, bench.Scaled):
        return label
    return label + (", run here" if peer.name in peers_here else " (scaled)")


def summary(row, turns, peers_here):
    """The row as it stands in the JSON file."""
    peers = []
    for i, (label, peer) in enumerate(row.peers):
        targets = row.target_to_peers
        peers.append(figures.Beside(
            label_of(label, peer, peers_here), turns.values[label],
            targets[i] if i < len(targets) else None))
    limit = None
    if row.limit is not None:
        limit = figures.Beside(row.limit_name, turns.values["limit"],
                               row.target_to_limit)
    return figures.row(row.name, row.unit, turns.values["ours"], limit, peers,
                       row.more_is_better, row.target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true",
                        help="7 turns and short runs: at most 4 minutes")
    parser.add_argument("--turns", type=int,
                        help="turns of each row; default 15, quick 7")
    parser.add_argument("--only", metavar="NAME", default="",
                        help="only rows or sections with this in their name")
    parser.add_argument("--json", metavar="FILE", help="where results go")
    parser.add_argument("--peers", metavar="FILE",
                        help="JSON: examples/s of peers that were run here")
    args = parser.parse_args()
    num_turns = args.turns or (7 if args.quick else 15)

    peers_here = {}
    if args.peers:
        with open(args.peers) as file:
            peers_here = json.load(file)

    begin = time.monotonic()
    results = []
    for section in bench.all_sections():
        rows = [row for row in section.rows
                if (args.only in row.name or args.only == section.name)
                and not (args.quick and row.full_only)]
        if programs.real_data() is None and any(r.real_ids for r in rows):
            print("skipped: rows of real ids; OARLOCK_DATA_DIR names no "
                  "folder with criteo/*.txt.xz")
            rows = [row for row in rows if not row.real_ids]
        if not rows:
            continue
        running = Programs(section.programs, args.quick)
        for row in rows:
            turns = Turns(row, running, row.repetitions or num_turns,
                          peers_here)
            results.append(summary(row, turns, peers_here))
            figures.show(results[-1], row.more_is_better)
            if args.json:
                with open(args.json, "w") as file:
                    json.dump(results, file, indent=1)
        running.close()
    if not results:
        names = [row.name for s in bench.all_sections() for row in s.rows]
        sys.exit(f"no row has {args.only!r} in its name; there are: "
                 + "; ".join(names))
    print(f"{len(results)} rows in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
