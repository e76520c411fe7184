from ol import *
import resource

# fd exhaustion: does the listener survive EMFILE?
port = free_port()
LIM = 80
s = server([port], log="t2.log", pre=["prlimit", "--nofile=%d:%d" % (LIM, LIM)])
try:
    ch = chan("127.0.0.1:%d" % port)
    connect(ch)
    print("connected ok; fds", len(os.listdir("/proc/%d/fd" % s.pid)))
    socks = []
    for i in range(120):
        x = socket.socket()
        x.settimeout(1)
        try:
            x.connect(("127.0.0.1", port))
            socks.append(x)
        except Exception as e:
            print("connect", i, e)
            break
    time.sleep(2)
    print("fds", len(os.listdir("/proc/%d/fd" % s.pid)))
    for x in socks:
        x.close()
    time.sleep(3)
    print("all closed; fds", len(os.listdir("/proc/%d/fd" % s.pid)))
    try:
        print(
            "old channel",
            call(ch, "GetServerStatus", A.ServerStatusRequest()).uptime_seconds,
        )
    except grpc.RpcError as e:
        print("old", e.code())
    for i in range(3):
        ch2 = chan("127.0.0.1:%d" % port)
        try:
            connect(ch2, timeout=10)
            print("new channel ok")
        except grpc.RpcError as e:
            print("NEW CHANNEL FAILS", e.code(), e.details()[:100])
        ch2.close()
    os.system(
        "ss -ltnp 2>/dev/null | grep :%d; cat /proc/net/tcp | awk '$4==\"0A\"' | grep -i %04X"
        % (port, port)
    )
finally:
    stop(s)
    print(open("t2.log").read()[-1500:])
