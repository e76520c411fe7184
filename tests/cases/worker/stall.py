import subprocess, time, os, signal

O = os.environ["O"]
NOISY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "noisy.sh")
t0 = time.time()
p = subprocess.Popen(
    [O, "launch", "--nproc_per_node", "2", "--log_dir", "ls", NOISY],
    stdout=subprocess.PIPE,
    stderr=open("stall.err", "w"),
)
time.sleep(9)
print("after 9s: launcher poll =", p.poll())
d = float(open("died_at").read())
print("rank 1 died %.1f s before" % (time.time() - d))
print(
    subprocess.run(
        "ps -o pid,ppid,stat,args --ppid %d" % p.pid,
        shell=True,
        capture_output=True,
        text=True,
    ).stdout
)
print(open("stall.err").read()[-500:])
# now read
t1 = time.time()
data = p.stdout.read()
print("rc", p.wait(), "after read took %.1f" % (time.time() - t1), len(data))
print(open("stall.err").read()[-600:])
