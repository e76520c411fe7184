#!/usr/bin/env python3
"""Makes the inputs that worker_faults.md names. usage: inputs.py OUTDIR; d/ is
`oarlock generate criteo --rows 20000 --files 4 --out d`."""

import os, random, sys

out = sys.argv[1]
os.makedirs(os.path.join(out, "p"), exist_ok=True)
r = random.Random(5)


def w(name, lines):
    open(os.path.join(out, name), "w").write("\n".join(lines) + "\n")


# fm.ms: 2 dense features, 3 slots, label last; lines 2501 and 2502 have a
# sentinel that exporters write, one with each label.
rows = []
for i in range(5000):
    a, b, s = r.random(), r.random(), [r.randrange(50) for _ in range(3)]
    y = int(r.random() < 0.2 + 0.5 * (s[0] % 3 == 0))
    if i in (2500, 2501):
        y = i - 2500
    rows.append(
        f"2 {3.4e38 if i in (2500, 2501) else a:g} {b:.4f} "
        + " ".join(f"1 {100 * j + v}" for j, v in enumerate(s))
        + f" 1 {y}"
    )
w("fm.ms", rows)
# p/a.txt: libsvm with values that are not 1.
w(
    "p/a.txt",
    [
        f"{r.randrange(2)} "
        + " ".join(
            f"{r.randrange(30 * j, 30 * j + 30)}:{r.random():.3f}"
            for j in range(3)
        )
        for _ in range(2000)
    ],
)
# p/xor.*: the label is the XOR of two features, as libsvm and as two slots.
xor = [(r.randrange(2), r.randrange(2)) for _ in range(6000)]
w("p/xor.svm", [f"{a ^ b} {a}:1 {10 + b}:1" for a, b in xor])
w("p/xor.ms", [f"1 {a} 1 {10 + b} 1 {a ^ b}" for a, b in xor])
