import random, math

random.seed(11)


def gen(path, n, base):
    with open(path, "w") as f:
        for _ in range(n):
            a, b, c = (
                random.randint(0, 19),
                random.randint(0, 19),
                random.randint(0, 19),
            )
            z = base + (wa[a] + wb[b] + wc[c])
            y = random.random() < 1 / (1 + math.exp(-z))
            f.write("%d %d:1 %d:1 %d:1\n" % (y, a, 100 + b, 200 + c))


wa = [random.gauss(0, 0.6) for _ in range(20)]
wb = [random.gauss(0, 0.6) for _ in range(20)]
wc = [random.gauss(0, 0.6) for _ in range(20)]
for name, base in (
    ("r1e-2", -5.1),
    ("r1e-3", -7.4),
    ("r1e-4", -9.7),
    ("r3e-5", -11),
):
    gen("low_%s.tr" % name, 400000, base)
    gen("low_%s.te" % name, 400000, base)
