from ol import *
import random, shutil, threading
from google.protobuf.descriptor import FieldDescriptor as F

random.seed(int(sys.argv[1]))
SEC = float(sys.argv[2])
SKIP = set(sys.argv[3].split(",")) if len(sys.argv) > 3 else set()
INTS = [
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    16,
    63,
    64,
    65,
    255,
    256,
    1000,
    4096,
    65535,
    65536,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 36) - 1,
    1 << 36,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]
state = {"gen": 1, "sg": 1, "cut": 0}


def val(f, depth):
    t = f.type
    n = f.name
    if n == "worker_generation" or n == "completing_generation":
        if random.random() < 0.75:
            return state["gen"] if n == "worker_generation" else 0
    if n == "server_generation" and random.random() < 0.8:
        return random.choice([0, state["sg"]])
    if n == "protocol_version":
        return 2 if random.random() < 0.97 else 1
    if n == "job_hash":
        return job_hash()
    if n in ("worker_index", "server_index") and random.random() < 0.8:
        return random.choice([0, 0, 1])
    if n in ("cut",) and random.random() < 0.9:
        return random.choice([0, 0, 0, state["cut"], 1, 2, 3])
    if n == "wait_ms":
        return random.choice([0, 1, 5, 50])
    if n == "table" and t != F.TYPE_STRING:
        return random.choice([1, 1, 1, 2, 2, 3, 4, 5, 99])
    if n == "directory":
        return random.choice(["fz_out", "fz_out/x", "", "fz_none/y"])
    if n == "size":
        return random.choice([0, 1, 16, 100, 1000, 100000])
    if n == "block_size":
        return random.choice([0, 1, 16, 4096, 1 << 22, (1 << 32) - 1])
    if n == "memory_budget_bytes":
        return 0
    if n == "sketch_bytes":
        return random.choice([0, 1 << 20])
    if n == "job_id":
        return "default"
    if t in (F.TYPE_UINT32, F.TYPE_FIXED32):
        return (
            random.choice([x for x in INTS if x < 1 << 32])
            if random.random() < 0.6
            else random.randrange(0, 20)
        )
    if t in (F.TYPE_INT32,):
        return random.choice([-1, 0, 1, 5, (1 << 31) - 1, -(1 << 31)])
    if t in (F.TYPE_UINT64, F.TYPE_FIXED64):
        return (
            random.choice(INTS)
            if random.random() < 0.6
            else random.randrange(0, 50)
        )
    if t in (F.TYPE_INT64,):
        return random.choice([-1, 0, 1, (1 << 63) - 1, -(1 << 63)])
    if t in (F.TYPE_FLOAT, F.TYPE_DOUBLE):
        return random.choice(
            [
                0.0,
                1.0,
                -1.0,
                0.5,
                1e-9,
                3e38,
                float("nan"),
                float("inf"),
                -float("inf"),
                0.1,
            ]
        )
    if t == F.TYPE_BOOL:
        return random.random() < 0.5
    if t == F.TYPE_STRING:
        return random.choice(
            [
                "",
                "a",
                "train/0",
                "train/1",
                "test/0",
                "t1",
                "t2",
                "d",
                "x" * 300,
                "train",
                "x\ny",
                "train/4294967295",
                "train/-1",
            ]
        )
    if t == F.TYPE_BYTES:
        return bytes(
            random.randrange(256)
            for _ in range(random.choice([0, 1, 2, 8, 33]))
        )
    if t == F.TYPE_ENUM:
        return random.choice([v.number for v in f.enum_type.values] + [77])


