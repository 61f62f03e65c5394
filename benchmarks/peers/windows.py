#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures windows in time beside the loaders that each field publishes, on sets of its layout.

    benchmarks/peers/windows.py --json OUT.json [--seconds S] [--only LAYOUT]

Each peer is a Dataset for PyTorch's DataLoader that reads as the public code of its field does, with h5py:

  weather   FourCastNet, utils/data_loader_multifiles.py: a file per year, (T,C,H,W), a slice for each sample
  robomimic utils/dataset.py, SequenceDataset: a group per demonstration, rows repeated at its ends, masks
  act       utils.py, EpisodicDataset: a file per episode that is opened for each sample, one random start, zeros
  lerobot   datasets/lerobot_dataset.py: one table of frames, rows of delta_timestamps read one by one
  fastmri   data/mri_data.py, SliceDataset: a file per scan that is opened for each sample; neighbours as a slice

Both sides run with 2 workers, shuffled, in turns within one run; the values of samples are compared first. h5feed keeps
no more decoded data from one epoch to the next than its order needs: the cache that plan() says for chunk:K, else 4 MiB. Needs h5feed,
torch and h5py. Prints a line for each layout and storage, and writes all figures as JSON.
"""

import argparse
import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np
import torch

import h5feed
import h5feed.torch

Sample = "tuple[np.ndarray[Any, Any], ...]"
WORKERS = 2


def smooth(shape: "tuple[int, ...]", dtype: Any, seed: int) -> "np.ndarray[Any, Any]":
    """Values that vary slowly in space with some noise, as measurements do, so that gzip finds something."""
    random = np.random.default_rng(seed)
    last = np.arange(shape[-1])
    waves = np.sin(last / 7 + random.random((*shape[:-1], 1)) * 6) + random.integers(0, 4, shape) / 64
    if np.issubdtype(dtype, np.integer):
        return ((waves + 1.1) * 110).astype(dtype)
    return (np.round(waves * 512) / 512).astype(dtype)


class Layout:
    """One layout: how it is written, how the peer reads it, and how h5feed does."""

    batch = 16
    shuffle = "chunk:2"

    def __init__(self, folder: pathlib.Path, compression: "str | None") -> None:
        self.folder = folder
        self.gzip: "dict[str, Any]" = {} if compression is None else {"compression": "gzip", "compression_opts": 4}
        self.compressed = compression is not None
        self.write()

    def write(self) -> None: ...

    def peer(self) -> "torch.utils.data.Dataset[Any]": ...

    def dataset(self) -> h5feed.Dataset: ...

    def item_of(self, peer: Any, origin: Any) -> "tuple[Any, ...]":
        """The peer's sample at the place of an origin."""
        raise NotImplementedError

    def values_of(self, batch: Any, i: int) -> "tuple[Any, ...]":
        return batch.data[i], batch.target[i]


