# Ends jobs by signals. Runs where `oarlock generate` made demo/part-*.
# usage: O=.../oarlock stop.py
import subprocess, os, signal, time, sys

O = os.environ["O"]


def run(sig, extra=[], wait=2.5, group=True, env=None):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    p = subprocess.Popen(
        [
            O,
            "train",
            "--train_files",
            "demo/part-*",
            "--batch_size",
            "64",
            "--epochs",
            "60",
            "--log_dir",
            "lstop",
        ]
        + extra,
        stdout=open("stop.out", "w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=env,
    )
    time.sleep(wait)
    t = time.time()
    os.killpg(p.pid, sig) if group else os.kill(p.pid, sig)
    try:
        rc = p.wait(25)
    except subprocess.TimeoutExpired:
        rc = "still running after 25 s"
        os.killpg(p.pid, signal.SIGKILL)
    print(sig, extra, "rc", rc, "after %.1f s" % (time.time() - t))
    print("  |".join([""] + open("stop.out").readlines()[-3:]))
    left = subprocess.run(
        "ps -eo pid,args | grep -- '--log_dir lstop' | grep -v grep",
        shell=True,
        capture_output=True,
        text=True,
    ).stdout
    print("left:", left)


c = ["--server_num", "1", "--worker_num", "2"]
run(signal.SIGINT, c)
run(signal.SIGINT, c, wait=0.15)
run(signal.SIGTERM, c, group=False)
run(signal.SIGINT)
run(signal.SIGTERM)
run(signal.SIGHUP, c)
run(signal.SIGQUIT, c)
run(signal.SIGINT, c + ["--mode", "sync"])
run(signal.SIGTERM, c + ["--checkpoint_dir", "ckstop"])
