#!/usr/bin/env python3
"""Scores lines with an exported model. Needs numpy, not Oarlock.

    score.py MODEL_DIR FILE... > scores.txt

One score a line, in the order of the input; "nan" of a malformed line. With
--no-labels the lines have no label. Files are text; of a compressed one:

    zcat FILE | score.py MODEL_DIR /dev/stdin > scores.txt

docs/export_format.md describes the folder; this file is as short a reader of it
as there can be, not the fastest.
"""

import argparse
import json
import math
import mmap
import os
import re
import sys
import zlib

import numpy as np

BATCH_LINES = 1024
MASK = (1 << 64) - 1
# What a compressed file begins with, and the program that unpacks it.
UNPACKERS = ((b"\x1f\x8b", "zcat"), (b"\xfd7zXZ", "xzcat"),
             (b"\x28\xb5\x2f\xfd", "zstdcat"))


class ExportError(Exception):
    """The folder is no sound export; the message names the file."""


class InputError(Exception):
    """The file has no lines of text; the message names it."""


# -- the folder ---------------------------------------------------------------


def crc32_of(path):
    crc, size = 0, 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return crc, size


def check_sums(folder):
    """The files of the folder, all of them as they were written."""
    path = os.path.join(folder, "SUMS")
    with open(path, "rb") as file:
        text = file.read()
    body, _, end = text.rpartition(b"end ")
    if end != b"%08x\n" % zlib.crc32(body):
        raise ExportError(f"{path} is damaged: its last line does not fit")
    names = []
    for line in body.decode().splitlines():
        _, crc, size, name = line.split(" ", 3)
        path = os.path.join(folder, name)
        if crc32_of(path) != (int(crc, 16), int(size)):
            raise ExportError(f"{path} is damaged: its size or sum is not "
                              "that of SUMS")
        names.append(name)
    return names


def mapped(folder, name, dtype):
    with open(os.path.join(folder, name), "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return np.zeros(0, dtype)
        return np.frombuffer(
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype)


# -- hashes and initial values ------------------------------------------------

P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F,
                      0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                      0x27D4EB2F165667C5)


def _rotate(x, bits):
    return ((x << bits) | (x >> (64 - bits))) & MASK


