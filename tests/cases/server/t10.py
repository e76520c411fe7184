from ol import *
import shutil, threading, array

# durability log: an eviction sweep holds the cut gate, so a freeze that waits
# for it stops all pushes. usage: t10.py log|checkpoint ROWS [memory] [evict];
# memory: all rows are in memory, else most are on disk; evict: an eighth of
# the rows goes at each checkpoint, else none.
shutil.rmtree("ck10", ignore_errors=True)
shutil.rmtree("tier10", ignore_errors=True)
DUR = sys.argv[1]
N = int(sys.argv[2])
ports = [free_port()]
ex = [
    "--checkpoint_dir",
    "ck10",
    "--checkpoint_interval_s",
    "0",
    "--durability",
    DUR,
    "--lease_s",
    "600",
    "--num_partitions",
    "1",
    "--tier_dir",
    "tier10",
    "--tick_s",
    "1",
]
s = server(ports, 0, extra=ex, log="t10.log")
try:
    ep = "127.0.0.1:%d" % ports[0]
    c = chan(ep)
    connect(c)
    t = sparse(dim=1)
    if "memory" not in sys.argv[3:]:
        t.sparse.memory_budget_bytes = 16 << 20
    t.sparse.eviction.idle_ticks = 8000000
    t.sparse.eviction.period_ticks = 3
    call(c, "CreateTable", A.CreateTableRequest(config=t))
    call(
        c,
        "CreateTable",
        A.CreateTableRequest(config=sparse(id=2, name="other", dim=1)),
    )
    g = call(
        c, "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    seq = 0
    for b in range(0, N, 100000):
        seq += 1
        r = P.PushSparseRequest(
            header=header(
                worker_index=0,
                worker_generation=g,
                sequence=seq,
                oldest_unanswered=seq,
                routing_generation=1,
                message_count=1,
                table_message_count=1,
            ),
            table=1,
        )
        r.partitions.append(0)
        r.group_sizes.append(100000)
        r.keys.extend(range(b, b + 100000))
        r.values.extend([1.0] * 100000)
        call(c, "PushSparse", r, timeout=60)
    st = call(c, "GetServerStatus", A.ServerStatusRequest()).tables[0]
    print("rows", st.rows, "cold", st.cold_rows)
    done = [False]
    lat = []
    cutmark = [0]

    def pusher():
        global seq
        c2 = chan(ep)
        connect(c2)
        while not done[0]:
            h = call(
                c2,
                "Heartbeat",
                A.HeartbeatRequest(worker_index=0, worker_generation=g),
            )
            if h.cut > cutmark[0]:
                call(
                    c2,
                    "MarkCut",
                    A.MarkCutRequest(
                        worker_index=0, worker_generation=g, cut=h.cut
                    ),
                )
                cutmark[0] = h.cut
            seq += 1
            t0 = time.time()
            push = push_sparse(2, [5], [[1.0]], g, seq, bits=0, cut=cutmark[0])
            while True:
                try:
                    call(c2, "PushSparse", push, timeout=300)
                    break
                except grpc.RpcError as e:
                    # The server has not been told of the cut yet.
                    if e.code() != grpc.StatusCode.UNAVAILABLE:
                        raise
            lat.append((t0, time.time() - t0))
            time.sleep(0.005)

    th = threading.Thread(target=pusher)
    th.start()
    time.sleep(12)
    base = [l for _, l in lat]
    print(
        "pushes to ANOTHER table, no checkpoint: max %.3f s of %d"
        % (max(base), len(base))
    )
    for i in range(8):
        if "evict" in sys.argv[3:]:
            limits = A.EvictRequest(table=t.name)
            limits.limits.rows_max = max(1, N * (7 - i) // 8)
            limits.limits.low_mark = 1
            ev = threading.Thread(
                target=call, args=(c, "Evict", limits), kwargs={"timeout": 300}
            )
            ev.start()
            time.sleep(0.5)
        k = len(lat)
        t0 = time.time()
        try:
            r = call(c, "Checkpoint", A.CheckpointRequest(), timeout=120)
            out = "%.2f s, held %.2f s" % (r.seconds, r.held_seconds)
        except grpc.RpcError as e:
            out = e.details()[:150]
        time.sleep(1.0)
        m = [l for _, l in lat[k:]]
        print(
            "checkpoint %d: %s; longest push meanwhile %.2f s"
            % (i, out, max(m))
        )
        time.sleep(1.3)
    done[0] = True
    th.join()
finally:
    s.kill()
    s.wait()
    print(open("t10.log").read()[-400:])
