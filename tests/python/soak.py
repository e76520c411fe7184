"""What a process that uses the package for hours must not do: grow, or break at Ctrl-C.

    soak.py memory [N]
    soak.py interrupts [N] [--seed SEED]

memory: N (100,000) steps, each a pull of 13,312 rows of 16 floats and a push of as many
gradients. Resident memory at 10,000 steps is the measure; later it may not be above that
by more than 2 %. Before it is read, malloc gives back what is free (malloc_trim): whichever
of a dozen threads reads a message from its socket leaves as much free memory behind, in an
arena of its own. What is there without that is told, too: it rises to what all of them have
needed at some time, and stays.

interrupts: Ctrl-C comes N (10,000) times, at random moments, into a pull whose array is
dropped at once, as often into one that asks whether it is done, and a tenth as often into
each of the other waits and into pulls from servers that stand still meanwhile. After that
every row has the right values, no array was written to that somebody else has by then, no
operation holds an array, memory has not grown, and no destructor has raised anything else
than the Ctrl-C. SEED chooses the moments; it is printed.

Ends with 0, or with 1 and a last line that says what went wrong. Run after `bazel build
//capi:liboarlock.so.1 //cli:oarlock`, by an interpreter with numpy.
"""

import argparse
import collections
import ctypes
import gc
import os
import pathlib
import random
import re
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from oarlock_testing import children_of, eventually, oarlock
from oarlock import _operation

EVERY = 10000
GROWTH = 0.02
# Between the first tenth of the Ctrl-Cs and the last one.
GROWTH_KB = 50000
PULLED = 20000
PUSHED = 1000
# Takes the place of an array that was dropped, and must stay.
MARK = np.float32(7)


class Wrong(Exception):
    """What went wrong, in a line."""


def resident_kb():
    """Resident memory of this process, in units of 1024 bytes."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)[1])


def check_memory(steps):
    """Trains `steps` steps, and looks at the memory after each 10,000."""
    keys, dim, batches = 13312, 16, 20
    measure = 0
    trim = ctypes.CDLL(None).malloc_trim
    source = np.random.default_rng(1)
    batch = [source.integers(0, 1 << 40, keys, np.uint64) for _ in range(batches)]
    gradients = np.full((keys, dim), 1e-3, np.float32)
    with oarlock.LocalCluster(durability="checkpoint") as cluster, \
            cluster.join() as job:
        table = job.create_table("rows", dim, oarlock.Adagrad(0.05),
                                 oarlock.Uniform(0.01))
        begun = time.monotonic()
        for step in range(1, steps + 1):
            rows = table.pull(batch[step % batches])
            with job.step() as push:
                push.push(rows, gradients[:len(rows)])
            if step % EVERY:
                continue
            untrimmed = resident_kb()
            trim(0)
            now = resident_kb()
            measure = measure or now
            print(f"{step} steps in {time.monotonic() - begun:.0f} s: {untrimmed} KiB, "
                  f"of which in use {now} KiB, {100 * (now / measure - 1):+.2f} %",
                  flush=True)
            if now > measure * (1 + GROWTH):
                raise Wrong(f"resident memory is {now} KiB after {step} steps, and was "
                            f"{measure} KiB after {EVERY}: more than {GROWTH:.0%} above")


class Interrupts:
    """Calls into which Ctrl-C comes at random moments."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        # Raised where nobody can catch it, by a destructor: Python drops it.
        self.dropped = 0
        # What destructors raise besides, which a user would see as a traceback.
        self.raised = collections.Counter()
        # Lines that can wait until all has been tried.
        self.wrong = []
        sys.unraisablehook = self._note
        # As SIGINT's, but a timer can send it.
        signal.signal(signal.SIGALRM, signal.default_int_handler)

    def _note(self, what):
        if what.exc_type is KeyboardInterrupt:
            self.dropped += 1
        else:
            self.raised[f"{what.exc_value!r} in {what.object!r}"] += 1

    def comes_into(self, call, longest_s):
        """Whether Ctrl-C came before the call's end. Its moment is within longest_s."""
        moment = max(1e-6, self.random.uniform(0, longest_s))
        try:
            signal.setitimer(signal.ITIMER_REAL, moment)
            call()
            signal.setitimer(signal.ITIMER_REAL, 0)
            return False
        except KeyboardInterrupt:
            return True

    def repeat(self, name, count, call, longest_s=None):
        """Until Ctrl-C came into `count` calls. longest_s: None: what a call takes."""
        def length():
            times = []
            for _ in range(5):
                begun = time.perf_counter()
                call()
                times.append(time.perf_counter() - begun)
            return sorted(times)[2]

        follows = longest_s is None
        if follows:
            longest_s = length()
        came = calls = measure = recently = 0
        dropped = self.dropped
        begun = time.monotonic()
        while came < count:
            came += self.comes_into(call, longest_s)
            calls += 1
            if calls % 100 == 0:
                # Calls get shorter when other processes leave the cores.
                if follows and came - recently < 25:
                    longest_s = length()
                recently = came
            if came == (count + 9) // 10:
                measure = measure or resident_kb()
            if calls > 10 * count + 100:
                raise Wrong(f"{name}: Ctrl-C came into {came} of {calls} calls; "
                            f"{count} of them are wanted")
        print(f"{name}: Ctrl-C came into {came} of {calls} calls within "
              f"{1e3 * longest_s:.2f} ms, {self.dropped - dropped} times into a "
              f"destructor; {time.monotonic() - begun:.0f} s, {resident_kb()} KiB",
              flush=True)
        if resident_kb() > measure + GROWTH_KB:
            self.wrong.append(
                f"{name}: resident memory was {measure} KiB after {(count + 9) // 10} "
                f"Ctrl-Cs and is {resident_kb()} KiB after {count}")


