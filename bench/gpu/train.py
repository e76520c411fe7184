#!/usr/bin/env python3
"""Whole training runs on a GPU, with servers on the same host's cores.

  bench/gpu/train.py curves   one thread in sync rounds on the real rows, once
                              on the CPU and once on the GPU in each kind of
                              numbers: the loss after every 20 steps, and AUC;
                              exit code 1 where that is more than .001 from
                              the CPU's
  bench/gpu/train.py speed    two servers, one worker of some threads, generated
                              rows: examples/s by batch size and numbers, and
                              which share of pulls and pushes is hidden behind
                              the computation

Real rows are those of OARLOCK_DATA_DIR; without it both parts train generated
ones. Needs nothing but Python and the program; --libraries is the
LD_LIBRARY_PATH that the program gets, and this interpreter does not.
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile

# Beside this file where bench/gpu/pack.sh has put both.
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from suite import mode_runs  # noqa: E402

GENERATED_ROWS = 1_000_000
MOST_AUC_APART = .001
PRINT_PERIOD = 20
LOSS_LINE = re.compile(r"train epoch \d+ step (\d+)  loss ([\d.]+)")


def generated_rows(options, folder):
    return mode_runs.GeneratedRows(folder, options.oarlock, GENERATED_ROWS)


def curve_rows(options, folder):
    if "OARLOCK_DATA_DIR" in os.environ:
        return mode_runs.RealRows(folder)
    print("curves: no OARLOCK_DATA_DIR with real rows; generated ones")
    return generated_rows(options, folder)


def data_flags(rows):
    return ["--train_files", rows.train, "--test_files", rows.test]


def curves(options, folder):
    """Whether all AUCs are as near to the CPU's as they have to be."""
    data = data_flags(curve_rows(options, folder))
    all_near = True
    for model in options.models:
        def run(device, numbers, model=model):
            summary, log = mode_runs.train_and_log(
                options.oarlock, folder, 0, 0,
                [*data, "--model", model, "--mode", "sync", "--batch_size",
                 100, "--device", device, "--dense_math", numbers,
                 "--print_period", PRINT_PERIOD])
            return summary, dict(LOSS_LINE.findall(log))
        cpu, losses = run("cpu", "float32")
        print(f"{model:8s} cpu float32   AUC {cpu['test_auc']:.4f}  "
              f"{cpu['examples_per_second']:9,.0f} examples/s", flush=True)
        if not losses:
            sys.exit("curves: the log has no line with a loss")
        for numbers in "float32", "tf32", "bfloat16":
            gpu, on_gpu = run("gpu", numbers)
            if on_gpu.keys() != losses.keys():
                sys.exit("curves: the two runs made other steps")
            apart = max(abs(float(on_gpu[step]) - float(losses[step]))
                        for step in losses)
            auc_apart = gpu["test_auc"] - cpu["test_auc"]
            near = abs(auc_apart) <= MOST_AUC_APART
            all_near = all_near and near
            print(f"{model:8s} gpu {numbers:9s} AUC {gpu['test_auc']:.4f} "
                  f"({auc_apart:+.4f}: {'ok' if near else 'FAILED'})  "
                  f"{gpu['examples_per_second']:9,.0f} examples/s  mean losses "
                  f"of {len(losses)} places at most {apart:.4f} apart",
                  flush=True)
    return all_near


def hidden(stages):
    """The share of the time of pulls and pushes that nobody waited for."""
    travel = stages["pull"] + stages["push"]
    waited = stages["wait_pull"] + stages["wait_push"]
    return max(0, 1 - waited / travel) if travel > 0 else float("nan")


def speed(options, folder):
    data = data_flags(generated_rows(options, folder))
    for model in options.models:
        for batch in 512, 4096, 16384, 65536:
            for device, numbers in (("cpu", "float32"), ("gpu", "float32"),
                                    ("gpu", "tf32"), ("gpu", "bfloat16")):
                summary = mode_runs.train(
                    options.oarlock, folder, 1, 2,
                    [*data, "--model", model, "--thread_num", options.threads,
                     "--batch_size", batch, "--device", device,
                     "--dense_math", numbers])
                stages = summary["stage_seconds_per_step"]
                print(f"{model:8s} batch {batch:6d} {device} {numbers:9s} "
                      f"{summary['examples_per_second']:12,.0f} examples/s  "
                      f"compute {stages['compute'] * 1e3:8.3f} ms/step  "
                      f"hidden {hidden(stages):5.0%}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("curves", "speed"))
    parser.add_argument("--oarlock", type=os.path.abspath, default="oarlock")
    parser.add_argument("--libraries")
    parser.add_argument("--models", nargs="*", default=["ctr_dnn", "dlrm"])
    parser.add_argument("--threads", type=int,
                        default=max(1, (os.cpu_count() or 2) // 4))
    options = parser.parse_args()
    if options.libraries is not None:
        os.environ["LD_LIBRARY_PATH"] = options.libraries
    with tempfile.TemporaryDirectory() as folder:
        run = {"curves": curves, "speed": speed}[options.what]
        return 0 if run(options, folder) else 1


if __name__ == "__main__":
    sys.exit(main())
