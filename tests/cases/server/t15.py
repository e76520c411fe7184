from ol import *
import shutil, threading

# 70 workers with 60 pushes under way (legal: --max_unacknowledged_pushes 60): a
# cut is open, all but one have marked it. usage: t15.py PUSHES
shutil.rmtree("ck15", ignore_errors=True)
W = 70
U = int(sys.argv[1])
port = free_port()
s = server(
    [port],
    log="t15.log",
    trainers=W,
    extra=[
        "--checkpoint_dir",
        "ck15",
        "--checkpoint_interval_s",
        "0",
        "--lease_s",
        "600",
    ],
)
try:
    ep = "127.0.0.1:%d" % port
    ch = chan(ep)
    connect(ch)
    call(ch, "CreateTable", A.CreateTableRequest(config=sparse()))
    gens = [
        call(
            ch, "RegisterWorker", A.RegisterWorkerRequest(worker_index=w)
        ).worker_generation
        for w in range(W)
    ]
    res = {}

    def ck():
        t0 = time.time()
        try:
            r = call(
                chan(ep),
                "Checkpoint",
                A.CheckpointRequest(),
                timeout=60,
                wfr=True,
            )
            res["ck"] = "made in %.2f s" % (time.time() - t0)
        except grpc.RpcError as e:
            res["ck"] = "after %.1f s: %s" % (
                time.time() - t0,
                e.details()[:150],
            )

    th = threading.Thread(target=ck)
    th.start()
    time.sleep(1)
    print(
        "open cut",
        call(
            ch,
            "Heartbeat",
            A.HeartbeatRequest(worker_index=0, worker_generation=gens[0]),
        ).cut,
    )
    chs = [chan(ep) for _ in range(8)]
    fs = []
    for w in range(W - 1):
        call(
            ch,
            "MarkCut",
            A.MarkCutRequest(worker_index=w, worker_generation=gens[w], cut=1),
        )
        for q in range(1, U + 1):
            fs.append(
                chs[w % 8]
                .unary_unary(
                    "/oarlock.v1.ParameterService/PushSparse",
                    request_serializer=P.PushSparseRequest.SerializeToString,
                    response_deserializer=P.PushResponse.FromString,
                )
                .future(
                    push_sparse(
                        1, [7], [[-1.0] * 4], gens[w], q, worker=w, cut=1
                    ),
                    timeout=100,
                )
            )
    time.sleep(2)
    tries = 0
    t0 = time.time()
    ok = False
    # the last worker still has a push that belongs before the cut; it marks
    # when that is answered
    while time.time() - t0 < 25 and "ck" not in res:
        tries += 1
        try:
            call(
                ch,
                "PushSparse",
                push_sparse(
                    1, [7], [[-1.0] * 4], gens[W - 1], 1, worker=W - 1, cut=0
                ),
            )
            ok = True
            break
        except grpc.RpcError as e:
            err = e.details()
            time.sleep(0.25)
    if ok:
        call(
            ch,
            "MarkCut",
            A.MarkCutRequest(
                worker_index=W - 1, worker_generation=gens[W - 1], cut=1
            ),
        )
        print("last worker: push answered at try", tries)
    else:
        print("last worker: refused %d times: %s" % (tries, err))
    th.join()
    print("checkpoint", res["ck"])
finally:
    s.kill()
    s.wait()
    print(open("t15.log").read()[-260:])