def _round(acc, lane):
    return _rotate((acc + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data, seed):
    """XXH64, https://github.com/Cyan4973/xxHash/blob/dev/doc."""
    at, length = 0, len(data)
    if length >= 32:
        accs = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed,
                (seed - P1) & MASK]
        while at + 32 <= length:
            for i in range(4):
                accs[i] = _round(accs[i], int.from_bytes(
                    data[at + 8 * i:at + 8 * i + 8], "little"))
            at += 32
        h = sum(_rotate(acc, bits)
                for acc, bits in zip(accs, (1, 7, 12, 18))) & MASK
        for acc in accs:
            h = ((h ^ _round(0, acc)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + length) & MASK
    while at + 8 <= length:
        lane = int.from_bytes(data[at:at + 8], "little")
        h = (_rotate(h ^ _round(0, lane), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= length:
        lane = int.from_bytes(data[at:at + 4], "little")
        h = (_rotate(h ^ (lane * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = _rotate(h ^ (byte * P5 & MASK), 11) * P1 & MASK
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)


def mix(z):
    """Of an array of uint64; numpy wraps."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def initial_rows(initial, keys, dim):
    """What keys have that have no row: [keys, dim]."""
    value = np.float32(initial["value"])
    shape = (len(keys), dim)
    if initial["kind"] == "constant":
        return np.full(shape, value, np.float32)
    stream = mix(np.uint64(int(initial["stream"])) ^
                 mix(keys + np.uint64(0x632BE59BD9B4E019)))

    def bits(i):
        step = np.uint64(i * 0x9E3779B97F4A7C15 & MASK)
        return mix(stream + step)

    rows = np.empty(shape, np.float32)
    low = np.uint64(0xFFFFFFFF)
    for i in range(dim):
        if initial["kind"] == "uniform":
            half = bits(i // 2)
            half = half >> np.uint64(32) if i % 2 else half & low
            centred = (half >> np.uint64(8)).astype(np.int64) - (1 << 23)
            rows[:, i] = (centred.astype(np.float32) *
                          np.float32(2.0 ** -23) * value)
        else:
            a = ((bits(i) >> np.uint64(32)).astype(np.float64) + .5) * 2.0**-32
            b = (bits(i) & low).astype(np.float64) * 2.0**-32
            normal = np.sqrt(-2 * np.log(a)) * np.cos(2 * np.pi * b)
            rows[:, i] = normal.astype(np.float32) * value
    return rows


# -- lines --------------------------------------------------------------------

QUICK_START = ([0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
               [20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50])


NUMBER = re.compile(rb"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(rb"\d+")


def number(text):
    if not NUMBER.fullmatch(text):
        raise ValueError("a number is none")
    with np.errstate(over="ignore", under="ignore"):
        value = np.float32(float(text))
    if not np.isfinite(value):
        raise ValueError("a number is too large")
    return value


def whole(text):
    if not WHOLE.fullmatch(text) or int(text) > MASK:
        raise ValueError("an id or a count is no unsigned 64-bit number")
    return int(text)


class CriteoLines:
    """Lines to dense features, keys and the keys' weights.

    Keys and weights are a list a slot; without weights, None, all are 1.
    """

    def __init__(self, spec):
        self.transform = spec["dense_transform"]
        self.feature_dim = int(spec["feature_dim"])
        self.known = {}

    def key(self, text, slot):
        known = self.known.get((text, slot))
        if known is None:
            if len(self.known) > 1 << 20:
                self.known.clear()
            known = xxh64(text, slot)
            if self.feature_dim:
                known %= self.feature_dim
            self.known[text, slot] = known
        return known

    def parse(self, line, has_label):
        fields = line.split(b"\t")
        if len(fields) != 39 + has_label:
            raise ValueError(f"{len(fields)} fields, not {39 + has_label}")
        if has_label and fields.pop(0) not in (b"0", b"1"):
            raise ValueError("the label is not 0 or 1")
        integers = []
        for text in fields[:13]:
            digits = text.removeprefix(b"-")
            if text and not (digits.isdigit() and len(digits) <= 18):
                raise ValueError("an integer is none")
            integers.append(int(text) if text else None)
        keys = [[self.key(text, slot)] for slot, text in enumerate(fields[13:])]
        if self.transform == "bucket":
            keys += [[self.key(self.bucket(x), 26 + i)]
                     for i, x in enumerate(integers)]
            return [], keys, None
        if self.transform == "log1p":
            return [math.log1p(max(x or 0, 0)) for x in integers], keys, None
        return [0 if x is None else (x - low) / diff
                for x, low, diff in zip(integers, *QUICK_START)], keys, None

    @staticmethod
    def bucket(x):
        if x is None:
            return b""
        return (b"%d" % int(math.log(x) ** 2)) if x > 2 else b"SP%d" % x


class MultiSlotLines:
    def __init__(self, spec):
        self.num_dense = spec["num_dense"]
        self.num_slots = spec["num_slots"]
        self.feature_dim = int(spec["feature_dim"])

    def parse(self, line, has_label):
        words = line.replace(b"\t", b" ").split(b" ")
        words = [word for word in words if word]
        at = 0

        def take():
            nonlocal at
            count = whole(words[at])
            values = words[at + 1:at + 1 + count]
            if len(values) != count:
                raise ValueError("a slot is short")
            at += 1 + count
            return values

        try:
            dense = [number(x) for x in take()] if self.num_dense else []
            keys = [[self.key(x) for x in take()]
                    for _ in range(self.num_slots)]
            label = [whole(x) for x in take()] if has_label else [0]
        except IndexError as error:
            raise ValueError("the line is short") from error
        if len(dense) != self.num_dense or len(label) != 1 or at != len(words):
            raise ValueError("the line has other slots")
        if label[0] > 1:
            raise ValueError("the label is not 0 or 1")
        return dense, keys, None

    def key(self, text):
        key = whole(text)
        return key % self.feature_dim if self.feature_dim else key


class LibsvmLines:
    def __init__(self, spec):
        self.feature_dim = int(spec["feature_dim"])

    def parse(self, line, has_label):
        text, mark, _ = line.partition(b"#")
        words = [word for word in text.replace(b"\t", b" ").split(b" ") if word]
        if mark and not words:
            raise ValueError("the line is only a comment")
        label = (words.pop(0) if words else b"") if has_label else b"0"
        if number(self.unsigned(label)) not in (-1, 0, 1):
            raise ValueError("the label is not 0, 1 or -1")
        if words and words[0].startswith(b"qid:"):
            words.pop(0)
        keys, weights = [], []
        for word in words:
            index, _, value = word.partition(b":")
            key = whole(self.unsigned(index))
            weight = number(self.unsigned(value))
            # What is 0 is not there.
            if weight != 0:
                keys.append(key % self.feature_dim if self.feature_dim
                            else key)
                weights.append(weight)
        return [], [keys], [weights]

    @staticmethod
    def unsigned(text):
        """Without the one + that may stand in front."""
        return text[1:] if re.match(rb"\+[^-]", text) else text


LINES = {"criteo": CriteoLines, "multi_slot": MultiSlotLines,
         "libsvm": LibsvmLines}


# -- the network --------------------------------------------------------------


class Table:
    def __init__(self, folder, spec):
        self.spec = spec
        self.keys = mapped(folder, spec["keys"], "<u8")
        self.values = mapped(folder, spec["values"], "<f4").reshape(
            spec["rows"], spec["dim"])

    def rows(self, keys):
        """[keys, dim] of any keys."""
        rows = initial_rows(self.spec["initial"], keys, self.spec["dim"])
        if len(self.keys):
            at = np.minimum(np.searchsorted(self.keys, keys),
                            len(self.keys) - 1)
            found = self.keys[at] == keys
            rows[found] = self.values[at[found]]
        return rows


class Model:
    def __init__(self, folder):
        check_sums(folder)
        with open(os.path.join(folder, "model.json"), encoding="utf-8") as file:
            self.spec = json.load(file)
        if (self.spec["format"], self.spec["format_version"]) != (
                "oarlock.model", 1):
            raise ExportError(f"{folder} is of another format or version")
        self.tables = [Table(folder, table) for table in self.spec["tables"]]
        flat = mapped(folder, "dense.bin", "<f4")
        self.parameters = [
            flat[p["offset"]:p["offset"] + math.prod(p["shape"])].reshape(
                p["shape"]) for p in self.spec["parameters"]]
        spec = self.spec["input"]
        if spec["format"] not in LINES:
            raise ExportError(f"{folder} reads lines of format "
                              f"{spec['format']}, which this reader lacks")
        self.lines = LINES[spec["format"]](spec)
        for node in self.spec["nodes"]:
            if not hasattr(self, "_" + node["kind"]):
                raise ExportError(f"{folder} has a node {node['name']} of kind "
                                  f"{node['kind']}, which this reader lacks")

    def score(self, examples):
        """Probabilities of label 1 of what `lines.parse` has returned."""
        if not examples:
            return np.zeros(0, np.float32)
        dense = np.array([d for d, _, _ in examples], np.float32).reshape(
            len(examples), -1)
        sparse = [self.look_up(s, examples)
                  for s in self.spec["sparse_inputs"]]
        values = []
        for node in self.spec["nodes"]:
            inputs = [values[i].reshape(len(examples), -1)
                      for i in node["inputs"]]
            parameters = [self.parameters[i] for i in node["parameters"]]
            values.append(getattr(self, "_" + node["kind"])(
                node, inputs, parameters, dense, sparse))
        return values[self.spec["output"]].reshape(len(examples), -1)[:, -1]

    def look_up(self, spec, examples):
        """Sums of rows and of their squares, [examples, slots, dim], and how
        many, [..., 1]."""
        table = self.tables[spec["table"]]
        bags = [keys[slot] for _, keys, _ in examples
                for slot in spec["slots"]]
        counts = np.array([len(bag) for bag in bags])
        owners = np.repeat(np.arange(len(bags)), counts)
        keys, row_of_key = np.unique(
            np.array([key for bag in bags for key in bag], np.uint64),
            return_inverse=True)
        rows = table.rows(keys)[row_of_key]
        if examples[0][2] is not None:
            weights = [weight for _, _, weights in examples
                       for slot in spec["slots"] for weight in weights[slot]]
            rows = rows * np.array(weights, np.float32).reshape(-1, 1)
        sums = np.zeros((len(bags), table.spec["dim"]), np.float32)
        np.add.at(sums, owners, rows)
        squares = np.zeros(sums.shape)
        np.add.at(squares, owners, np.square(rows, dtype=np.float64))
        shape = (len(examples), len(spec["slots"]), -1)
        return (sums.reshape(shape), squares.reshape(shape),
                counts.astype(np.float32).reshape(shape))

    # One method a kind of node: inputs are [examples, floats].

    def _dense_input(self, node, inputs, parameters, dense, sparse):
        return dense

    def _embedding(self, node, inputs, parameters, dense, sparse):
        o = node["options"]
        begin = o["column_begin"]
        sums, _, counts = sparse[o["sparse_input"]]
        if o["pooling"] == "mean":
            sums = sums / np.maximum(counts, 1)
        return sums[:, :, begin:begin + o["width"]]

    def _pairs_in_slots(self, node, inputs, parameters, dense, sparse):
        o = node["options"]
        columns = slice(o["column_begin"], o["column_begin"] + o["width"])
        sums, squares, counts = sparse[o["sparse_input"]]
        pairs = (np.square(sums[:, :, columns], dtype=np.float64) -
                 squares[:, :, columns]).sum(axis=2, keepdims=True) / 2
        if o["pooling"] == "mean":
            pairs = pairs / np.maximum(counts, 1) ** 2
        return pairs.sum(axis=1).astype(np.float32)

    def _concat(self, node, inputs, parameters, dense, sparse):
        return np.concatenate(inputs, axis=1)

    def _linear(self, node, inputs, parameters, dense, sparse):
        y = inputs[0] @ parameters[0]
        if len(parameters) > 1:
            y = y + parameters[1]
        if node["options"]["activation"] == "relu":
            y = np.maximum(y, 0)
        return y

    def _bias(self, node, inputs, parameters, dense, sparse):
        return inputs[0] + parameters[0].reshape(-1)

    def _data_norm(self, node, inputs, parameters, dense, sparse):
        mean, deviation = parameters
        return (inputs[0] - mean) / deviation

    def _batch_norm(self, node, inputs, parameters, dense, sparse):
        scale, shift, mean, deviation = parameters
        y = (inputs[0] - mean) / deviation * scale + shift
        if node["options"]["activation"] == "relu":
            y = np.maximum(y, 0)
        return y

    def _view(self, node, inputs, parameters, dense, sparse):
        return inputs[0]

    _dropout = _view

    def _relu(self, node, inputs, parameters, dense, sparse):
        return np.maximum(inputs[0], 0)

    def _add(self, node, inputs, parameters, dense, sparse):
        return sum(inputs)

    def _sum_columns(self, node, inputs, parameters, dense, sparse):
        return inputs[0].sum(axis=1, keepdims=True)

    def _fm_second_order(self, node, inputs, parameters, dense, sparse):
        x = inputs[0].reshape(-1, *node["input_shapes"][0])
        return ((x.sum(axis=1) ** 2 - (x ** 2).sum(axis=1)).sum(
            axis=1, keepdims=True) / 2)

    def _field_aware_fm(self, node, inputs, parameters, dense, sparse):
        fields, size = node["input_shapes"][0]
        x = inputs[0].reshape(-1, fields, fields, size // fields)
        products = (x * x.transpose(0, 2, 1, 3)).sum(axis=3)
        return np.triu(products, 1).sum(axis=(1, 2)).reshape(-1, 1)

    def _cross(self, node, inputs, parameters, dense, sparse):
        return inputs[0] * inputs[1] + inputs[2]

    def _row_linear(self, node, inputs, parameters, dense, sparse):
        x = inputs[0].reshape(-1, *node["input_shapes"][0])
        return self._linear(node, [x], parameters, dense, sparse)

    def _transpose(self, node, inputs, parameters, dense, sparse):
        return inputs[0].reshape(-1, *node["input_shapes"][0]).transpose(
            0, 2, 1)

    def _sum_rows(self, node, inputs, parameters, dense, sparse):
        return inputs[0].reshape(-1, *node["input_shapes"][0]).sum(axis=1)

    def _compressed_interaction(self, node, inputs, parameters, dense, sparse):
        x, x0 = (i.reshape(-1, *shape)
                 for i, shape in zip(inputs, node["input_shapes"]))
        pairs = x[:, :, :, None] * x0[:, :, None, :]
        return pairs.reshape(*x.shape[:2], -1) @ parameters[0]

    def _pairwise_dots(self, node, inputs, parameters, dense, sparse):
        x = inputs[0].reshape(len(inputs[0]), -1, node["options"]["width"])
        first, second = np.tril_indices(x.shape[1], -1)
        return (x @ x.transpose(0, 2, 1))[:, first, second]

    def _self_attention(self, node, inputs, parameters, dense, sparse):
        heads = node["options"]["heads"]
        num, size = node["input_shapes"][0]
        x = inputs[0].reshape(-1, num, 3, heads, size // 3 // heads)
        queries, keys, values = x.transpose(2, 0, 3, 1, 4)
        scores = queries @ keys.transpose(0, 1, 3, 2) / math.sqrt(x.shape[-1])
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        return (scores @ values).transpose(0, 2, 1, 3)

    def _scaled_vectors(self, node, inputs, parameters, dense, sparse):
        return inputs[0][:, :, None] * parameters[0]

    def _softmax_cross_entropy(self, node, inputs, parameters, dense, sparse):
        x = np.exp(inputs[0] - inputs[0].max(axis=1, keepdims=True))
        return x / x.sum(axis=1, keepdims=True)

    def _sigmoid_cross_entropy(self, node, inputs, parameters, dense, sparse):
        return 1 / (1 + np.exp(-inputs[0].astype(np.float64)))


def check_text(path, first_line):
    for begin, unpacker in UNPACKERS:
        if first_line.startswith(begin):
            raise InputError(
                f"{path} is compressed; unpack it, for example: {unpacker} "
                f"{path} | score.py MODEL_DIR /dev/stdin")


def score_file(model, path, has_label, out):
    def flush():
        scores = iter(model.score([e for e in batch if e is not None]))
        for example in batch:
            score = math.nan if example is None else next(scores)
            out.write(f"{score:.9g}\n")
        batch.clear()

    batch = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if number == 1:
                check_text(path, line)
                line = line.removeprefix(b"\xef\xbb\xbf")
            try:
                batch.append(model.lines.parse(line, has_label))
            except ValueError as error:
                print(f"score.py: {path}:{number}: {error}", file=sys.stderr)
                batch.append(None)
            if len(batch) == BATCH_LINES:
                flush()
    flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-labels", action="store_true")
    parser.add_argument("model")
    parser.add_argument("file", nargs="+")
    args = parser.parse_args()
    try:
        model = Model(args.model)
        for path in args.file:
            score_file(model, path, not args.no_labels, sys.stdout)
        sys.stdout.flush()
    except (ExportError, InputError, OSError) as error:
        print(f"score.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