class Weather(Layout):
    years, steps, shape, back, ahead = 2, 240, (8, 90, 180), 2, 3

    def write(self) -> None:
        for year in range(self.years):
            with h5py.File(self.folder / f"{year}.h5", "w") as file:
                file.create_dataset("fields", data=smooth((self.steps, *self.shape), np.float32, year),
                                    chunks=(1, *self.shape) if self.compressed else None, **self.gzip)

    def peer(self) -> Any:
        layout = self

        class GetDataset(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __init__(self) -> None:
                self.files: "list[Any]" = [None] * layout.years
                self.per_year = layout.steps - layout.back - layout.ahead

            def __len__(self) -> int:
                return layout.years * self.per_year

            def __getitem__(self, index: int) -> Any:
                year, step = divmod(index, self.per_year)
                if self.files[year] is None:
                    self.files[year] = h5py.File(layout.folder / f"{year}.h5", "r")["fields"]
                anchor = step + layout.back
                fields = self.files[year]
                return (torch.as_tensor(fields[anchor - layout.back:anchor + 1]),
                        torch.as_tensor(fields[anchor + 1:anchor + 1 + layout.ahead]))

        return GetDataset()

    def dataset(self) -> h5feed.Dataset:
        return h5feed.Dataset.open(str(self.folder / "*.h5"), data="fields", target="fields", input_layout="nchw",
                                   window=list(range(-self.back, 1)), target_window=list(range(1, 1 + self.ahead)))

    def item_of(self, peer: Any, origin: Any) -> "tuple[Any, ...]":
        return peer[origin.episode * peer.per_year + origin.frame - self.back]


class Robomimic(Layout):
    demos, rows, image, frames, actions = 40, 120, (84, 84, 3), 2, 10
    batch, shuffle = 16, "chunk:8"

    def write(self) -> None:
        with h5py.File(self.folder / "demo.hdf5", "w") as file:
            for demo in range(self.demos):
                group = file.create_group(f"data/demo_{demo}")
                group.attrs["num_samples"] = self.rows
                group.create_dataset("obs/image", data=smooth((self.rows, *self.image), np.uint8, demo),
                                     chunks=(8, *self.image) if self.compressed else None, **self.gzip)
                group.create_dataset("actions", data=smooth((self.rows, 7), np.float64, demo))

    def peer(self) -> Any:
        layout = self

        class SequenceDataset(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __init__(self) -> None:
                self.file: Any = None

            def __len__(self) -> int:
                return layout.demos * layout.rows

            def sequence(self, path: str, begin: int, end: int) -> "tuple[Any, Any]":
                pad_begin, pad_end = max(0, -begin), max(0, end - layout.rows)
                seq = self.file[path][max(0, begin):min(layout.rows, end)]
                padded = np.concatenate([np.repeat(seq[:1], pad_begin, 0), seq, np.repeat(seq[-1:], pad_end, 0)])
                mask = np.array([0] * pad_begin + [1] * len(seq) + [0] * pad_end, dtype=bool)
                return padded, mask

            def __getitem__(self, index: int) -> Any:
                if self.file is None:
                    self.file = h5py.File(layout.folder / "demo.hdf5", "r", swmr=True, libver="latest")
                demo, row = divmod(index, layout.rows)
                images, _ = self.sequence(f"data/demo_{demo}/obs/image", row - layout.frames + 1, row + 1)
                actions, mask = self.sequence(f"data/demo_{demo}/actions", row, row + layout.actions)
                return np.ascontiguousarray(images.transpose(0, 3, 1, 2)), actions, mask

        return SequenceDataset()

    def dataset(self) -> h5feed.Dataset:
        return h5feed.Dataset.open(self.folder / "demo.hdf5", data="data/demo_*/obs/image", input_layout="nhwc",
                                   window=list(range(1 - self.frames, 1)), target="data/demo_*/actions",
                                   target_window=list(range(self.actions)),
                                   episodes=dict(missing_before=self.frames - 1, missing_after=self.actions - 1))

    def item_of(self, peer: Any, origin: Any) -> "tuple[Any, ...]":
        return peer[origin.episode * self.rows + origin.frame]

    def values_of(self, batch: Any, i: int) -> "tuple[Any, ...]":
        return batch.data[i], batch.target[i], batch.fields["target.valid"].values[i]


class Act(Layout):
    episodes, rows, image, length = 24, 100, (120, 160, 3), 50
    batch, shuffle = 8, True

    def write(self) -> None:
        for episode in range(self.episodes):
            with h5py.File(self.folder / f"episode_{episode}.hdf5", "w") as file:
                file.create_dataset("observations/images/top", data=smooth((self.rows, *self.image), np.uint8, episode),
                                    chunks=(1, *self.image), **self.gzip)
                file["action"] = smooth((self.rows, 14), np.float32, episode)
                file["observations/qpos"] = smooth((self.rows, 14), np.float32, episode + 99)

    def peer(self) -> Any:
        layout = self

        class EpisodicDataset(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __len__(self) -> int:
                return layout.episodes

            def __getitem__(self, index: int) -> Any:
                return self.at(index, int(np.random.choice(layout.rows)))

            def at(self, index: int, start: int) -> Any:
                with h5py.File(layout.folder / f"episode_{index}.hdf5", "r") as root:
                    qpos = root["/observations/qpos"][start]
                    image = root["/observations/images/top"][start]
                    action = root["/action"][start:]
                padded = np.zeros((layout.length, action.shape[1]), dtype=np.float32)
                count = min(len(action), layout.length)
                padded[:count] = action[:count]
                is_pad = np.arange(layout.length) >= count
                return np.ascontiguousarray(image.transpose(2, 0, 1)), padded, qpos, ~is_pad

        return EpisodicDataset()

    def dataset(self) -> h5feed.Dataset:
        return h5feed.Dataset.open([self.folder / f"episode_{episode}.hdf5" for episode in range(self.episodes)],
                                   data="observations/images/top", input_layout="nhwc", target="action",
                                   target_window=list(range(self.length)),
                                   fields=[dict(name="qpos", data="observations/qpos")],
                                   episodes=dict(anchors="one_random", missing_after=-1, fill="zero"))

    def item_of(self, peer: Any, origin: Any) -> "tuple[Any, ...]":
        return peer.at(origin.episode, origin.frame)

    def values_of(self, batch: Any, i: int) -> "tuple[Any, ...]":
        return batch.data[i], batch.target[i], batch.fields["qpos"].values[i], batch.fields["target.valid"].values[i]


class Lerobot(Layout):
    episodes, rows, state, back, ahead = 20, 200, 256, 3, 8
    batch, shuffle = 32, "chunk:4"

    def write(self) -> None:
        with h5py.File(self.folder / "frames.h5", "w") as file:
            count = self.episodes * self.rows
            file.create_dataset("observation", data=smooth((count, self.state), np.float32, 1),
                                chunks=(64, self.state) if self.compressed else None, **self.gzip)
            file.create_dataset("action", data=smooth((count, 7), np.float32, 2))
            file["episode_index"] = np.repeat(np.arange(self.episodes), self.rows)

    def peer(self) -> Any:
        layout = self

        class LeRobotDataset(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __init__(self) -> None:
                self.file: Any = None

            def __len__(self) -> int:
                return layout.episodes * layout.rows

            def query(self, name: str, index: int, deltas: range) -> "tuple[Any, Any]":
                begin = index // layout.rows * layout.rows
                wanted = [index + delta for delta in deltas]
                rows = [min(max(row, begin), begin + layout.rows - 1) for row in wanted]
                pad = torch.tensor([row == want for row, want in zip(rows, wanted)])
                return torch.stack([torch.as_tensor(self.file[name][row]) for row in rows]), pad

            def __getitem__(self, index: int) -> Any:
                if self.file is None:
                    self.file = h5py.File(layout.folder / "frames.h5", "r")
                observations, _ = self.query("observation", index, range(1 - layout.back, 1))
                actions, valid = self.query("action", index, range(layout.ahead))
                return observations, actions, valid

        return LeRobotDataset()

    def dataset(self) -> h5feed.Dataset:
        return h5feed.Dataset.open(self.folder / "frames.h5", data="observation", input_layout="none",
                                   window=list(range(1 - self.back, 1)), target="action",
                                   target_window=list(range(self.ahead)),
                                   episodes=dict(index="ids", table="episode_index", missing_before=-1, missing_after=-1))

    def item_of(self, peer: Any, origin: Any) -> "tuple[Any, ...]":
        return peer[origin.row]

    def values_of(self, batch: Any, i: int) -> "tuple[Any, ...]":
        return batch.data[i], batch.target[i], batch.fields["target.valid"].values[i]


class Fastmri(Layout):
    scans, slices, image = 12, 32, (160, 160)
    batch, shuffle = 4, "chunk:4"

    def write(self) -> None:
        for scan in range(self.scans):
            with h5py.File(self.folder / f"scan_{scan:02}.h5", "w") as file:
                kspace = smooth((self.slices, *self.image, 2), np.float32, scan).view(np.complex64)[..., 0]
                file.create_dataset("kspace", data=kspace, chunks=(1, *self.image) if self.compressed else None, **self.gzip)
                file["reconstruction_rss"] = smooth((self.slices, *self.image), np.float32, scan)
                file["mask"] = np.ones(self.image[1], np.float32)

    def peer(self) -> Any:
        layout = self

        class SliceDataset(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __len__(self) -> int:
                return layout.scans * (layout.slices - 2)

            def __getitem__(self, index: int) -> Any:
                scan, number = divmod(index, layout.slices - 2)
                with h5py.File(layout.folder / f"scan_{scan:02}.h5", "r") as file:
                    kspace = file["kspace"][number:number + 3]
                    target = file["reconstruction_rss"][number + 1]
                    mask = np.asarray(file["mask"])
                return torch.view_as_real(torch.as_tensor(kspace)), target, mask

        return SliceDataset()

    def dataset(self) -> h5feed.Dataset:
        return h5feed.Dataset.open(str(self.folder / "*.h5"), data="kspace", input_layout="none", window=[-1, 0, 1],
                                   target="reconstruction_rss", fields=[dict(name="mask", per="file")])

    def item_of(self, peer: Any, origin: Any) -> "tuple[Any, ...]":
        return peer[origin.episode * (self.slices - 2) + origin.frame - 1]

    def values_of(self, batch: Any, i: int) -> "tuple[Any, ...]":
        return batch.data[i], batch.target[i], batch.fields["mask"].values[i]


LAYOUTS: "dict[str, type[Layout]]" = {"weather": Weather, "robomimic": Robomimic, "act": Act, "lerobot": Lerobot,
                                      "fastmri": Fastmri}


def compare(layout: Layout, dataset: h5feed.Dataset) -> int:
    """Compares samples of both sides; returns how many."""
    peer = layout.peer()
    compared = 0
    for batch in h5feed.torch.DataLoader(dataset, batch_size=4, shuffle=True, seed=2, provenance=True):
        for i, origin in enumerate(batch.origins):
            for own, other in zip(layout.values_of(batch, i), layout.item_of(peer, origin), strict=True):
                np.testing.assert_array_equal(np.asarray(own), np.asarray(other))
            compared += 1
        if compared >= 64:
            break
    return compared


def samples_per_second(epochs: "Callable[[], Iterator[int]]", seconds: float) -> float:
    """Runs whole epochs for at least `seconds`."""
    samples, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        samples += sum(epochs())
    return samples / (time.perf_counter() - begin)


def in_turns(sides: "dict[str, Callable[[], Iterator[int]]]", seconds: float, rounds: int) -> "dict[str, Any]":
    """Measures both sides in turns, each for `seconds` in each round; the ratios are those of the rounds."""
    for epoch in sides.values():
        sum(epoch())  # starts the workers, and reads the files into the page cache
    speeds: "dict[str, list[float]]" = {name: [] for name in sides}
    for _ in range(rounds):
        for name, epoch in sides.items():
            speeds[name].append(samples_per_second(epoch, seconds))
    ratios = [mine / other for mine, other in zip(speeds["h5feed"], speeds["peer"])]
    return {"samples_per_second": speeds, "ratio": statistics.median(ratios), "ratios": ratios}


def report(name: str, storage: str, result: "dict[str, Any]") -> None:
    """Prints the line of a comparison."""
    mine, other = (statistics.median(result["samples_per_second"][side]) for side in ("h5feed", "peer"))
    print(f"{name:10} {storage:13} {result['ratio']:6.1f} x  h5feed {mine:9,.0f} samples/s, peer {other:9,.0f}", flush=True)


def measure(layout: Layout, seconds: float, rounds: int) -> "dict[str, Any]":
    dataset = layout.dataset()
    compared = compare(layout, dataset)
    ordering = {"batch_size": layout.batch, "shuffle": layout.shuffle if layout.compressed else True, "seed": 1,
                "num_workers": WORKERS}
    cache = 4 << 20 if ordering["shuffle"] is True else h5feed.plan(dataset, **ordering).cache_bytes_decode_once
    own = h5feed.torch.DataLoader(dataset, cache_bytes=cache, **ordering)
    peer = torch.utils.data.DataLoader(layout.peer(), batch_size=layout.batch, shuffle=True, num_workers=WORKERS,
                                       persistent_workers=True)
    sides: "dict[str, Callable[[], Iterator[int]]]" = {
        "h5feed": lambda: (len(batch.indices) for batch in own),
        "peer": lambda: (len(batch[0]) for batch in peer)}
    return {"samples": len(dataset), "shuffle": ordering["shuffle"], "cache_bytes": cache, "compared": compared,
            **in_turns(sides, seconds, rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=3, help="of each side in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=LAYOUTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for name, kind in LAYOUTS.items():
        if options.only not in (None, name):
            continue
        for compression in ("gzip", None):
            with tempfile.TemporaryDirectory() as folder:
                result = measure(kind(pathlib.Path(folder), compression), options.seconds, options.rounds)
            results.append({"layout": name, "storage": "gzip:4" if compression else "uncompressed", **result})
            report(name, results[-1]["storage"], result)
    options.json.write_text(json.dumps({"workers": WORKERS, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
