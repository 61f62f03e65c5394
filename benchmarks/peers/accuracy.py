#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same network on Fashion-MNIST through three loaders and compares the accuracies.

    benchmarks/peers/accuracy.py --json OUT.json

h5feed                h5feed's loader over an HDF5 file (tests/torch/mnist: LibTorch's program after the patch)
LibTorch in memory    LibTorch's loader over its MNIST dataset, tensors in memory (the program before the patch)
PyTorch + h5py        PyTorch's DataLoader in Python over the same HDF5 file, one row per sample

Network, initial weights (compared), batch size, optimizer, number of steps and the order of samples, drawn from
Torch's generator, are the same. Needs python3 with torch and h5py, and a Release build with tests.
"""

import argparse
import concurrent.futures
import datetime
import gzip
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tools", "bench", "peers"))
FILES = {
    "train/images": "train-images-idx3-ubyte",
    "train/labels": "train-labels-idx1-ubyte",
    "test/images": "t10k-images-idx3-ubyte",
    "test/labels": "t10k-labels-idx1-ubyte",
}
# Settings of tests/torch/mnist/mnist.cpp and examples/small_cnn.hpp.
BATCH_SIZE = 64
MEAN, DEVIATION = 0.2860, 0.3530
LEARNING_RATE, MOMENTUM = 0.05, 0.5
LARGEST_DIFFERENCE = 0.5  # points


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idx", default="/usr/share/datasets/fashion-mnist", help="folder of the four idx files, gzipped")
    parser.add_argument("--steps", type=int, default=938, help="default: an epoch")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--train-in-python", metavar="FILE", help=argparse.SUPPRESS)  # trains once and prints the result
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"), help="Release build of h5feed, with tests")
    parser.add_argument("--json", help="write the results here")
    return parser.parse_args()


def make_net():
    import torch

    class SmallCnn(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
            self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
            self.fc1 = torch.nn.Linear(32 * 7 * 7, 128)
            self.fc2 = torch.nn.Linear(128, 10)

        def forward(self, x):
            x = torch.max_pool2d(self.conv1(x).relu(), 2)
            x = torch.max_pool2d(self.conv2(x).relu(), 2)
            return self.fc2(self.fc1(x.flatten(1)).relu())

    return SmallCnn()


def samples_of(file, part):
    import h5py

    with h5py.File(file, "r") as opened:
        return opened[part + "/images"].shape[0]


def python_loader(file, part, batch_size, order):
    import torch

    import h5py_rows
    import harness
    import pytorch_peer

    def collate(examples):
        images = torch.stack([torch.from_numpy(image) for image, _ in examples]).unsqueeze(1)
        images = images.to(torch.float32).div_(255).sub_(MEAN).div_(DEVIATION)
        return images, torch.tensor([int(label) for _, label in examples])

    # Always the large chunk cache: only the accuracy counts here.
    source = harness.Source(file, part + "/images", part + "/labels", lambda *names: h5py_rows.open_h5py(*names[:3], True))
    rows = pytorch_peer.PerSample(source, len(order))
    # A separate generator: the default one draws the orders, as in LibTorch's loader.
    return torch.utils.data.DataLoader(
        rows, batch_size=batch_size, sampler=order, num_workers=2, collate_fn=collate, generator=torch.Generator()
    )


def train_in_python(file, steps, seed):
    """Returns the sum of the initial weights, and the accuracy in percent."""
    import torch

    torch.manual_seed(seed)
    net = make_net()
    weights = sum(parameter.detach().double().abs().sum().item() for parameter in net.parameters())
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    samples = samples_of(file, "train")
    torch.randperm(samples)  # LibTorch's RandomSampler draws an order that it does not use
    net.train()
    step = 0
    while step < steps:
        # No more samples than remain: worker processes complain if their loop ends early.
        order = torch.randperm(samples)[: (steps - step) * BATCH_SIZE].tolist()
        for images, labels in python_loader(file, "train", BATCH_SIZE, order):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()
            step += 1
    net.eval()
    correct = 0
    tests = samples_of(file, "test")
    with torch.no_grad():
        for images, labels in python_loader(file, "test", 500, list(range(tests))):
            correct += (net(images).argmax(1) == labels).sum().item()
    return weights, 100 * correct / tests


def train_by(command):
    """Returns weight sum and accuracy of a program with the output of tests/torch/mnist/mnist.cpp."""
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    weights = float(re.search(r"^initial weights (\S+)$", output, re.MULTILINE).group(1))
    return weights, float(re.search(r"^accuracy (\S+) %$", output, re.MULTILINE).group(1))


def prepare(idx_folder, build, folder):
    """Prepares the unpacked idx files, and fashion.h5 packed from them."""
    pack = [os.path.join(build, "h5feed"), "pack", os.path.join(folder, "fashion.h5")]
    for dataset, name in FILES.items():
        unpacked = os.path.join(folder, name)
        with gzip.open(os.path.join(idx_folder, name + ".gz")) as source, open(unpacked, "wb") as target:
            shutil.copyfileobj(source, target)
        pack += ["--idx", f"{dataset}={unpacked}"]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    return pack[2]


def main():
    options = parse_arguments()
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, so that all three add up in the same order
    if options.train_in_python:
        weights, accuracy = train_in_python(options.train_in_python, options.steps, int(options.seeds))
        print(f"initial weights {weights:.6f}\naccuracy {accuracy:.2f} %")
        return
    programs = os.path.join(options.build, "tests", "torch")
    seeds = options.seeds.split(",")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        file = prepare(options.idx, options.build, folder)
        steps = str(options.steps)
        commands = {
            "h5feed": lambda seed: [os.path.join(programs, "mnist_with_h5feed"), file, steps, seed],
            "LibTorch in memory": lambda seed: [os.path.join(programs, "mnist"), folder, steps, seed],
            "PyTorch + h5py": lambda seed: [
                sys.executable, __file__, "--train-in-python", file, "--steps", steps, "--seeds", seed
            ],
        }
        trainings = {
            name: [pool.submit(train_by, command(seed)) for seed in seeds] for name, command in commands.items()
        }
        results = {name: [training.result() for training in made] for name, made in trainings.items()}
    for i, seed in enumerate(seeds):
        weights = [results[name][i][0] for name in commands]
        if max(weights) - min(weights) > 1e-5:
            sys.exit(f"accuracy.py: seed {seed} gave different initial weights: {weights}")
    accuracies = {name: [accuracy for _, accuracy in made] for name, made in results.items()}
    import h5py
    import torch

    means = {name: round(statistics.mean(values), 3) for name, values in accuracies.items()}
    difference = round(max(means.values()) - min(means.values()), 3)
    result = {
        "date": datetime.date.today().isoformat(),
        "commit": subprocess.run(
            ["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True
        ).stdout.strip(),
        "command": " ".join(["benchmarks/peers/accuracy.py"] + sys.argv[1:]),
        "versions": {"torch": torch.__version__, "h5py": h5py.__version__},
        "data": "Fashion-MNIST, 60,000 images; accuracy over its 10,000 test images, in percent",
        "settings": {"batch_size": BATCH_SIZE, "steps": options.steps, "seeds": options.seeds,
                     "optimizer": f"SGD, learning rate {LEARNING_RATE}, momentum {MOMENTUM}"},
        "accuracies": accuracies,
        "means": means,
        "largest_difference_of_means": difference,
    }
    print(json.dumps({"means": means, "largest difference of means": difference}))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)
            out.write("\n")
    if difference > LARGEST_DIFFERENCE:
        sys.exit(f"accuracy.py: the means differ by more than {LARGEST_DIFFERENCE} points")


if __name__ == "__main__":
    main()
