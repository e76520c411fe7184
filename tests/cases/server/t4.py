from ol import *

# manifest larger than 64 MiB: server 0 aborts
import shutil

shutil.rmtree("ck4", ignore_errors=True)
port = free_port()
s = server(
    [port],
    log="t4.log",
    extra=["--checkpoint_dir", "ck4", "--checkpoint_interval_s", "0"],
)
try:
    ep = "127.0.0.1:%d" % port
    ch = chan(ep)
    connect(ch)
    for i in (1, 2):
        call(
            ch,
            "CreateTable",
            A.CreateTableRequest(
                config=sparse(id=i, name=chr(96 + i) * (34 << 20))
            ),
            timeout=60,
        )
    print("tables made, rss", rss(s.pid))
    try:
        print(call(ch, "Checkpoint", A.CheckpointRequest(), timeout=60))
    except grpc.RpcError as e:
        print(e.code(), e.details()[:200])
    time.sleep(1)
    print("exit code", s.poll())
finally:
    stop(s)
    print(open("t4.log").read()[-1200:])
