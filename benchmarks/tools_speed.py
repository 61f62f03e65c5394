#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares h5feed repack and pack with equivalent tools, in alternation; prints medians and their ratios.

  benchmarks/tools_speed.py --program build/release/h5feed --directory DIR [--rounds 3] [--bare PROGRAM]
                            [repack] [verbatim] [memory] [pack] [bytes]

repack     10,240 x (96,96,3) uint8, chunks (640,12,12,1) gzip 1 to whole samples gzip 1, 2 jobs, verified; compared
           with h5repack and a loop in h5py over rows of source chunks
verbatim   the same file, labels rewritten, images copied as stored; compared with cp --reflink=never and sync
memory     2,000 x 1 chunks to wide ones, 2 GB, 64 MiB: peak resident memory minus that of the idle program
pack       20,000 JPEGs in 100 classes to 224 x 224, 2 jobs; compared with a bare read-decode-resize loop (--bare)
bytes      the same JPEGs stored as they are; compared with cp -r and sync
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

H5PY_LOOP = """
import sys, h5py
with h5py.File(sys.argv[1]) as source, h5py.File(sys.argv[2], 'w') as target:
    images = source['images']
    copy = target.create_dataset('images', images.shape, images.dtype, chunks=(1,) + images.shape[1:],
                                 compression='gzip', compression_opts=1)
    for first in range(0, len(images), images.chunks[0]):
        copy[first:first + images.chunks[0]] = images[first:first + images.chunks[0]]
"""


def timed(command, cleanup=None):
    """Returns wall seconds, including the sync of data to storage."""
    os.sync()
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.sync()
    seconds = time.monotonic() - start
    if cleanup:
        cleanup()
    return seconds


def alternate(rounds, **commands):
    seconds = {name: [] for name in commands}
    for _ in range(rounds):
        for name, (command, cleanup) in commands.items():
            seconds[name].append(timed(command, cleanup))
    return {name: statistics.median(values) for name, values in seconds.items()}, seconds


def auto_chunked(python, program, path):
    subprocess.run([program, "generate", path.with_suffix(".src.h5"), "--samples", "10240", "--shape", "96,96,3",
                    "--chunk", "64", "--filter", "gzip:1", "--force"], check=True, capture_output=True)
    subprocess.run([program, "repack", path.with_suffix(".src.h5"), path, "--chunk", "640x12x12x1", "--filter",
                    "gzip:1", "--force"], check=True, capture_output=True)
    path.with_suffix(".src.h5").unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--directory", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default="/usr/bin/python3", help="with h5py")
    parser.add_argument("--bare", help="benchmarks/peers/bare_images.cpp, built")
    parser.add_argument("what", nargs="*", default=["repack", "verbatim", "memory"])
    arguments = parser.parse_args()
    program, place = arguments.program, arguments.directory
    source, target = place / "source.h5", place / "target.h5"
    clean = lambda: target.unlink()
    if "repack" in arguments.what or "verbatim" in arguments.what:
        auto_chunked(arguments.python, program, source)
    if "repack" in arguments.what:
        medians, all_of = alternate(
            arguments.rounds,
            h5feed=([program, "repack", source, target, "--chunk", "1", "--filter", "gzip:1", "--jobs", "2"], clean),
            h5py=([arguments.python, "-c", H5PY_LOOP, source, target], clean),
            h5repack=(["h5repack", "-l", "images:CHUNK=1x96x96x3", "-f", "images:GZIP=1", source, target], clean))
        print(json.dumps({"repack": all_of, "h5repack_over_h5feed": medians["h5repack"] / medians["h5feed"],
                          "h5py_over_h5feed": medians["h5py"] / medians["h5feed"]}), flush=True)
    if "verbatim" in arguments.what:
        medians, all_of = alternate(
            arguments.rounds,
            h5feed=([program, "repack", source, target, "--dataset", "labels", "--chunk", "1000", "--no-verify",
                     "--jobs", "2"], clean),
            cp=(["cp", "--reflink=never", source, target], clean))
        print(json.dumps({"verbatim": all_of, "cp_over_h5feed": medians["cp"] / medians["h5feed"]}), flush=True)
    if "memory" in arguments.what:
        script = f"""
import h5py, numpy
with h5py.File({str(source)!r}, 'w') as f:
    d = f.create_dataset('x', (2000000, 1000), 'u1', chunks=(2000, 1))
    rows = numpy.random.default_rng(1).integers(0, 255, (2000, 1000), 'u1')
    for i in range(0, 2000000, 2000): d[i:i + 2000] = rows
"""
        subprocess.run([arguments.python, "-c", script], check=True)
        peaks = {}
        for name, words in {"idle": ["--version"],
                            "repack": ["repack", source, target, "--dataset", "x", "--chunk", "67186x10", "--memory",
                                       "64MiB", "--jobs", "2", "--filter", "gzip:1", "--force"]}.items():
            out = subprocess.run(["/usr/bin/env", "python3", "-c",
                                  "import resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True, "
                                  "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
                                  "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)", program, *words],
                                 check=True, capture_output=True, text=True).stdout
            peaks[name] = int(out) * 1024
        print(json.dumps({"memory": peaks, "above_idle_MiB": (peaks["repack"] - peaks["idle"]) / 2**20}), flush=True)
        source.unlink()
        target.unlink()
    if "pack" in arguments.what or "bytes" in arguments.what:
        images = place / "images"
        if not images.exists():
            subprocess.run([arguments.bare, "make", images, "20000", "100"], check=True)
    if "pack" in arguments.what:
        medians, all_of = alternate(
            arguments.rounds,
            h5feed=([program, "pack", target, "--images", images, "--size", "224x224", "--fit", "stretch", "--filter",
                     "none", "--jobs", "2"], clean),
            bare=([arguments.bare, "read", images, "224", "2"], None))
        print(json.dumps({"pack": all_of, "bare_over_h5feed": medians["bare"] / medians["h5feed"]}), flush=True)
    if "bytes" in arguments.what:
        copy = place / "copy"
        medians, all_of = alternate(
            arguments.rounds,
            h5feed=([program, "pack", target, "--images", images, "--store", "bytes", "--jobs", "2"], clean),
            cp=(["cp", "-r", images, copy], lambda: shutil.rmtree(copy)))
        print(json.dumps({"bytes": all_of, "cp_over_h5feed": medians["cp"] / medians["h5feed"]}), flush=True)


if __name__ == "__main__":
    main()
