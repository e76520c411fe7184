from ol import *
import shutil

# Server 0 is restarted after its clock was set back: a dead worker is not
# noticed
for shift in ("0", "-3600"):
    shutil.rmtree("ck8", ignore_errors=True)
    ports = [free_port()]
    ex = [
        "--checkpoint_dir",
        "ck8",
        "--checkpoint_interval_s",
        "0",
        "--durability",
        "log",
        "--lease_s",
        "3",
    ]
    s0 = server(ports, 0, extra=ex, log="t8.log", trainers=2)
    try:
        c = chan("127.0.0.1:%d" % ports[0])
        connect(c)
        gs = [
            call(
                c, "RegisterWorker", A.RegisterWorkerRequest(worker_index=w)
            ).worker_generation
            for w in (0, 1)
        ]
        time.sleep(0.5)
        s0.kill()
        s0.wait()
        s0 = server(
            ports,
            0,
            extra=ex,
            log="t8.log",
            trainers=2,
            env={
                "OARLOCK_RESTART": "1",
                "LD_PRELOAD": os.path.abspath("shim.so"),
                "SHIM_CLOCK": shift,
            },
        )
        c = chan("127.0.0.1:%d" % ports[0])
        connect(c)
        t0 = time.time()
        seen = None
        while time.time() - t0 < 20:
            # worker 0 lives, worker 1 is dead
            try:
                call(
                    c,
                    "Heartbeat",
                    A.HeartbeatRequest(worker_index=0, worker_generation=gs[0]),
                )
            except grpc.RpcError as e:
                print(e.code())
                break
            st = call(c, "GetJobStatus", A.JobStatusRequest())
            l = {w.worker_index: w.life for w in st.workers}
            if l.get(1) != 1 or st.failed:
                seen = time.time() - t0
                break
            time.sleep(0.5)
        print(
            "clock shift",
            shift,
            "s: dead worker noticed",
            "after %.1f s" % seen if seen else "NOT within 20 s (lease 3 s)",
        )
        print(
            "  logical time ticks",
            call(c, "GetServerStatus", A.ServerStatusRequest()).logical_time,
        )
    finally:
        s0.kill()
        s0.wait()
