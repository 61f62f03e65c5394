#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the Python package costs above the C++ library, in turn with it.

    python benchmarks/python_cost.py --build build/release --folder /tmp/cost --json OUT.json

"next": the median time of next() when its batch is ready, in µs, in C++ (build/release/benchmarks/next_cost) and in
Python, with NumPy arrays and with PyTorch tensors if torch is installed: after 0.3 ms of work on the consumer's side
("hot") and after 5 ms. "throughput": samples/s of `h5feed bench` and of a Python loop with the same settings, on a
gzip file in the order chunk:16 and on an uncompressed one in the order full. Every repetition is a process of its own;
medians over --rounds. Needs the h5feed package and NumPy.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

WORKS_MS = {"hot": 0.3, "after 5 ms": 5.0}
CALLS = 1000
UNCOUNTED = 20
FILES = {"gzip": ("chunk:16", ["--chunk", "20", "--filter", "gzip:4"]),
         "uncompressed": ("full", ["--chunk", "none", "--filter", "none"])}


def next_cost(kind, path, work_ms, calls):
    """Prints the median time of next() in µs; the counterpart of next_cost.cpp."""
    import h5feed
    import numpy as np
    loaders = h5feed
    if kind == "torch":
        import h5feed.torch
        loaders = h5feed.torch
    loader = loaders.DataLoader(path, batch_size=64, shuffle="chunk:16", seed=1, num_workers=1, cache_bytes=64 << 20)
    numbers = np.ones(2 << 20, np.uint64)
    part = 4096
    position = total = 0
    times = []
    batches = iter(loader)
    while len(times) < UNCOUNTED + calls:
        end = time.perf_counter() + work_ms / 1e3
        while time.perf_counter() < end:
            total += int(numbers[position:position + part].sum())
            position = (position + part) % len(numbers)
        start = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
        else:
            times.append(time.perf_counter() - start)
    print(statistics.median(times[UNCOUNTED:]) * 1e6)


def throughput(path, order, num_workers, limit):
    """Prints samples/s of whole first epochs, each with a new loader and an empty cache.

    As in `h5feed bench`, an epoch is timed from before the loader is made to its last batch, and that the loader is
    destroyed is not counted. One epoch goes before: the process of bench has measured its limits before, so that the
    kernel has cleared memory for it.
    """
    import h5feed
    dataset = h5feed.Dataset.open(path, data="images", target="labels")

    def epoch():
        start = time.perf_counter()
        loader = h5feed.DataLoader(dataset, batch_size=256, shuffle=order, seed=0, num_workers=num_workers,
                                   cache_bytes=128 << 20)
        samples = sum(len(batch.data) for batch in loader)
        seconds = time.perf_counter() - start
        loader.close()
        return samples, seconds

    epoch()
    samples, seconds, last = 0, 0.0, 0.0
    while seconds + last < limit:
        count, last = epoch()
        samples, seconds = samples + count, seconds + last
    print(samples / seconds)


def output_of(*command):
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def bench_rate(program, path, order, num_workers, seconds):
    # Of a row's time, bench spends half on its limits.
    return json.loads(output_of(
        program, "bench", path, "--data", "images", "--target", "labels", "--shuffle", order, "--num-workers", num_workers,
        "--batch-size", 256, "--cache-bytes", "128MiB", "--runs", 1, "--warmup", 0, "--warm", "--time-budget", f"{2 * seconds}s",
        "--json"))["rows"][0]["samples_per_s"]


def measured_next(options, path):
    """Returns, for each kind and work, the medians of the rounds in µs."""
    kinds = ["numpy"] + (["torch"] if importlib.util.find_spec("torch") else [])
    times = {work: {kind: [] for kind in ["c++", *kinds]} for work in WORKS_MS}
    for _ in range(options.rounds):
        for work, work_ms in WORKS_MS.items():
            program = options.build / "benchmarks" / "next_cost"
            times[work]["c++"].append(float(output_of(program, path, work_ms, CALLS)))
            for kind in kinds:
                times[work][kind].append(float(output_of(sys.executable, __file__, "--part", "next", kind, path, work_ms, CALLS)))
    return times


def measured_throughput(options, name, path):
    order = FILES[name][0]
    rates = {"c++": [], "numpy": []}
    for _ in range(options.rounds):
        rates["c++"].append(bench_rate(options.build / "h5feed", path, order, options.num_workers, options.seconds))
        rates["numpy"].append(float(output_of(sys.executable, __file__, "--part", "throughput", path, order,
                                              options.num_workers, options.seconds)))
    return rates


def main():
    if sys.argv[1:2] == ["--part"]:
        if sys.argv[2] == "next":
            next_cost(sys.argv[3], sys.argv[4], float(sys.argv[5]), int(sys.argv[6]))
        else:
            throughput(sys.argv[3], sys.argv[4], int(sys.argv[5]), float(sys.argv[6]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"), help="Release build of h5feed")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("python_cost"), help="for the files that are made; kept")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2, help="of one measurement of throughput")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here")
    options = parser.parse_args()

    options.folder.mkdir(parents=True, exist_ok=True)
    program = options.build / "h5feed"
    small = options.folder / "small.h5"
    if not small.exists():
        output_of(program, "generate", small, "--samples", 8000, "--shape", "3,32,32", "--chunk", 100)
    result = {"python": sys.version.split()[0], "commit": output_of(program, "--version").split()[-1].strip("()"),
              "rounds": options.rounds, "load": os.getloadavg()[0], "next_us": measured_next(options, small), "samples_per_s": {}}
    for name, (_, storage) in FILES.items():
        path = options.folder / f"{name}.h5"
        if not path.exists():
            output_of(program, "generate", path, "--samples", 20000, "--shape", "3,218,178", "--ratio", 1.5, *storage)
        result["samples_per_s"][name] = measured_throughput(options, name, path)

    median = statistics.median
    for work, times in result["next_us"].items():
        base = median(times["c++"])
        print(f"next, {work}: c++ {base:.1f} µs" + "".join(
            f", {kind} {median(each):.1f} µs (+{median(each) - base:.1f})" for kind, each in times.items() if kind != "c++"))
    for name, rates in result["samples_per_s"].items():
        ratio = median(rates["numpy"]) / median(rates["c++"])
        print(f"{name}: bench {median(rates['c++']):.0f} samples/s, Python {median(rates['numpy']):.0f}, ratio {ratio:.3f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
