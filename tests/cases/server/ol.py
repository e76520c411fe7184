import grpc, xxhash, subprocess, time, os, sys, signal, socket, struct, types

# The scripts run where prepare.sh has run.
sys.path.insert(0, os.path.abspath("py"))
from proto.v1 import (
    coordinator_service_pb2,
    parameter_pb2 as P,
    server_admin_service_pb2,
    table_pb2 as T,
    checkpoint_pb2 as C,
)

# The messages of both services of the control plane.
A = types.SimpleNamespace(
    **{
        name: value
        for module in (coordinator_service_pb2, server_admin_service_pb2)
        for name, value in vars(module).items()
        if isinstance(value, type)
    }
)
PROTOCOL = 2

O = os.environ["O"]
M = (1 << 64) - 1


def mix(key):
    z = (key + 0x9E3779B97F4A7C15) & M
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
    return z ^ (z >> 31)


METH = {}


def control_service(method):
    every_server = (
        "Connect",
        "CreateTable",
        "SetRoundMembership",
        "GetServerStatus",
        "GetHotKeys",
        "Evict",
        "ListChanges",
    )
    return (
        "ServerAdminService" if method in every_server else "CoordinatorService"
    )


def call(ch, name, req, timeout=20, token=None, wfr=False):
    svc = (
        "ParameterService"
        if name
        in ("PullSparse", "PushSparse", "PullDense", "PushDense", "Batch")
        else (
            "CheckpointService"
            if name in ("OpenCut", "FreezeCut", "SaveCut", "CloseCut")
            else control_service(name)
        )
    )
    resp = {
        "PullSparse": P.PullSparseResponse,
        "PushSparse": P.PushResponse,
        "PullDense": P.DenseResponse,
        "PushDense": P.DenseResponse,
        "Batch": P.BatchResponse,
        "OpenCut": C.OpenCutResponse,
        "FreezeCut": C.FreezeCutResponse,
        "SaveCut": C.SaveCutResponse,
        "CloseCut": C.CloseCutResponse,
        "GetJobStatus": A.JobStatusResponse,
        "GetServerStatus": A.ServerStatusResponse,
        "SetRoundMembership": A.RoundMembershipResponse,
        "GetHotKeys": A.HotKeysResponse,
    }.get(name) or getattr(A, name + "Response")
    if isinstance(req, A.RegisterWorkerRequest) and not req.protocol_version:
        req.protocol_version = PROTOCOL
    md = [("oarlock-token", token)] if token else None
    return ch.unary_unary(
        "/oarlock.v1.%s/%s" % (svc, name),
        request_serializer=type(req).SerializeToString,
        response_deserializer=resp.FromString,
    )(req, timeout=timeout, metadata=md, wait_for_ready=wfr)


def chan(ep, **kw):
    return grpc.insecure_channel(
        ep,
        [
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        ],
    )


def free_port():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    p = s.getsockname()[1]
    s.close()
    return p


def server(ports, i=0, trainers=1, extra=(), env=None, log=None, pre=()):
    eps = ",".join("127.0.0.1:%d" % p for p in ports)
    e = dict(os.environ)
    e.update(env or {})
    f = open(log or "server%d.log" % i, "a")
    return subprocess.Popen(
        list(pre)
        + [
            O,
            "server",
            "--pserver_endpoints",
            eps,
            "--current_endpoint",
            "127.0.0.1:%d" % ports[i],
            "--trainers",
            str(trainers),
        ]
        + list(extra),
        stdout=f,
        stderr=f,
        env=e,
    )


def job_hash(j="default"):
    return xxhash.xxh64_intdigest(j.encode())


def header(**kw):
    return P.RequestHeader(protocol_version=PROTOCOL, job_hash=job_hash(), **kw)


def rss(pid):
    for l in open("/proc/%d/status" % pid):
        if l.startswith("VmRSS"):
            return int(l.split()[1]) // 1024


def connect(ch, timeout=20):
    return call(
        ch,
        "Connect",
        A.ConnectRequest(protocol_version=PROTOCOL, job_id="default", client="py"),
        timeout=timeout,
        wfr=True,
    )


def groups(keys, bits):
    g = {}
    for k in keys:
        g.setdefault(mix(k) >> (64 - bits) if bits else 0, []).append(k)
    return g


def sparse(
    id=1,
    name="t",
    dim=4,
    mode=T.ASYNC,
    lr=1.0,
    accessor=T.PLAIN,
    opt="sgd",
    **kw
):
    c = T.TableConfig(id=id, name=name, mode=mode, seed=1)
    getattr(c.optimizer, opt).SetInParent()
    c.optimizer.learning_rate = lr
    c.sparse.dim = dim
    c.sparse.accessor = accessor
    if mode == T.SYNC:
        c.reduction = T.SUM
    return c


def dense(id=2, name="d", size=16, block=16, mode=T.ASYNC, lr=1.0, opt="sgd"):
    c = T.TableConfig(id=id, name=name, mode=mode, seed=1)
    getattr(c.optimizer, opt).SetInParent()
    c.optimizer.learning_rate = lr
    c.dense.size = size
    c.dense.block_size = block
    if mode == T.SYNC:
        c.reduction = T.SUM
    return c


def push_sparse(
    table,
    keys,
    vals,
    gen,
    seq,
    worker=0,
    bits=8,
    parts=1,
    part=0,
    shows=None,
    clicks=None,
    **kw
):
    kw.setdefault("oldest_unanswered", seq)
    kw.setdefault("routing_generation", 1)
    r = P.PushSparseRequest(
        header=header(
            worker_index=worker,
            worker_generation=gen,
            sequence=seq,
            message_count=parts,
            message_index=part,
            table_message_count=1,
            **kw
        ),
        table=table,
    )
    g = groups(keys, bits)
    d = dict(zip(keys, vals))
    for p in sorted(g):
        r.partitions.append(p)
        r.group_sizes.append(len(g[p]))
        for k in g[p]:
            r.keys.append(k)
            r.values.extend(d[k])
            if shows is not None:
                r.shows.append(shows)
            if clicks is not None:
                r.clicks.append(clicks)
    return r


def pull_sparse(table, keys, bits=8, stats=False):
    r = P.PullSparseRequest(header=header(), table=table, with_statistics=stats)
    g = groups(keys, bits)
    for p in sorted(g):
        r.partitions.append(p)
        r.group_sizes.append(len(g[p]))
        r.keys.extend(g[p])
    return r


def stop(p):
    if p.poll() is None:
        p.send_signal(signal.SIGTERM)
        try:
            p.wait(15)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
