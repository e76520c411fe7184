from ol import *
import shutil


# Oracle: lr 1, gradient -1; each row counts pushes. ENOSPC on the push log,
# then fsync EIO, then kill and replay.
def tr(f):
    try:
        return f()
    except grpc.RpcError as e:
        return "%s: %s" % (e.code().name, e.details()[:200])


shutil.rmtree("ck9", ignore_errors=True)
for f in ("trig_w", "trig_s"):
    if os.path.exists(f):
        os.remove(f)
ports = [free_port()]
ex = [
    "--checkpoint_dir",
    "ck9",
    "--checkpoint_interval_s",
    "0",
    "--durability",
    "log",
    "--lease_s",
    "600",
]
shim = {
    "LD_PRELOAD": os.path.abspath("shim.so"),
    "SHIM_PATH": "/log/server-000/",
    "SHIM_WRITE": os.path.abspath("trig_w"),
    "SHIM_FSYNC": os.path.abspath("trig_s"),
}
s = server(ports, 0, extra=ex, log="t9.log", env=shim)
K = [1, 2, 3, 400, 5000]
try:
    c = chan("127.0.0.1:%d" % ports[0])
    connect(c)
    call(c, "CreateTable", A.CreateTableRequest(config=sparse(dim=64)))
    g = call(
        c, "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    seq = 0

    def push():
        global seq
        seq += 1
        return push_sparse(1, K, [[-1.0] * 64] * len(K), g, seq)

    for i in range(5):
        call(c, "PushSparse", push())
    open("trig_w", "w")
    p = push()
    print("ENOSPC:", tr(lambda: call(c, "PushSparse", p)))
    print(
        "row while full", call(c, "PullSparse", pull_sparse(1, [1])).values[0]
    )
    os.remove("trig_w")
    print("room again:", tr(lambda: call(c, "PushSparse", p).duplicate_groups))
    for i in range(4):
        call(c, "PushSparse", push())
    print(
        "row",
        call(c, "PullSparse", pull_sparse(1, [1])).values[0],
        "pushes",
        seq,
    )
    s.kill()
    s.wait()
    s = server(
        ports, 0, extra=ex, log="t9.log", env=dict(shim, OARLOCK_RESTART="1")
    )
    c = chan("127.0.0.1:%d" % ports[0])
    connect(c)
    print(
        "after kill -9 and replay",
        call(c, "PullSparse", pull_sparse(1, [1])).values[0],
    )
    open("trig_s", "w")
    time.sleep(0.3)
    tr(lambda: call(c, "PushSparse", push()))
    time.sleep(0.3)
    p = push()
    print("after a failed fsync:", tr(lambda: call(c, "PushSparse", p)))
    print(
        "checkpoint then:",
        tr(lambda: call(c, "Checkpoint", A.CheckpointRequest(), timeout=30)),
    )
    os.remove("trig_s")
    print("fsync works again:", tr(lambda: call(c, "PushSparse", p)))
    print("row", call(c, "PullSparse", pull_sparse(1, [1])).values[0])
    s.kill()
    s.wait()
    s = server(
        ports, 0, extra=ex, log="t9.log", env=dict(shim, OARLOCK_RESTART="2")
    )
    c = chan("127.0.0.1:%d" % ports[0])
    connect(c)
    print(
        "after kill -9 and replay",
        call(c, "PullSparse", pull_sparse(1, [1])).values[0],
    )
    print(
        "resend",
        tr(lambda: call(c, "PushSparse", p).duplicate_groups),
        call(c, "PullSparse", pull_sparse(1, [1])).values[0],
    )
finally:
    s.kill()
    s.wait()
    print(open("t9.log").read()[-900:])
