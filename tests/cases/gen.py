#!/usr/bin/env python3
"""Makes all small inputs of the cases. usage: gen.py OUTDIR"""

import random, sys, os

out = sys.argv[1]


def w(name, lines, enc="utf-8", nl="\n"):
    with open(os.path.join(out, name), "w", encoding=enc, newline="") as f:
        f.write(nl.join(lines) + nl)


R = random.Random(7)


def planted(n, make):
    rows = []
    for _ in range(n):
        u = R.randrange(200)
        i = R.randrange(100)
        s = ((u * 37) % 11 - 5) * 0.35 + ((i * 53) % 7 - 3) * 0.45 - 0.9
        p = 1 / (1 + pow(2.718281828, -s))
        rows.append(make(1 if R.random() < p else 0, u, i))
    return rows


N = 4000
# A libffm text
w(
    "ffm.txt",
    planted(
        N,
        lambda y, u, i: f"{y} 0:{u}:1 1:{1000+i}:1 2:2000:{R.random()*30000:.1f}",
    ),
)
w("svm_unit.txt", planted(N, lambda y, u, i: f"{y} {u}:1 {1000+i}:1"))
w(
    "svm_float_label.txt",
    planted(N, lambda y, u, i: f"{float(y)} {u}:1 {1000+i}:1"),
)
w(
    "svm_exp_label.txt",
    planted(N, lambda y, u, i: f"{float(y):.6e} {u}:1 {1000+i}:1"),
)
w("svm_12_label.txt", planted(N, lambda y, u, i: f"{y+1} {u}:1 {1000+i}:1"))
w("svm_1_2_comma.txt", planted(N, lambda y, u, i: f"{y},{u}:1,{1000+i}:1"))
w("svm_noval.txt", planted(N, lambda y, u, i: f"{y} {u} {1000+i}"))
w("svm_tab.txt", planted(N, lambda y, u, i: f"{y}\t{u}:1\t{1000+i}:1"))
# VW
w("vw.txt", planted(N, lambda y, u, i: f"{2*y-1} |u u{u} |i i{i}"))
# csv with header (Avazu-like)
hdr = "id,click,hour,C1,banner_pos,site_id"
w(
    "avazu.csv",
    [hdr]
    + planted(
        N, lambda y, u, i: f"{R.getrandbits(63)},{y},14102100,1005,0,{u:08x}"
    ),
)
# multi-slot
w("ms_ok.txt", planted(N, lambda y, u, i: f"1 {u} 1 {1000+i} 1 {y}"))
w("ms_neg.txt", planted(N, lambda y, u, i: f"1 {u - 100} 1 {1000+i} 1 {y}"))
w(
    "ms_neg_few.txt",
    planted(N, lambda y, u, i: f"1 {u if u else -1} 1 {1000+i} 1 {y}"),
)
w("ms_label_first.txt", planted(N, lambda y, u, i: f"1 {y} 1 {u} 1 {1000+i}"))
w(
    "ms_float_label.txt",
    planted(N, lambda y, u, i: f"1 {u} 1 {1000+i} 1 {float(y)}"),
)
w(
    "ms_dense_big.txt",
    planted(
        N,
        lambda y, u, i: f"3 {1.627776e18+R.random()*1e16:.0f} {R.random()*1e4:.2f} 1.0 1 {u} 1 {1000+i} 1 {y}",
    ),
)
w(
    "ms_dense_1e4.txt",
    planted(
        N,
        lambda y, u, i: f"3 {R.random()*3e4:.2f} {R.random()*1e4:.2f} 1.0 1 {u} 1 {1000+i} 1 {y}",
    ),
)
w(
    "ms_named.txt",
    planted(N, lambda y, u, i: f"label:{y} user:{u} item:{1000+i}"),
)
w(
    "ms_long.txt",
    planted(
        400,
        lambda y, u, i: f"3000 "
        + " ".join(str(R.randrange(10**6)) for _ in range(3000))
        + f" 1 {1000+i} 1 {y}",
    ),
)


# criteo variants
def cr(y, u, i, sep="\t", label=None, ints=None):
    I = ints or [
        str(R.randrange(50)) if R.random() < 0.8 else "" for _ in range(13)
    ]
    C = [
        f"{(u*7919+k*31)%2**32:08x}" if k % 2 else f"{(i*104729+k)%2**32:08x}"
        for k in range(26)
    ]
    return sep.join([str(y) if label is None else label] + I + C)


w("criteo_ok.txt", planted(N, cr))
w(
    "criteo_float_ints.txt",
    planted(
        N,
        lambda y, u, i: cr(
            y, u, i, ints=[f"{R.randrange(50)}.0" for _ in range(13)]
        ),
    ),
)
w(
    "criteo_header.txt",
    [
        "label\t"
        + "\t".join(f"I{k}" for k in range(1, 14))
        + "\t"
        + "\t".join(f"C{k}" for k in range(1, 27))
    ]
    + planted(N, cr),
)
w("criteo.csv", planted(N, lambda y, u, i: cr(y, u, i, sep=",")))
w(
    "criteo_csv_header.csv",
    [
        "label,"
        + ",".join(f"I{k}" for k in range(1, 14))
        + ","
        + ",".join(f"C{k}" for k in range(1, 27))
    ]
    + planted(N, lambda y, u, i: cr(y, u, i, sep=",")),
)
w(
    "criteo_spaces.txt",
    planted(
        N,
        lambda y, u, i: cr(
            y, u, i, sep=" ", ints=[str(R.randrange(50)) for _ in range(13)]
        ),
    ),
)
w(
    "criteo_m1.txt",
    planted(N, lambda y, u, i: cr(y, u, i, label=str(2 * y - 1))),
)
w(
    "criteo_flabel.txt",
    planted(N, lambda y, u, i: cr(y, u, i, label=f"{float(y)}")),
)
w("criteo_utf16.txt", planted(N, cr), enc="utf-16")
w(
    "criteo_nan.txt",
    planted(
        N,
        lambda y, u, i: cr(
            y,
            u,
            i,
            ints=[
                "nan" if R.random() < 0.3 else str(R.randrange(50))
                for _ in range(13)
            ],
        ),
    ),
)
w(
    "criteo_null.txt",
    planted(
        N,
        lambda y, u, i: cr(
            y,
            u,
            i,
            ints=[
                r"\N" if R.random() < 0.3 else str(R.randrange(50))
                for _ in range(13)
            ],
        ),
    ),
)
w("criteo_cr.txt", planted(N, cr), nl="\r")
w("all_zero.txt", [cr(0, R.randrange(200), R.randrange(100)) for _ in range(N)])
w("all_one.txt", [cr(1, R.randrange(200), R.randrange(100)) for _ in range(N)])
# movielens
w("ml.dat", planted(N, lambda y, u, i: f"{u}::{i}::{4+y}::978300760"))