class PullIntoDropped:
    """A pull into an array that is dropped, whose memory another one gets."""

    def __init__(self, table, pull):
        self.table = table
        self.pull = pull
        self.keys = np.arange(PULLED)
        self.shape = (PULLED, table.dim)
        self.others = np.full(self.shape, MARK)

    def __call__(self):
        if not (self.others == MARK).all():
            raise Wrong("a pull wrote to an array after it had been dropped")
        out = np.empty(self.shape, np.float32)
        try:
            self.pull(self.table, self.keys, out)
        finally:
            del out
            gc.collect()
            self.others = np.full(self.shape, MARK)


def pull_polled(table, keys, out):
    """Python runs all the time: Ctrl-C is heard while the servers answer."""
    future = table.pull_async(keys, out=out)
    while not future.done():
        pass
    future.result()


class PullFromStopped:
    """A pull that lasts until Ctrl-C; the response comes when nobody waits any more."""

    def __init__(self, pid):
        self.servers = children_of(pid)

    def __call__(self, table, keys, out):
        try:
            for server in self.servers:
                os.kill(server, signal.SIGSTOP)
            table.pull(keys, out=out, timeout=2)
        except oarlock.TimeoutError:
            pass  # Python has dropped the Ctrl-C, which came into a destructor.
        finally:
            for server in self.servers:
                os.kill(server, signal.SIGCONT)
            table.pull(keys)


def wait_alone(job):
    """At a barrier to which nobody else comes."""
    try:
        job.barrier("alone", timeout=2)
    except oarlock.TimeoutError:
        pass  # As above.


class Pushes:
    """Steps that push 1 to each key; how many must and may have been applied."""

    def __init__(self, job):
        self.job = job
        self.table = job.create_table("pushed", 1, oarlock.Sgd(1.0))
        self.rows = self.table.pull(np.arange(PUSHED))
        self.begun = self.done = 0

    def __call__(self):
        self.begun += 1
        with self.job.step() as step:
            step.push(self.rows, np.ones((PUSHED, 1), np.float32))
        self.done += 1

    def check(self):
        self()
        values = -self.table.pull(np.arange(PUSHED)).values
        if values.min() < self.done or values.max() > self.begun:
            raise Wrong(f"{self.done} pushes were acknowledged and {self.begun} begun, "
                        f"and rows have {values.min():.0f} to {values.max():.0f} of them")
        print(f"of {self.begun} pushes {self.done} were acknowledged, and rows have "
              f"{values.min():.0f} to {values.max():.0f} of them", flush=True)


