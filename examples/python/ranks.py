# SPDX-License-Identifier: Apache-2.0
"""Trains on two processes with DistributedDataParallel over Gloo.

    torchrun --nproc-per-node 2 examples/python/ranks.py FILE.h5 --data images --target labels
"""

import argparse
import math

import torch
import torch.distributed
from torch import nn

import h5feed.torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--data", default="")
    parser.add_argument("--target", default="")
    given = parser.parse_args()
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    # Rank and world size come from the process group; the seed must be the same on every rank.
    loader = h5feed.torch.DataLoader(given.file, data=given.data, target=given.target, batch_size=32, shuffle=True, seed=1,
                                     num_workers=1, uneven="pad", normalize={"mean": 0.5, "std": 0.5})
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(linear_model(loader))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples = torch.zeros(())
    for data, target in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()
        samples += len(target)
    torch.distributed.all_reduce(samples)
    if rank == 0:
        print(f"{int(samples)} samples on {torch.distributed.get_world_size()} ranks")
    torch.distributed.destroy_process_group()


def linear_model(loader: h5feed.torch.DataLoader) -> nn.Module:
    """Returns a linear classifier of the samples of `loader`."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(loader.dataset.sample_shape), 10))


if __name__ == "__main__":
    main()
