"""A peer of protocol version 1 gets one line, whichever call it makes first.

The client and the server of version 1 are made from tests/golden/wire_v1.
"""

import concurrent.futures
import functools
import importlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import grpc
import harness
import xxhash

ROOT = pathlib.Path(__file__).parents[2]
OLD = ROOT / "tests" / "golden" / "wire_v1"

CONTROL = ("the client speaks protocol version 1, this server 2; use servers "
           "and workers of one release")
DATA = ("the request speaks protocol version 1, this server 2; use the same "
        "release on both sides")
NEW_AT_OLD = (
    r"it has no oarlock\.v1\.ServerAdminService/Connect, so it speaks protocol "
    r"version 1 or is no Oarlock server; this program speaks 2; use servers and "
    r"workers of one release")


@functools.lru_cache(maxsize=None)
def modules():
    """protoc's output for version 1, which this process has alone."""
    folder = tempfile.mkdtemp(prefix="oarlock_wire_v1_")
    sys.path.insert(0, folder)
    try:
        plugin = shutil.which("grpc_python_plugin")
        subprocess.run(
            ["protoc", f"--proto_path={OLD}", f"--python_out={folder}",
             f"--plugin=protoc-gen-grpc_python={plugin}",
             f"--grpc_python_out={folder}",
             *(str(path.relative_to(OLD)) for path in OLD.rglob("*.proto"))],
            check=True, timeout=harness.FAILURE_DEADLINE_S)
        return {name: importlib.import_module(f"proto.v1.{name}")
                for name in ("admin_pb2", "admin_pb2_grpc", "parameter_pb2",
                             "parameter_pb2_grpc")}
    finally:
        sys.path.remove(folder)
        shutil.rmtree(folder, ignore_errors=True)


def module(name):
    return modules()[name]


def methods(proto, service):
    """The methods of a service: name, type of the request."""
    descriptor = module(proto).DESCRIPTOR.services_by_name[service]
    return [(method.name, method.input_type._concrete_class)
            for method in descriptor.methods]


class OldWireTest(harness.SystemTest):

    def start_server(self):
        """The endpoint of the only server of a job."""
        port = harness.free_ports(1)[0]
        endpoint = f"127.0.0.1:{port}"
        self.start_train(
            name="server", TRAINING_ROLE="PSERVER",
            PADDLE_PSERVERS_IP_PORT_LIST=endpoint, PADDLE_TRAINERS_NUM="1",
            POD_IP="127.0.0.1", PADDLE_PORT=str(port))
        return endpoint

    def refusal(self, method, request):
        with self.assertRaises(grpc.RpcError) as raised:
            method(request, timeout=harness.FAILURE_DEADLINE_S,
                   wait_for_ready=True)
        return raised.exception.code(), raised.exception.details()

    def test_each_call_of_an_old_client_gets_its_line(self):
        refused = grpc.StatusCode.FAILED_PRECONDITION
        with grpc.insecure_channel(self.start_server(),
                                   [("grpc.enable_http_proxy", 0)]) as channel:
            admin = module("admin_pb2_grpc").AdminServiceStub(channel)
            control = methods("admin_pb2", "AdminService")
            self.assertEqual(len(control), 24)
            for name, request in control:
                with self.subTest(name):
                    self.assertEqual(
                        self.refusal(getattr(admin, name), request()),
                        (refused, CONTROL))
            parameters = module("parameter_pb2_grpc").ParameterServiceStub(
                channel)
            data = methods("parameter_pb2", "ParameterService")
            self.assertEqual(len(data), 5)
            for name, request in data:
                if name == "Batch":
                    continue
                with self.subTest(name):
                    self.assertEqual(
                        self.refusal(getattr(parameters, name),
                                     self.old_request(request)),
                        (refused, DATA))
            with self.subTest("Batch"):
                batch = module("parameter_pb2").BatchRequest()
                batch.calls.add().pull_sparse.CopyFrom(self.old_request(
                    module("parameter_pb2").PullSparseRequest))
                batch.calls.add().push_dense.CopyFrom(self.old_request(
                    module("parameter_pb2").PushDenseRequest))
                response = parameters.Batch(
                    batch, timeout=harness.FAILURE_DEADLINE_S)
                self.assertEqual(
                    [(each.status_code, each.status_message)
                     for each in response.answers],
                    [(refused.value[0], DATA)] * 2)

    @staticmethod
    def old_request(make):
        request = make(table=1)
        header = request.header
        header.protocol_version = 1
        header.job_hash = xxhash.xxh64_intdigest(b"default")
        if make.DESCRIPTOR.name.startswith("Push"):
            header.sequence = header.part_count = header.table_part_count = 1
        return request

    def start_old_server(self):
        """A server of version 1: it has AdminService and nothing of today's."""
        pool = concurrent.futures.ThreadPoolExecutor(max_workers=4)
        self.addCleanup(pool.shutdown)
        server = grpc.server(pool)
        module("admin_pb2_grpc").add_AdminServiceServicer_to_server(
            module("admin_pb2_grpc").AdminServiceServicer(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        return f"127.0.0.1:{port}"

    def test_programs_of_today_refuse_an_old_server_in_one_line(self):
        endpoint = self.start_old_server()
        self.assert_fails(
            self.start(harness.oarlock(), "ctl", "status", "--server", endpoint,
                       name="ctl"),
            f"server {endpoint}: {NEW_AT_OLD}", code=1)
        self.assert_fails(
            self.start_train(
                *harness.data_flags(), name="worker", TRAINING_ROLE="TRAINER",
                PADDLE_PSERVERS_IP_PORT_LIST=endpoint, PADDLE_TRAINERS_NUM="1",
                PADDLE_TRAINER_ID="0"),
            f"server 0 at {endpoint}: {NEW_AT_OLD}", code=1)
        own = f"127.0.0.1:{harness.free_ports(1)[0]}"
        self.assert_fails(
            self.start_train(
                name="server", TRAINING_ROLE="PSERVER",
                PADDLE_PSERVERS_IP_PORT_LIST=f"{endpoint},{own}",
                PADDLE_TRAINERS_NUM="1", POD_IP="127.0.0.1",
                PADDLE_PORT=own.split(":")[1]),
            f"the coordinator at {endpoint} refuses this server: {NEW_AT_OLD}",
            code=1)


if __name__ == "__main__":
    unittest.main()
