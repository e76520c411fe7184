from ol import *

port = free_port()
s = server([port], log="t18.log", extra=["--lease_s", "600"])
try:
    ep = "127.0.0.1:%d" % port
    c = chan(ep)
    connect(c)

    def define(n, name):
        r = A.DefinePhaseRequest(phase_name=name, num_examples=n * 2048)
        for i in range(n):
            r.ranges.add(
                source=i >> 12,
                begin=(i & 4095) * 2048,
                end=((i & 4095) + 1) * 2048,
                byte_offset=(i & 4095) * 600000,
            )
        t0 = time.time()
        try:
            call(c, "DefinePhase", r, timeout=120)
            print(
                n,
                "ranges: OK, %d MB message, %.2f s, server rss %d MB"
                % (r.ByteSize() >> 20, time.time() - t0, rss(s.pid)),
            )
        except grpc.RpcError as e:
            print(
                n,
                "ranges (%.2e examples of 2048 each):" % (n * 2048),
                e.code().name,
                e.details(),
            )

    define(1 << 20, "train/0")
    define((1 << 20) + 1, "train/1")
finally:
    s.kill()
    s.wait()
