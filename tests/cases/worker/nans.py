"""How many floats of files of plain float32 are NaN. usage: nans.py FILE..."""

import array
import os
import sys

for path in sys.argv[1:]:
    floats = array.array("f")
    with open(path, "rb") as file:
        floats.frombytes(file.read(os.path.getsize(path) // 4 * 4))
    nans = sum(value != value for value in floats)
    print(f"{os.path.basename(path)}: {nans} of {len(floats)} floats are NaN")
