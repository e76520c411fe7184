from ol import *
import threading

open("tok", "w").write("secret-token-123\n")
port = free_port()
s = server(
    [port], log="t12.log", extra=["--lease_s", "600", "--token_file", "tok"]
)
try:
    ep = "127.0.0.1:%d" % port
    c = chan(ep)
    call(
        c,
        "Connect",
        A.ConnectRequest(protocol_version=2, job_id="default", client="py"),
        wfr=True,
        token="secret-token-123",
    )
    for name, req in (
        ("GetJobStatus", A.JobStatusRequest()),
        ("Checkpoint", A.CheckpointRequest()),
        ("Drain", A.DrainRequest()),
    ):
        try:
            call(c, name, req)
            print(name, "ANSWERED WITHOUT TOKEN")
        except grpc.RpcError as e:
            print(name, e.code().name)
    for m in ("/grpc.health.v1.Health/Check",):
        try:
            print("health without token:", c.unary_unary(m)(b"", timeout=5))
        except grpc.RpcError as e:
            print(m, e.code().name)
    print(
        "cmdline",
        open("/proc/%d/cmdline" % s.pid).read().replace("\0", " ")[-80:],
    )
    print(
        "environ has token:",
        "secret-token" in open("/proc/%d/environ" % s.pid).read(),
    )
    body = b"\x00" * (60 << 20)
    peak = [rss(s.pid)]
    fin = [False]

    def w():
        while not fin[0]:
            peak[0] = max(peak[0], rss(s.pid))
            time.sleep(0.01)

    t = threading.Thread(target=w)
    t.start()
    r0 = peak[0]
    chs = [chan(ep) for _ in range(40)]
    fs = [
        x.unary_unary("/oarlock.v1.ParameterService/PushSparse").future(
            body, timeout=60
        )
        for x in chs
    ]
    codes = {}
    for f in fs:
        codes[f.code().name] = codes.get(f.code().name, 0) + 1
    fin[0] = True
    t.join()
    print(
        "40 calls of 60 MiB without a token:",
        codes,
        "server rss %d -> peak %d MB" % (r0, peak[0]),
    )
finally:
    s.kill()
    s.wait()
    t = open("t12.log").read()
    print("token in log:", "secret-token" in t)
