#!/usr/bin/env python3
"""Measures rows of the bench with what two commits built, in turns.

Call bench/compare.sh, which builds both. Only ours is measured, not the limit
and the alternatives: once by the old build, once by the new one, then the new
one first, and so on (old new new old ...). A ratio is one of speed, new over
old, within a turn: 2 is twice as fast, or half the time or size. Programs start
anew every few turns, as where a process happens to lie in memory stays for as
long as it lives.

"At least BOUND" holds when the median of the ratios reaches BOUND and their
upper quartile reaches 1.0.

The exit code is 0, 1 where a row does not hold or fails, 2 where the command
line is wrong.
"""

import contextlib
import dataclasses
import json
import pathlib
import statistics
import sys

import command_line
import figures
import programs
import rows as bench
import run
import turns as bench_turns

OLD, NEW = "old", "new"
BOUND = .97
TURNS = 16
QUICK_TURNS = 8
# After so many turns programs start anew.
TURNS_OF_A_ROUND = 4


def order(turn, turns_of_a_round=TURNS_OF_A_ROUND):
    """Who measures in a turn, and who after that. Each round begins with the
    other one than the round before."""
    flipped = (turn + turn // turns_of_a_round) % 2 == 1
    return (NEW, OLD) if flipped else (OLD, NEW)


@dataclasses.dataclass
class Comparison:
    """What a row gave, turn by turn."""
    row: bench.Row
    values: dict = dataclasses.field(
        default_factory=lambda: {OLD: [], NEW: []})
    # Why there are no figures.
    reason: str | None = None


def holds(ratios, bound):
    return (statistics.median(ratios) >= bound
            and figures.quartiles(ratios)[1] >= 1.0)


def summary(comparison, bound):
    """The row as it stands in the JSON file."""
    row, values = comparison.row, comparison.values
    result = {"name": row.name, "unit": row.unit, "old": None, "new": None,
              "ratio": None, "spread": None, "turns": 0, "bound": bound,
              "holds": None, "reason": comparison.reason}
    if comparison.reason is not None:
        return result
    ratios = figures.ratios(values[NEW], values[OLD], row.more_is_better)
    ratio, spread = figures.median_and_spread(ratios)
    return result | {
        OLD: figures.significant(statistics.median(values[OLD])),
        NEW: figures.significant(statistics.median(values[NEW])),
        "ratio": ratio, "spread": spread, "turns": len(ratios),
        "holds": holds(ratios, bound)}


def line_of(result):
    if result["reason"] is not None:
        return f"{result['name']:44s} {result['reason']}"
    low, high = result["spread"]
    verdict = "holds" if result["holds"] else "DOES NOT HOLD"
    return (f"{result['name']:44s} old {result['old']:.4g}, new "
            f"{result['new']:.4g} {result['unit']}; new/old "
            f"{result['ratio']:.3f} ({low:.3f} to {high:.3f}, "
            f"{result['turns']} turns); at least {result['bound']:g}: "
            f"{verdict}")


def measure_turn(comparisons, running, turn):
    """One turn of all rows. A measurement that several rows look at is made
    once."""
    by_measurement = {}
    for comparison in comparisons:
        if comparison.reason is not None:
            continue
        if turn >= (comparison.row.repetitions or turn + 1):
            continue
        ours = comparison.row.ours
        by_measurement.setdefault((ours.program, ours.measurement), []).append(
            comparison)
    for sharing in by_measurement.values():
        warm_up = (turn % TURNS_OF_A_ROUND == 0
                   and any(one.row.warm_up for one in sharing))
        for side in order(turn):
            try:
                if warm_up:
                    running[side].figures(sharing[0].row.ours)
                found = running[side].figures(sharing[0].row.ours)
                for one in sharing:
                    one.values[side].append(
                        bench.value_of(one.row.ours, found))
            # Whatever it is: it is shown, and costs these rows alone.
            except Exception as error:  # pylint: disable=broad-except
                for one in sharing:
                    one.reason = bench_turns.reason_of(error) + f" ({side})"
                break


def compare(section, built, num_turns, quick):
    """Comparisons of a section's rows; built: the folder of either side."""
    comparisons = [
        Comparison(row, reason=run.why_not(row, quick=False))
        for row in section.rows]
    for begin in range(0, num_turns, TURNS_OF_A_ROUND):
        with contextlib.ExitStack() as stack:
            running = {
                side: stack.enter_context(contextlib.closing(
                    bench_turns.Programs(section.programs, quick, folder)))
                for side, folder in built.items()}
            for turn in range(begin, min(num_turns,
                                         begin + TURNS_OF_A_ROUND)):
                measure_turn(comparisons, running, turn)
    return comparisons


def parsed(arguments):
    parser = command_line.Parser(prog="bench/compare.sh",
                                 description=__doc__.split("\n")[0])
    parser.add_argument("old_commit", nargs="?", metavar="OLD_COMMIT")
    parser.add_argument("rows", nargs="*", metavar="ROW",
                        help="rows or sections with this in their name; "
                        "default: all")
    parser.add_argument("--bound", type=command_line.ratio, default=BOUND,
                        help=f"the least median of new/old; default {BOUND}")
    parser.add_argument("--turns", type=command_line.at_least(2),
                        help=f"default {TURNS}, quick {QUICK_TURNS}")
    parser.add_argument("--quick", action="store_true",
                        help=f"{QUICK_TURNS} turns and short training runs")
    parser.add_argument("--json", metavar="FILE", help="where results go")
    # For bench/compare.sh.
    parser.add_argument("--old", type=pathlib.Path, help="bazel-bin of old")
    parser.add_argument("--show", choices=["commit", "targets"],
                        help="prints what is asked for, or what Bazel builds "
                        "for it, and ends")
    args = parser.parse_intermixed_args(arguments)
    if args.old_commit is None:
        parser.error("OLD_COMMIT is missing; legal is what git log names")
    args.turns = args.turns or (QUICK_TURNS if args.quick else TURNS)
    everything = bench.all_sections()
    for text in args.rows:
        if not bench.named(everything, [text]):
            parser.error(f"no row has {text!r} in its name; legal are "
                         + "; ".join(bench.names(everything)))
    return args, bench.named(everything, args.rows or [""])


def targets(sections):
    """What Bazel builds for ours of the rows."""
    return sorted({target for section in sections for row in section.rows
                   for target in section.programs[row.ours.program].targets
                   if run.why_not(row, quick=False) is None})


def main():
    args, sections = parsed(sys.argv[1:])
    if args.show == "commit":
        print(args.old_commit)
        return 0
    if args.show == "targets":
        print("\n".join(targets(sections)))
        return 0
    built = {OLD: args.old, NEW: programs.BIN}
    results = []
    for section in sections:
        for comparison in compare(section, built, args.turns, args.quick):
            results.append(summary(comparison, args.bound))
            print(line_of(results[-1]), flush=True)
            if args.json:
                pathlib.Path(args.json).write_text(
                    json.dumps(results, indent=1), encoding="utf-8")
    good = all(result["holds"] is not False
               and not figures.has_failed(result) for result in results)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
