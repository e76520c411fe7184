from ol import *
import shutil, random, threading

# oracle: grad -1, lr 1: each row counts pushes. Both servers killed at once
# again and again, log + checkpoints every ~1 s. usage: t13.py SEED SECONDS
shutil.rmtree("ck13", ignore_errors=True)
random.seed(int(sys.argv[1]))
SEC = float(sys.argv[2])
ports = [free_port(), free_port()]
ex = [
    "--checkpoint_dir",
    "ck13",
    "--checkpoint_interval_s",
    "1",
    "--durability",
    "log",
    "--lease_s",
    "30",
    "--num_partitions",
    "16",
    "--log_bytes_max",
    "1048576",
]


def start(i, n):
    return server(
        ports,
        i,
        extra=ex,
        log="t13_%d.log" % i,
        env={"OARLOCK_RESTART": str(n)} if n else {},
    )


S = [start(0, 0), start(1, 0)]
n = 0
KEYS = list(range(1, 200))
try:
    chs = [chan("127.0.0.1:%d" % p) for p in ports]
    conn = [connect(c) for c in chs]
    owners = list(conn[0].partition_map.owners)
    for c in chs:
        call(c, "CreateTable", A.CreateTableRequest(config=sparse(dim=8)))
    g = call(
        chs[0], "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    stubs = [
        c.unary_unary(
            "/oarlock.v1.ParameterService/PushSparse",
            request_serializer=P.PushSparseRequest.SerializeToString,
            response_deserializer=P.PushResponse.FromString,
        )
        for c in chs
    ]
    count = {k: 0 for k in KEYS}
    seq = 0
    out = {}  # seq -> [(server,req,future)]
    cuts = {}
    newest = 0
    marked = 0
    t0 = time.time()
    nextkill = t0 + 2
    kills = 0
    resent = 0
    dup = 0
    lastbeat = 0
    bad = None
    while True:
        now = time.time()
        if now - t0 > SEC and not out:
            break
        # new push
        if (
            now - t0 < SEC
            and len(out) < 40
            and (not out or seq + 1 - min(out) < 60)
        ):
            seq += 1
            ks = random.sample(KEYS, 20)
            by = {}
            for k in ks:
                by.setdefault(owners[mix(k) >> 60], []).append(k)
            parts = sorted(by)
            out[seq] = []
            cuts[seq] = newest
            for i, sv in enumerate(parts):
                r = push_sparse(
                    1,
                    by[sv],
                    [[-1.0] * 8] * len(by[sv]),
                    g,
                    seq,
                    bits=4,
                    parts=len(parts),
                    part=i,
                    cut=newest,
                )
                out[seq].append([sv, r, stubs[sv].future(r, timeout=20)])
            for k in ks:
                count[k] += 1
        for q in list(out):
            rest = []
            for m in out[q]:
                f = m[2]
                if not f.done():
                    rest.append(m)
                    continue
                if f.code() == grpc.StatusCode.OK:
                    dup += f.result().duplicate_groups
                    continue
                if f.code() in (
                    grpc.StatusCode.UNAVAILABLE,
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                ):
                    resent += 1
                    m[2] = stubs[m[0]].future(m[1], timeout=20)
                    rest.append(m)
                    continue
                bad = (f.code(), f.details())
                break
            if bad:
                break
            if rest:
                out[q] = rest
            else:
                del out[q]
                cuts.pop(q)
        if bad:
            print("FAILED", bad)
            break
        if now - lastbeat > 0.05:
            lastbeat = now
            try:
                h = call(
                    chs[0],
                    "Heartbeat",
                    A.HeartbeatRequest(worker_index=0, worker_generation=g),
                    timeout=1,
                )
                newest = max(newest, h.cut)
                if newest > marked and all(c >= newest for c in cuts.values()):
                    call(
                        chs[0],
                        "MarkCut",
                        A.MarkCutRequest(
                            worker_index=0, worker_generation=g, cut=newest
                        ),
                        timeout=1,
                    )
                    marked = newest
            except grpc.RpcError as e:
                if e.code() not in (
                    grpc.StatusCode.UNAVAILABLE,
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                ):
                    print("beat", e.code(), e.details())
        if now > nextkill and now - t0 < SEC - 3:
            who = random.choice([[0, 1], [0, 1], [0], [1]])
            n += 1
            for i in who:
                S[i].kill()
            for i in who:
                S[i].wait()
            time.sleep(random.uniform(0, 0.3))
            for i in who:
                S[i] = start(i, n)
            kills += len(who)
            nextkill = time.time() + random.uniform(0.3, 2.5)
        time.sleep(0.002)
    rows = {}
    for sv in (0, 1):
        ks = [k for k in KEYS if owners[mix(k) >> 60] == sv]
        q = pull_sparse(1, ks, bits=4)
        r = call(chs[sv], "PullSparse", q, timeout=20, wfr=True)
        for i, k in enumerate(q.keys):
            rows[k] = r.values[i * 8]
    wrong = {k: (rows[k], count[k]) for k in KEYS if rows[k] != count[k]}
    print(
        "pushes",
        seq,
        "kills",
        kills,
        "resent",
        resent,
        "duplicate groups told",
        dup,
        "cut",
        newest,
        "WRONG" if wrong else "all rows exact",
        dict(list(wrong.items())[:5]),
    )
finally:
    for s in S:
        s.kill()
        s.wait()
