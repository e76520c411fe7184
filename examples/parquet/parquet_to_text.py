#!/usr/bin/env python3
"""Writes a Parquet file, given as standard input, as text that Oarlock reads.

As a --pipe_command, once for each file:

  oarlock train --train_files 'data/*.parquet' --data_format libsvm \
    --pipe_command 'python3 examples/parquet/parquet_to_text.py --label click'

libsvm (the default): every column but the label is a feature. A number is
INDEX:VALUE with the index of its column; any other value is INDEX:1 with the
index of (column, text), as a list's values each are. Multi-slot text
(--format multi_slot) takes the columns that --dense and --slots name, in their
order: numbers as dense features, missing ones 0, and keys of slots; oarlock
gets --data_format multi_slot and as many as --dense_dim and --num_slots.

An index or key is the BLAKE2b hash, 8 bytes, little-endian, of "column=text" or
of "column"; nulls are left out. Needs pyarrow (pip install pyarrow).
"""

import argparse
import hashlib
import itertools
import sys

ROWS_AT_A_TIME = 8192


def key_of(text):
    return int.from_bytes(
        hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def values_of(value):
    """What a cell holds, nulls and what is not a number left out."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return [v for v in values if v is not None and v == v]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def libsvm_line(label, columns, row):
    words = [str(label)]
    for column in columns:
        for value in values_of(row[column]):
            if is_number(value):
                words.append(f"{key_of(column)}:{value!r}")
            else:
                words.append(f"{key_of(f'{column}={value}')}:1")
    return " ".join(words)


def multi_slot_line(label, dense, slots, row):
    words = [str(len(dense))] if dense else []
    words += [repr(float((values_of(row[column]) or [0])[0]))
              for column in dense]
    for column in slots:
        values = values_of(row[column])
        words.append(str(len(values)))
        words += [str(key_of(f"{column}={value}")) for value in values]
    return " ".join(words + ["1", str(label)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--label", required=True,
                        help="column of the label, 0 or 1")
    parser.add_argument("--format", default="libsvm",
                        choices=["libsvm", "multi_slot"])
    parser.add_argument("--dense", default="", help="columns, comma separated")
    parser.add_argument("--slots", default="", help="columns, comma separated")
    arguments = parser.parse_args()
    try:
        import pyarrow.parquet
    except ImportError:
        sys.exit("parquet_to_text.py needs pyarrow; pip install pyarrow")
    dense, slots = (list(filter(None, names.split(",")))
                    for names in (arguments.dense, arguments.slots))
    file = pyarrow.parquet.ParquetFile(sys.stdin.buffer)
    columns = [c for c in file.schema_arrow.names if c != arguments.label]
    missing = [c for c in itertools.chain(dense, slots, [arguments.label])
               if c not in file.schema_arrow.names]
    if missing:
        sys.exit(f"parquet_to_text.py: no column {missing[0]!r}; there are "
                 f"{', '.join(file.schema_arrow.names)}")
    for batch in file.iter_batches(batch_size=ROWS_AT_A_TIME):
        for row in batch.to_pylist():
            label = int(row[arguments.label])
            if arguments.format == "libsvm":
                print(libsvm_line(label, columns, row))
            else:
                print(multi_slot_line(label, dense, slots, row))


if __name__ == "__main__":
    main()
