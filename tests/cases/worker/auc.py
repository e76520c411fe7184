import random, math

random.seed(3)


def auc(items):
    items = sorted(items, key=lambda t: t[0])
    pos = sum(y for _, y in items)
    neg = len(items) - pos
    i = 0
    area = 0
    below = 0
    while i < len(items):
        j = i
        p = q = 0
        while j < len(items) and items[j][0] == items[i][0]:
            p += items[j][1]
            q += 1 - items[j][1]
            j += 1
        area += p * (below + q / 2)
        below += q
        i = j
    return area / (pos * neg), pos


for base in (-1.1, -4.6, -6.9, -8.5, -9.9):
    it = []
    for _ in range(1000000):
        z = random.gauss(base, 1)
        p = 1 / (1 + math.exp(-z))
        it.append((p, int(random.random() < p)))
    e, n = auc(it)
    b, _ = auc([(min(16383, int(p * 16384)), y) for p, y in it])
    m, _ = auc([(min(999999, int(p * 1e6)), y) for p, y in it])
    t, _ = auc([(min(4095, int(p * 4096)), y) for p, y in it])
    print(
        "rate %.1e positives %d exact %.5f, 16384 buckets %.5f (off %+.5f), 1e6 buckets %.5f, paddle.metric.Auc 4095: %.5f"
        % (n / 1e6, n, e, b, b - e, m, t)
    )