def check_interrupts(count, seed):
    """Ctrl-C into every wait."""
    few = max(1, count // 10)
    print("seed", seed, flush=True)
    interrupts = Interrupts(seed)
    # A worker counts as alive though its servers often stand still.
    with oarlock.LocalCluster(servers=2, durability="checkpoint",
                              lease_s=60) as cluster, \
            cluster.join() as job:
        table = job.create_table("pulled", 1, oarlock.Sgd(1.0), 0.5)
        pushes = Pushes(job)
        pull = PullIntoDropped(
            table, lambda table, keys, out: table.pull(keys, out=out))
        # What is there stays, and need not be looked at again and again.
        gc.collect()
        gc.freeze()
        interrupts.repeat("pull", count, pull)
        interrupts.repeat("pull, asked whether it is done", count,
                          PullIntoDropped(table, pull_polled))
        interrupts.repeat("pull from servers that stand still", few,
                          PullIntoDropped(table, PullFromStopped(cluster.pid)), 0.005)
        interrupts.repeat("push", few, pushes)
        interrupts.repeat(
            "lease", few,
            lambda: next(job.lease("interrupted", total=1 << 20, block=1)))
        # Nobody else comes. Not begun before: a run waits five minutes for its workers.
        with oarlock.LocalCluster() as other, other.join(rank=0, world=2) as first:
            interrupts.repeat("barrier", few,
                              lambda: wait_alone(first), 0.005)
            with other.join(rank=1, world=2) as second:
                # As the first worker's loop would go on.
                with ThreadPoolExecutor() as threads:
                    waits = [threads.submit(each.barrier, "alone", timeout=30)
                             for each in (first, second)]
                    for wait in waits:
                        wait.result()
        interrupts.repeat("checkpoint", few, job.checkpoint)
        pull()
        pushes.check()
        values = table.pull(np.arange(PULLED)).values
        if not (values == 0.5).all():
            raise Wrong(f"rows that nobody pushed are {values.min()} to {values.max()}; "
                        "all are 0.5")
        examples = sum(len(part) for part in job.lease("whole", total=100, block=10))
        if examples != 100:
            raise Wrong(f"a work of 100 examples has brought {examples}")

        def nothing_is_left():
            _operation._return_orphans()
            return not _operation._loans

        if not eventually(nothing_is_left):
            left = [(loan.handle.value, loan.orphaned)
                    for loan in _operation._loans.values()]
            interrupts.wrong.append(f"{len(left)} operations hold their arrays, "
                                    f"(handle, nobody waits): {left[:5]}")
    interrupts.wrong += [f"a destructor has raised {what} {times} times"
                         for what, times in interrupts.raised.items()]
    if interrupts.wrong:
        raise Wrong("; ".join(interrupts.wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("part", choices=["memory", "interrupts"])
    parser.add_argument("count", type=int, nargs="?")
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    count = arguments.count or {"memory": 100000, "interrupts": 10000}[arguments.part]
    least = {"memory": 2 * EVERY, "interrupts": 1}[arguments.part]
    if count < least:
        parser.error(f"N is {count}; legal are {least} and more")
    # A checker that was loaded before this process is not for its servers.
    os.environ.pop("LD_PRELOAD", None)
    try:
        if arguments.part == "memory":
            check_memory(count)
        else:
            check_interrupts(
                count, arguments.seed or random.SystemRandom().getrandbits(32))
    except (Wrong, oarlock.Error) as wrong:
        print(f"soak: {type(wrong).__name__}: {wrong}", file=sys.stderr)
        return 1
    print("soak: all is well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
