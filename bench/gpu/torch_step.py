#!/usr/bin/env python3
"""The steps of step_bench in PyTorch: same models, batches and numbers.

A step gets the distinct rows of its keys, as from a parameter server, and
gives the gradients by them and by the parameters. With --optimizer adam it
updates the parameters, too, by the fused Adam.
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
    row_dim = 10

    def __init__(self):
        super().__init__()
        self.top = mlp([SLOTS * 10 + DENSE, 400, 400, 400, 2], False)

    def forward(self, rows, row_of_key, dense, labels):
        vectors = rows.index_select(0, row_of_key).view(len(dense), -1)
        logits = self.top(torch.cat([vectors, dense], 1))
        return nn.functional.cross_entropy(logits.float(), labels.long())


class Dlrm(nn.Module):
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


def seconds_of_a_step(model, numbers, batch, compiled, with_adam):
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = numbers == "tf32"
    num_rows = batch * SLOTS * 2 // 3
    rows = (torch.rand(num_rows, model.row_dim, device="cuda") * .2 - .1)
    rows.requires_grad_()
    keys = torch.randint(num_rows, (batch * SLOTS,), device="cuda")
    dense = torch.rand(batch, DENSE, device="cuda") * 2 - 1
    labels = (torch.rand(batch, device="cuda") < .25).float()
    run = torch.compile(model) if compiled else model
    adam = torch.optim.Adam(model.parameters(), lr=1e-4,
                            fused=True) if with_adam else None

    def step():
        rows.grad = None
        model.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16,
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
    while len(times) < 20 or (time.perf_counter() - begin < 3 and
                              len(times) < 2000):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", choices=["adam"])
    optimizer = parser.parse_args().optimizer
    for kind in CtrDnn, Dlrm:
        for batch in 512, 4096, 65536:
            for numbers in "float32", "tf32", "bfloat16":
                for compiled in False, True:
                    seconds = seconds_of_a_step(kind().cuda(), numbers, batch,
                                                compiled, optimizer == "adam")
                    print(f"torch {'compiled' if compiled else 'eager':8s} "
                          f"{kind.__name__:7s} batch {batch:6d} {numbers:9s} "
                          f"{optimizer + ' ' if optimizer else ''}"
                          f"compute {seconds * 1e3:8.3f} ms "
                          f"{batch / seconds:12.0f} examples/s", flush=True)


if __name__ == "__main__":
    main()
