"""What interop_test.py has the Python client do; prints the result.

  interop_client.py STUBS replay ENDPOINTS SPARSE DENSE PUSHES
  interop_client.py STUBS train ENDPOINTS TRAIN_FILES TEST_FILE

STUBS: the folder with protoc's output. Endpoints and files are separated by
commas. Runs under Debian's interpreter, whose packages it needs.
"""

import json
import math
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[1])

from google.protobuf import text_format  # noqa: E402
from proto.v1 import parameter_pb2, table_pb2  # noqa: E402
import wire_client  # noqa: E402

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "wire_protocol.md"
FORMATS = [parameter_pb2.FLOAT32, parameter_pb2.BFLOAT16,
           parameter_pb2.FLOAT16]


def show(name, values):
    print(name, *(f"{value:.9g}" for value in values))


def read_table(path):
    with open(path, encoding="utf-8") as file:
        return text_format.Parse(file.read(), table_pb2.TableConfig())


def read_pushes(path):
    """Each push: {key: gradient}, and the gradient of the dense vector."""
    sparse, dense = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, *numbers = line.split()
            if name == "push":
                yield sparse, dense
                sparse, dense = {}, None
            elif name == "dense":
                dense = list(map(float, numbers))
            else:
                sparse[int(name)] = list(map(float, numbers))


def documented_reader(endpoints):
    """The Reader of the document's section 9."""
    [code] = re.findall(r"(?s)```python\n(.*?)```",
                        DOCUMENT.read_text(encoding="utf-8"))
    definitions, calls = code.split("\nreader = ")
    assert len(calls.splitlines()) == 2, calls
    names = {}
    exec(definitions, names)  # pylint: disable=exec-used
    return names["Reader"](endpoints)


def replay(endpoints, sparse_path, dense_path, pushes_path):
    """Makes the pushes of a file and shows what the tables hold then.

    Every third travels in 16 bits, which hold the file's numbers exactly, and
    every fifth is sent twice.
    """
    client = wire_client.Client(endpoints.split(","))
    rows, vector = read_table(sparse_path), read_table(dense_path)
    client.create_table(rows)
    client.create_table(vector)
    keys = set()
    for i, (sparse, dense) in enumerate(read_pushes(pushes_path)):
        keys.update(sparse)
        twice = i % 5 == 4
        updated, duplicates = client.push(
            {rows.id: sparse}, {vector.id: dense},
            value_format=FORMATS[i % 3], times=2 if twice else 1)
        num_blocks = -(-vector.dense.size // vector.dense.block_size)
        groups = client.num_groups(rows.id, sparse) + num_blocks
        assert duplicates == (groups if twice else 0), (i, duplicates, groups)
        assert updated[vector.id] == client.pull_dense(vector.id), i
    pulled = client.pull_sparse(rows.id, keys)
    for key in sorted(keys):
        show(key, pulled[key])
    show("dense", client.pull_dense(vector.id))
    documented = documented_reader(endpoints.split(",")).pull(rows.id, keys)
    assert documented == pulled
    # Two bytes a value: the same to 8 bits, and to 11.
    for value_format, bits in ((parameter_pb2.BFLOAT16, 8),
                               (parameter_pb2.FLOAT16, 11)):
        short = client.pull_sparse(rows.id, keys, value_format)
        for key in keys:
            for near, exact in zip(short[key], pulled[key]):
                assert abs(near - exact) <= max(abs(exact) / 2**bits, 2**-25)
    client.finish()


# As `oarlock train --model lr` with its defaults and interop_test's flags.
BATCH_SIZE = 128
FEATURE_DIM = 10000001
NUM_DENSE = 13
EMBEDDING, DENSE = 1, 2


def lr_table(table, name):
    config = table_pb2.TableConfig(
        id=table, name=name, mode=table_pb2.ASYNC, reduction=table_pb2.MEAN,
        seed=1)
    config.optimizer.learning_rate = .05
    config.optimizer.warmup_steps = 10
    config.optimizer.adagrad.SetInParent()
    return config


def read_examples(path):
    """(label, 13 dense features, 26 keys) of each line of Criteo text."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            dense = [math.log1p(max(int(x), 0)) if x else 0.
                     for x in fields[1:1 + NUM_DENSE]]
            keys = [wire_client.feature_hash(text, slot, FEATURE_DIM)
                    for slot, text in enumerate(fields[1 + NUM_DENSE:])]
            yield int(fields[0]), dense, keys


def predict(rows, vector, dense, keys):
    logit = vector[NUM_DENSE]
    logit += sum(w * x for w, x in zip(vector, dense))
    logit += sum(rows[key][0] for key in keys)
    return 1 / (1 + math.exp(-logit))


def train_batch(client, vector, batch):
    """The dense parameters after the step."""
    rows = client.pull_sparse(EMBEDDING,
                              {key for _, _, keys in batch for key in keys})
    gradients = {key: [0.] for key in rows}
    dense_gradients = [0.] * (NUM_DENSE + 1)
    for label, dense, keys in batch:
        error = (predict(rows, vector, dense, keys) - label) / BATCH_SIZE
        for key in keys:
            gradients[key][0] += error
        for i, x in enumerate(dense):
            dense_gradients[i] += error * x
        dense_gradients[NUM_DENSE] += error
    updated, _ = client.push({EMBEDDING: gradients}, {DENSE: dense_gradients})
    return updated[DENSE]


def auc(scored):
    """By ranks; ties count half."""
    scored.sort()
    positives = sum(label for _, label in scored)
    rank_sum, i = 0., 0
    while i < len(scored):
        end = i
        while end < len(scored) and scored[end][0] == scored[i][0]:
            end += 1
        rank_sum += sum(label for _, label in scored[i:end]) * (i + 1 + end) / 2
        i = end
    negatives = len(scored) - positives
    return (rank_sum - positives * (positives + 1) / 2) / positives / negatives


def train(endpoints, train_files, test_file):
    """One epoch of logistic regression; shows AUC and logloss on test rows."""
    client = wire_client.Client(endpoints.split(","))
    embedding = lr_table(EMBEDDING, "embedding")
    embedding.sparse.dim = 1
    embedding.sparse.accessor = table_pb2.PLAIN
    client.create_table(embedding)
    dense = lr_table(DENSE, "dense")
    dense.dense.size = NUM_DENSE + 1
    dense.dense.block_size = 4
    dense.dense.parameters.add(name="all", shape=[NUM_DENSE + 1])
    client.create_table(dense)

    vector = client.pull_dense(DENSE)
    batch = []
    for path in train_files.split(","):
        for example in read_examples(path):
            batch.append(example)
            if len(batch) == BATCH_SIZE:
                vector = train_batch(client, vector, batch)
                batch = []
    if batch:
        train_batch(client, vector, batch)

    examples = list(read_examples(test_file))
    vector = client.pull_dense(DENSE)
    rows = client.pull_sparse(EMBEDDING,
                              {key for _, _, keys in examples for key in keys})
    scored = [(predict(rows, vector, dense, keys), label)
              for label, dense, keys in examples]
    logloss = -sum(math.log(p if label else 1 - p)
                   for p, label in scored) / len(scored)
    client.finish()
    print(json.dumps({"test_auc": auc(scored), "test_logloss": logloss}))


if __name__ == "__main__":
    {"replay": replay, "train": train}[sys.argv[2]](*sys.argv[3:])
