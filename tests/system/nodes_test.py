"""Several nodes for real: network namespaces, one launcher on each.

The commands are those of Paddle's documents; what stands for
`python -m paddle.distributed.launch` there is `oarlock launch` here, and the
programs are OARLOCK_MNIST, OARLOCK_CIFAR10 and OARLOCK_RESNET
(examples/*/train), told to run for a short time. Skipped where namespaces
cannot be made.
"""

import os
import re
import shlex
import signal
import subprocess
import time
import unittest

import harness

# Of every node: 192.168.0.x as in the MNIST and PaddleClas documents, and
# 192.168.1.x as in the CIFAR-10 document, whose nodes are .2 and .3.
NODES = [["192.168.0.1", "192.168.1.2"], ["192.168.0.2", "192.168.1.3"],
         ["192.168.0.3", "192.168.1.4"]]
IPS = [addresses[0] for addresses in NODES]
# A short run, and one that is still under way when it is disturbed.
SHORT = ("--synthetic --epochs 1 --batch_size 64 --num_workers 1 "
         "--math_threads 1")
RESNET_CONFIG = """
depth: 18 image_size: 8 synthetic: true synthetic_images: 64 epochs: 1
batch_size: 4 math_threads: 1
"""
LONG = ("--synthetic --epochs 1000 --num_workers 1 --math_threads 1 "
        "--print_steps 5")
# From the cut of a cable to the line that names the node, and to the end of
# all its processes.
NAMED_DEADLINE_S = 60
CUT_OFF = r"(rank|node) 1 \(192\.168\.0\.2(:\d+)?\) sent no heartbeat"
UNREACHABLE = r"(rank|node) 0 \(192\.168\.0\.1:\d+\) sent no heartbeat"


def ip(*words, batch=None):
    """Runs iproute2; its error, or an empty string."""
    done = subprocess.run(["ip", *words], input=batch, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          timeout=60, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip() or "failed")


class Network:
    """Namespaces whose eth0 are cables to a switch, itself a namespace."""

    def __init__(self):
        prefix = f"oarlock-nodes-{os.getpid()}-"
        self.switch = prefix + "switch"
        self.nodes = [f"{prefix}{i}" for i in range(len(NODES))]

    def make(self):
        """The first error, or an empty string."""
        for name in [self.switch, *self.nodes]:
            error = ip("netns", "add", name)
            if error:
                return error
        lines = ["link add bridge type bridge", "link set bridge up"]
        for i, node in enumerate(self.nodes):
            lines += [f"link add port{i} type veth peer name eth0 netns {node}",
                      f"link set port{i} master bridge up"]
        error = ip("-n", self.switch, "-batch", "-", batch="\n".join(lines))
        for node, addresses in zip(self.nodes, NODES):
            lines = ["link set lo up", "link set eth0 up"]
            lines += [f"addr add {a}/24 dev eth0" for a in addresses]
            error = error or ip("-n", node, "-batch", "-",
                                batch="\n".join(lines))
        return error

    def remove(self):
        for name in [*self.nodes, self.switch]:
            ip("netns", "del", name)

    def pull_cable(self, node):
        """The node's own link goes down, too."""
        ip("-n", self.switch, "link", "set", f"port{node}", "down")

    def drop_all(self, node):
        """Nobody sees a link go down; what is sent is lost."""
        ip("-n", self.switch, "link", "set", f"port{node}", "nomaster")

    def mend(self):
        for i in range(len(self.nodes)):
            ip("-n", self.switch, "link", "set", f"port{i}", "master",
               "bridge", "up")


