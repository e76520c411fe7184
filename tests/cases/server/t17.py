from ol import *
import threading, shutil

W = int(sys.argv[1])
N = 100
shutil.rmtree("ck17", ignore_errors=True)
port = free_port()
ports = [port] + [20000 + i for i in range(N - 1)]
s = server(
    ports,
    0,
    log="t17.log",
    trainers=W,
    extra=[
        "--lease_s",
        "600",
        "--checkpoint_dir",
        "ck17",
        "--durability",
        "log",
        "--checkpoint_interval_s",
        "0",
    ],
)


def cpu():
    f = open("/proc/%d/stat" % s.pid).read().split()
    return (int(f[13]) + int(f[14])) / 100


try:
    ep = "127.0.0.1:%d" % port
    c = chan(ep)
    connect(c)
    for w in range(W):
        call(
            c,
            "RegisterWorker",
            A.RegisterWorkerRequest(
                worker_index=w,
                host="worker-%d.cluster.example.com" % w,
                pid=12345,
            ),
        )
    r = call(
        c,
        "ServerHeartbeat",
        A.ServerHeartbeatRequest(server_index=5, server_generation=1),
    )
    print(
        "response to a server heartbeat, %d workers: %d bytes" % (W, r.ByteSize())
    )
    raw = c.unary_unary("/oarlock.v1.CoordinatorService/ServerHeartbeat")
    reqs = [
        A.ServerHeartbeatRequest(
            server_index=i,
            server_generation=1,
            workers_version=r.workers_version,
        ).SerializeToString()
        for i in range(1, N)
    ]
    c0 = cpu()
    t0 = time.time()
    n = 0
    while time.time() - t0 < 8:
        fs = [raw.future(q, timeout=10) for q in reqs]
        for f in fs:
            f.result()
        n += len(fs)
    dt = time.time() - t0
    dc = cpu() - c0
    print(
        "%.0f heartbeats/s done, server CPU %.0f us each -> at 100 servers x 3.3/s: %.2f cores, %.1f MB/s"
        % (n / dt, dc / n * 1e6, 333 * dc / n, 333 * r.ByteSize() / 1e6)
    )
finally:
    s.kill()
    s.wait()
