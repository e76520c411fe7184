from ol import *
import shutil, threading

shutil.rmtree("ck16", ignore_errors=True)
port = free_port()
s = server(
    [port],
    log="t16.log",
    extra=[
        "--checkpoint_dir",
        "ck16",
        "--checkpoint_interval_s",
        "0",
        "--lease_s",
        "600",
    ],
)
try:
    ep = "127.0.0.1:%d" % port
    c = chan(ep)
    connect(c)
    r0 = rss(s.pid)
    t0 = time.time()
    n = 0
    for i in range(1, 1100):
        try:
            call(
                c,
                "CreateTable",
                A.CreateTableRequest(config=sparse(id=i, name="t%d" % i)),
            )
            n = i
        except grpc.RpcError as e:
            print("table", i, e.details()[:120])
            break
    r1 = rss(s.pid)
    th = len(os.listdir("/proc/%d/task" % s.pid))
    vm = [l for l in open("/proc/%d/status" % s.pid) if l.startswith("VmSize")][
        0
    ].split()[1]
    print(
        n,
        "empty tables: %.1f s, %.2f MB each, threads %d, VmSize %.0f GB, maps %d"
        % (
            time.time() - t0,
            (r1 - r0) / n,
            th,
            int(vm) / 1e6,
            len(open("/proc/%d/maps" % s.pid).readlines()),
        ),
    )
    g = call(
        c, "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    keys = list(range(300))
    t0 = time.time()
    for i in range(1, n + 1):
        call(
            c, "PushSparse", push_sparse(i, keys, [[1.0] * 4] * len(keys), g, i)
        )
    print(
        "after a push of 300 keys to each: %.2f MB each"
        % ((rss(s.pid) - r0) / n),
        "%.1f s" % (time.time() - t0),
    )

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

    fin = [False]
    t = threading.Thread(target=mark)
    t.start()
    for k in range(2):
        try:
            r = call(
                chan(ep),
                "Checkpoint",
                A.CheckpointRequest(),
                timeout=120,
                wfr=True,
            )
            print(
                "checkpoint %.1f s held %.2f s manifest %d bytes files %d"
                % (
                    r.seconds,
                    r.held_seconds,
                    os.path.getsize(r.directory + "/MANIFEST"),
                    len(os.listdir(r.directory + "/server-000")),
                )
            )
        except grpc.RpcError as e:
            print("checkpoint", e.details()[:200])
    fin[0] = True
    t.join()
finally:
    s.kill()
    s.wait()
    print(open("t16.log").read()[-400:])
