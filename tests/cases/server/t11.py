from ol import *


def tr(f):
    try:
        return f()
    except grpc.RpcError as e:
        return "%s: %s" % (e.code().name, e.details()[:160])


port = free_port()
s = server(
    [port],
    log="t11.log",
    extra=["--lease_s", "600", "--num_partitions", "65536"],
)
try:
    c = chan("127.0.0.1:%d" % port)
    connect(c)
    r0 = rss(s.pid)
    t0 = time.time()
    for i in range(1, 21):
        call(
            c,
            "CreateTable",
            A.CreateTableRequest(config=sparse(id=i, name="t%d" % i)),
        )
    r1 = rss(s.pid)
    print(
        "20 empty sparse tables of 65536 partitions: %d MB (%.1f MB each), %.2f s"
        % (r1 - r0, (r1 - r0) / 20, time.time() - t0)
    )
    # forget: RegisterWorker 2x -> older incarnation is forgotten over all
    # partitions
finally:
    s.kill()
    s.wait()
port = free_port()
s = server(
    [port],
    log="t11.log",
    extra=["--lease_s", "600"],
    pre=["prlimit", "--as=%d" % (6 << 30)],
)
try:
    c = chan("127.0.0.1:%d" % port)
    connect(c)
    print(
        "dense table of 65536 blocks of 16 MiB (1 TiB):",
        tr(
            lambda: call(
                c,
                "CreateTable",
                A.CreateTableRequest(
                    config=dense(size=65536 * (4 << 20), block=4 << 20)
                ),
                timeout=60,
            )
        ),
    )
    time.sleep(1)
    print("exit code", s.poll())
finally:
    s.kill()
    s.wait()
    print(open("t11.log").read()[-500:])
