# Talks nonsense to a port of loopback. usage: garbage.py PORT
import socket, os, time, sys, random

port = int(sys.argv[1])


def send(b, hold=0):
    try:
        s = socket.create_connection(("127.0.0.1", port), 2)
        s.sendall(b)
        s.settimeout(0.5)
        try:
            d = s.recv(200)
        except Exception as e:
            d = repr(e)
        if hold:
            time.sleep(hold)
        s.close()
        return d
    except Exception as e:
        return repr(e)


print(send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"))
print(send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)))
print(send(bytes(random.Random(1).randrange(256) for _ in range(4096))))
print(send(b""))
print(send(b"\xff\xff\xff\xff" * 4))
for _ in range(200):
    s = socket.socket()
    s.settimeout(1)
    try:
        s.connect(("127.0.0.1", port))
    except Exception:
        pass
    s.close()