def fill(m, depth=0):
    seen = set()
    for f in m.DESCRIPTOR.fields:
        if (
            f.containing_oneof is not None
            and f.containing_oneof.name
            and not f.containing_oneof.name.startswith("_")
        ):
            if f.containing_oneof in seen:
                continue
            opts = f.containing_oneof.fields
            f = random.choice(opts)
            seen.add(f.containing_oneof)
        p = (
            0.95
            if f.name
            in (
                "header",
                "config",
                "optimizer",
                "sparse",
                "dense",
                "worker_index",
                "worker_generation",
                "message_count",
                "table_message_count",
                "sequence",
                "id",
                "name",
                "mode",
                "cut",
                "phase_name",
                "request",
            )
            else 0.6
        )
        if random.random() > p:
            continue
        try:
            if f.label == F.LABEL_REPEATED:
                k = random.choice([0, 1, 1, 2, 3, 5])
                if (
                    f.message_type is not None
                    and f.message_type.GetOptions().map_entry
                ):
                    continue
                for _ in range(k):
                    if f.type == F.TYPE_MESSAGE:
                        if depth < 5:
                            fill(getattr(m, f.name).add(), depth + 1)
                    else:
                        getattr(m, f.name).append(val(f, depth))
            elif f.type == F.TYPE_MESSAGE:
                if depth < 5:
                    sub = getattr(m, f.name)
                    sub.SetInParent()
                    fill(sub, depth + 1)
            else:
                setattr(m, f.name, val(f, depth))
        except (ValueError, TypeError):
            pass
    if type(m).__name__ == "RequestHeader" and random.random() < 0.85:
        m.message_count = random.choice([1, 2])
        m.table_message_count = 1
        m.message_index = 0
        m.sequence = random.randrange(1, 80)
        m.server_generation = 0
        m.job_hash = job_hash()
        m.protocol_version = PROTOCOL
        m.routing_generation = 1
        m.completing_generation = random.choice([0, 0, 0, state["gen"]])
        m.oldest_unanswered = (
            0 if m.completing_generation else max(1, m.sequence - 20)
        )
    return m


def valid_groups(m):
    if (
        hasattr(m, "keys")
        and hasattr(m, "group_sizes")
        and random.random() < 0.8
    ):
        ks = [
            random.choice(INTS + list(range(50)))
            for _ in range(random.choice([0, 1, 3, 8]))
        ]
        g = groups(ks, 2)
        del m.keys[:]
        del m.partitions[:]
        del m.group_sizes[:]
        for p in sorted(g):
            m.partitions.append(p)
            m.group_sizes.append(len(g[p]))
            m.keys.extend(g[p])
        if hasattr(m, "values"):
            dim = {1: 4, 2: 3, 4: 2}.get(m.table, 4)
            m.format = 0
            m.values16 = b""
            del m.values[:]
            m.values.extend(
                [random.choice([1.0, 0.0, float("nan")])] * (dim * len(m.keys))
            )
            del m.shows[:]
            del m.clicks[:]
            del m.counts[:]
            if m.table == 2:
                m.shows.extend([1.0] * len(m.keys))
    if hasattr(m, "blocks") and random.random() < 0.8:
        del m.blocks[:]
        b = sorted(random.sample(range(8), random.choice([0, 1, 2, 7])))
        m.blocks.extend(b)
        if hasattr(m, "known_versions"):
            del m.known_versions[:]
            m.known_versions.extend([random.choice(INTS) for _ in b])
        if hasattr(m, "values"):
            m.format = 0
            m.values16 = b""
            del m.values[:]
            m.values.extend([1.0] * sum(16 if x < 6 else 4 for x in b))
    return m


METHODS = [
    (control_service(n), n, getattr(A, r))
    for n, r in [
        (x, x + "Request")
        for x in "Connect RegisterWorker Heartbeat FinishWorker ServerHeartbeat CreateTable Barrier DefinePhase LeaseRanges GetHotKeys ListChanges Evict MarkCut StepClock Checkpoint ReportEvaluation StopTraining BeginEpoch RecordFile ListFiles".split()
    ]
    if hasattr(A, r)
] + [
    ("ServerAdminService", "SetRoundMembership", A.RoundMembershipRequest),
    ("CoordinatorService", "GetJobStatus", A.JobStatusRequest),
    ("ServerAdminService", "GetServerStatus", A.ServerStatusRequest),
    ("ServerAdminService", "GetHotKeys", A.HotKeysRequest),
]
METHODS += [
    ("ParameterService", n, getattr(P, n + "Request"))
    for n in ("PullSparse", "PushSparse", "PullDense", "PushDense")
] * 4
METHODS += [
    ("CheckpointService", n, getattr(C, n + "Request"))
    for n in ("OpenCut", "FreezeCut", "SaveCut", "CloseCut")
]
METHODS = [m for m in METHODS if m[1] not in SKIP]
s = None
n = 0
t0 = time.time()
crashes = {}
ends = {}
starts = 0


