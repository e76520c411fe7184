"""Record batches become blocks of the engine's: every Arrow type that is taken gives the
same keys, and of every other one a line says which column it is."""

import ctypes
import decimal
import json
import math
import random
import struct
import unittest

import numpy as np
import pyarrow as pa

from oarlock_testing import oarlock
from oarlock import _blocks, features

# As data/features/feature_block.h has it.
HEADER = struct.Struct("<QQQQII????4xQII")
ALIGNMENT, REASON_BYTES = 64, 512


def align(offset):
    return (offset + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


class Block:
    """What a block has, read as the layout says."""

    def __init__(self, memory):
        (magic, size, self.rows, num_keys, dense, slots, has_weights, has_groups,
         has_offsets, has_key_weights, self.num_bad, self.first_bad,
         reason_bytes) = HEADER.unpack_from(memory)
        assert struct.pack("<Q", magic) == b"OARLBLK1", magic
        assert size == len(memory), (size, len(memory))
        offset = align(HEADER.size)

        def take(dtype, count, there=True):
            nonlocal offset
            if not there:
                return None
            array = np.frombuffer(memory, dtype, count, offset)
            offset = align(offset + array.nbytes)
            return array

        self.bad = take(np.uint8, self.rows)
        self.labels = take(np.float32, self.rows)
        self.weights = take(np.float32, self.rows, has_weights)
        self.groups = take(np.uint64, self.rows, has_groups)
        self.dense = take(np.float32, self.rows * dense, dense > 0)
        self.offsets = take(np.uint32, self.rows * slots + 1, has_offsets)
        self.keys = take(np.uint64, num_keys)
        self.key_weights = take(np.float32, num_keys, has_key_weights)
        self.reason = bytes(take(np.uint8, REASON_BYTES)[:reason_bytes]).decode()
        assert offset == size
        if self.dense is not None:
            self.dense = self.dense.reshape(self.rows, dense)
        if not has_offsets:
            self.keys = self.keys.reshape(self.rows, slots)


def numbered(*listed):
    """JSON of the features, numbered in the order in which they stand."""
    message = json.loads(features.Features(listed).to_json())
    number = 0
    for feature in message["features"]:
        slot = feature.get("sparse") or feature.get("sequence")
        if slot is not None and not slot["shares"]:
            number += 1
            slot["number"] = number
    return message


def block_of(message, batch, blocks=None):
    blocks = blocks or bound(message, batch.schema)
    size = blocks.prepare(batch)
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    blocks.write(memory.ctypes.data + start, size)
    return Block(memory[start:start + size].tobytes())


def bound(message, schema):
    # What is not said is as the column is.
    resolved = _blocks.Blocks(json.dumps(message)).resolve(schema)
    blocks = _blocks.Blocks(json.dumps(resolved))
    blocks.bind(schema)
    return blocks


def hash_of(value, seed):
    data = struct.pack("<q", value) if isinstance(value, int) else value
    return int(oarlock.hash_texts([data], seed)[0])


def key_of(number, name, value):
    """The key as docs/design/0032-daily-job.md says it."""
    if value is None:
        hashed = hash_of(-2**63, hash_of(name, 1))
    elif isinstance(value, int) and value >= 2**63:
        hashed = hash_of(value - 2**64, hash_of(name, 0))
    else:
        hashed = hash_of(value, hash_of(name, 0))
    return number << 48 | hashed & (2**48 - 1)


LABEL = features.Label("y")


def with_label(columns):
    rows = len(next(iter(columns.values())))
    return pa.record_batch({"y": pa.array([1] + [0] * (rows - 1), pa.int8()), **columns})


class IdsTest(unittest.TestCase):

    def check(self, array, values, **kind):
        message = numbered(LABEL, features.SparseFeature("u", **kind))
        batch = with_label({"u": array})
        block = block_of(message, batch)
        self.assertEqual(block.num_bad, 0)
        np.testing.assert_array_equal(block.labels, [1] + [0] * (len(values) - 1))
        self.assertEqual([int(key) for key in block.keys[:, 0]],
                         [key_of(1, "u", value) for value in values], str(array.type))
        # A part of it, which begins anywhere.
        part = block_of(message, batch.slice(1, len(values) - 2))
        np.testing.assert_array_equal(part.keys, block.keys[1:-1])

    def test_integers_of_every_width(self):
        values = [3, 0, None, 100, 3, None, 7, 8, 9, 10, 11]
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(),
                     pa.uint16(), pa.uint32(), pa.uint64()):
            self.check(pa.array(values, kind), values)
            self.check(pa.array(values, kind).dictionary_encode(), values)
        self.check(pa.array([-1, -2**63, 2**63 - 1], pa.int64()),
                   [-1, -2**63, 2**63 - 1])
        self.check(pa.array([2**64 - 1, 2**63, 0], pa.uint64()),
                   [2**64 - 1, 2**63, 0])
        self.check(pa.array([True, False, None, True]), [1, 0, None, 1], type="int")

    def test_text_of_every_kind(self):
        values = [b"abc", b"", None, "größe".encode(), b"12345678",
                  b"longer than twelve bytes", None, b"x" * 100, b"abc"]
        texts = [value if value is None else value.decode() for value in values]
        for kind in (pa.string(), pa.large_string(), pa.string_view()):
            self.check(pa.array(texts, kind), values)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
            self.check(pa.array(values, kind), values)
        for index in (pa.int8(), pa.uint32(), pa.int64()):
            self.check(pa.array(texts).dictionary_encode().cast(
                pa.dictionary(index, pa.string())), values)
        self.check(pa.array([b"ab", None, b"cd"], pa.binary(2)), [b"ab", None, b"cd"])

    def test_text_may_be_written_as_integers(self):
        values = [7, None, -12, 2**40]
        digits = [b"7", None, b"-12", str(2**40).encode()]
        self.check(pa.array(values), digits, type="text")
        self.check(pa.array([str(value) if value is not None else None
                             for value in values]), digits, type="text")
        self.check(pa.array([2**64 - 1, 0, 1], pa.uint64()),
                   [b"18446744073709551615", b"0", b"1"], type="text")

    def test_a_column_of_nulls(self):
        self.check(pa.nulls(4), [None] * 4)

    def test_what_is_no_id_is_refused(self):
        stamp = pa.array([0, 0], pa.timestamp("us"))
        for array, kind in (
                (pa.array([1.0, 2.0]), "double"), (pa.array([1.0, 2.0], pa.float32()),
                                                   "float"),
                (stamp, "timestamp"), (pa.array([0, 1], pa.date32()), "date"),
                (pa.array([0, 1], pa.time64("us")), "time"),
                (pa.array([0, 1], pa.duration("s")), "duration"),
                (pa.array([decimal.Decimal("1.5")] * 2), "decimal"),
                (pa.array([[(1, 2)]] * 2, pa.map_(pa.int64(), pa.int64())), "map"),
                (pa.array([{"a": 1}] * 2), "struct"),
                (stamp.dictionary_encode(), "dictionary of timestamp"),
                (pa.array([1.0, 2.0], pa.float16()), "half_float")):
            with self.subTest(kind), self.assertRaisesRegex(
                    oarlock.InvalidArgumentError,
                    f"column 'u' is of type {kind}.*legal are integers, bool, text"):
                block_of(numbered(LABEL, features.SparseFeature("u")),
                         with_label({"u": array}))
        with self.assertRaisesRegex(oarlock.InvalidArgumentError,
                                    "list of int64, and the feature has one id; make "
                                    "it a sequence"):
            block_of(numbered(LABEL, features.SparseFeature("u")),
                     with_label({"u": pa.array([[1], [2]])}))

    def test_a_feature_stays_what_it_is(self):
        integers, texts = pa.array([1, 2]), pa.array(["1", "2"])
        for first, second, kind in ((integers, texts, "string"),
                                    (texts, integers, "int64")):
            resolved = _blocks.Blocks(json.dumps(numbered(
                LABEL, features.SparseFeature("u")))).resolve(
                    with_label({"u": first}).schema)
            blocks = _blocks.Blocks(json.dumps(resolved))
            blocks.bind(with_label({"u": first}).schema)
            with self.assertRaisesRegex(
                    oarlock.InvalidArgumentError,
                    f"column 'u' is of type {kind}, and the feature's ids are "):
                blocks.bind(with_label({"u": second}).schema)
            with self.assertRaisesRegex(oarlock.FailedPreconditionError, "bind them"):
                blocks.prepare(with_label({"u": first}))


