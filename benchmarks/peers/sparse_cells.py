#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of a CSR matrix in an .h5ad file: h5feed beside the loader that the field uses.

The other loader is a torch DataLoader whose worker processes read each row by slices of indptr, indices and data with
h5py, as AnnData in backed mode and the datasets built on it do, and collate them to a sparse tensor. Both deliver the
same rows; a checksum of every row is compared. The file is generated with AnnData's layout.
"""

import argparse
import json
import os
import pathlib
import statistics
import time
from typing import Any

import h5py
import numpy as np
import torch

import h5feed
import h5feed.torch


def generate(path: pathlib.Path, cells: int, genes: int, compression: str | None, seed: int = 0) -> None:
    """Writes counts of `cells` cells, about 1,000 genes each, as AnnData does."""
    random = np.random.default_rng(seed)
    lengths = np.clip(random.lognormal(6.9, 0.4, cells), 100, genes).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.empty(indptr[-1], np.int32)
    for cell in range(cells):
        indices[indptr[cell]:indptr[cell + 1]] = np.sort(random.choice(genes, lengths[cell], replace=False))
    data = np.log1p(random.geometric(0.5, indptr[-1])).astype(np.float32)
    with h5py.File(path, "w") as file:
        matrix = file.create_group("X")
        matrix.attrs["encoding-type"] = "csr_matrix"
        matrix.attrs["encoding-version"] = "0.1.0"
        matrix.attrs["shape"] = np.array([cells, genes])
        options: dict[str, Any] = {"compression": compression} if compression else {}
        for name, values in (("data", data), ("indices", indices), ("indptr", indptr)):
            matrix.create_dataset(name, data=values, maxshape=(None,), **options) if compression else \
                matrix.create_dataset(name, data=values)


class BackedRows(torch.utils.data.Dataset[Any]):
    """Rows of a backed matrix; each process opens the file for itself."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        with h5py.File(path, "r") as file:
            self.indptr = file["X/indptr"][:]
            self.genes = int(file["X"].attrs["shape"][1])
        self.file: Any = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, row: int) -> Any:
        if self.file is None:
            self.file = h5py.File(self.path, "r")
            self.data, self.indices = self.file["X/data"], self.file["X/indices"]
        begin, end = self.indptr[row], self.indptr[row + 1]
        return row, self.data[begin:end], self.indices[begin:end]

    def collate(self, rows: list[Any]) -> Any:
        offsets = np.concatenate([[0], np.cumsum([len(values) for _, values, _ in rows])])
        matrix = torch.sparse_csr_tensor(torch.from_numpy(offsets),
                                         torch.from_numpy(np.concatenate([columns for *_, columns in rows]).astype(np.int64)),
                                         torch.from_numpy(np.concatenate([values for _, values, _ in rows])),
                                         size=(len(rows), self.genes), check_invariants=False)
        return matrix, [row for row, *_ in rows]


def checksums(matrix: Any, rows: Any, weights: Any, into: "np.ndarray[Any, Any]") -> None:
    into[np.asarray(rows)] = (matrix.to_dense().double() @ weights).numpy()


def backed(path: pathlib.Path, batch: int, workers: int, order: "list[int] | None", seconds: float) -> Any:
    rows = BackedRows(path)
    return torch.utils.data.DataLoader(rows, batch_size=batch, sampler=order, num_workers=workers, collate_fn=rows.collate)


def ours(path: pathlib.Path, batch: int, workers: int, shuffle: Any) -> Any:
    dataset = h5feed.Dataset.open(path, data="X")
    return h5feed.torch.DataLoader(dataset, batch_size=batch, shuffle=shuffle, num_workers=workers, seed=1)


def rate(loader: Any, limit: float) -> float:
    """Returns rows per second of one epoch, or of its first `limit` seconds."""
    rows, begin = 0, time.perf_counter()
    for matrix, *_ in loader:
        rows += matrix.shape[0]
        if time.perf_counter() - begin > limit:
            break
    return rows / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cells", type=int, default=30_000)
    parser.add_argument("--genes", type=int, default=30_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for compression in ("gzip", None):
        path = args.folder / f"cells_{compression}_{args.cells}.h5ad"
        if not path.exists():
            generate(path, args.cells, args.genes, compression)
        weights = torch.from_numpy(np.random.default_rng(1).random(args.genes))
        sums = np.zeros((2, args.cells))
        for number in range(2):
            order = list(range(args.cells))[:2048]
            if number == 0:
                for matrix, rows in backed(path, args.batch, 0, order, args.seconds):
                    checksums(matrix, rows, weights, sums[0])
            else:
                for batch in ours(path, args.batch, args.workers, "chunk:4"):
                    if batch.indices.min() < 2048:
                        checksums(batch.data, batch.indices, weights, sums[1])
        sums[:, 2048:] = 0
        if not np.array_equal(sums[0], sums[1]):
            raise SystemExit("the loaders deliver different values")
        full = np.random.default_rng(2).permutation(args.cells).tolist()
        runs: dict[str, list[float]] = {}
        for _ in range(args.repeats):
            for name, loader in (
                    ("h5py rows, DataLoader, file order", backed(path, args.batch, args.workers, None, args.seconds)),
                    ("h5py rows, DataLoader, full shuffle", backed(path, args.batch, args.workers, full, args.seconds)),
                    ("h5feed, file order", ours(path, args.batch, args.workers, False)),
                    ("h5feed, chunk:16", ours(path, args.batch, args.workers, "chunk:16")),
                    ("h5feed, full shuffle", ours(path, args.batch, args.workers, True))):
                runs.setdefault(name, []).append(rate(loader, args.seconds))
        with h5py.File(path, "r") as file:
            chunks = file["X/data"].chunks
        print(json.dumps({"compression": compression, "chunks": chunks, "cpus": len(os.sched_getaffinity(0)),
                          "rows_per_s": {name: round(statistics.median(values)) for name, values in runs.items()}}, indent=1))


if __name__ == "__main__":
    main()
