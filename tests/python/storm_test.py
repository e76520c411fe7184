"""Servers and workers are killed over the parts of one lease, and every example counts once.

OARLOCK_KILLS says how often, OARLOCK_SEED in which order.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

from oarlock_testing import children_of, oarlock

HERE = pathlib.Path(__file__).absolute().parent
KILLS = int(os.environ.get("OARLOCK_KILLS", "10"))
SEED = int(os.environ.get("OARLOCK_SEED", "0")) or random.SystemRandom().getrandbits(32)
WORLD = 2
TOTAL = 40000 + 4000 * KILLS
BLOCK = 50
KEYS = 997

# Pushes 1 for each example to its key in two tables and to a dense parameter, and
# overwrites its arrays at once. Small messages: a push has several on each server.
# The last part waits until all kills are done. Who comes back after the others have
# finished is told that the run is over.
WORKER = """
import pathlib, sys
sys.path.insert(0, %(tests)r)
from oarlock_testing import eventually, oarlock
import numpy as np

folder = pathlib.Path(%(folder)r)

try:
    job = oarlock.join(%(address)r, rank=%(rank)d, world=%(world)d,
                       token_file=%(token)r, run="storm", wait_for_rank=60)
except oarlock.FailedPreconditionError as late:
    assert "run 'storm' is over" in str(late), late
    sys.exit(0)
with job:
    a = job.create_table("a", 1, oarlock.Sgd(1.0))
    b = job.create_table("b", 2, oarlock.Sgd(1.0))
    d = job.create_dense("d", {"count": (1,)}, oarlock.Sgd(1.0))
    for part in job.lease("train", total=%(total)d, block=%(block)d):
        keys = part.indices %% %(keys)d
        if part.end == %(total)d:
            assert eventually((folder / "ends").exists, 600)
        rows = job.pull([(a, keys), (b, keys)])
        with job.step(part) as step:
            for each in rows:
                gradients = each.scatter_add(np.ones((len(keys), each.table.dim)))
                step.push(each, gradients)
                gradients[:] = 1e20
            step.push_dense(d, {"count": [len(part)]})
"""


class StormTest(unittest.TestCase):

    def start(self, rank):
        script = WORKER % {
            "tests": str(HERE), "address": self.cluster.address, "rank": rank,
            "world": WORLD, "token": self.cluster.token_file, "total": TOTAL,
            "block": BLOCK, "keys": KEYS, "folder": self.folder}
        return subprocess.Popen([sys.executable, "-c", script])

    def kill_a_server(self):
        servers = [pid for pid in children_of(self.cluster.pid)
                   if b"\0server\0" in pathlib.Path(
                       f"/proc/{pid}/cmdline").read_bytes()]
        if servers:
            os.kill(self.random.choice(servers), signal.SIGKILL)

    def test_every_example_counts_once(self):
        print("seed", SEED, flush=True)
        self.random = random.Random(SEED)
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.cluster = oarlock.LocalCluster(servers=2, lease_s=1,
                                            max_restart=1000)
        self.addCleanup(self.cluster.close)
        workers = [self.start(rank) for rank in range(WORLD)]
        self.addCleanup(lambda: [worker.kill() for worker in workers])
        pause = threading.Event()
        folder = pathlib.Path(self.folder)
        kills = 0
        begun = time.monotonic()
        while any(worker.poll() is None for worker in workers):
            pause.wait(self.random.uniform(0.1, 0.6))
            rank = self.random.randrange(WORLD)
            if kills < KILLS and all(w.poll() is None for w in workers):
                kills += 1
                if self.random.random() < 0.5:
                    self.kill_a_server()
                else:
                    workers[rank].kill()
                    workers[rank].wait()
                    workers[rank] = self.start(rank)
            if kills == KILLS:
                (folder / "ends").touch()
            for worker in workers:
                self.assertIn(worker.poll(), (None, 0))
            self.assertLess(time.monotonic() - begun, 60 + 10 * KILLS)
        self.assertEqual(kills, KILLS)
        counts = np.bincount(np.arange(TOTAL) % KEYS)
        with self.cluster.connect() as reader:
            for name in "ab":
                table = reader.table(name)
                values = table.pull(np.arange(KEYS)).gather()
                np.testing.assert_array_equal(
                    values, -np.repeat(counts, table.dim).reshape(values.shape))
            self.assertEqual(reader.table("d").pull()["count"][0], -TOTAL)
            # Nothing that is over keeps a checkpoint waiting.
            self.assertIn("ckpt-", reader.checkpoint())


if __name__ == "__main__":
    unittest.main()
