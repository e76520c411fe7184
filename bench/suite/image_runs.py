"""Runs of the examples that train on images: processes of one core each, alone
or together, and what their summary.json says."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import programs

# Longer than any run of the bench.
RUN_SECONDS_MAX = 900


@dataclasses.dataclass
class Network:
    """A training program and its flags."""
    name: str
    program: pathlib.Path
    flags: list
    batch_size: int
    epochs: int


class Run:
    """Processes of one job, or of several that know nothing of each other."""

    def __init__(self, network):
        self.network = network
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.processes = []

    def start(self, name, variables, core=None, command=None):
        """One process of the job, on one core or, without one, on all."""
        folder = self.folder / name
        folder.mkdir()
        base = {key: value for key, value in os.environ.items()
                if "PADDLE_" not in key
                and key not in ("TRAINING_ROLE", "OMP_NUM_THREADS")}
        pin = (None if core is None
               else lambda: os.sched_setaffinity(0, {core}))
        flags = [*self.network.flags, "--epochs", str(self.network.epochs),
                 "--batch_size", str(self.network.batch_size),
                 "--print_steps", "0", "--log_dir", str(folder)]
        log = open(folder / "output", "w")
        self.processes.append((name, log, subprocess.Popen(
            [*(command or []), self.network.program, *flags], stdout=log,
            stderr=subprocess.STDOUT, env={**base, **variables},
            preexec_fn=pin)))

    def summaries(self, names):
        """Waits for all; the summary.json of those that are named."""
        for name, _, process in self.processes:
            if process.wait(timeout=RUN_SECONDS_MAX) != 0:
                output = (self.folder / name / "output").read_text()
                raise RuntimeError(
                    f"{self.network.name}, {name}, ended with exit code "
                    f"{process.returncode}:\n{output}")
        return [json.loads((self.folder / name / "summary.json").read_text())
                for name in names]

    def close(self):
        for _, log, process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            log.close()
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def _run(network):
    run = Run(network)
    try:
        yield run
    finally:
        run.close()


def alone(network, cores):
    """Summaries of processes that know nothing of each other, at once, one on
    each core."""
    with _run(network) as run:
        names = [f"alone{core}" for core in cores]
        for name, core in zip(names, cores):
            run.start(name, {}, core)
        return run.summaries(names)


def ranks(network, cores):
    """The summary of a collective job, a rank on each core."""
    endpoints = programs.free_endpoints(len(cores))
    with _run(network) as run:
        for i, core in enumerate(cores):
            run.start(f"rank{i}", {
                "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
                "PADDLE_CURRENT_ENDPOINT": endpoints[i],
                "PADDLE_TRAINERS_NUM": str(len(cores)),
                "PADDLE_TRAINER_ID": str(i)}, core)
        return run.summaries(["rank0"])[0]


def with_servers(network, cores):
    """The summary of a sync job with a server and a worker on each core."""
    endpoints = programs.free_endpoints(len(cores))
    shared = {"PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints),
              "PADDLE_TRAINERS_NUM": str(len(cores)), "POD_IP": "127.0.0.1"}
    with _run(network) as run:
        for i, core in enumerate(cores):
            run.start(f"server{i}", {
                **shared, "TRAINING_ROLE": "PSERVER",
                "PADDLE_PORT": endpoints[i].split(":")[1]}, core)
        for i, core in enumerate(cores):
            run.start(f"worker{i}", {**shared, "TRAINING_ROLE": "TRAINER",
                                     "PADDLE_TRAINER_ID": str(i)}, core)
        return run.summaries(["worker0"])[0]


def as_a_user_would(network, nproc_per_node=1):
    """The summary of the program on all cores, alone or by the launcher."""
    command = []
    if nproc_per_node > 1:
        command = [programs.OARLOCK, "launch", "--nproc_per_node",
                   str(nproc_per_node)]
    with _run(network) as run:
        log_dir = ["--log_dir", str(run.folder / "launch")] if command else []
        run.start("run", {}, command=[*command, *log_dir])
        return run.summaries(["run"])[0]


def images_per_second(summary):
    """Of all ranks; the median epoch of all but the first."""
    epochs = summary["epochs"]
    seconds = [epoch["seconds"] for epoch in epochs]
    images = summary["images_per_second"] * sum(seconds) / len(epochs)
    return images / statistics.median(seconds[1:] or seconds)


def real_images(name):
    """The folder of real images with this name, or None where there is none."""
    folder = os.environ.get("OARLOCK_DATA_DIR",
                            programs.ROOT.parent / "shared/data")
    path = pathlib.Path(folder) / name
    return path if path.is_dir() else None
