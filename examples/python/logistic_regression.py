"""Logistic regression on click logs in Criteo's format, over servers on this machine.

    logistic_regression.py TRAIN_FILE TEST_FILE
"""

import sys

import numpy as np

import oarlock

BATCH = 64


def read(path):
    """Labels [n], 13 dense features [n, 13], keys of 26 columns [n, 26]."""
    with open(path, encoding="ascii") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    dense = np.array([[float(x or 0) for x in row[1:14]] for row in rows])
    keys = np.stack([oarlock.hash_texts([row[14 + j] for row in rows], seed=j)
                     for j in range(26)], axis=1)
    return (np.array([int(row[0]) for row in rows]),
            np.log1p(np.maximum(dense, 0)).astype(np.float32), keys)


def auc(labels, scores):
    """Area under the ROC curve: Mann and Whitney's U."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    positive = labels == 1
    count = positive.sum()
    return ((ranks[positive].sum() - count * (count + 1) / 2)
            / (count * (len(labels) - count)))


def main():
    labels, dense, keys = read(sys.argv[1])
    with oarlock.LocalCluster(servers=2) as cluster, cluster.join() as job:
        rule = oarlock.Adagrad(0.02, warmup_steps=10)
        weights = job.create_table("weights", dim=1, optimizer=rule)
        bias = job.create_dense("bias", {"a": (13,), "b": (1,)}, rule)

        def predict(rows, x):
            p = bias.pull()
            z = rows.gather()[..., 0].sum(1) + x @ p["a"] + p["b"]
            return 1 / (1 + np.exp(-z))

        for part in job.lease("train", total=len(labels), block=BATCH):
            i = part.indices
            rows = weights.pull(keys[i])
            g = (predict(rows, dense[i]) - labels[i]).astype(np.float32) / BATCH
            with job.step(part) as step:
                step.push(rows, rows.scatter_add(np.repeat(g, 26)))
                step.push_dense(bias, {"a": g @ dense[i], "b": [g.sum()]})
        labels, dense, keys = read(sys.argv[2])
        scores = predict(weights.pull(keys), dense)
        print(f"test AUC {auc(labels, scores):.4f}")


if __name__ == "__main__":
    main()
