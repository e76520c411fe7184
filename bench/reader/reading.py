"""Rows that a reader process makes of a second of its CPU time, beside what pyarrow alone
makes of the same columns.

    reading.py [--rows N] [--turns N] [--json FILE]

Each turn has all of them, in another order each time. Printed are medians over the turns,
and ratios within a turn with their quartiles:

- hex strings: a label, 13 integers and the 26 categories of `oarlock generate criteo` as
  text. The limit: pyarrow decodes the same columns, and XXH64 of the text that it decoded.
- integers: the same with categories as 64-bit integers in dictionary pages.
- text: `bench/data/reader_bench`, log1p, which reads lines.

Run after `bazel build //capi //cli:oarlock //bench/reader:libhash_columns.so
//bench/data:reader_bench`, by an interpreter with numpy and pyarrow.
"""

import argparse
import ctypes
import fcntl
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.csv  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from oarlock import _find, features  # noqa: E402

INTEGERS = [f"I{n}" for n in range(1, 14)]
CATEGORIES = [f"C{n}" for n in range(1, 27)]
GROUP_ROWS = 250_000
BLOCK_ROWS = 16384
MEMORIES = 3
LISTED = features.Features(
    [features.Label("label")]
    + [features.DenseFeature(name, transform="log1p") for name in INTEGERS]
    + [features.SparseFeature(name) for name in CATEGORIES])


class Child:
    """A reader process, as a worker starts it."""

    def __init__(self):
        self._socket, theirs = socket.socketpair()
        memories = [os.memfd_create("rows") for _ in range(MEMORIES)]
        # The child wants them from descriptor 3 on: first out of the way, then there.
        away = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 64)
                for each in [theirs.fileno(), *memories]]

        def place():
            for i, each in enumerate(away):
                os.dup2(each, 3 + i)

        self._process = subprocess.Popen(
            [sys.executable, "-m", "oarlock._reader"], preexec_fn=place, close_fds=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
        theirs.close()
        for each in memories + away:
            os.close(each)
        self._received = b""

    @property
    def cpu(self):
        """Seconds of all of its threads."""
        fields = pathlib.Path(f"/proc/{self._process.pid}/stat").read_text()
        user, system = fields.rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def send(self, **request):
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def receive(self):
        while b"\n" not in self._received:
            more = self._socket.recv(1 << 16)
            if not more:
                raise SystemExit("the reader process has ended")
            self._received += more
        line, self._received = self._received.split(b"\n", 1)
        answer = json.loads(line)
        if "failure" in answer:
            raise SystemExit(answer["failure"]["message"])
        return answer

    def begin(self, listed):
        self.send(begin={"features": listed, "blockRows": BLOCK_ROWS,
                         "numMemories": MEMORIES, "memoryBytes": str(1 << 30)})
        self.receive()

    def list(self, path):
        self.send(list={"patterns": [str(path)]})
        answer = self.receive()["files"]
        return answer["files"][0], answer["features"]

    def read(self, file, rows):
        self.send(read={"file": file, "end": str(rows)})
        read = 0
        while "end" not in (answer := self.receive()):
            block = answer["block"]
            read += block["num_rows"]
            self.send(free={"memory": block["memory"]})
        if read != rows:
            raise SystemExit(f"{read} rows of {rows}")

    def close(self):
        self._socket.close()
        self._process.wait()


def of_json(file):
    """As the worker gives it back: names as protobuf has them in JSON."""
    return {"path": file["path"], "bytes": file["bytes"], "mark": file["mark"],
            "groupRows": file["group_rows"]}


def numbered(listed):
    """As the worker numbers them."""
    number = 0
    for feature in sorted(listed["features"], key=lambda each: each["name"]):
        if "sparse" in feature:
            number += 1
            feature["sparse"]["number"] = number
    return listed


class OfReader:
    """Rows of a CPU second of the product's."""

    def __init__(self, path, rows):
        lister = Child()
        lister.begin(json.loads(LISTED.to_json()))
        file, listed = lister.list(path)
        lister.close()
        self._file, self._rows = of_json(file), rows
        self._child = Child()
        self._child.begin(numbered(listed))
        # Once, so that everything is loaded.
        self._child.read(self._file, rows)

    def __call__(self):
        before = self._child.cpu
        self._child.read(self._file, self._rows)
        return self._rows / (self._child.cpu - before)

    def close(self):
        self._child.close()


class OfPyarrow:
    """Rows of a CPU second of pyarrow's decoding, and of XXH64 of texts."""

    def __init__(self, path, rows):
        self._path, self._rows = path, rows
        library = ctypes.CDLL(str(ROOT / "bazel-bin/bench/reader/libhash_columns.so"))
        self._hash = library.hash_column
        self._hash.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                               ctypes.c_uint64, ctypes.c_void_p]
        self._to = np.empty(rows, np.uint64)

    def __call__(self):
        before = time.process_time()
        file = pq.ParquetFile(self._path, pre_buffer=True)
        for group in range(file.metadata.num_row_groups):
            table = file.read_row_group(group, ["label"] + INTEGERS + CATEGORIES)
            for name in CATEGORIES:
                for chunk in table[name].chunks:
                    if not pa.types.is_string(chunk.type):
                        continue
                    _, offsets, data = chunk.buffers()
                    self._hash(offsets.address + 4 * chunk.offset, data.address, len(chunk),
                               1, self._to.ctypes.data)
        return self._rows / (time.process_time() - before)

    def close(self):
        pass


