from ol import *
import shutil, random, threading, re

O2 = O
shutil.rmtree("ck19", ignore_errors=True)
shutil.rmtree("mut", ignore_errors=True)
port = free_port()
s = server(
    [port],
    log="t19.log",
    extra=[
        "--checkpoint_dir",
        "ck19",
        "--checkpoint_interval_s",
        "0",
        "--lease_s",
        "600",
        "--num_partitions",
        "4",
    ],
)
try:
    ep = "127.0.0.1:%d" % port
    c = chan(ep)
    connect(c)
    call(
        c,
        "CreateTable",
        A.CreateTableRequest(
            config=sparse(dim=4, opt="adagrad", accessor=T.CTR)
        ),
    )
    call(
        c, "CreateTable", A.CreateTableRequest(config=dense(size=100, block=16))
    )
    g = call(
        c, "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    keys = list(range(3000))
    call(
        c,
        "PushSparse",
        push_sparse(1, keys, [[1.0] * 4] * len(keys), g, 1, bits=2),
    )
    fin = [False]

    def mark():
        m = 0
        while not fin[0]:
            h = call(
                c,
                "Heartbeat",
                A.HeartbeatRequest(worker_index=0, worker_generation=g),
            )
            if h.cut > m:
                call(
                    c,
                    "MarkCut",
                    A.MarkCutRequest(
                        worker_index=0, worker_generation=g, cut=h.cut
                    ),
                )
                m = h.cut
            time.sleep(0.02)

    t = threading.Thread(target=mark)
    t.start()
    call(chan(ep), "Checkpoint", A.CheckpointRequest(), timeout=60, wfr=True)
    fin[0] = True
    t.join()
finally:
    s.kill()
    s.wait()
CK = "ck19/ckpt-00000001"
files = [os.path.join(d, f) for d, _, fs in os.walk(CK) for f in fs] + [
    "ck19/CURRENT"
]
print({f: os.path.getsize(f) for f in files})
random.seed(5)


def run(d):
    p = subprocess.run(
        [O2, "checkpoint", "verify", d],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    return p.returncode, p.stdout.decode(errors="replace")


print("sound:", run("ck19")[0])


def mutate(fixsums):
    shutil.rmtree("mut", ignore_errors=True)
    shutil.copytree("ck19", "mut", ignore=shutil.ignore_patterns("store"))
    f = random.choice(
        [x for x in files if (("/server-" in x) if fixsums else True)]
    )
    m = f.replace("ck19", "mut", 1)
    b = bytearray(open(m, "rb").read())
    if not b:
        return None, None, f
    i = random.randrange(len(b))
    b[i] ^= 1 << random.randrange(8)
    if fixsums and random.random() < 0.3:
        for _ in range(4):
            b[random.randrange(len(b))] ^= random.randrange(1, 256)
    open(m, "wb").write(bytes(b))
    if fixsums:
        M2 = "mut/ckpt-00000001/MANIFEST"
        txt = open(M2).read()
        body = txt[: txt.rindex("# xxh3 ")]
        name = os.path.basename(m)
        h = xxhash.xxh3_64_intdigest(bytes(b))
        body = re.sub(
            r'(name: "%s"\n\s+bytes: \d+\n\s+xxh3: )\d+' % re.escape(name),
            lambda k: k.group(1) + str(h),
            body,
        )
        sealed = body + "# xxh3 %016x\n" % xxhash.xxh3_64_intdigest(
            body.encode()
        )
        open(M2, "w").write(sealed)
        open("mut/CURRENT", "w").write(
            "ckpt-00000001 %016x\n" % xxhash.xxh3_64_intdigest(sealed.encode())
        )
    return run("mut") + (f,)


for fx, n in ((False, 250), (True, 250)):
    res = {}
    ex = []
    for k in range(n):
        rc, out, f = mutate(fx)
        if rc is None:
            continue
        res[rc] = res.get(rc, 0) + 1
        if (rc == 0 and not fx) or rc < 0 or rc > 2:
            ex.append((rc, os.path.basename(f), out[-200:]))
    print("sums recomputed" if fx else "single bit flips", res)
    [print("   ", e) for e in ex[:6]]