@unittest.skipUnless(os.path.exists("/proc/self/ns/net"), "no namespaces")
class NodesTest(harness.SystemTest):

    @classmethod
    def setUpClass(cls):
        cls.network = Network()
        cls.addClassCleanup(cls.network.remove)
        try:
            error = cls.network.make()
        except FileNotFoundError as failure:
            error = str(failure)
        if error:
            raise unittest.SkipTest(
                f"network namespaces cannot be made here: {error}")

    def setUp(self):
        # Cleanups run in reverse: processes end before the network is whole.
        self.addCleanup(self.network.mend)
        super().setUp()
        self.started = {}

    def launch(self, node, command, **variables):
        """A shell's command line on a node, in a folder of its own."""
        folder = self.path(f"node{node}")
        os.makedirs(folder, exist_ok=True)
        command = re.sub(r"python3? -m paddle\.distributed\.launch",
                         shlex.quote(harness.oarlock()) + " launch", command)
        environment = self.environment(OARLOCK_INSECURE="1", **variables)
        process = harness.Process(
            ["ip", "netns", "exec", self.network.nodes[node], "sh", "-c",
             command], environment, folder, f"started{len(self.processes)}")
        self.processes.append(process)
        self.started[node] = process
        return process

    def log(self, node, rank, log_dir="logs"):
        return self.path(f"node{node}", log_dir, f"workerlog.{rank}")

    def mnist(self):
        return shlex.quote(harness.program("OARLOCK_MNIST"))

    def cifar10(self):
        return shlex.quote(harness.program("OARLOCK_CIFAR10"))

    def await_all(self):
        for process in self.started.values():
            self.await_success(process)
        self.assert_nothing_runs()

    def assert_ranks(self, ranks):
        summary = self.summary("node0/logs")
        self.assertEqual(summary["ranks"], ranks)
        self.assertGreater(summary["images_per_second"], 0)

    # -- the documents' commands --------------------------------------------

    def test_the_mnist_document(self):
        for node in range(2):
            self.launch(node, f"""
                current_node_ip={IPS[node]}
                cluster_node_ips=192.168.0.1,192.168.0.2

                CUDA_VISIBLE_DEVICES=0,1 \
                python -m paddle.distributed.launch \
                --selected_gpus=0,1 \
                --log_dir=mylog \
                --cluster_node_ips=$cluster_node_ips \
                --node_ip=$current_node_ip \
                {self.mnist()} --distributed {SHORT}""")
        self.await_all()
        self.assert_ranks(4)
        # Trainer 0 is the first device of the first node.
        for rank in range(4):
            self.assertTrue(os.path.exists(self.log(rank // 2, rank, "mylog")))

    def test_the_cifar10_document(self):
        for node in range(2):
            self.launch(node, f"""python -m paddle.distributed.launch \
                --cluster_node_ips=192.168.1.2,192.168.1.3 \
                --node_ip={NODES[node][1]} \
                --started_port=6170 \
                --selected_gpus=0,1,2,3 \
                {self.cifar10()} {SHORT}""")
        self.await_all()
        self.assert_ranks(8)

    def test_the_paddleclas_document(self):
        config = "ppcls/configs/ImageNet/ResNet/ResNet50.yaml"
        for node in range(2):
            path = self.path(f"node{node}", config)
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="utf-8") as file:
                file.write(RESNET_CONFIG)
        # No node is told which it is.
        for node in range(2):
            self.launch(node, f"""
                ip_list="192.168.0.1,192.168.0.2"
                python3 -m paddle.distributed.launch \
                --log_dir=./log/ \
                --ips="${{ip_list}}" \
                --gpus="0,1,2,3" \
                {shlex.quote(harness.program("OARLOCK_RESNET"))} \
                -c ./{config}""", FLAGS_START_PORT="17000")
        self.await_all()
        self.assert_ranks(8)
        endpoints = ",".join(f"{ip}:{port}" for ip in IPS[:2]
                             for port in range(17000, 17004))
        for rank in range(8):
            self.assertIn(
                f"PADDLE_TRAINER_ENDPOINTS={endpoints}, "
                f"PADDLE_TRAINER_ID={rank}\n",
                harness.read_text(self.log(rank // 4, rank, "log")))

    def test_the_fluid_manual_collective(self):
        for node in range(2):
            self.launch(node, f"{self.mnist()} {SHORT}",
                        PADDLE_TRAINER_IPS=",".join(IPS[:2]),
                        PADDLE_TRAINER_ID=str(node),
                        PADDLE_PSERVER_PORT="6174",
                        PADDLE_CURRENT_IP=IPS[node])
        self.await_all()
        self.assert_ranks(2)

    def test_the_fluid_manual_with_servers(self):
        roles = [("PSERVER", 0), ("PSERVER", 1), ("TRAINER", 0), ("TRAINER", 1)]
        for role, node in roles:
            process = self.launch(
                node, f"{self.mnist()} {SHORT}", PADDLE_TRAINING_ROLE=role,
                PADDLE_PSERVER_PORT="6174",
                PADDLE_PSERVER_IPS=",".join(IPS[:2]), PADDLE_TRAINERS="2",
                PADDLE_CURRENT_IP=IPS[node], PADDLE_TRAINER_ID=str(node))
            self.started[(role, node)] = process
        self.await_all()
        self.assert_ranks(2)

    # -- rendezvous at --master -----------------------------------------------

    def master(self, node, *flags, nnodes=2):
        return self.launch(node, " ".join([
            "python -m paddle.distributed.launch "
            f"--master=192.168.0.1:38714 --nnodes={nnodes}", *flags]))

    def test_a_rendezvous_names_nodes_that_do_not_come(self):
        for node in range(2):
            self.master(node, "--nproc_per_node 1 --rendezvous_timeout_s 2",
                        self.mnist(), SHORT, nnodes=3)
        for node in range(2):
            process = self.started[node]
            self.assertEqual(self.await_end(process), 1, self.report())
            self.assertRegex(process.stderr,
                             r"node 2 did not come to 192\.168\.0\.1:38714 "
                             r"within 2s")
        self.assert_nothing_runs()

    def test_nodes_that_meet_start_again_together_from_their_checkpoint(self):
        for node in range(2):
            self.master(
                node, "--nproc_per_node 1 --max_restart 1", self.mnist(), SHORT,
                "--epochs 2 --batch_size 16 --print_steps 5 --checkpoint_dir",
                self.path("checkpoint"))
        self.await_text(self.log(0, 0), r"epoch 2 step 5 ")
        pid = self.pid_of_rank(1)
        os.kill(pid, signal.SIGKILL)
        self.await_all()
        self.assert_ranks(2)
        self.assertRegex(harness.read_text(self.log(0, 0)),
                         r"goes on from .* after 1 epoch")
        self.assertRegex(
            self.started[1].stderr,
            rf"worker 1 \(pid {pid}\) ended with signal 9")
        for node in range(2):
            self.assertRegex(self.started[node].stderr,
                             r"node [01] \(192\.168\.0\.[12]\).*worker [01] .*"
                             r"all processes of all nodes are started again")

    def test_named_nodes_start_again_without_a_rendezvous(self):
        for node in range(2):
            self.launch(node, f"""python -m paddle.distributed.launch \
                --ips=192.168.0.1,192.168.0.2 --gpus 0 --max_restart 1 \
                {self.mnist()} {SHORT} --epochs 2 --batch_size 16 \
                --print_steps 5 --checkpoint_dir {self.path("checkpoint")}""")
        self.await_text(self.log(0, 0), r"epoch 2 step 5 ")
        os.kill(self.pid_of_rank(1), signal.SIGKILL)
        self.await_all()
        self.assert_ranks(2)
        self.assertRegex(harness.read_text(self.log(0, 0)),
                         r"goes on from .* after 1 epoch")

    # -- a node that is cut off -----------------------------------------------

    def assert_cut_off_is_named(self, cut):
        """Cuts node 1 of three off, whose processes all print steps."""
        self.await_text(self.log(0, 0), r"epoch \d+ step 5 ")
        end = time.monotonic() + NAMED_DEADLINE_S
        cut(1)
        # By the rank, or by the launcher if that one hears of it first; who is
        # cut off says the same of node 0.
        for node, name in ((0, CUT_OFF), (2, CUT_OFF), (1, UNREACHABLE)):
            self.await_true(
                lambda node=node, name=name: re.search(
                    name, harness.read_text(self.log(node, node)) +
                    self.started[node].stderr),
                end - time.monotonic(), f"{name!r} on node {node}")
        for process in self.started.values():
            self.assertNotEqual(
                self.await_end(process, harness.FAILURE_DEADLINE_S), 0)
        self.assert_nothing_runs()

    def test_a_node_whose_cable_is_pulled_is_named(self):
        for node in range(3):
            self.launch(node, f"""python -m paddle.distributed.launch \
                --ips={",".join(IPS)} --gpus 0 {self.mnist()} {LONG}""")
        self.assert_cut_off_is_named(self.network.pull_cable)

    def test_a_node_that_vanishes_is_named_by_the_launchers(self):
        # Before the ranks notice.
        for node in range(3):
            self.master(node, f"--nproc_per_node 1 --rank {node} "
                        "--heartbeat_timeout_s 3",
                        self.mnist(), LONG, "--lease_s 60", nnodes=3)
        self.assert_cut_off_is_named(self.network.drop_all)
        self.assertRegex(self.started[0].stderr, CUT_OFF)

    def test_a_node_that_is_cut_off_at_the_start_is_named(self):
        # The third node never comes: the others wait.
        for node in range(2):
            self.launch(node, f"""python -m paddle.distributed.launch \
                --ips={",".join(IPS)} --gpus 0 {self.mnist()} {LONG} \
                --connect_timeout_s 20 --lease_s 2""")
        # What rank 1 knows from rank 0, which has it in its rendezvous then.
        self.await_text(self.log(1, 1), r"still waiting: rank 2 \(",
                        NAMED_DEADLINE_S)
        self.network.pull_cable(1)
        self.await_text(self.log(0, 0), CUT_OFF, NAMED_DEADLINE_S)
        for process in self.started.values():
            self.assertNotEqual(
                self.await_end(process, harness.FAILURE_DEADLINE_S), 0)
        self.assertRegex(
            harness.read_text(self.log(0, 0)),
            r"rank 1 \(\S+\), rank 2 \(\S+\) did not come to rank 0")
        self.assert_nothing_runs()

    def pid_of_rank(self, rank):
        wanted = f"PADDLE_GLOBAL_RANK={rank}"
        for pid in self.marked_pids():
            with open(f"/proc/{pid}/environ", "rb") as file:
                entries = file.read().decode(errors="replace").split("\0")
            if wanted in entries:
                return pid
        return self.fail(f"rank {rank} does not run\n{self.report()}")


if __name__ == "__main__":
    unittest.main()