def start():
    global s, chs, starts
    starts += 1
    shutil.rmtree("ckf", ignore_errors=True)
    shutil.rmtree("fz_out", ignore_errors=True)
    os.makedirs("fz_out")
    port = free_port()
    open("fuzz_srv.log", "w").close()
    s = server(
        [port],
        log="fuzz_srv.log",
        trainers=2,
        extra=[
            "--checkpoint_dir",
            "ckf",
            "--checkpoint_interval_s",
            "0",
            "--durability",
            "log",
            "--lease_s",
            "3600",
            "--num_partitions",
            "4",
        ],
        pre=["prlimit", "--as=%d" % (200 << 30)],
    )
    ep = "127.0.0.1:%d" % port
    chs = [chan(ep) for _ in range(2)]
    r = connect(chs[0])
    state["sg"] = r.server_generation
    for cfg in (
        sparse(1, "t1", 4),
        sparse(2, "t2", 3, accessor=T.CTR, opt="adagrad"),
        dense(3, "d", 100, 16),
    ):
        call(chs[0], "CreateTable", A.CreateTableRequest(config=cfg))
    x = sparse(4, "s4", 2, mode=T.SYNC)
    call(chs[0], "CreateTable", A.CreateTableRequest(config=x))
    x = dense(5, "q", 100, 16)
    x.dense.quorum = 0.5
    call(chs[0], "CreateTable", A.CreateTableRequest(config=x))
    state["gen"] = call(
        chs[0], "RegisterWorker", A.RegisterWorkerRequest(worker_index=0)
    ).worker_generation


start()
hist = []
try:
    while time.time() - t0 < SEC:
        svc, name, cls = random.choice(METHODS)
        m = valid_groups(fill(cls()))
        raw = m.SerializeToString()
        if random.random() < 0.15 and raw:
            b = bytearray(raw)
            for _ in range(random.choice([1, 1, 3])):
                b[random.randrange(len(b))] = random.randrange(256)
            raw = bytes(b)
        if name == "FinishWorker" and random.random() < 0.9:
            continue
        if name in ("RegisterWorker",) and random.random() < 0.7:
            continue
        hist.append((name, str(m)[:1500]))
        hist[:] = hist[-6:]
        n += 1
        try:
            chs[n % 2].unary_unary("/oarlock.v1.%s/%s" % (svc, name))(
                raw, timeout=2 if svc.endswith(("AdminService", "CoordinatorService")) else 0.6
            )
        except grpc.RpcError as e:
            pass
        if name == "RegisterWorker":
            try:
                state["gen"] = call(
                    chs[0],
                    "RegisterWorker",
                    A.RegisterWorkerRequest(worker_index=0),
                ).worker_generation
            except grpc.RpcError:
                pass
        if s.poll() is not None:
            log = open("fuzz_srv.log").read()
            key = [
                l
                for l in log.splitlines()
                if "invariant" in l
                or "terminate" in l
                or "Assert" in l
                or "what()" in l
            ]
            k = (s.returncode, " | ".join(key[:2]) if key else log[-200:])
            if k not in crashes:
                crashes[k] = [0, list(hist)]
            crashes[k][0] += 1
            start()
            hist = []
        elif n % 400 == 0:
            # a wedged or finished server is started anew
            try:
                call(
                    chs[0], "PullSparse", pull_sparse(1, [1], bits=2), timeout=5
                )
            except grpc.RpcError as e:
                try:
                    s.wait(12)
                except subprocess.TimeoutExpired:
                    pass
                lg = open("fuzz_srv.log").read()
                k2 = (
                    s.returncode,
                    (
                        e.code().name
                        + " "
                        + [
                            l
                            for l in lg.splitlines()
                            if " E " in l
                            or "oarlock server:" in l
                            or "invariant" in l
                            or "terminate" in l
                            or "Assert" in l
                        ][-1:].__str__()
                    )[:330],
                )
                ends[k2] = ends.get(k2, 0) + 1
                s.kill()
                s.wait()
                start()
            else:
                if n % 4000 == 0:
                    s.kill()
                    s.wait()
                    start()
finally:
    s.kill()
    s.wait()
print("calls", n, "starts", starts, "kinds of end", len(crashes))
for k, v in ends.items():
    print("  end", v, "x", k)
for k, v in crashes.items():
    print("=====", v[0], "x", k)
    if k[0] < 0:
        for h in v[1][-3:]:
            print("   ", h[0], h[1][:700].replace("\n", " "))
