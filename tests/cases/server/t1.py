from ol import *

# amplification: 100 pulls of one dense block in a Batch
port = free_port()
s = server([port], log="t1.log")
try:
    ch = chan("127.0.0.1:%d" % port)
    c = connect(ch)
    call(
        ch,
        "CreateTable",
        A.CreateTableRequest(config=dense(size=4 << 20, block=4 << 20)),
    )
    print("rss before", rss(s.pid), "MB")
    b = P.BatchRequest()
    one = P.PullDenseRequest(
        header=header(), table=2, blocks=[0], known_versions=[0]
    )
    print(
        P.BatchRequest.DESCRIPTOR.fields_by_name.keys(),
        [
            f.name
            for f in P.BatchRequest.DESCRIPTOR.fields[0].message_type.fields
        ],
    )
    for i in range(200):
        x = b.calls.add()
        x.pull_dense.CopyFrom(one)
    print("request bytes", b.ByteSize())
    import threading

    peak = [0]
    done = [False]

    def w():
        while not done[0]:
            r = rss(s.pid)
            peak[0] = max(peak[0], r)
            time.sleep(0.01)

    t = threading.Thread(target=w)
    t.start()
    try:
        call(ch, "Batch", b, timeout=60)
    except grpc.RpcError as e:
        print(e.code(), e.details())
    done[0] = True
    t.join()
    print("peak rss", peak[0], "MB")
finally:
    stop(s)
    print(open("t1.log").read()[-800:])
