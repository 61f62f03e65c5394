#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures patches of volumes beside the loader of pytorch-3dunet, on files of its layout.

    benchmarks/peers/patches.py --json OUT.json [--seconds S] [--rounds N] [--only ORDER]

A file for each volume, with `raw` and `label` (D,H,W). The peer is a Dataset for PyTorch's DataLoader that reads as
pytorch3dunet/datasets/hdf5.py, LazyHDF5Dataset: it opens the file for each patch of each dataset and slices it with h5py; a
volume does not stay in memory. Orders:

  grid      all patches of 64³ at a stride of 32, shuffled, as pytorch-3dunet trains
  random    8 patches of each volume at random places, drawn anew in each epoch, read by the peer in the same way

Both sides run with 2 workers, in turns within one run; the values of samples are compared first. h5feed keeps the cache that
plan() says for chunk:2, and no more. Needs h5feed, torch and h5py.
"""

import argparse
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np
import torch
from windows import WORKERS, in_turns, report, smooth

import h5feed
import h5feed.torch

VOLUMES, SHAPE, PATCH, STRIDE, CHUNK, BATCH = 4, (128, 192, 192), 64, 32, 32, 4
PER_VOLUME = 8


def write(folder: pathlib.Path, compression: "str | None") -> None:
    options: "dict[str, Any]" = {}
    if compression is not None:
        options = {"compression": compression, "compression_opts": 4, "chunks": (CHUNK,) * 3}
    for number in range(VOLUMES):
        with h5py.File(folder / f"{number}.h5", "w") as file:
            raw = smooth(SHAPE, np.uint8, number)
            file.create_dataset("raw", data=raw, **options)
            file.create_dataset("label", data=(raw > 128).astype(np.uint8) + (raw > 200), **options)


class LazyPatches(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Patches at places of a grid, or drawn."""

    def __init__(self, folder: pathlib.Path, drawn: bool) -> None:
        self.folder, self.drawn = folder, drawn
        starts = [range(0, extent - PATCH + 1, STRIDE) for extent in SHAPE]
        grid = [(z, y, x) for z in starts[0] for y in starts[1] for x in starts[2]]
        self.places = [(number, place) for number in range(VOLUMES) for place in (grid[:PER_VOLUME] if drawn else grid)]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Any:
        number, place = self.places[index]
        if self.drawn:
            place = tuple(int(torch.randint(extent - PATCH + 1, ())) for extent in SHAPE)
        return self.at(number, place)

    def at(self, number: int, place: "tuple[int, ...]") -> Any:
        patch = tuple(slice(first, first + PATCH) for first in place)
        with h5py.File(self.folder / f"{number}.h5", "r") as file:
            raw = file["raw"][patch]
        with h5py.File(self.folder / f"{number}.h5", "r") as file:
            label = file["label"][patch]
        return raw[np.newaxis], label.astype(np.int64)


def compare(peer: LazyPatches, dataset: h5feed.Dataset) -> int:
    """Compares patches of both sides; returns how many."""
    compared = 0
    for batch in h5feed.torch.DataLoader(dataset, batch_size=BATCH, shuffle=True, seed=2, provenance=True):
        for i, origin in enumerate(batch.origins):
            raw, label = peer.at(origin.image, (origin.z, origin.y, origin.x))
            np.testing.assert_array_equal(np.asarray(batch.data[i]), raw)
            np.testing.assert_array_equal(np.asarray(batch.target[i]), label)
            compared += 1
        if compared >= 32:
            break
    return compared


def measure(folder: pathlib.Path, order: str, seconds: float, rounds: int) -> "dict[str, Any]":
    drawn = order == "random"
    patches: "dict[str, Any]" = {"per_image": PER_VOLUME} if drawn else {"stride": (STRIDE,) * 3}
    dataset = h5feed.Dataset.open([folder / f"{number}.h5" for number in range(VOLUMES)], data="raw", target="label",
                                  sample="dataset", input_layout="ndhw", tiles={"size": (PATCH,) * 3, **patches})
    peer = LazyPatches(folder, drawn)
    compared = compare(peer, dataset)
    ordering: "dict[str, Any]" = {"batch_size": BATCH, "shuffle": "chunk:2", "seed": 1, "num_workers": WORKERS}
    plan = h5feed.plan(dataset, **ordering)
    own = h5feed.torch.DataLoader(dataset, cache_bytes=plan.cache_bytes_decode_once, **ordering)
    other = torch.utils.data.DataLoader(peer, batch_size=BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True)
    sides: "dict[str, Callable[[], Iterator[int]]]" = {"h5feed": lambda: (len(batch.indices) for batch in own),
                                                       "peer": lambda: (len(batch[0]) for batch in other)}
    return {"samples": len(dataset), "shuffle": ordering["shuffle"], "cache_bytes": plan.cache_bytes_decode_once,
            "compared": compared, **in_turns(sides, seconds, rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=5, help="of each side in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("grid", "random"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for storage, compression in (("gzip:4", "gzip"), ("uncompressed", None)):
        with tempfile.TemporaryDirectory() as folder:
            write(pathlib.Path(folder), compression)
            for order in ("grid", "random"):
                if options.only in (None, order):
                    result = measure(pathlib.Path(folder), order, options.seconds, options.rounds)
                    results.append({"order": order, "storage": storage, **result})
                    report(order, storage, result)
    options.json.write_text(json.dumps({"workers": WORKERS, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
