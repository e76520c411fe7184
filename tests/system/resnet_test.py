"""The ResNet example: configuration files, folders of images, one process and
two ranks.

OARLOCK_RESNET is examples/resnet/train.
"""

import os
import pathlib
import struct
import unittest
import zlib

import harness

CONFIGS = (pathlib.Path(__file__).absolute().parents[2] / "examples" / "resnet"
           / "configs")
SYNTHETIC = str(CONFIGS / "resnet18_synthetic.textproto")
# Of the file: what a test does not change.
FILE_BATCH_SIZE = 16
# The least that shows everything: four steps of one process.
SMALL = ["--image_size", "8", "--synthetic_images", "64", "--epochs", "2"]
# Two colours are told apart after some tens of steps.
LEAST_ACCURACY = .9


def write_png(path, red, green, blue, side=20):
    """An image of one colour."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    row = b"\0" + bytes([red, green, blue]) * side
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" +
                   chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0,
                                              0, 0)) +
                   chunk(b"IDAT", zlib.compress(row * side)) +
                   chunk(b"IEND", b""))


class ResNetTest(harness.SystemTest):

    def resnet(self):
        return harness.program("OARLOCK_RESNET")

    def assert_trained(self, summary, ranks, epochs):
        self.assertEqual(summary["ranks"], ranks)
        self.assertEqual(len(summary["epochs"]), epochs)
        self.assertGreater(summary["images_per_second"], 0)
        self.assertGreater(summary["test_loss"], 0)

    def test_a_flag_overrides_the_file_and_the_rest_of_the_file_holds(self):
        process = self.start(self.resnet(), "-c", SYNTHETIC, *SMALL,
                             "--log_dir", self.path("alone"))
        self.await_success(process)
        summary = self.summary("alone")
        self.assert_trained(summary, 1, epochs=2)
        self.assertEqual(summary["name"], "resnet18")
        self.assertEqual(summary["group"], "alone")
        self.assertEqual(summary["batch_size"], FILE_BATCH_SIZE)
        self.assertRegex(process.stdout,
                         r"epoch 2/2  train accuracy [.\d]+ loss [.\d]+  "
                         r"test accuracy [.\d]+ loss [.\d]+")

    def test_two_ranks_train_by_the_same_file(self):
        self.await_success(self.start(
            harness.oarlock(), "launch", "--log_dir", self.path("logs"),
            "--nproc_per_node", "2", self.resnet(), "-c", SYNTHETIC, *SMALL,
            "--log_dir", self.path("logs")))
        summary = self.summary()
        self.assert_trained(summary, 2, epochs=2)
        self.assertEqual(summary["batch_size"], 2 * FILE_BATCH_SIZE)
        self.assertEqual(summary["group"], "rank 0 of 2, collective")
        self.assert_nothing_runs()

    def write_folder(self):
        """Two classes, of reddish and of bluish images."""
        for i in range(32):
            shade = 60 + 5 * i
            for split in ("train", "val"):
                write_png(self.path("data", split, "red", f"{i}.png"), shade,
                          20, i)
                write_png(self.path("data", split, "blue", f"{i}.png"), i, 20,
                          shade)

    def test_a_folder_of_images_is_learned(self):
        self.write_folder()
        self.await_success(self.start(
            self.resnet(), "--depth", "18", "--image_size", "8", "--data_dir",
            self.path("data"), "--epochs", "5", "--batch_size", "8",
            "--optimizer", "momentum", "--learning_rate", "0.001",
            "--log_dir", self.path("logs")))
        summary = self.summary()
        self.assert_trained(summary, 1, epochs=5)
        self.assertGreater(summary["test_accuracy"], LEAST_ACCURACY, summary)

    def test_a_damaged_image_is_named(self):
        self.write_folder()
        path = self.path("data", "train", "red", "7.png")
        with open(path, "r+b") as file:
            file.truncate(60)
        process = self.start(self.resnet(), "--depth", "18", "--image_size",
                             "8", "--data_dir", self.path("data"))
        self.assert_fails(process, r"train/red/7\.png.*replace the file",
                          code=1)

    def test_a_folder_that_is_not_there_says_where_to_get_images(self):
        process = self.start(self.resnet(), "--data_dir", self.path("nothing"))
        self.assert_fails(process, r"nothing.*train/CLASS.*image-net\.org",
                          code=1)

    def test_what_cannot_be_is_a_usage_error(self):
        config = self.path("wrong.textproto")
        pathlib.Path(config).write_text("depth: 18\nepoch: 3\n")
        for flags, message in (
                (["--device", "gpu:x"], r'--device is "gpu:x"; legal are cpu, gpu'),
                (["--depth", "20"], r"depth is 20; legal are 18, 34"),
                (["-c", config], r"wrong\.textproto:2: .*did you mean epochs"),
                (["--learning_rate_schedule", "step"], r"--milestones")):
            self.assert_fails(self.start(self.resnet(), *flags), message,
                              code=2)


if __name__ == "__main__":
    unittest.main()
