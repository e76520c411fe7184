#!/usr/bin/env python3
"""What a user would take instead for CIFAR-10: PyTorch, one process.

  bench/peers/torch_cifar10.py --data_dir DIR [--threads 2] [--epochs 3]
                               [--batch_size 32] [--channels_last] [--seed 1]

The network of PaddlePaddle's document, Adam with .001, images shuffled in each
epoch and the last short batch dropped, as examples/cifar10. Images lie in
memory as bytes and become floats batch by batch: PyTorch's DataLoader would
only cost time. Prints one line of JSON; images_per_second leaves out the first
epoch and evaluation. Needs PyTorch; where it is absent that is said in one
line, exit code 3.
"""

import argparse
import gzip
import json
import lzma
import pathlib
import sys
import time

RECORD_BYTES = 1 + 3 * 32 * 32
ABSENT = 3
OPENERS = {".xz": lzma.open, ".gz": gzip.open, ".bin": open}


def read(torch, folder, patterns):
    """Images as bytes [n, 3, 32, 32], and labels."""
    files = sorted(path for pattern in patterns
                   for path in pathlib.Path(folder).glob(pattern))
    if not files:
        sys.exit(f"{folder} has no file named {' or '.join(patterns)}")
    content = b"".join(OPENERS[path.suffix](path, "rb").read()
                       for path in files)
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    records = records.view(-1, RECORD_BYTES)
    images = records[:, 1:].reshape(-1, 3, 32, 32).contiguous()
    return images, records[:, 0].long()


def network(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--channels_last", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.epochs < 2:
        parser.error("--epochs is less than 2: the first one is not counted")
    return options


def main():
    options = parse()
    try:
        import torch
    except ImportError:
        print("PyTorch is absent: pip install torch, and run this with that "
              "python", file=sys.stderr)
        sys.exit(ABSENT)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    layout = (torch.channels_last if options.channels_last
              else torch.contiguous_format)
    images, labels = read(torch, options.data_dir,
                          ["data_batch_*.bin*", "train*.bin*"])
    test_images, test_labels = read(torch, options.data_dir, ["test*.bin*"])
    model = network(torch).to(memory_format=layout)
    adam = torch.optim.Adam(model.parameters(), lr=0.001)
    loss_of = torch.nn.CrossEntropyLoss()

    def floats(batch):
        return batch.to(torch.float32).div_(255).contiguous(
            memory_format=layout)

    def train():
        order = torch.randperm(len(images))
        batches = len(images) // options.batch_size
        start = time.monotonic()
        for which in order[:batches * options.batch_size].split(
                options.batch_size):
            adam.zero_grad(set_to_none=True)
            loss_of(model(floats(images[which])), labels[which]).backward()
            adam.step()
        return batches * options.batch_size / (time.monotonic() - start)

    def accuracy():
        with torch.no_grad():
            right = sum((model(floats(x)).argmax(1) == y).sum().item()
                        for x, y in zip(test_images.split(500),
                                        test_labels.split(500)))
        return right / len(test_images)

    speeds = [train() for _ in range(options.epochs)][1:]
    print(json.dumps({
        "images_per_second": len(speeds) / sum(1 / v for v in speeds),
        "test_accuracy": accuracy(), "threads": options.threads,
        "torch": torch.__version__}))


if __name__ == "__main__":
    main()
