from ol import *
import shutil

# A server is restarted after its clock was set back (durability log)
shutil.rmtree("ck7", ignore_errors=True)
ports = [free_port(), free_port()]
ex = [
    "--checkpoint_dir",
    "ck7",
    "--checkpoint_interval_s",
    "0",
    "--durability",
    "log",
    "--lease_s",
    "600",
]
s0 = server(ports, 0, extra=ex, log="t7_0.log")
s1 = server(ports, 1, extra=ex, log="t7_1.log")
try:
    chs = [chan("127.0.0.1:%d" % p) for p in ports]
    for c in chs:
        connect(c)
    for c in chs:
        call(c, "CreateTable", A.CreateTableRequest(config=sparse()))
    g = call(
        chs[0], "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation
    time.sleep(1)
    s1.kill()
    s1.wait()
    print("server 1 killed; started again with a clock 1 hour behind")
    s1 = server(
        ports,
        1,
        extra=ex,
        log="t7_1.log",
        env={
            "OARLOCK_RESTART": "1",
            "LD_PRELOAD": os.path.abspath("shim.so"),
            "SHIM_CLOCK": "-3600",
        },
    )
    for i in range(8):
        time.sleep(1)
        if s1.poll() is not None:
            break
    print("server 1 exit code", s1.poll())
finally:
    stop(s1)
    stop(s0)
    print(open("t7_1.log").read()[-700:])
    print(open("t7_0.log").read()[-500:])
