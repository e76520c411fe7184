#!/usr/bin/env python3
"""What each mode of training costs and gives.

  bench/modes.py scale      AUC and examples/s by workers x servers
  bench/modes.py straggler  throughput with one worker of six slowed ten times
  bench/modes.py speed      throughput at 2x2, as a ratio to async

half_async is about the threads of one worker, so it is measured with two of
them, beside "async, 2 threads". A size counts threads of the job: at N those
two have N / 2 workers, the others N of one thread, all with the same batch and
N servers. (At an odd N the two have one thread more.)

The straggler is one of six workers, in every mode: four threads push without a
quorum of dense parameters, six do not.

All workers and servers run on this machine, so examples/s of many of them say
what a mode costs in waiting and messages, not how it scales. Figures are
medians over seeds or turns, with the least and the largest.
"""

import argparse
import functools
import json
import pathlib
import statistics
import tempfile

from suite import mode_runs, programs


def spread(values, form):
    if len(values) == 1:
        return format(values[0], form)
    return (f"{statistics.median(values):{form}} "
            f"({min(values):{form}} to {max(values):{form}})")


def auc(summary):
    return summary["test_auc"]


def rows_of(options, folder):
    if options.rows:
        return mode_runs.GeneratedRows(folder, options.oarlock, options.rows,
                                       options.tail)
    return mode_runs.RealRows(folder, tail=options.tail)


def data_flags(data, batch_size):
    return ["--train_files", data.train, "--test_files", data.test,
            "--batch_size", batch_size]


def scale(options, folder):
    """Every mode at every size; sync beside one worker of the same batch."""
    data = rows_of(options, folder)
    results = []

    def add(mode, size, flags, workers, servers, batch):
        runs = [mode_runs.train(
            options.oarlock, folder, workers, servers,
            [*data_flags(data, batch), "--seed", seed, *flags,
             *options.flags]) for seed in options.seeds]
        results.append({"mode": mode, "size": size, "runs": runs})
        print(f"{mode:25s} {size:6s} "
              f"AUC {spread([auc(r) for r in runs], '.4f')}  "
              f"{spread([r['examples_per_second'] for r in runs], ',.0f')}"
              " examples/s", flush=True)

    for size in options.sizes:
        for name in options.modes:
            mode = mode_runs.MODES[name]
            workers = mode.workers(size)
            add(name, f"{workers}x{size}", mode.flags(size), workers, size,
                options.batch_size)
        if "sync" in options.modes:
            add("one of equal batch", f"x{size}", mode_runs.rows_rate(size),
                0, 0, options.batch_size * size)
    return results


def straggler(options, folder):
    """Six workers, one of them slowed; leases against a static split. A turn,
    one for each of --seeds, is a run without and one with the straggler."""
    workers, servers = 6, 2
    data = mode_runs.GeneratedRows(folder, options.oarlock,
                                   options.rows or 400_000)
    results = []
    for name in options.modes:
        # In rounds the slow one sets the pace however the data is split.
        splits = ["interleaved"] if name == "sync" else ["leased",
                                                         "interleaved"]
        for split in splits:
            flags = [*data_flags(data, options.batch_size), "--split", split,
                     *mode_runs.MODES[name].flags(workers), *options.flags]
            ratios = []
            for seed in options.seeds:
                run = functools.partial(
                    mode_runs.train, options.oarlock, folder, workers, servers,
                    ["--seed", seed, *flags])
                whole = run()["examples_per_second"]
                slow = run(slowed=(workers - 1, 10))["examples_per_second"]
                ratios.append(slow / whole)
            results.append({"mode": name, "split": split, "ratios": ratios})
            print(f"{name:25s} {split:12s} {spread(ratios, '.2f')} of its "
                  "throughput without the straggler", flush=True)
    return results


def speed(options, folder):
    size = 2
    data = mode_runs.GeneratedRows(folder, options.oarlock,
                                   options.rows or 400_000)
    turns = []
    for seed in options.seeds:
        turn = {}
        for name in options.modes:
            mode = mode_runs.MODES[name]
            turn[name] = mode_runs.train(
                options.oarlock, folder, mode.workers(size), size,
                [*data_flags(data, options.batch_size), "--seed", seed,
                 *mode.flags(size), *options.flags])["examples_per_second"]
        turns.append(turn)
    for name in options.modes:
        ratios = [turn[name] / turn[options.modes[0]] for turn in turns]
        print(f"{name:25s} {spread([t[name] for t in turns], ',.0f')} "
              f"examples/s, {spread(ratios, '.2f')} of {options.modes[0]}")
    return turns


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("scale", "straggler", "speed"))
    parser.add_argument("--oarlock", default=programs.OARLOCK)
    parser.add_argument("--rows", type=int, default=0,
                        help="generated rows; 0: the real ones, where there "
                        "is a choice")
    parser.add_argument("--tail", action="store_true",
                        help="test on the last of the training rows, to choose "
                        "settings")
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*",
                        default=[1, 5, 10, 20],
                        help="threads of a job, and its servers")
    parser.add_argument("--modes", nargs="*", default=list(mode_runs.MODES),
                        choices=list(mode_runs.MODES))
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--json")
    parser.add_argument("--flags", nargs=argparse.REMAINDER, default=[],
                        help="further flags of oarlock train; last")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {"scale": scale, "straggler": straggler,
                   "speed": speed}[options.what](options, folder)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
