"""--device: what it refuses, and what it does on a machine with and without a
GPU. Those that need one, or need there to be none, are skipped and say so."""

import os
import re
import shutil
import unittest

import harness

HAS_GPU = os.path.exists("/dev/nvidia0") or bool(shutil.which("nvidia-smi"))
without_gpu = unittest.skipIf(HAS_GPU, "this machine has a GPU")
with_gpu = unittest.skipUnless(HAS_GPU, "this machine has no GPU")

# Rounds of one thread: two runs on the CPU give the same bits.
SAME = ["--mode", "sync", "--model", "deepfm", "--batch_size", "128"]
LOSSES = ["train_logloss", "test_logloss", "test_auc"]
# Other orders of the same sums, after 141 steps.
LOSS_DISTANCE = .002
NO_GPU = r"--device is {}, and no GPU can be used: \S.*; legal here are cpu"
ON_CPU = r"computing on the CPU: no GPU: \S"
ON_GPU = r"computing on GPU \d+ in "


class DeviceTest(harness.SystemTest):

    def train(self, *flags):
        return self.start_train(*harness.data_flags(), *SAME, *flags)

    def mnist(self, *flags):
        return self.start(harness.program("OARLOCK_MNIST"), "--synthetic",
                          "--epochs", "1", *flags)

    def all_programs(self, device):
        """Of each program that computes one, started."""
        return [self.train("--device", device),
                self.start(harness.oarlock(), "infer", "--checkpoint", "none",
                           "--files", harness.test_files(), "--out", "scores",
                           "--device", device),
                self.mnist("--device", device)]

    def losses(self, *flags):
        """Of a run alone, and the process."""
        job = self.await_success(self.train(*flags))
        summary = self.summary()
        return [summary[name] for name in LOSSES], job

    def assert_one_line(self, text, pattern):
        lines = [line for line in text.splitlines() if re.search(pattern, line)]
        self.assertEqual(len(lines), 1, self.report())

    def test_what_is_no_device_is_a_usage_error(self):
        for device in ("tpu", "gpu:x", "gpu:-1"):
            legal = rf'--device is "{device}"; legal are cpu, gpu, gpu:N'
            for process in self.all_programs(device):
                self.assert_fails(process, legal, code=2)

    def test_what_no_gpu_can_be_selected_by_is_a_usage_error(self):
        for start in (
                lambda **variables: self.start_train(
                    *harness.data_flags(), "--device", "auto", **variables),
                lambda **variables: self.start(
                    harness.oarlock(), "infer", "--checkpoint", "none",
                    "--files", harness.test_files(), "--device", "gpu",
                    **variables),
                lambda **variables: self.start(
                    harness.program("OARLOCK_MNIST"), "--synthetic",
                    "--device", "gpu", **variables)):
            self.assert_fails(
                start(FLAGS_selected_gpus="first"),
                r'FLAGS_selected_gpus is "first", and --device is (auto|gpu); '
                "legal are numbers of GPUs", code=2)

    def test_tf32_on_the_cpu_is_a_usage_error(self):
        for process in (self.train("--dense_math", "tf32"),
                        self.mnist("--math", "tf32")):
            self.assert_fails(process, r"tf32.*float32 and bfloat16", code=2)

    @without_gpu
    def test_a_gpu_that_is_not_there_is_one_line_in_the_drivers_words(self):
        for device in ("gpu", "gpu:0"):
            for process in self.all_programs(device):
                self.assert_fails(process, NO_GPU.format(device), code=1)

    @without_gpu
    def test_a_cluster_without_its_gpu_is_not_started(self):
        job = self.train("--server_num", "1", "--worker_num", "1", "--device",
                         "gpu")
        self.assert_fails(job, NO_GPU.format("gpu"), code=1)
        self.assertFalse(os.path.exists(self.path("logs", "serverlog.0")))

    @without_gpu
    def test_auto_trains_on_the_cpu_and_says_so_once(self):
        on_cpu, cpu = self.losses("--device", "cpu")
        self.assertNotIn("computing on", cpu.stderr)
        on_auto, auto = self.losses("--device", "auto")
        self.assert_one_line(auto.stderr, ON_CPU)
        self.assertEqual(on_auto, on_cpu)

    @without_gpu
    def test_auto_of_an_example_says_so_once(self):
        job = self.await_success(self.mnist("--device", "auto"))
        self.assert_one_line(job.stderr, ON_CPU)

    @without_gpu
    def test_each_worker_says_so_and_infer_does(self):
        self.await_success(self.train(
            "--server_num", "1", "--worker_num", "2", "--device", "auto",
            "--checkpoint_dir", "checkpoints"))
        for log in ("workerlog.0", "workerlog.1"):
            self.assert_one_line(harness.read_text(self.path("logs", log)),
                                 ON_CPU)
        self.assertNotIn("computing on", harness.read_text(
            self.path("logs", "serverlog.0")))
        for device in ("cpu", "auto"):
            process = self.await_success(self.start(
                harness.oarlock(), "infer", "--checkpoint", "checkpoints",
                "--files", harness.test_files(), "--out", device, "--device",
                device))
        self.assert_one_line(process.stderr, ON_CPU)
        scores = harness.read_text(self.path("cpu"))
        self.assertTrue(scores)
        self.assertEqual(harness.read_text(self.path("auto")), scores)

    @with_gpu
    def test_a_gpu_trains_what_the_cpu_trains(self):
        on_cpu, _ = self.losses()
        for flags in (["--device", "gpu:0"], ["--device", "auto"]):
            on_gpu, job = self.losses(*flags)
            self.assert_one_line(job.stderr, ON_GPU + "float32")
            for a, b in zip(on_gpu, on_cpu):
                self.assertAlmostEqual(a, b, delta=LOSS_DISTANCE)

    @with_gpu
    def test_a_gpu_that_is_one_too_many_is_one_line(self):
        self.assert_fails(self.train("--device", "gpu:1000"),
                          r"--device is gpu:1000, and this machine has \d+ GPU",
                          code=1)


if __name__ == "__main__":
    unittest.main()
