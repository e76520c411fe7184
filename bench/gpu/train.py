#!/usr/bin/env python3
"""Whole training runs on a GPU, with servers on the same host's cores.

  bench/gpu/train.py curves   one thread in sync rounds on the real rows, once
                              on the CPU and once on the GPU in each kind of
                              numbers: the loss after every 20 steps, and AUC
  bench/gpu/train.py speed    two servers, one worker of some threads, generated
                              rows: examples/s by batch size and numbers, and
                              which share of pulls and pushes is hidden behind
                              the computation

Real rows are those of OARLOCK_DATA_DIR; without it both parts train generated
ones. Needs nothing but Python and the program.
"""

import argparse
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TRAIN_ROWS = 123_425
GENERATED_ROWS = 2_000_000
PRINT_PERIOD = 20
LOSS_LINE = re.compile(r"train epoch \d+ step (\d+)  loss ([\d.]+)")


class Trainer:
    def __init__(self, oarlock, folder):
        self.oarlock, self.folder = oarlock, pathlib.Path(folder)

    def generate(self, rows):
        out = self.folder / "generated"
        if not out.exists():
            subprocess.run([self.oarlock, "generate", "criteo", "--rows",
                            str(rows), "--files", "8", "--seed", "1", "--out",
                            out], check=True, stdout=subprocess.DEVNULL)
        return ["--train_files", out / "part-[0-6]",
                "--test_files", out / "part-7"]

    def real_rows(self):
        source = pathlib.Path(os.environ.get("OARLOCK_DATA_DIR", "none"))
        source /= "criteo/criteo_kaggle_sample_137k.txt.xz"
        if not source.exists():
            print("curves: no real rows in OARLOCK_DATA_DIR; generated ones")
            return self.generate(GENERATED_ROWS)
        lines = lzma.open(source).read().split(b"\n")[:-1]
        for name, part in (("train", lines[:TRAIN_ROWS]),
                           ("test", lines[TRAIN_ROWS:])):
            (self.folder / name).write_bytes(b"\n".join(part) + b"\n")
        return ["--train_files", self.folder / "train",
                "--test_files", self.folder / "test"]

    def train(self, *flags):
        """The summary of a run, and its log."""
        logs = self.folder / "logs"
        shutil.rmtree(logs, ignore_errors=True)
        run = subprocess.run(
            [self.oarlock, "train", "--log_dir", logs, *map(str, flags)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if run.returncode != 0:
            sys.exit(f"train: {' '.join(map(str, run.args))} ended with "
                     f"{run.returncode}: {run.stderr.strip()[-2000:]}")
        return json.loads((logs / "summary.json").read_text()), run.stderr


def curves(trainer, models):
    data = trainer.real_rows()
    for model in models:
        def run(device, numbers, data=data, model=model):
            summary, log = trainer.train(
                *data, "--model", model, "--mode", "sync", "--batch_size", 100,
                "--device", device, "--dense_math", numbers, "--print_period",
                PRINT_PERIOD)
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
            print(f"{model:8s} gpu {numbers:9s} AUC {gpu['test_auc']:.4f} "
                  f"({gpu['test_auc'] - cpu['test_auc']:+.4f})  "
                  f"{gpu['examples_per_second']:9,.0f} examples/s  mean losses "
                  f"of {len(losses)} places at most {apart:.4f} apart",
                  flush=True)


def hidden(stages):
    """The share of the time of pulls and pushes that no lane waited for."""
    travel = stages["pull"] + stages["push"]
    waited = stages["wait_pull"] + stages["wait_push"]
    return max(0, 1 - waited / travel) if travel > 0 else float("nan")


def speed(trainer, models, threads):
    data = trainer.generate(GENERATED_ROWS)
    for model in models:
        for batch in 512, 4096, 16384, 65536:
            for device, numbers in (("cpu", "float32"), ("gpu", "float32"),
                                    ("gpu", "tf32"), ("gpu", "bfloat16")):
                summary, _ = trainer.train(
                    *data, "--model", model, "--server_num", 2, "--worker_num",
                    1, "--thread_num", threads, "--batch_size", batch,
                    "--device", device, "--dense_math", numbers)
                stages = summary["stage_seconds_per_step"]
                print(f"{model:8s} batch {batch:6d} {device} {numbers:9s} "
                      f"{summary['examples_per_second']:12,.0f} examples/s  "
                      f"compute {stages['compute'] * 1e3:8.3f} ms/step  "
                      f"hidden {hidden(stages):5.0%}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("curves", "speed"))
    parser.add_argument("--oarlock", default="./oarlock")
    parser.add_argument("--models", nargs="*", default=["ctr_dnn", "dlrm"])
    parser.add_argument("--threads", type=int,
                        default=max(1, (os.cpu_count() or 2) // 4))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(os.path.abspath(options.oarlock), folder)
        if options.what == "curves":
            curves(trainer, options.models)
        else:
            speed(trainer, options.models, options.threads)


if __name__ == "__main__":
    main()
