#!/usr/bin/env python3
"""The steps of step_bench in PyTorch: same models, batches and numbers.

A step gets the distinct rows of its keys, as from a parameter server, and
gives the gradients by them and by the parameters. With --optimizer adam it
updates the parameters, too, by the fused Adam. Run in three ways: eager,
compiled for the shapes of the batch, and so compiled with CUDA graphs, which
Oarlock uses, too ("graphs": mode="reduce-overhead").

On a CPU (--device cpu) it shows only that it runs.
"""

import argparse
import statistics
import time

import torch
from torch import nn

SLOTS, DENSE = 26, 13


def mlp(sizes, last_relu=True):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if last_relu or i + 2 < len(sizes):
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class CtrDnn(nn.Module):
    name = "ctr_dnn"
    row_dim = 10

    def __init__(self):
        super().__init__()
        self.top = mlp([SLOTS * 10 + DENSE, 400, 400, 400, 2], False)

    def forward(self, rows, row_of_key, dense, labels):
        vectors = rows.index_select(0, row_of_key).view(len(dense), -1)
        logits = self.top(torch.cat([vectors, dense], 1))
        return nn.functional.cross_entropy(logits.float(), labels.long())


class Dlrm(nn.Module):
    name = "dlrm"
    row_dim = 16

    def __init__(self):
        super().__init__()
        self.bottom = mlp([DENSE, 512, 256, 64, 16])
        self.top = mlp([16 + 27 * 26 // 2, 512, 256, 1], False)
        pairs = torch.tril_indices(27, 27, -1)
        self.register_buffer("pairs", pairs[0] * 27 + pairs[1])

    def forward(self, rows, row_of_key, dense, labels):
        x = self.bottom(dense)
        vectors = rows.index_select(0, row_of_key).view(len(dense), SLOTS, 16)
        vectors = torch.cat([x.unsqueeze(1), vectors], 1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        dots = dots.index_select(1, self.pairs)
        logits = self.top(torch.cat([x, dots], 1))
        return nn.functional.binary_cross_entropy_with_logits(
            logits.float().squeeze(1), labels)


# Way of running -> the mode of torch.compile; eager has none.
WAYS = {"eager": None, "compiled": "default", "graphs": "reduce-overhead"}


def compiled_for_one_shape(model, mode):
    """Batches of several sizes pass through one code object: once dynamo has
    seen two, it compiles for any size, which is slower, and after some it
    gives up and runs eagerly. So what it has learnt is forgotten first."""
    torch._dynamo.reset()
    return torch.compile(model, mode=mode, dynamic=False)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of_a_step(kind, numbers, batch, way, options):
    device = options.device
    torch.manual_seed(1)
    model = kind().to(device)
    torch.backends.cuda.matmul.allow_tf32 = numbers == "tf32"
    num_rows = batch * SLOTS * 2 // 3
    rows = (torch.rand(num_rows, model.row_dim, device=device) * .2 - .1)
    rows.requires_grad_()
    keys = torch.randint(num_rows, (batch * SLOTS,), device=device)
    dense = torch.rand(batch, DENSE, device=device) * 2 - 1
    labels = (torch.rand(batch, device=device) < .25).float()
    mode = WAYS[way]
    run = compiled_for_one_shape(model, mode) if mode else model
    adam = torch.optim.Adam(model.parameters(), lr=1e-4,
                            fused=True) if options.optimizer else None

    def step():
        if way == "graphs":
            # What the last step has returned may be overwritten.
            torch.compiler.cudagraph_mark_step_begin()
        rows.grad = None
        model.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16,
                            enabled=numbers == "bfloat16"):
            loss = run(rows, keys, dense, labels)
        loss.backward()
        if adam:
            adam.step()
        return loss.item()  # as step_bench, which reads the loss

    for _ in range(10):
        step()
    times = []
    begin = time.perf_counter()
    while len(times) < 20 or (time.perf_counter() - begin < options.seconds and
                              len(times) < 2000):
        synchronize(device)
        start = time.perf_counter()
        step()
        synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    kinds = {kind.name: kind for kind in (CtrDnn, Dlrm)}
    numbers = ["float32", "tf32", "bfloat16"]
    parser.add_argument("--optimizer", choices=["adam"])
    parser.add_argument("--model", nargs="*", choices=kinds, default=[*kinds])
    parser.add_argument("--numbers", nargs="*", choices=numbers,
                        default=numbers)
    parser.add_argument("--batch", nargs="*", type=int,
                        default=[512, 4096, 65536])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    with_optimizer = f"{options.optimizer} " if options.optimizer else ""
    for model in options.model:
        for batch in options.batch:
            for numbers in options.numbers:
                for way in WAYS:
                    seconds = seconds_of_a_step(kinds[model], numbers, batch,
                                                way, options)
                    print(f"torch {way:8s} {model:8s} batch {batch:6d} "
                          f"{numbers:9s} {with_optimizer}"
                          f"compute {seconds * 1e3:8.3f} ms "
                          f"{batch / seconds:12.0f} examples/s", flush=True)


if __name__ == "__main__":
    main()
