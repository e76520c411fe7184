from ol import *
import subprocess, time, os, signal, sys


def run(order, secs, extra=()):
    p = subprocess.Popen(
        [
            O,
            "train",
            "--server_num",
            "2",
            "--worker_num",
            "2",
            "--train_files",
            "data2/part-*",
            "--epochs",
            "2",
            "--batch_size",
            "256",
            "--log_dir",
            "logs14",
        ]
        + list(extra),
        stdout=open("t14.out", "w"),
        stderr=subprocess.STDOUT,
    )
    time.sleep(6)
    kids = [
        int(x)
        for x in subprocess.check_output(
            ["ps", "-o", "pid=", "--ppid", str(p.pid)]
        ).split()
    ]
    procs = {}
    for k in kids:
        try:
            cl = open("/proc/%d/environ" % k).read()
            role = (
                "S"
                if "TRAINING_ROLE=PSERVER" in cl
                else "W" if "TRAINING_ROLE=TRAINER" in cl else "?"
            )
            idx = [
                e
                for e in cl.split("\0")
                if e.startswith("PADDLE_TRAINER_ID=")
                or e.startswith("PADDLE_PORT=")
            ]
            procs[k] = (role, idx)
        except FileNotFoundError:
            pass
    print(procs)
    allp = [p.pid] + list(procs)
    for k in allp:
        os.kill(k, signal.SIGSTOP)
    time.sleep(secs)
    S = [k for k in procs if procs[k][0] == "S"]
    W = [k for k in procs if procs[k][0] == "W"]
    guardian = [k for k in procs if procs[k][0] == "?"]
    seq = {"all": allp, "coordinator_last": [p.pid] + guardian + S[1:] + W}[
        order
    ]
    for k in seq:
        os.kill(k, signal.SIGCONT)
    if order == "coordinator_last":
        time.sleep(2.5)
        os.kill(S[0], signal.SIGCONT)
    try:
        rc = p.wait(150)
    except subprocess.TimeoutExpired:
        rc = "timeout"
        p.terminate()
        p.wait(20)
    print(order, secs, "rc", rc)
    print(open("t14.out").read()[-900:])


run(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