class OfText:
    """Lines of a CPU second of the text reader's."""

    def __init__(self):
        self._process = subprocess.Popen(
            [str(ROOT / "bazel-bin/bench/data/reader_bench"), "--serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._process.stdout.readline()

    def __call__(self):
        self._process.stdin.write("log1p\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["figures"]["lines_per_second"]

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def write_data(folder, rows):
    """Criteo's columns as text, and as integers in dictionary pages."""
    subprocess.run([_find.program().path, "generate", "criteo", "--out", str(folder),
                    "--rows", str(rows), "--files", "1"], check=True, stdout=subprocess.DEVNULL)
    text = next(path for path in sorted(folder.iterdir()) if path.is_file())
    table = pyarrow.csv.read_csv(
        text, read_options=pyarrow.csv.ReadOptions(
            column_names=["label"] + INTEGERS + CATEGORIES),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t"),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in CATEGORIES},
            null_values=[""], strings_can_be_null=True))
    pq.write_table(table, folder / "hex.parquet", row_group_size=GROUP_ROWS)
    for i, name in enumerate(CATEGORIES):
        # Fits a dictionary of one megabyte.
        codes = table[name].combine_chunks().dictionary_encode().indices
        table = table.set_column(1 + len(INTEGERS) + i, name, pa.array(
            codes.to_numpy(zero_copy_only=False).astype(np.float64) % 50_000,
            from_pandas=True).cast(pa.int64()))
    pq.write_table(table, folder / "integers.parquet", row_group_size=GROUP_ROWS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_data(folder, options.rows)
        measured = {
            "hex strings": OfReader(folder / "hex.parquet", options.rows),
            "hex strings, pyarrow and XXH64": OfPyarrow(
                folder / "hex.parquet", options.rows),
            "integers": OfReader(folder / "integers.parquet", options.rows),
            "integers, pyarrow": OfPyarrow(folder / "integers.parquet", options.rows),
            "text": OfText()}
        figures = {each: [] for each in measured}
        for _ in range(options.turns):
            order = list(measured)
            random.shuffle(order)
            for each in order:
                figures[each].append(measured[each]())
        for each in measured.values():
            each.close()
    report = {}
    for each, values in figures.items():
        report[each] = {"rows_per_cpu_second": statistics.median(values)}
        print(f"{each}: {statistics.median(values) / 1e6:.2f} M rows/s of CPU")
    for ours, other in (("hex strings", "hex strings, pyarrow and XXH64"),
                        ("hex strings", "text"), ("integers", "text"),
                        ("integers", "integers, pyarrow")):
        ratios = [a / b for a, b in zip(figures[ours], figures[other])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        report[f"{ours} / {other}"] = {"ratio": middle, "spread": [low, high]}
        print(f"{ours} / {other}: {middle:.2f} ({low:.2f} to {high:.2f})")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
