import grpc, os, subprocess, sys, threading
from concurrent import futures

seen = []


class H(grpc.GenericRpcHandler):
    def service(self, d):
        seen.append(
            (d.method, dict(d.invocation_metadata).get("oarlock-token"))
        )
        return grpc.unary_unary_rpc_method_handler(lambda r, c: b"")


s = grpc.server(futures.ThreadPoolExecutor(2))
s.add_generic_rpc_handlers((H(),))
p = s.add_insecure_port("127.0.0.1:0")
s.start()
subprocess.run(
    [
        os.environ["O"],
        "ctl",
        "status",
        "--server",
        "127.0.0.1:%d" % p,
        "--token_file",
        "tok",
    ],
    timeout=20,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
print(seen[:2])
s.stop(0)
