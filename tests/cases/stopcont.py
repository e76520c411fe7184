# Suspends the whole job for N seconds (lid closed, docker pause, Ctrl-Z and
# fg), then goes on. Runs where `oarlock generate` made demo/part-*.
# usage: O=.../oarlock stopcont.py N [FLAGS]
import subprocess, os, signal, time, sys

O = os.environ["O"]
n = float(sys.argv[1])
extra = sys.argv[2:]
p = subprocess.Popen(
    [
        O,
        "train",
        "--server_num",
        "1",
        "--worker_num",
        "2",
        "--train_files",
        "demo/part-*",
        "--batch_size",
        "64",
        "--epochs",
        "12",
        "--log_dir",
        "lstopc",
    ]
    + extra,
    stdout=open("sc.out", "w"),
    stderr=subprocess.STDOUT,
    start_new_session=True,
)
time.sleep(2)


def tree(pid):
    out = [pid]
    for l in subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True
    ).stdout.split():
        out += tree(int(l))
    return out


t = tree(p.pid)
print("tree", len(t))
for x in t:
    os.kill(x, signal.SIGSTOP)
time.sleep(n)
for x in t:
    os.kill(x, signal.SIGCONT)
try:
    rc = p.wait(60)
except subprocess.TimeoutExpired:
    rc = "hang"
    os.killpg(p.pid, signal.SIGKILL)
print("rc", rc, extra)
print("".join(open("sc.out").readlines()[-6:])[:900])
