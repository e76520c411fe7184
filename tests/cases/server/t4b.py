from ol import *
import shutil, threading

shutil.rmtree("ck4b", ignore_errors=True)
port = free_port()
s = server(
    [port],
    log="t4b.log",
    extra=[
        "--checkpoint_dir",
        "ck4b",
        "--checkpoint_interval_s",
        "0",
        "--lease_s",
        "600",
    ],
)
NT = 100
try:
    ep = "127.0.0.1:%d" % port
    ch = chan(ep)
    connect(ch)
    for i in range(1, NT + 1):
        call(
            ch,
            "CreateTable",
            A.CreateTableRequest(config=sparse(id=i, name="embedding_%d" % i)),
        )
    g = call(
        ch, "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    seq = 0
    # a base of some size so that deltas stay small
    for i in range(1, NT + 1):
        seq += 1
        keys = list(range(2000))
        call(
            ch,
            "PushSparse",
            push_sparse(i, keys, [[1.0] * 4] * len(keys), g, seq),
        )
    stopm = [False]
    cut = 0

    def mark():
        # a marker: marks each open cut
        c2 = chan(ep)
        connect(c2)
        while not stopm[0]:
            h = call(
                c2,
                "Heartbeat",
                A.HeartbeatRequest(worker_index=0, worker_generation=g),
            )
            if h.cut > mark.cut:
                call(
                    c2,
                    "MarkCut",
                    A.MarkCutRequest(
                        worker_index=0, worker_generation=g, cut=h.cut
                    ),
                )
                mark.cut = h.cut
            time.sleep(0.02)

    mark.cut = 0
    t = threading.Thread(target=mark)
    t.start()
    for n in range(45):
        seq += 1
        for i in range(1, NT + 1):
            call(
                ch,
                "PushSparse",
                push_sparse(
                    i,
                    [n],
                    [[1.0] * 4],
                    g,
                    seq,
                    cut=mark.cut,
                    parts=NT,
                    part=i - 1,
                ),
            )
        r = call(ch, "Checkpoint", A.CheckpointRequest(), timeout=60)
        m = r.directory + "/MANIFEST"
        b = os.path.getsize(m)
        txt = open(m).read()
        if n % 8 == 0 or n == 44:
            print(
                "checkpoint",
                r.cut,
                "manifest",
                b,
                "bytes, files listed",
                txt.count("xxh3:"),
                "per file",
                b // max(1, txt.count("xxh3:")),
                "%.2fs" % r.seconds,
                "written",
                r.written_bytes,
            )
    stopm[0] = True
    t.join()
finally:
    stop(s)
    print(open("t4b.log").read()[-300:])
