"""Uses the installed package as a program does."""

import numpy as np
import oarlock

cluster = oarlock.LocalCluster(servers=2)
job = cluster.join()
table = job.create_table("table", dim=2, optimizer=oarlock.Sgd(0.5))
rows = table.pull([7, 8, 9])
with job.step() as step:
    step.push(rows, np.full((3, 2), 2.0, np.float32))
pulled = table.pull([7, 8, 9])
np.testing.assert_array_equal(pulled.values, rows.values - 1)
job.leave()
cluster.close()
print(f"oarlock {oarlock.__version__}: rows are {pulled.values[0]} after a step")