class SequencesTest(unittest.TestCase):

    LISTS = [[1, 2, 3], [], None, [4], [None, 5, None, 6, 7], [8]]

    def check(self, array, lists=None, max_length=0):
        message = numbered(LABEL, features.SparseFeature("a"), features.SequenceFeature(
            "s", max_length=max_length))
        ids = pa.array(range(len(array)))
        block = block_of(message, with_label({"s": array, "a": ids}))
        keys, offsets = [], [0]
        for row, values in enumerate(lists if lists is not None else self.LISTS):
            keys.append(key_of(1, "a", row))
            offsets.append(len(keys))
            kept = [value for value in values or [] if value is not None]
            keys += [key_of(2, "s", value)
                     for value in kept[:max_length or len(kept)]]
            offsets.append(len(keys))
        self.assertEqual(block.offsets.tolist(), offsets, str(array.type))
        self.assertEqual(block.keys.tolist(), keys, str(array.type))
        self.assertIsNone(block.key_weights)

    def test_lists_of_every_kind(self):
        for kind in (pa.list_(pa.int32()), pa.large_list(pa.int64()),
                     pa.list_view(pa.int8()), pa.large_list_view(pa.uint64())):
            for max_length in (0, 1, 2):
                self.check(pa.array(self.LISTS, kind), max_length=max_length)
        self.check(pa.array([[1, 2], None, [3, None]], pa.list_(pa.int64(), 2)),
                   [[1, 2], None, [3, None]])
        texts = [[b"a", b"bb"], [], None, [b"a", None]]
        self.check(pa.array(texts, pa.list_(pa.binary())), texts)
        self.check(pa.array(texts, pa.list_(pa.binary())).cast(
            pa.list_(pa.dictionary(pa.int32(), pa.binary()))), texts)
        self.check(pa.array(texts, pa.list_(pa.binary_view())), texts)
        self.check(pa.nulls(3), [None] * 3)
        self.check(pa.array(self.LISTS).slice(1, 4), self.LISTS[1:5])

    def test_sequences_that_are_pooled_in_two_ways_have_weights(self):
        message = numbered(LABEL, features.SequenceFeature("m", pooling="mean"),
                           features.SequenceFeature("s", pooling="sum"))
        block = block_of(message, with_label({"m": pa.array([[1, 2], []]),
                                              "s": pa.array([[3, 4], [5]])}))
        self.assertEqual(block.offsets.tolist(), [0, 2, 4, 4, 5])
        self.assertEqual(block.key_weights.tolist(), [.5, .5, 1, 1, 1])

    def test_an_id_is_no_sequence(self):
        with self.assertRaisesRegex(oarlock.InvalidArgumentError,
                                    "'s' is of type int64, and the feature is a "
                                    "sequence; legal are lists of ids"):
            block_of(numbered(LABEL, features.SequenceFeature("s")),
                     with_label({"s": pa.array([1, 2])}))

    def test_a_shared_feature_has_the_rows_of_the_other(self):
        message = numbered(LABEL, features.SparseFeature("item"),
                           features.SequenceFeature("clicked", shares="item"))
        block = block_of(message, with_label({"item": pa.array(["x", "y"]),
                                              "clicked": pa.array([["y"], ["x"]])}))
        clicked_0, item_0, clicked_1, item_1 = block.keys.tolist()
        self.assertEqual((clicked_0, clicked_1), (item_1, item_0))


