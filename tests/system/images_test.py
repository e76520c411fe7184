"""The examples with images: the same program alone, as ranks of a collective
job on one node and on two, and with parameter servers.

OARLOCK_MNIST is examples/mnist/train.
"""

import os
import signal
import unittest

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
DEATH_DEADLINE_S = 10
LONG = ["--synthetic", "--epochs", "1000", "--print_steps", "10"]


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
            with open(f"/proc/{pid}/environ", "rb") as file:
                entries = file.read().decode(errors="replace").split("\0")
            if wanted <= set(entries):
                return pid
        self.fail(f"rank {rank} does not run\n{self.report()}")

    def test_a_folder_that_is_not_there_says_where_to_get_the_images(self):
        process = self.start(self.mnist(), "--data_dir", self.path("nothing"))
        self.assert_fails(process, r"nothing.*yann\.lecun\.com", code=1)


if __name__ == "__main__":
    unittest.main()
