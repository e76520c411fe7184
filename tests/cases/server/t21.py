from ol import *
import shutil, threading

shutil.rmtree("ck21", ignore_errors=True)
for f in ("trig_w", "trig_s"):
    if os.path.exists(f):
        os.remove(f)
port = free_port()
shim = {
    "LD_PRELOAD": os.path.abspath("shim.so"),
    "SHIM_PATH": "/ck21/",
    "SHIM_WRITE": os.path.abspath("trig_w"),
    "SHIM_FSYNC": os.path.abspath("trig_s"),
}
s = server(
    [port],
    log="t21.log",
    extra=[
        "--checkpoint_dir",
        os.path.abspath("ck21"),
        "--checkpoint_interval_s",
        "0",
        "--lease_s",
        "600",
    ],
    env=shim,
)
try:
    ep = "127.0.0.1:%d" % port
    c = chan(ep)
    connect(c)
    call(c, "CreateTable", A.CreateTableRequest(config=sparse(dim=4)))
    g = call(
        c, "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    fin = [False]
    mk = [0]

    def mark():
        while not fin[0]:
            h = call(
                c,
                "Heartbeat",
                A.HeartbeatRequest(worker_index=0, worker_generation=g),
            )
            if h.cut > mk[0]:
                call(
                    c,
                    "MarkCut",
                    A.MarkCutRequest(
                        worker_index=0, worker_generation=g, cut=h.cut
                    ),
                )
                mk[0] = h.cut
            time.sleep(0.02)

    t = threading.Thread(target=mark)
    t.start()
    seq = 0
    import random

    random.seed(3)
    for k in range(24):
        seq += 1
        call(
            c,
            "PushSparse",
            push_sparse(
                1, list(range(300)), [[-1.0] * 4] * 300, g, seq, cut=mk[0]
            ),
            timeout=60,
        )
        trig = random.choice(["trig_w", "trig_s", None])
        when = random.choice([0, 0.003, 0.01, 0.03])

        def arm():
            time.sleep(when)
            open(trig, "w")

        if trig:
            a = threading.Thread(target=arm)
            a.start()
        try:
            r = call(
                chan(ep),
                "Checkpoint",
                A.CheckpointRequest(),
                timeout=60,
                wfr=True,
            )
            out = "made %d" % r.cut
        except grpc.RpcError as e:
            out = e.code().name + " " + e.details()[:110]
        if trig:
            a.join()
            os.remove(trig)
        if s.poll() is not None:
            print("SERVER DIED", s.returncode)
            break
        if trig:
            print(trig, when, out)
    fin[0] = True
    t.join()
    v = subprocess.run(
        [O, "checkpoint", "verify", "ck21"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    print("verify", v.returncode, v.stdout.decode()[-120:])
    print(open("ck21/CURRENT").read(), sorted(os.listdir("ck21")))
    print(
        "row",
        call(c, "PullSparse", pull_sparse(1, [1])).values[0],
        "pushes",
        seq,
    )
finally:
    s.kill()
    s.wait()
    print(open("t21.log").read()[-300:])