class NumbersTest(unittest.TestCase):

    def test_dense_features_of_every_type(self):
        values = [1.0, None, 0.0, 3.0]
        for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.float16(),
                     pa.float32(), pa.float64()):
            array = pa.array([None if value is None else
                              np.float16(value) if kind == pa.float16() else
                              value if pa.types.is_floating(kind) else int(value)
                              for value in values], kind)
            message = numbered(LABEL, features.SparseFeature("u"),
                               features.DenseFeature("b", null=-2),
                               features.DenseFeature("a", transform="log1p"))
            for given in (array, array if kind == pa.float16()
                          else array.dictionary_encode()):
                block = block_of(message, with_label({
                    "u": pa.array(range(4)), "b": given, "a": array}))
                self.assertEqual(block.dense[:, 1].tolist(), [1, -2, 0, 3], str(kind))
                np.testing.assert_allclose(
                    block.dense[:, 0], [math.log(2), 0, 0, math.log(4)], 1e-6)
        halves = np.array([0, -0.5, 65504, 6e-8, 1e-4], np.float16)
        block = block_of(message, with_label({
            "u": pa.array(range(5)), "b": pa.array(halves), "a": pa.array([0] * 5)}))
        np.testing.assert_array_equal(block.dense[:, 1], halves.astype(np.float32))

    def test_what_is_no_number_is_refused(self):
        for name in ("d", "y", "w"):
            columns = {"y": pa.array([0, 1]), "d": pa.array([1, 2]),
                       "w": pa.array([1, 2]), "u": pa.array([1, 2])}
            columns[name] = pa.array(["1", "2"])
            with self.assertRaisesRegex(
                    oarlock.InvalidArgumentError,
                    f"column '{name}' is of type string, and the feature is .*legal "
                    "are numbers and bool"):
                block_of(numbered(LABEL, features.DenseFeature("d"),
                                  features.Weight("w"), features.SparseFeature("u")),
                         pa.record_batch(columns))

    def test_bad_rows_are_counted_and_the_first_one_is_told(self):
        message = numbered(LABEL, features.Weight("w"), features.DenseFeature("d"),
                           features.SparseFeature("u"), features.Group("g"))
        rows = [(1, 1, 0, "ok"), (None, 1, 0, "the label 'y' is null"),
                (2, 1, 0, "the label 'y' is 2, not 0 or 1"),
                (math.nan, 1, 0, "the label 'y' is nan"),
                (0, None, 0, "the weight 'w' is null"),
                (0, -1, 0, "the weight 'w' is -1, not a number from 0 on"),
                (0, math.inf, 0, "the weight 'w' is inf"),
                (0, 1, math.nan, "feature 'd' is nan"),
                (0, 1, -math.inf, "feature 'd' is -inf"), (1, 2.5, None, "ok")]
        labels, weights, dense, reasons = zip(*rows)
        batch = pa.record_batch({
            "y": pa.array(labels, pa.float64()), "w": pa.array(weights, pa.float64()),
            "d": pa.array(dense, pa.float64()), "u": pa.array(range(10)),
            "g": pa.array(["a", "b"] * 5)})
        block = block_of(message, batch)
        self.assertEqual(block.bad.tolist(), [reason != "ok" for reason in reasons])
        self.assertEqual(block.num_bad, 8)
        self.assertEqual(block.first_bad, 1)
        self.assertEqual(block.weights[[0, 9]].tolist(), [1, 2.5])
        self.assertEqual(len(set(block.groups.tolist())), 2)
        for row, reason in enumerate(reasons):
            alone = block_of(message, batch.slice(row, 1))
            self.assertIn("" if reason == "ok" else reason, alone.reason)
            self.assertEqual(alone.reason == "", reason == "ok")


