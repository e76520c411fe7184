"""A parameter client made from the .proto files and docs/wire_protocol.md.

Shares no code with Oarlock; a pause is that of its tests. Wants the folder with
protoc's output on the path. One thread at a time; small rather than fast.
"""

import struct
import time

import grpc
import harness
import xxhash
from proto.v1 import coordinator_service_pb2, coordinator_service_pb2_grpc
from proto.v1 import parameter_pb2, parameter_pb2_grpc
from proto.v1 import server_admin_service_pb2, server_admin_service_pb2_grpc

PROTOCOL_VERSION = 2
CALL_TIMEOUT_S = 10
CONNECT_TIMEOUT_S = 20
# Section 6: the same call again, a moment later.
RETRIED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED,
           grpc.StatusCode.DEADLINE_EXCEEDED}
RETRY_DEADLINE_S = 60

_M = (1 << 64) - 1


def mix(key):
    z = (key + 0x9E3779B97F4A7C15) & _M
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _M
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _M
    return z ^ (z >> 31)


def feature_hash(text, slot, feature_dim):
    value = xxhash.xxh64_intdigest(text.encode(), seed=slot)
    return value % feature_dim if feature_dim else value


def encode_values(message, values, value_format):
    message.format = value_format
    if value_format == parameter_pb2.FLOAT32:
        message.values.extend(values)
    elif value_format == parameter_pb2.FLOAT16:
        message.values16 = struct.pack(f"<{len(values)}e", *values)
    else:  # The upper halves; rounds toward zero.
        wide = struct.pack(f"<{len(values)}f", *values)
        message.values16 = b"".join(
            wide[i + 2:i + 4] for i in range(0, len(wide), 4))


def decode_values(message):
    if message.format == parameter_pb2.FLOAT32:
        return list(message.values)
    count = len(message.values16) // 2
    if message.format == parameter_pb2.FLOAT16:
        return list(struct.unpack(f"<{count}e", message.values16))
    halves = struct.unpack(f"<{count}H", message.values16)
    return list(struct.unpack(f"<{count}f",
                              struct.pack(f"<{count}I",
                                          *(h << 16 for h in halves))))


class _Server:

    def __init__(self, endpoint, job_id):
        self.channel = grpc.insecure_channel(
            endpoint, [("grpc.enable_http_proxy", 0),
                       ("grpc.max_receive_message_length", 64 << 20)])
        self.admin = server_admin_service_pb2_grpc.ServerAdminServiceStub(
            self.channel)
        self.parameters = parameter_pb2_grpc.ParameterServiceStub(self.channel)
        self.connected = self.admin.Connect(
            server_admin_service_pb2.ConnectRequest(
                protocol_version=PROTOCOL_VERSION, job_id=job_id,
                client="python"),
            timeout=CONNECT_TIMEOUT_S, wait_for_ready=True)


