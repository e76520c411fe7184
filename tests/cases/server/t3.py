from ol import *

# pushes that name a cut that never comes: held for ever, count as open for ever
port = free_port()
s = server([port], log="t3.log", extra=["--lease_s", "600"])
try:
    ep = "127.0.0.1:%d" % port
    ch = chan(ep)
    connect(ch)
    call(ch, "CreateTable", A.CreateTableRequest(config=sparse()))
    g = call(
        ch, "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    bad = chan(ep)
    stub = bad.unary_unary(
        "/oarlock.v1.ParameterService/PushSparse",
        request_serializer=P.PushSparseRequest.SerializeToString,
        response_deserializer=P.PushResponse.FromString,
    )
    fs = [
        stub.future(
            push_sparse(1, [7], [[1.0] * 4], g, i + 1, cut=1 << 40), timeout=60
        )
        for i in range(4100)
    ]
    time.sleep(5)
    for f in fs[:4200]:
        if f.done():
            print("one is", f.code(), f.details()[:120])
            break
    for f in fs:
        f.cancel()
    bad.close()
    time.sleep(3)
    print("client gone for 3 s")
    for i in range(3):
        try:
            print(call(ch, "PullSparse", pull_sparse(1, [7])).values)
        except grpc.RpcError as e:
            print("reader:", e.code(), e.details())
        time.sleep(2)
finally:
    stop(s)
    print(open("t3.log").read()[-600:])