class ColumnsTest(unittest.TestCase):

    def test_the_order_of_columns_and_of_the_list_means_nothing(self):
        columns = {"y": pa.array([0, 1]), "zz": pa.array(["p", "q"]),
                   "b": pa.array([1, 2]), "d": pa.array([1.5, 2.5]),
                   "not named": pa.array([[1], [2]])}
        listed = [LABEL, features.SparseFeature("zz"), features.SparseFeature("b"),
                  features.DenseFeature("d")]
        message = numbered(*listed)
        whole = block_of(message, pa.record_batch(columns))
        source = random.Random(5)
        for _ in range(5):
            names = list(columns)
            source.shuffle(names)
            source.shuffle(message["features"])
            again = block_of(message,
                             pa.record_batch({name: columns[name] for name in names}))
            np.testing.assert_array_equal(again.keys, whole.keys)
            np.testing.assert_array_equal(again.dense, whole.dense)

    def test_fields_of_structs(self):
        inner = pa.StructArray.from_arrays(
            [pa.array([1, 2, None, 4])], ["id"],
            mask=pa.array([False, True, False, False]))
        message = numbered(LABEL, features.SparseFeature("user.id"))
        batch = with_label({"user": inner})
        expected = [key_of(1, "user.id", value) for value in (1, None, None, 4)]
        self.assertEqual(block_of(message, batch).keys[:, 0].tolist(), expected)
        self.assertEqual(block_of(message, batch.slice(1, 3)).keys[:, 0].tolist(),
                         expected[1:])
        # A column whose name has a dot comes first.
        batch = with_label({"user": inner, "user.id": pa.array([7, 7, 7, 7])})
        self.assertEqual(block_of(message, batch).keys[:, 0].tolist(),
                         [key_of(1, "user.id", 7)] * 4)

    def test_a_missing_column(self):
        with self.assertRaisesRegex(oarlock.InvalidArgumentError,
                                    "column 'u' is missing; add it, or"):
            block_of(numbered(LABEL, features.SparseFeature("u")),
                     with_label({"v": pa.array([1])}))
        message = numbered(LABEL, features.SparseFeature("u", missing="null", type="int"),
                           features.DenseFeature("d", missing="null", null=3),
                           features.SequenceFeature("s", missing="null", type="int"))
        block = block_of(message, with_label({"v": pa.array([1, 2])}))
        self.assertEqual(block.keys.tolist(), [key_of(2, "u", None)] * 2
                         if message["features"][1]["sparse"]["number"] == 2
                         else [key_of(1, "u", None)] * 2)
        self.assertEqual(block.offsets.tolist(), [0, 0, 1, 1, 2])
        self.assertEqual(block.dense.tolist(), [[3], [3]])

    def test_features_without_numbers_write_nothing(self):
        listed = features.Features([LABEL, features.SparseFeature("u", type="int")])
        blocks = _blocks.Blocks(listed.to_json())
        with self.assertRaisesRegex(oarlock.FailedPreconditionError, "no numbers"):
            blocks.bind(with_label({"u": pa.array([1])}).schema)

    def test_what_features_refuse(self):
        for make, text in (
                (lambda: features.SparseFeature("u", type="float"),
                 "feature 'u' has type='float'; legal are None, 'int', 'text'"),
                (lambda: features.DenseFeature("d", transform="log"),
                 "has transform='log'; legal are None, 'log1p'"),
                (lambda: features.SequenceFeature("s", pooling="max"),
                 "has pooling='max'; legal are 'mean', 'sum'"),
                (lambda: features.SparseFeature("u", missing="zero"),
                 "has missing='zero'; legal are None, 'null'")):
            with self.assertRaisesRegex(oarlock.InvalidArgumentError, text):
                make()


if __name__ == "__main__":
    unittest.main()
