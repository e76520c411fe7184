"""The examples with images: the same program alone, as ranks of a collective
job on one node and on two, and with parameter servers.

OARLOCK_MNIST is examples/mnist/train.
"""

import contextlib
import os
import re
import signal
import struct
import unittest
import zlib

import harness

# A step of all workers together has 32 images of the synthetic 2,048.
GLOBAL_BATCH = 32
EPOCHS = 2
FLAGS = ["--synthetic", "--epochs", str(EPOCHS), "--optimizer", "momentum",
         "--learning_rate", "0.02", "--num_workers", "1"]
# Other orders of the same sums, after 128 steps.
LOSS_DISTANCE = .02
LEAST_ACCURACY = .9
# A rank that dies is noticed and named by the others.
DEATH_DEADLINE_S = 60
LONG = ["--synthetic", "--epochs", "1000", "--print_steps", "10"]


def grey_png(side, pixels):
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    rows = b"".join(b"\0" + pixels[i:i + side]
                    for i in range(0, len(pixels), side))
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_idx(folder, prefix, images):
    """`images`: labels and pixels of 28 x 28."""
    with open(f"{folder}/{prefix}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, len(images), 28, 28))
        for _, pixels in images:
            file.write(pixels)
    with open(f"{folder}/{prefix}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, len(images)))
        file.write(bytes(label for label, _ in images))


class ImagesTest(harness.SystemTest):

    def mnist(self):
        return harness.program("OARLOCK_MNIST")

    def launch(self, flags, workers, *program_flags, name=None, log_dir="logs"):
        return self.start(
            harness.oarlock(), "launch", "--log_dir", self.path(log_dir),
            *flags, self.mnist(), *FLAGS, "--batch_size",
            str(GLOBAL_BATCH // workers), "--log_dir", self.path(log_dir),
            *program_flags, name=name)

    def assert_trained(self, summary, ranks):
        self.assertEqual(summary["ranks"], ranks)
        self.assertEqual(summary["batch_size"], GLOBAL_BATCH)
        self.assertEqual(len(summary["epochs"]), EPOCHS)
        self.assertGreater(summary["images_per_second"], 0)
        self.assertGreater(summary["test_accuracy"], LEAST_ACCURACY, summary)

    def alone(self):
        process = self.start(self.mnist(), *FLAGS, "--batch_size",
                             str(GLOBAL_BATCH), "--log_dir",
                             self.path("alone"), name="alone")
        self.await_success(process)
        summary = self.summary("alone")
        self.assert_trained(summary, 1)
        self.assertEqual(summary["group"], "alone")
        return summary

    def assert_same(self, summary, alone):
        self.assertLess(abs(summary["test_loss"] - alone["test_loss"]),
                        LOSS_DISTANCE, (summary, alone))

    def test_ranks_of_one_node_train_what_one_process_trains(self):
        alone = self.alone()
        self.await_success(self.launch(["--nproc_per_node", "2"], 2))
        summary = self.summary()
        self.assert_trained(summary, 2)
        self.assertEqual(summary["group"], "rank 0 of 2, collective")
        self.assert_same(summary, alone)
        self.assert_nothing_runs()

    def test_two_nodes_train_what_one_process_trains(self):
        alone = self.alone()
        nodes = ["127.0.0.1", "127.0.0.2"]
        port = str(harness.free_ports(1, nodes)[0])
        launchers = [
            self.launch(["--cluster_node_ips", ",".join(nodes), "--node_ip",
                         node, "--started_port", port, "--selected_gpus", "0"],
                        2, name=f"node{i}", log_dir=f"logs{i}")
            for i, node in enumerate(nodes)]
        for launcher in launchers:
            self.await_success(launcher)
        summary = self.summary("logs0")
        self.assert_trained(summary, 2)
        self.assert_same(summary, alone)

    def test_workers_with_servers_train_what_one_process_trains(self):
        alone = self.alone()
        self.await_success(self.launch(
            ["--server_num", "2", "--worker_num", "2"], 2))
        summary = self.summary()
        self.assert_trained(summary, 2)
        self.assertEqual(summary["group"],
                         "worker 0 of 2 with 2 parameter servers, sync")
        self.assert_same(summary, alone)
        self.assert_nothing_runs()

    def test_a_rank_that_dies_is_named_and_ends_the_job(self):
        job = self.start(
            harness.oarlock(), "launch", "--log_dir", self.path("logs"),
            "--nproc_per_node", "3", self.mnist(), *LONG, name="job")
        self.await_text(self.path("logs", "workerlog.0"), r"epoch 1 step 10 ")
        os.kill(self.rank_pid(1), signal.SIGKILL)
        self.assertEqual(self.await_end(job, DEATH_DEADLINE_S), 128 + 9)
        self.assertRegex(job.stderr, r"worker 1 \(pid \d+\) ended with signal 9")
        self.assert_nothing_runs()

    def test_a_group_is_started_again_and_goes_on_from_its_checkpoint(self):
        whole = self.path("whole"), self.path("broken")
        for folder in whole:
            job = self.start(
                harness.oarlock(), "launch", "--log_dir", folder,
                "--nproc_per_node", "2", "--max_restart", "1", self.mnist(),
                *FLAGS, "--epochs", "4", "--batch_size", "16", "--log_dir",
                folder, "--checkpoint_dir", folder + "/checkpoint",
                "--print_steps", "10")
            if folder == whole[1]:
                self.await_text(folder + "/workerlog.0", r"epoch 2 step 10 ")
                os.kill(self.rank_pid(1), signal.SIGKILL)
            self.await_success(job)
        self.assertRegex(harness.read_text(whole[1] + "/workerlog.0"),
                         r"goes on from .* after [123] epochs")
        undisturbed, broken = self.summary("whole"), self.summary("broken")
        # The same bits, whatever happened in between.
        self.assertEqual(broken["test_loss"], undisturbed["test_loss"])
        self.assertEqual(broken["test_accuracy"], undisturbed["test_accuracy"])

    def rank_pid(self, rank):
        wanted = {f"PADDLE_TRAINER_ID={rank}", "PADDLE_RANK_IN_NODE=" +
                  str(rank)}
        for pid in self.marked_pids():
            with contextlib.suppress(OSError):  # ended meanwhile
                with open(f"/proc/{pid}/environ", "rb") as file:
                    entries = file.read().decode(errors="replace").split("\0")
                if wanted <= set(entries):
                    return pid
        self.fail(f"rank {rank} does not run\n{self.report()}")

    def test_a_job_with_servers_goes_on_from_their_checkpoint(self):
        flags = ["--epochs", "3", "--optimizer", "adam", "--print_steps", "5"]
        servers = ["--server_num", "2", "--worker_num", "2"]
        self.await_success(self.launch(
            servers, 2, *flags, "--checkpoint_dir", self.path("whole_ckpt"),
            name="whole", log_dir="whole"))
        whole = self.summary("whole")
        folder = self.path("ckpt")
        job = self.launch(servers, 2, *flags, "--checkpoint_dir", folder,
                          name="broken", log_dir="broken")
        # In the middle of the second epoch: one of the servers' own.
        log = self.path("broken", "workerlog.0")
        self.await_text(log, r"epoch 2 step 5 ")
        server = re.search(
            r"listening on (\S+)",
            harness.read_text(self.path("broken", "serverlog.0"))).group(1)
        self.await_success(self.start(
            harness.oarlock(), "ctl", "checkpoint", "--server", server,
            "--log_dir", self.path("broken"), name="ctl"))
        self.kill_all()
        self.await_end(job)
        again = self.launch(servers, 2, *flags, "--checkpoint_dir", folder,
                            name="again", log_dir="again")
        self.await_success(again)
        text = harness.read_text(self.path("again", "workerlog.0"))
        self.assertRegex(text, r"goes on from the servers' checkpoint after "
                         r"[12] epochs")
        self.assertRegex(text, r"goes on after \d+ of 64 updates of train/[12]")
        summary = self.summary("again")
        self.assertLess(len(summary["epochs"]), 3)
        # The same bits, whatever happened in between.
        self.assertEqual(summary["test_loss"], whole["test_loss"])
        self.assertEqual(summary["test_accuracy"], whole["test_accuracy"])
        # What is over is evaluated once more, and nothing is trained.
        self.await_success(self.launch(
            servers, 2, *flags, "--checkpoint_dir", folder, name="over",
            log_dir="over"))
        over = self.summary("over")
        self.assertEqual(over["test_loss"], whole["test_loss"])
        self.assertEqual(over["images_per_second"], 0)
        self.assert_nothing_runs()

    def test_checkpoints_that_the_servers_do_not_make_are_missed_at_once(self):
        endpoints = [f"127.0.0.1:{port}" for port in harness.free_ports(1)]
        self.start(harness.oarlock(), "server", "--pserver_endpoints",
                   endpoints[0], "--current_endpoint", endpoints[0],
                   "--trainers", "1", name="server")
        worker = self.start(
            self.mnist(), *FLAGS, "--role", "TRAINER", "--pserver_endpoints",
            endpoints[0], "--trainers", "1", "--trainer_id", "0",
            "--checkpoint_dir", self.path("ckpt"), name="worker")
        self.assertEqual(self.await_end(worker), 1)
        self.assertRegex(worker.stderr, "the servers of this job make no "
                         "checkpoints; start them with --checkpoint_dir")

    def write_files(self, folder, per_class):
        """Grey PNGs, one a file, and idx files of the same images in parts."""
        images = {"train": [], "test": []}
        for split, pairs in images.items():
            for label in range(10):
                place = self.path(folder, "list", split, str(label))
                os.makedirs(place)
                for i in range(per_class):
                    pixels = bytes((label * 25 + i * 3 + row) % 256
                                   for row in range(28) for _ in range(28))
                    pairs.append((label, pixels))
                    with open(os.path.join(place, f"{i}.png"), "wb") as file:
                        file.write(grey_png(28, pixels))
        place = self.path(folder, "parts")
        os.makedirs(place)
        uneven = len(images["train"]) // 3
        write_idx(place, "train-0", images["train"][:uneven])
        write_idx(place, "train-1", images["train"][uneven:])
        write_idx(place, "t10k", images["test"])
        return self.path(folder, "list"), place

    def division(self, *flags, name):
        job = self.start(
            harness.oarlock(), "launch", "--log_dir", self.path(name),
            "--nproc_per_node", "2", self.mnist(), "--epochs", "2",
            "--batch_size", "8", "--log_dir", self.path(name), *flags,
            name=name)
        self.await_success(job)
        summary = self.summary(name)
        text = harness.read_text(self.path(name, "workerlog.0"))
        self.assertRegex(text, r"(?m)^epoch 2/2 ")
        return summary

    def test_images_are_divided_in_each_of_the_three_ways(self):
        file_list, parts = self.write_files("data", per_class=7)
        for data, partition in ((file_list, "images"),
                                (file_list, "image_files"),
                                (parts, "images"), (parts, "data_files")):
            for tail in ("drop_last", "drop_uneven", "pad"):
                name = f"{os.path.basename(data)}_{partition}_{tail}"
                summary = self.division("--data_dir", data, "--partition",
                                        partition, "--tail", tail, name=name)
                self.assertEqual(len(summary["epochs"]), 2)
        name = "choices"
        summary = self.division(
            "--data_dir", parts, "--sampling", "with_replacement",
            "--concatenate_epochs", "2", name=name)
        self.assertEqual(len(summary["epochs"]), 1)

    def test_a_division_that_cannot_be_is_one_line_and_exit_code_2(self):
        file_list, parts = self.write_files("data", per_class=1)
        for flags, pattern in (
                (["--data_dir", parts, "--partition", "image_files"],
                 "--partition is image_files, .*legal for them are images and "
                 "data_files"),
                (["--data_dir", file_list, "--partition", "data_files"],
                 "--partition is data_files, .*legal for them are images and "
                 "image_files"),
                (["--data_dir", parts, "--partition", "data_files",
                  "--sampling", "with_replacement"], "--sampling is"),
                (["--synthetic", "--partition", "data_files"], "--synthetic"),
                (["--synthetic", "--epochs", "5", "--concatenate_epochs", "2"],
                 "--concatenate_epochs is 2"),
                (["--data_dir", parts, "--batch_size", "64"],
                 "make no update of 64")):
            process = self.start(self.mnist(), *flags)
            self.assert_fails(process, pattern, code=2)

    def test_nccl_that_ranks_cannot_have_is_refused_before_they_meet(self):
        # Nobody else comes.
        rank = {"PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.1:2",
                "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:2",
                "PADDLE_TRAINER_ID": "1"}
        for flags, pattern in (
                (["--device", "cpu"],
                 "--collective_backend is nccl and --device is cpu, .*; legal "
                 "with nccl are gpu and auto"),
                (["--device", "auto", "--gradient_format", "float16"],
                 "--collective_backend is nccl and --gradient_format is "
                 "float16; legal with nccl is float32")):
            process = self.start(self.mnist(), "--synthetic",
                                 "--collective_backend", "nccl", *flags, **rank)
            self.assert_fails(process, pattern, code=2)

    def test_a_folder_that_is_not_there_says_where_to_get_the_images(self):
        process = self.start(self.mnist(), "--data_dir", self.path("nothing"))
        self.assert_fails(process, r"nothing.*yann\.lecun\.com", code=1)


if __name__ == "__main__":
    unittest.main()