class Client:
    """Worker 0 of a job of one worker, or somebody who only reads."""

    def __init__(self, endpoints, job_id="default", reads_only=False):
        self._job_hash = xxhash.xxh64_intdigest(job_id.encode())
        self._servers = [_Server(e, job_id) for e in endpoints]
        self._map = self._servers[0].connected.partition_map
        self._bits = self._map.num_partitions.bit_length() - 1
        self._tables = {}
        self._sequence = 0
        self._generation = 0
        self._heartbeat_s = float("inf")
        self._last_heartbeat = time.monotonic()
        if reads_only:
            return
        registered = self._coordinator.RegisterWorker(
            coordinator_service_pb2.RegisterWorkerRequest(
                worker_index=0, host="python",
                protocol_version=PROTOCOL_VERSION),
            timeout=CALL_TIMEOUT_S)
        self._generation = registered.worker_generation
        self._heartbeat_s = registered.lease_ms / 3000

    def create_table(self, config):
        for server in self._servers:
            server.admin.CreateTable(
                server_admin_service_pb2.CreateTableRequest(config=config),
                timeout=CALL_TIMEOUT_S)
        self._tables[config.id] = config

    def finish(self):
        self._coordinator.FinishWorker(
            coordinator_service_pb2.FinishWorkerRequest(
                worker_index=0, worker_generation=self._generation,
                succeeded=True), timeout=CALL_TIMEOUT_S)
        # The coordinator need not stay for a repetition.
        self._coordinator.Heartbeat(
            coordinator_service_pb2.HeartbeatRequest(
                worker_index=0, worker_generation=self._generation),
            timeout=CALL_TIMEOUT_S)

    def pull_sparse(self, table, keys, value_format=parameter_pb2.FLOAT32):
        """The rows: from key to list of floats."""
        rows = {}
        for index, groups in self._split_keys(keys).items():
            request = parameter_pb2.PullSparseRequest(
                header=self._header(index), table=table, format=value_format)
            self._add_groups(request, groups)
            response = self._call(
                self._servers[index].parameters.PullSparse, request)
            values = decode_values(response)
            for i, key in enumerate(request.keys):
                rows[key] = values[i * response.dim:(i + 1) * response.dim]
        return rows

    def pull_statistics(self, table, keys):
        """From key to its show and click."""
        statistics = {}
        for index, groups in self._split_keys(keys).items():
            request = parameter_pb2.PullSparseRequest(
                header=self._header(index), table=table, with_statistics=True)
            self._add_groups(request, groups)
            response = self._call(
                self._servers[index].parameters.PullSparse, request)
            for key, show, click in zip(request.keys, response.shows,
                                        response.clicks, strict=True):
                statistics[key] = (show, click)
        return statistics

    def pull_dense(self, table, value_format=parameter_pb2.FLOAT32):
        vector = [None] * self._tables[table].dense.size
        for index, blocks in self._split_blocks(table).items():
            request = parameter_pb2.PullDenseRequest(
                header=self._header(index), table=table, blocks=blocks,
                known_versions=[0] * len(blocks), format=value_format)
            self._place_blocks(table, vector, self._call(
                self._servers[index].parameters.PullDense, request))
        return vector

    def push(self, sparse, dense, value_format=parameter_pb2.FLOAT32,
             times=1):
        """One push of gradients.

        sparse: from table to {key: gradient}; dense: from table to gradients
        of the whole vector. Each message is sent `times` times.

        Returns the dense tables as they are afterwards, and how many groups
        the servers had already.
        """
        messages = []  # (server index, table, method, request)
        for table, gradients in sparse.items():
            for index, groups in self._split_keys(gradients).items():
                request = parameter_pb2.PushSparseRequest(table=table)
                self._add_groups(request, groups)
                encode_values(
                    request,
                    [x for key in request.keys for x in gradients[key]],
                    value_format)
                messages.append((index, table, "PushSparse", request))
        for table, gradients in dense.items():
            for index, blocks in self._split_blocks(table).items():
                request = parameter_pb2.PushDenseRequest(
                    table=table, blocks=blocks, num_steps=1, with_values=True)
                encode_values(
                    request,
                    [x for block in blocks
                     for x in gradients[self._block_slice(table, block)]],
                    value_format)
                messages.append((index, table, "PushDense", request))
        self._sequence += 1
        updated = {table: [None] * self._tables[table].dense.size
                   for table in dense}
        duplicates = 0
        for number, (index, table, method, request) in enumerate(messages):
            request.header.CopyFrom(self._header(index))
            request.header.sequence = self._sequence
            # Each push is answered before the next one begins.
            request.header.oldest_unanswered = self._sequence
            request.header.message_index = number
            request.header.message_count = len(messages)
            request.header.table_message_count = sum(
                m[:2] == (index, table) for m in messages)
            for _ in range(times):
                response = self._call(
                    getattr(self._servers[index].parameters, method), request)
                duplicates += response.duplicate_groups
            if table in updated:
                self._place_blocks(table, updated[table], response)
        return updated, duplicates

    def num_groups(self, table, keys):
        return sum(map(len, self._split_keys(keys).values()))

    @property
    def _coordinator(self):
        return coordinator_service_pb2_grpc.CoordinatorServiceStub(
            self._servers[0].channel)

    def _call(self, method, request):
        if time.monotonic() - self._last_heartbeat > self._heartbeat_s:
            self._last_heartbeat = time.monotonic()
            self._coordinator.Heartbeat(
                coordinator_service_pb2.HeartbeatRequest(
                    worker_index=0, worker_generation=self._generation),
                timeout=CALL_TIMEOUT_S)
        errors = []

        def attempt():
            try:
                return method(request, timeout=CALL_TIMEOUT_S)
            except grpc.RpcError as error:
                if error.code() not in RETRIED:
                    raise
                errors.append(error)
                return None

        answered = harness.eventually(attempt, RETRY_DEADLINE_S)
        if answered is None:
            raise errors[-1]
        return answered

    def _header(self, index):
        return parameter_pb2.RequestHeader(
            protocol_version=PROTOCOL_VERSION, job_hash=self._job_hash,
            routing_generation=self._map.generation,
            server_generation=self._servers[index].connected.server_generation,
            worker_index=0, worker_generation=self._generation)

    def _split_keys(self, keys):
        """From server to {partition: keys}."""
        servers = {}
        for key in keys:
            partition = mix(key) >> (64 - self._bits)
            servers.setdefault(self._map.owners[partition], {}).setdefault(
                partition, []).append(key)
        return servers

    @staticmethod
    def _add_groups(request, groups):
        for partition in sorted(groups):
            request.partitions.append(partition)
            request.group_sizes.append(len(groups[partition]))
            request.keys.extend(groups[partition])

    def _split_blocks(self, table):
        """From server to its blocks, ascending."""
        dense = self._tables[table].dense
        count = -(-dense.size // dense.block_size)
        servers = {}
        for block in range(count):
            partition = block * self._map.num_partitions // count
            servers.setdefault(self._map.owners[partition], []).append(block)
        return servers

    def _block_slice(self, table, block):
        dense = self._tables[table].dense
        begin = block * dense.block_size
        return slice(begin, min(begin + dense.block_size, dense.size))

    def _place_blocks(self, table, vector, response):
        values = decode_values(response)
        for block in response.blocks:
            place = self._block_slice(table, block)
            size = place.stop - place.start
            vector[place] = values[:size]
            values = values[size:]
