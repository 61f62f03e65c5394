# SPDX-License-Identifier: Apache-2.0
"""Datasets, and random access to their samples."""

import inspect
import operator
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from . import _core
from ._batch import Batch
from ._checks import as_bool, as_count, as_float, as_numbers, owned
from ._config import read_config, read_mixture
from ._errors import DatasetError, OptionError
from ._opening import Places, Step, leads_there, mixed, open_again, open_files, opening, replay
from ._options import (DTypeLike, EpisodeOptions, FieldOptions, ImageOptions, InputLayout, Isolation, Normalize, PathLike,
                       SampleUnit, SparseOptions, TileOptions, dtype_name, plain_fields, plain_paths)


class TileGrid(NamedTuple):
    """How each image is split into tiles; extents in pixels."""

    image_height: int
    image_width: int
    rows: int
    columns: int
    #: 0 in two dimensions.
    image_depth: int = 0
    #: Layers of tiles; 1 in two dimensions.
    layers: int = 1


class Dataset:
    """An opened dataset, or a subset of its samples. Make it with `Dataset.open`.

    Holds metadata, the address of every chunk, and small fields (labels) in memory. Thread-safe. May be
    pickled, and used in a forked process: it is opened again there, with the same samples. Relative paths stay relative
    to the directory that was current when it was opened.
    """

    def __init__(self, *, _opened: "_core.Dataset", _steps: tuple[Step, ...]) -> None:
        self._opened = _opened
        self._steps = _steps
        self._generation = _core.fork_generation()
        self._locks: dict[tuple[int, str], AbstractContextManager[object]] = {}
        self._reader: _core.SampleReader | None = None

    @staticmethod
    def open(files: PathLike | Sequence[PathLike], *, data: str = "", target: str = "",
             target_files: PathLike | Sequence[PathLike] = (), sample: SampleUnit = "row",
             input_layout: InputLayout = "automatic", unit_range: bool = False,
             images: ImageOptions | Mapping[str, Any] = ImageOptions(),
             tiles: TileOptions | Mapping[str, Any] | None = None,
             episodes: EpisodeOptions | Mapping[str, Any] | None = None, window: Sequence[int] = (),
             channels: Sequence[int] = (), target_window: Sequence[int] = (),
             sparse: SparseOptions | Mapping[str, Any] | None = None,
             fields: Sequence[FieldOptions | Mapping[str, Any]] = (), stage_dir: PathLike | None = None,
             isolation: Isolation = "none", isolation_timeout: float = 60.0, isolation_memory_bytes: int = 4 << 30) -> "Dataset":
        """Opens a dataset of one file or several, whose samples follow each other.

        `files` may hold patterns ("train/*.h5"); `data` and `target` are paths within each file, or patterns.
        Without `data`, opens the only dataset that looks like images. Blocks while it reads the metadata and small fields (at most
        64 MiB each). Raises FileError (an OSError; MissingFileError is a FileNotFoundError), DatasetError or OptionError (ValueErrors).

        `window`, `target_window`: rows of a sample, as ascending offsets from its anchor in `episodes`. `channels`: those to read.

        `data` may be a group that holds a sparse matrix, of AnnData or 10x Genomics: `sparse` says how its rows are
        delivered. `target` and fields may be categorical columns of AnnData, "obs/cell_type", with their codes.

        `stage_dir`, a directory on a local disk: the files are copied there once and read from there. Copying blocks; processes
        of one host wait for one copy. Names of files stay those of the originals.
        `isolation="process"`: another process calls libhdf5, and what it crashes over raises IsolationError.
        """
        options: dict[str, Any] = {
            "files": plain_paths(files), "data": data, "target": target, "target_files": plain_paths(target_files),
            "sample": sample, "input_layout": input_layout, "unit_range": as_bool("unit_range", unit_range),
            "fields": plain_fields(fields), "stage_dir": "" if stage_dir is None else os.fsdecode(stage_dir),
            "isolation": isolation, "isolation_timeout": as_float("isolation_timeout", isolation_timeout),
        }
        for name, value in (("images", images), ("tiles", tiles), ("episodes", episodes), ("window", window),
                            ("channels", channels), ("target_window", target_window), ("sparse", sparse),
                            ("isolation_memory_bytes", isolation_memory_bytes)):
            options[name] = owned(name, value)
        places = Places.of(options)
        opened = open_files(options)
        return Dataset(_opened=opened, _steps=(opening(options, places, opened),))

    @staticmethod
    def from_config(path: PathLike) -> "Dataset":
        """Opens the dataset that a configuration file describes: the JSON that `h5feed info FILE --write-config` writes.

        A file with the part "mixture" opens several and mixes them. Relative paths are relative to the current directory.
        Raises FileError if the file cannot be read, OptionError if it is no configuration, and what `open` and `mix` raise.
        """
        from ._mixture import open_mixture  # needs this module
        mixture = read_mixture(path, names := inspect.signature(Dataset.open).parameters)
        return Dataset.open(**read_config(path, "dataset", names)) if mixture is None else open_mixture(mixture)

    def __len__(self) -> int:
        """The number of samples when the dataset was opened."""
        return self._live.size()

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample as delivered: (C, H, W) for images."""
        return self._live.sample_shape()

    @property
    def shape(self) -> tuple[int, ...]:
        """(number of samples, *sample_shape)."""
        return (len(self), *self.sample_shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Stored element type of the data. Raises DatasetError for bfloat16, which NumPy lacks."""
        stored = self._live.dtype()
        if stored not in _NUMPY_NAMES:
            raise DatasetError(f"the elements are {stored}, which NumPy lacks; loaders deliver them with output_dtype=\"float32\"")
        return np.dtype(_NUMPY_NAMES[stored])

    @property
    def has_target(self) -> bool:
        """Whether the dataset has a target."""
        return self._live.has_target()

    @property
    def unit_range(self) -> bool:
        """Whether the data is scaled to 0 … 1."""
        return self._live.unit_range()

    @property
    def tile_grid(self) -> TileGrid | None:
        """How the first image is split into tiles; None without `tiles`, and with tiles at random places."""
        return self.tile_grid_of(0)

    def tile_grid_of(self, image: int) -> TileGrid | None:
        """Returns how an image is split into tiles; images are numbered as in `SampleOrigin.image`."""
        grid = self._live.tile_grid(operator.index(image))
        return None if grid is None else TileGrid(*grid)

    @property
    def num_images(self) -> int:
        """Number of images that tiles are cut from; 0 without `tiles`."""
        return self._live.num_images()

    @property
    def num_episodes(self) -> int:
        """Number of episodes that take part; 0 without `episodes` and windows."""
        return self._live.num_episodes()

    @property
    def tiles_left_out(self) -> int:
        """Number of tiles of the grid that `min_foreground` left out."""
        return self._live.tiles_left_out()

    def categories(self, field: str = "") -> list[str]:
        """Returns the names of the codes of a categorical target, or of a field; empty if it is not categorical."""
        return self._live.categories(field)

    def origin(self, sample: int) -> "_core.SampleOrigin":
        """Returns file, dataset and row of a sample; `sample` is a number as in `Batch.indices`, else IndexError."""
        number = operator.index(sample)
        if not 0 <= number < 2**63:
            raise IndexError(f"sample {number} is out of range")
        try:
            return self._live.origin(number)
        except OptionError as error:
            raise IndexError(str(error)) from None

    def subset(self, samples: "Sequence[int] | np.ndarray[Any, Any]") -> "Dataset":
        """Returns a dataset of these samples, in this order if read sequentially. 8 bytes per sample."""
        numbers = as_numbers(samples).copy()  # the caller may change the array
        opened, steps = self._snapshot()
        return Dataset(_opened=opened.subset(numbers), _steps=(*steps, ("subset", numbers)))

    def split(self, fractions: Sequence[float], seed: int,
              by: Literal["automatic", "auto", "sample", "part"] = "automatic") -> "list[Dataset]":
        """Splits into disjoint random parts, a function of `seed` alone; `fractions` sum to 1.

        "part" keeps the tiles of an image and the samples of an episode together; "automatic" does where there are any.
        """
        shares = [float(fraction) for fraction in fractions]
        seed = as_count("seed", seed)
        opened, steps = self._snapshot()
        parts = opened.split(shares, seed, by)
        return [Dataset(_opened=part, _steps=(*steps, ("split", shares, seed, by, number)))
                for number, part in enumerate(parts)]

    def refresh(self) -> None:
        """Opens the dataset again, with the samples appended since. Loaders made before keep their samples."""
        with self._lock("refresh"):  # other threads read meanwhile
            steps = self._steps
            if steps[0][0] == "mix":
                _, sets, epoch_size = steps[0]
                for part in sets:
                    part.dataset.refresh()
                opened = mixed(sets, epoch_size)
            elif len(steps) == 1:
                opened, step = open_again(steps[0])
                steps = (step,)
            else:
                opened = (self._live if leads_there(steps[0]) else replay(steps)).refreshed()
            self._replace(opened, steps)

    @overload
    def __getitem__(self, index: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, index: "slice | Sequence[int] | np.ndarray[Any, Any]") -> Batch[Any]: ...
    def __getitem__(self, index: Any) -> Any:
        """Returns the sample `(data, target)` of a number, or a batch of those of a slice or list.

        Reads on the calling thread, without reading ahead: a DataLoader is faster. IndexError if out of range.
        """
        if isinstance(index, slice):
            return self._read(np.arange(*index.indices(len(self)), dtype=np.int64))
        if hasattr(index, "__index__") and getattr(index, "ndim", 0) == 0:
            number = operator.index(index)
            size = len(self)
            if not -size <= number < size:
                raise IndexError(f"sample {number} is out of range for {size} samples")
            return tuple(array[0] for array in self._read(np.array([number % size], dtype=np.int64)))
        if isinstance(index, tuple):
            raise TypeError("a Dataset has one index: a sample number, a slice, or a list; index the arrays that it returns "
                            "for more")
        mask = np.asarray(index)
        if mask.dtype != np.bool_:
            return self._read(self._checked(as_numbers(index)))
        if mask.shape != (len(self),):
            raise IndexError(f"a mask of shape {mask.shape} does not fit {len(self)} samples")
        return self._read(np.flatnonzero(mask))

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, ...]]:
        """Returns the samples with these numbers, as PyTorch's DataLoader asks for them: one read for all."""
        batch = self._read(self._checked(as_numbers(indices)))
        return list(zip(*batch))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for number in range(len(self)):
            yield self[number]

    def __repr__(self) -> str:
        if self._steps[0][0] == "mix":
            shape = " × ".join(str(extent) for extent in self.sample_shape) or "scalar"
            weights = ", ".join(f"{part.weight:g}" for part in self._steps[0][1])
            return f"Dataset(mixture of weights {weights}: {len(self):,} samples of {shape} {self._live.dtype()})"
        options = self._steps[0][1]
        files = options["files"]
        where = repr(files[0]) if len(files) == 1 else f"{len(files)} files from {files[0]!r}"
        path = options["data"] or (self._live.origin(0).path if len(self) > 0 else "")
        shape = " × ".join(str(extent) for extent in self.sample_shape) or "scalar"
        text = f"Dataset({where}, data={path!r}: {len(self):,} samples of {shape} {self._live.dtype()}"
        if options["target"]:
            text += f", target={options['target']!r}"
        if options["fields"]:
            text += f", fields={[named['name'] for named in options['fields']]!r}"
        return text + (", part of the dataset)" if len(self._steps) > 1 else ")")

    def __reduce__(self) -> Any:
        return _reopen, (self._steps,)

    def _checked(self, numbers: "np.ndarray[Any, np.dtype[np.int64]]") -> "np.ndarray[Any, np.dtype[np.int64]]":
        size = len(self)
        if numbers.size and (numbers.min() < -size or numbers.max() >= size):
            wrong = numbers[(numbers < -size) | (numbers >= size)][0]
            raise IndexError(f"sample {wrong} is out of range for {size} samples")
        return np.where(numbers < 0, numbers + size, numbers)

    def _read(self, numbers: "np.ndarray[Any, np.dtype[np.int64]]") -> Batch[Any]:
        with self._lock("reader"):
            live = self._live  # drops a reader of before a fork
            if self._reader is None:
                self._reader = _core.SampleReader(live, {})
            reader = self._reader
        raw = reader.read(numbers)
        return Batch._of(raw.arrays(), raw)

    @property
    def _live(self) -> "_core.Dataset":
        if self._generation != _core.fork_generation():
            with self._lock("reader"):
                if self._generation != _core.fork_generation():
                    self._replace(replay(self._steps), self._steps)
        return self._opened

    def _snapshot(self) -> "tuple[_core.Dataset, tuple[Step, ...]]":
        """Returns the core's dataset and the steps that lead to it."""
        with self._lock("reader"):
            return self._live, self._steps

    def _replace(self, opened: "_core.Dataset", steps: tuple[Step, ...]) -> None:
        with self._lock("reader"):
            self._opened, self._steps, self._reader = opened, steps, None
            self._generation = _core.fork_generation()  # last: `_live` compares it without the lock

    def _lock(self, of: Literal["reader", "refresh"]) -> AbstractContextManager[object]:
        """Returns a reentrant lock of this process: a forked child has others, since a thread of its parent may hold those."""
        key = (_core.fork_generation(), of)
        return self._locks.get(key) or self._locks.setdefault(key, threading.RLock())


