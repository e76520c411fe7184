#!/usr/bin/env python3
"""Runs the bench: ours, the limit and alternatives in turn, and their ratios.

Call bench/run.sh, which builds first. For each row one repetition of ours,
one of the limit and one of each alternative follow one another, several times:
what else the machine does disturbs all of them alike. A ratio is taken within
a turn; printed are medians over the turns and the quartiles of the ratios.
Ratios are of speed: 2 is twice as fast, or half the time or size.

A row that this CPU cannot run, or that fails, says so, and the others go on.
The exit code is 0, 1 where a row failed, 2 where the command line is wrong.
"""

import contextlib
import json
import pathlib
import sys
import time

import command_line
import figures
import programs
import rows as bench
import turns as bench_turns

TURNS = 15
QUICK_TURNS = 7
# Of a quick run that starts no program any more and makes the least turns: it
# keeps starting and what is under way within 4 minutes on two free cores.
QUICK_S = 200


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


def why_not(row, quick):
    """Why a row is not measured at all here, or None."""
    if quick and row.full_only:
        return "left out of a quick run"
    if row.real_ids and programs.real_data() is None:
        return ("no rows of real click logs: OARLOCK_DATA_DIR names no folder "
                "with criteo/*.txt.xz")
    return None


def measured(row, running, args, peers_here, pace):
    """The row of the JSON file: with figures, or with the reason why not."""
    begin = time.monotonic()
    if pace is not None:
        pace.begin_row()
    num_turns = row.repetitions or args.turns
    try:
        turns = bench_turns.Turns(row, running, num_turns, peers_here, pace)
        result = summary(row, turns, peers_here)
    # Whatever it is: it is shown, and costs this row alone.
    except Exception as error:  # pylint: disable=broad-except
        result = figures.without_figures(row.name, row.unit,
                                         bench_turns.reason_of(error))
    result["seconds"] = figures.significant(time.monotonic() - begin)
    return result


def run(sections, args, peers_here):
    """Measures, prints and returns the rows."""
    results = []

    def add(row, result):
        results.append(result)
        figures.show(result, row.more_is_better)
        if args.json:
            pathlib.Path(args.json).write_text(
                json.dumps(results, indent=1), encoding="utf-8")

    to_measure = sum(why_not(row, args.quick) is None
                     for section in sections for row in section.rows)
    pace = bench_turns.Pace(QUICK_S, to_measure) if args.quick else None
    for section in sections:
        with contextlib.closing(bench_turns.Programs(
                section.programs, args.quick)) as running:
            for row in section.rows:
                reason = why_not(row, args.quick)
                if reason is None:
                    result = measured(row, running, args, peers_here, pace)
                else:
                    result = figures.without_figures(row.name, row.unit,
                                                     reason)
                add(row, result)
    return results


def parsed(arguments):
    parser = command_line.Parser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true",
                        help="7 turns and short runs: at most 4 minutes")
    parser.add_argument("--turns", type=command_line.at_least(1),
                        help=f"turns of each row; default {TURNS}, quick "
                        f"{QUICK_TURNS} or, where a row takes long, fewer")
    parser.add_argument("--only", metavar="NAME", default="",
                        help="only rows or sections with this in their name")
    parser.add_argument("--json", metavar="FILE", help="where results go")
    parser.add_argument("--peers", metavar="FILE",
                        help="JSON: examples/s of peers that were run here")
    parser.add_argument("--targets", action="store_true",
                        help="prints what Bazel builds for that, and ends")
    args = parser.parse_args(arguments)
    args.turns = args.turns or (QUICK_TURNS if args.quick else TURNS)
    peers_here = {}
    if args.peers:
        peers_here = command_line.json_of(parser, "--peers", args.peers)
    sections = bench.named(bench.all_sections(), [args.only])
    if not sections:
        parser.error(f"no row has {args.only!r} in its name; legal are "
                     + "; ".join(bench.names(bench.all_sections())))
    return args, sections, peers_here


def main():
    args, sections, peers_here = parsed(sys.argv[1:])
    if args.targets:
        print("\n".join(bench.targets(
            sections, lambda row: why_not(row, args.quick) is None)))
        return 0
    begin = time.monotonic()
    results = run(sections, args, peers_here)
    failed = sum(figures.has_failed(result) for result in results)
    without = sum(result["reason"] is not None for result in results) - failed
    print(f"{len(results) - failed - without} rows in "
          f"{time.monotonic() - begin:.0f} s; {without} not measured, "
          f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
