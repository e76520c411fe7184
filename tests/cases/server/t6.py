from ol import *
import shutil, math

shutil.rmtree("ck6", ignore_errors=True)
shutil.rmtree("elsewhere", ignore_errors=True)
os.makedirs("elsewhere")
port = free_port()
s = server(
    [port],
    log="t6.log",
    extra=[
        "--checkpoint_dir",
        "ck6",
        "--checkpoint_interval_s",
        "0",
        "--lease_s",
        "600",
    ],
)


def tr(f):
    try:
        return f()
    except grpc.RpcError as e:
        return "%s: %s" % (e.code().name, e.details()[:230])


try:
    ep = "127.0.0.1:%d" % port
    ch = chan(ep)
    connect(ch)
    call(ch, "CreateTable", A.CreateTableRequest(config=sparse(accessor=T.CTR)))
    call(
        ch,
        "CreateTable",
        A.CreateTableRequest(
            config=sparse(id=3, name="ada", opt="adagrad", lr=0.1)
        ),
    )
    g = call(
        ch, "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    nan = float("nan")
    inf = float("inf")
    print("--- NaN, inf")
    call(ch, "PushSparse", push_sparse(3, [1], [[nan, inf, 1, 1]], g, 1))
    call(ch, "PushSparse", push_sparse(3, [1], [[1, 1, 1, 1]], g, 2))
    print(
        "row 1 adagrad after NaN/inf then a good push:",
        list(call(ch, "PullSparse", pull_sparse(3, [1])).values),
    )
    print("--- shows add up")
    for i in range(3):
        call(
            ch,
            "PushSparse",
            push_sparse(
                1, [5], [[0] * 4], g, 3 + i, shows=3.4e38, clicks=3.4e38
            ),
        )
    r = call(ch, "PullSparse", pull_sparse(1, [5], stats=True))
    print("show, click", list(r.shows), list(r.clicks))
    print("--- keys 0 and 2^64-1, lr, empty")
    K = [0, M, M - 1, 1 << 63]
    call(
        ch,
        "PushSparse",
        push_sparse(1, K, [[float(i + 1)] * 4 for i in range(4)], g, 6),
    )
    r = call(ch, "PullSparse", pull_sparse(1, K))
    q = pull_sparse(1, K)
    print({k: list(r.values[i * 4 : i * 4 + 1]) for i, k in enumerate(q.keys)})
    print(
        "empty push",
        tr(
            lambda: call(
                ch, "PushSparse", push_sparse(1, [], [], g, 7)
            ).duplicate_groups
        ),
    )
    print(
        "seq 2^64-1",
        tr(
            lambda: call(
                ch, "PushSparse", push_sparse(1, [9], [[1] * 4], g, M)
            ).duplicate_groups
        ),
    )
    print(
        "then seq 8",
        tr(
            lambda: call(
                ch, "PushSparse", push_sparse(1, [9], [[1] * 4], g, 8)
            ).duplicate_groups
        ),
        list(call(ch, "PullSparse", pull_sparse(1, [9])).values)[:1],
    )
    print("--- dup key in one push")
    rq = push_sparse(1, [11], [[1] * 4], g, 9)
    rq.group_sizes[0] = 2
    rq.keys.append(11)
    rq.values.extend([1] * 4)
    print(
        tr(lambda: call(ch, "PushSparse", rq).duplicate_groups),
        list(call(ch, "PullSparse", pull_sparse(1, [11])).values)[:1],
    )
    print("--- a push that names a generation nobody gave")
    print(
        tr(
            lambda: call(
                ch, "PushSparse", push_sparse(1, [20], [[1] * 4], 1 << 62, 1)
            )
        )
    )
    print(
        "the worker itself:",
        tr(
            lambda: call(
                ch, "PushSparse", push_sparse(1, [21], [[1] * 4], g, 10)
            )
        ),
    )
    g2 = call(
        ch, "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    print(
        "registered anew:",
        tr(
            lambda: call(
                ch, "PushSparse", push_sparse(1, [21], [[1] * 4], g2, 1)
            )
        ),
    )
    print("--- SaveCut into a folder of the caller")
    print(tr(lambda: call(ch, "OpenCut", C.OpenCutRequest(cut=5))))
    print(
        tr(
            lambda: call(
                ch, "FreezeCut", C.FreezeCutRequest(cut=5)
            ).held_seconds
        )
    )
    print(
        tr(
            lambda: call(
                ch,
                "SaveCut",
                C.SaveCutRequest(cut=5, directory=os.path.abspath("elsewhere")),
            ).part.directory
        )
    )
    print(os.listdir("elsewhere"))
    print("--- OpenCut(2^64-1), then a checkpoint")
    print(tr(lambda: call(ch, "OpenCut", C.OpenCutRequest(cut=M))))
    print(tr(lambda: call(ch, "Checkpoint", A.CheckpointRequest(), timeout=60)))
    print("--- logs")
    tr(
        lambda: call(
            ch,
            "Connect",
            A.ConnectRequest(
                protocol_version=2,
                job_id="default",
                client="x\n2026-11-25 12:00:00.000 E server 0  forged",
            ),
        )
    )
    tr(
        lambda: call(
            ch,
            "Connect",
            A.ConnectRequest(
                protocol_version=2, job_id="A" * 3000000, client="big"
            ),
        )
    )
    tr(
        lambda: call(
            ch,
            "StopTraining",
            A.StopTrainingRequest(
                reason="line1\n2026-11-25 12:00:00.001 E server 0  forged too"
            ),
        )
    )
finally:
    stop(s)
    t = open("t6.log").read()
    print("log bytes", len(t))
    print("\n".join(l[:160] for l in t.splitlines()[-12:]))
