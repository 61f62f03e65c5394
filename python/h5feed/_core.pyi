# SPDX-License-Identifier: Apache-2.0
"""The C++ core of h5feed. The package h5feed wraps it; it is no interface for users."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

_Numbers = np.ndarray[Any, np.dtype[np.int64]]

class MixedSetPlan:
    """What an epoch draws from one set of a mixture."""

    @property
    def share(self) -> float:
        """Weight in use, a multiple of 1/4096."""
    @property
    def samples(self) -> int:
        """Samples that an epoch draws from the set, over all ranks."""
    @property
    def size(self) -> int:
        """Samples of the set."""
    @property
    def chunks(self) -> int:
        """Chunks that these samples come from, over all ranks."""
    @property
    def decodes_per_chunk(self) -> float | None:
        """Expected decodes of each of these chunks in every epoch after the first; None if not known."""
    @property
    def passes(self) -> float:
        """How many times an epoch goes through the set."""

class PlanReport:
    """Predicted cost of an epoch, excluding repeats by echo."""

    @property
    def samples(self) -> int:
        """Samples of this rank, at most."""
    @property
    def batches(self) -> int:
        """Batches of this rank."""
    @property
    def echo_factor(self) -> int:
        """Deliveries of each batch."""
    @property
    def chunks(self) -> int:
        """Chunks that the samples of this rank come from."""
    @property
    def chunks_per_group(self) -> float:
        """In episodes, mean number of chunks in a group, which chunk:K permutes; else 1."""
    @property
    def decodes_per_chunk(self) -> float | None:
        """Expected decodes per chunk in every epoch after the first; None if not known."""
    @property
    def clairvoyant_decodes_per_chunk(self) -> float | None:
        """Expected decodes per chunk with cache_policy="clairvoyant"; None if not known."""
    @property
    def mixing(self) -> float:
        """Quality of shuffling: near 0 in file order, 1 for a full shuffle."""
    @property
    def mixing_with_echo(self) -> float:
        """`mixing` divided by `echo_factor`: repeats of a batch bring no new samples."""
    @property
    def cache_bytes(self) -> int:
        """Cache size in use, in bytes."""
    @property
    def cache_bytes_decode_once(self) -> int:
        """Smallest cache size in bytes at which each chunk is decoded once per epoch."""
    @property
    def cache_bytes_fit(self) -> int:
        """Smallest cache size in bytes at which later epochs neither read nor decode."""
    @property
    def sets(self) -> list[MixedSetPlan]:
        """The sets of a mixture; empty for other datasets."""

class SampleOrigin:
    """Storage location of a sample."""

    @property
    def file(self) -> str:
        """Path of the HDF5 file."""
    @property
    def path(self) -> str:
        """Path of the dataset in the file."""
    @property
    def row(self) -> int:
        """Row of the dataset; 0 if the sample is a whole dataset."""
    @property
    def image(self) -> int:
        """With tiles, the number of the image among all opened images; else the number of the sample."""
    @property
    def y(self) -> int:
        """First row of a tile in its image, in pixels; negative if zeros precede a small image. 0 from `Dataset.origin`
        if the place is drawn in each epoch."""
    @property
    def x(self) -> int:
        """First column of a tile in its image, in pixels; negative if zeros precede a small image. 0 from `Dataset.origin`
        if the place is drawn in each epoch."""
    @property
    def z(self) -> int:
        """First layer of a tile in its volume, in pixels; negative if zeros precede a small volume. 0 in two dimensions,
        and from `Dataset.origin` if the place is drawn in each epoch."""
    @property
    def episode(self) -> int:
        """Number of the episode among those that take part; -1 without episodes."""
    @property
    def frame(self) -> int:
        """Place of the anchor in its episode, in rows; -1 without episodes, and from `Dataset.origin` if the anchor is
        drawn in each epoch."""
    @property
    def set(self) -> int:
        """Number of the set in the list given to `mix`; 0 for other datasets."""

class Tensor:
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def pinned_by(self) -> Any: ...
    def numpy(self) -> np.ndarray[Any, Any]: ...
    def bits(self) -> np.ndarray[Any, np.dtype[np.uint16]]: ...
    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class DeviceArray:
    """An array in GPU memory of the loader, for other libraries to take over.

    Its memory returns to the loader when the array, its batch and whatever took it over are gone; the loader then
    waits, on the GPU, for the streams that were told of: by DLPack, use_on() or __cuda_array_interface__. They must
    exist until then.
    """

    @property
    def dtype(self) -> str:
        """Element type: "u8", "f32", …"""
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents: (B, C, H, W) for images, whatever the strides."""
    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, one per dimension."""
    @property
    def device(self) -> int:
        """CUDA ordinal of the GPU in this process."""
    def use_on(self, stream: int) -> None:
        """Makes work enqueued from now on on a stream (cudaStream_t as int) wait for the batch, and reuse of the memory for
        that stream."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Batch:
    @property
    def indices(self) -> _Numbers: ...
    @property
    def sets(self) -> _Numbers: ...
    @property
    def origins(self) -> list[SampleOrigin]: ...
    @property
    def fields(self) -> list[tuple[str, Tensor | DeviceArray, Tensor | None, Tensor | None]]: ...
    @property
    def transforms(self) -> list[tuple[int, int, bool, bool, int, int]]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def repeat(self) -> int: ...
    def size(self) -> int: ...
    def arrays(self) -> tuple[Any, ...]: ...
    def tensors(self) -> tuple[Any, ...]: ...

