"""Steps of a client of grpcio and generated stubs, as client_steps.cc has them.

    stub_steps.py STUBS SERVER TOKEN_FILE RANK WORLD TABLE

SERVER is the only one. STUBS: the folder with protoc's output.
"""

import statistics
import sys
import time

sys.path.insert(0, sys.argv[1])

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import xxhash  # noqa: E402
from proto.v1 import coordinator_service_pb2 as coordinator  # noqa: E402
from proto.v1 import coordinator_service_pb2_grpc  # noqa: E402
from proto.v1 import parameter_pb2 as parameter  # noqa: E402
from proto.v1 import parameter_pb2_grpc  # noqa: E402
from proto.v1 import server_admin_service_pb2 as admin  # noqa: E402
from proto.v1 import server_admin_service_pb2_grpc  # noqa: E402

KEYS, DIM, BATCHES = 13312, 16, 20


def mix(x):
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        return z ^ (z >> np.uint64(31))


def main():
    _, _, server, token_file, rank, world, name = sys.argv
    with open(token_file, encoding="ascii") as file:
        metadata = [("oarlock-token", file.read().strip())]
    channel = grpc.insecure_channel(server, [("grpc.enable_http_proxy", 0)])
    call = {"metadata": metadata, "timeout": 60}
    admin_stub = server_admin_service_pb2_grpc.ServerAdminServiceStub(channel)
    job = coordinator_service_pb2_grpc.CoordinatorServiceStub(channel)
    rows_stub = parameter_pb2_grpc.ParameterServiceStub(channel)
    connected = admin_stub.Connect(
        admin.ConnectRequest(protocol_version=2, job_id="default"), **call)
    bits = np.uint64(64 - connected.partition_map.num_partitions.bit_length() + 1)
    registered = job.RegisterWorker(coordinator.RegisterWorkerRequest(
        worker_index=int(rank), min_workers=int(world), max_workers=int(world),
        protocol_version=2, registration_id=1), **call)
    tables = admin_stub.GetServerStatus(admin.ServerStatusRequest(), **call).tables
    table = next(t.config.id for t in tables if t.config.name == name)
    header = parameter.RequestHeader(
        protocol_version=2, job_hash=xxhash.xxh64_intdigest(b"default"),
        routing_generation=connected.partition_map.generation,
        worker_index=int(rank),
        worker_generation=registered.worker_generation)
    gradients = np.full(KEYS * DIM, 1e-3, np.float32)
    batches = [mix(np.arange(KEYS, dtype=np.uint64) + np.uint64(i * KEYS))
               >> np.uint64(24) for i in range(BATCHES)]
    step, sequence = 0, 0
    for line in sys.stdin:
        pulls, pushes = [], []
        for _ in range(int(line)):
            keys = batches[step % BATCHES]
            step += 1
            begin = time.perf_counter()
            distinct = np.unique(keys)
            partition = mix(distinct) >> bits
            order = np.argsort(partition, kind="stable")
            distinct, partition = distinct[order], partition[order]
            groups, sizes = np.unique(partition, return_counts=True)
            response = rows_stub.PullSparse(parameter.PullSparseRequest(
                header=header, table=table, partitions=groups.tolist(),
                group_sizes=sizes.tolist(), keys=distinct.tolist()), **call)
            np.array(response.values, np.float32)
            pulled = time.perf_counter()
            sequence += 1
            header.sequence = header.oldest_unanswered = sequence
            header.message_count = header.table_message_count = 1
            rows_stub.PushSparse(parameter.PushSparseRequest(
                header=header, table=table, partitions=groups.tolist(),
                group_sizes=sizes.tolist(), keys=distinct.tolist(),
                values=gradients[:distinct.size * DIM].tolist()), **call)
            header.ClearField("sequence")
            header.ClearField("oldest_unanswered")
            header.ClearField("message_count")
            header.ClearField("table_message_count")
            pushed = time.perf_counter()
            pulls.append((pulled - begin) * 1e6)
            pushes.append((pushed - pulled) * 1e6)
        job.Heartbeat(coordinator.HeartbeatRequest(
            worker_index=int(rank),
            worker_generation=registered.worker_generation), **call)
        print(f"{statistics.median(pulls):.1f} {statistics.median(pushes):.1f}",
              flush=True)


main()