class MixedSet(NamedTuple):
    """One set of a mixture."""

    dataset: Dataset
    #: Share of the samples drawn from the set, relative to the weights of the other sets.
    weight: float = 1.0
    #: Order within the set, as `shuffle` of a loader; None: that of the loader.
    shuffle: bool | str | None = None


class SampleReader:
    """Random access to a dataset with options of its own; thread-safe. `ds[i]` suffices without options.

    `seed` and `epoch` determine what is drawn for a sample, such as the place of a tile: as in a loader of this seed.
    """

    def __init__(self, dataset: Dataset, *, normalize: Normalize | Mapping[str, Any] | None = None,
                 unit_range: bool = False, target_dtype: DTypeLike = None, cache_bytes: int | None = None,
                 memory_budget_bytes: int | None = None,
                 row_reads: Literal["automatic", "auto", "always", "never"] = "automatic", seed: int = 0,
                 epoch: int = 0) -> None:
        self.dataset = dataset
        self._reader = _core.SampleReader(live(dataset), {
            "normalize": owned("normalize", normalize), "unit_range": as_bool("unit_range", unit_range),
            "target_dtype": dtype_name(target_dtype), "cache_bytes": cache_bytes, "memory_budget_bytes": memory_budget_bytes,
            "row_reads": row_reads, "seed": seed, "epoch": epoch,
        })

    def read(self, samples: "Sequence[int] | np.ndarray[Any, Any]") -> Batch[Any]:
        """Returns the samples with these numbers as one batch, as `dataset[samples]` does. Numbers may repeat."""
        raw = self._reader.read(self.dataset._checked(as_numbers(samples)))
        return Batch._of(raw.arrays(), raw)

    def stats(self) -> dict[str, float]:
        """Returns the counters as a flat dict."""
        return self._reader.stats()


_NUMPY_NAMES = {"u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32",
                "u64": "uint64", "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64"}


def live(dataset: Dataset) -> "_core.Dataset":
    """Returns what the core takes for a dataset."""
    if not isinstance(dataset, Dataset):
        raise TypeError(f"dataset: expected an h5feed.Dataset, got {type(dataset).__name__}; open files with Dataset.open")
    return dataset._live


def _reopen(steps: tuple[Step, ...]) -> Dataset:
    return Dataset(_opened=replay(steps), _steps=steps)