class Dataset:
    def size(self) -> int: ...
    def sample_shape(self) -> tuple[int, ...]: ...
    def dtype(self) -> str: ...
    def unit_range(self) -> bool: ...
    def has_target(self) -> bool: ...
    def tile_grid(self, image: int) -> tuple[int, int, int, int, int, int] | None: ...
    def num_images(self) -> int: ...
    def num_episodes(self) -> int: ...
    def tiles_left_out(self) -> int: ...
    def delivers_csr(self) -> bool: ...
    def categories(self, field: str) -> list[str]: ...
    def origin(self, sample: int) -> SampleOrigin: ...
    def subset(self, samples: _Numbers) -> Dataset: ...
    def split(self, fractions: Sequence[float], seed: int, by: str) -> list[Dataset]: ...
    def refreshed(self) -> Dataset: ...

class SampleReader:
    def __init__(self, dataset: Dataset, options: Mapping[str, Any]) -> None: ...
    def read(self, samples: _Numbers) -> Batch: ...
    def stats(self) -> dict[str, float]: ...

class Loader:
    def __init__(self, dataset: Dataset, options: Mapping[str, Any]) -> None: ...
    def start(self) -> int: ...
    def next(self, number: int) -> Batch | None: ...
    def next_into(self, number: int, provide: Callable[..., tuple[int, ...]]) -> Batch | None: ...
    def device(self) -> int | None: ...
    def size(self) -> int: ...
    def epoch(self) -> int: ...
    def set_epoch(self, epoch: int) -> None: ...
    def warm_up(self) -> None: ...
    def state(self) -> tuple[int, bytes]: ...
    def restore(self, saved: bytes) -> None: ...
    def stats(self) -> dict[str, float]: ...
    def options(self) -> dict[str, Any]: ...
    def report(self) -> str: ...
    def verdict(self) -> str | None: ...
    def plan(self) -> PlanReport: ...
    def closed(self) -> bool: ...
    def close(self) -> None: ...

def open_dataset(options: Mapping[str, Any]) -> Dataset: ...
def mix(datasets: Sequence[Dataset], weights: Sequence[float], shuffles: Sequence[str | None],
        epoch_size: str | int) -> Dataset: ...
def label_share(dataset: Dataset, field: str) -> list[tuple[int, int, float]]: ...
def balanced_weights(dataset: Dataset, field: str) -> list[float]: ...
def plan(dataset: Dataset, options: Mapping[str, Any]) -> PlanReport: ...
def why_no_gpu_part() -> str | None: ...
def fork_generation() -> int: ...
def report_leaks(report: bool) -> None:
    """Says whether objects of the core that exist at the end of the interpreter are reported on stderr; by default not."""

def deliver_log() -> None: ...
