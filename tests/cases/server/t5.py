from ol import *

# sync rounds: more messages than max_open_calls -> the round can never be
# complete. usage: t5.py WORKERS
import sys

W = int(sys.argv[1])
port = free_port()
s = server([port], log="t5.log", trainers=W, extra=["--lease_s", "600"])
try:
    ep = "127.0.0.1:%d" % port
    ch = chan(ep)
    connect(ch)
    call(ch, "CreateTable", A.CreateTableRequest(config=sparse(mode=T.SYNC)))
    gens = []
    for w in range(W):
        gens.append(
            call(
                ch, "RegisterWorker", A.RegisterWorkerRequest(worker_index=w)
            ).worker_generation
        )
        call(
            ch,
            "SetRoundMembership",
            A.RoundMembershipRequest(
                worker_index=w, worker_generation=gens[w], joins=True, request=1
            ),
        )
    print("joined", W)
    chs = [chan(ep) for _ in range(8)]

    def send(w):
        c = chs[w % 8]
        return c.unary_unary(
            "/oarlock.v1.ParameterService/PushSparse",
            request_serializer=P.PushSparseRequest.SerializeToString,
            response_deserializer=P.PushResponse.FromString,
        ).future(
            push_sparse(1, [7], [[1.0] * 4], gens[w], 1, worker=w, round=1),
            timeout=100,
        )

    t0 = time.time()
    pend = {w: send(w) for w in range(W)}
    refused = 0
    while pend and time.time() - t0 < 25:
        for w in list(pend):
            if pend[w].done():
                if pend[w].code() == grpc.StatusCode.OK:
                    del pend[w]
                else:
                    refused += 1
                    last = pend[w].details()
                    pend[w] = send(w)
        time.sleep(0.25)
    print(
        "after %.0f s: %d of %d pushes of round 1 unanswered, %d refusals"
        % (time.time() - t0, len(pend), W, refused),
        last if refused else "",
    )
    for i in range(1):
        try:
            print(
                "a reader:",
                call(chan(ep), "PullSparse", pull_sparse(1, [7])).values,
            )
        except grpc.RpcError as e:
            print("reader:", e.code(), e.details())
    for f in pend.values():
        f.cancel()
finally:
    stop(s)
    print(open("t5.log").read()[-300:])
