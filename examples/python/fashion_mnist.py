# SPDX-License-Identifier: Apache-2.0
"""Trains a small CNN on the file that tools/demo.sh writes, with PyTorch.

    python examples/python/fashion_mnist.py build/demo/fashion.h5 [--device cuda:0]
"""

import argparse

import torch
from torch import nn

import h5feed.torch

MEAN, STD = 0.2860, 0.3530


def accuracy(model: nn.Module, loader: h5feed.torch.DataLoader) -> float:
    """Returns the share of samples that the model classifies right."""
    right = total = 0
    with torch.no_grad():
        for data, target in loader:
            right += int((model(data).argmax(1) == target).sum())
            total += len(target)
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="where to train; the loader delivers there")
    given = parser.parse_args()
    torch.manual_seed(7)
    common = {"num_workers": given.workers, "device": given.device, "normalize": {"mean": MEAN, "std": STD}}
    train = h5feed.torch.DataLoader(given.file, data="train/images", target="train/labels", batch_size=128, shuffle="chunk:16",
                                    seed=7, **common)
    test = h5feed.torch.DataLoader(given.file, data="test/images", target="test/labels", batch_size=500, **common)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))
    model.to(given.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(given.epochs):
        model.train()
        for data, target in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data), target).backward()
            optimizer.step()
        model.eval()
        print(f"epoch {epoch}: test accuracy {accuracy(model, test):.3f}")
    print(train.report())


if __name__ == "__main__":
    main()
