# SPDX-License-Identifier: Apache-2.0
"""Batches as users see them."""

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from . import _core

Array = TypeVar("Array")


class Field(NamedTuple):
    """A named field of a batch of B samples.

    `values` has the shape (B, …); with collate="pad" (B, L, …), and `lengths` (B,) says how many rows of each
    sample are its own; with collate="ragged" (sum of lengths, …), and sample i is
    `values[offsets[i]:offsets[i + 1]]`. If the batch is on a GPU, so are the values of fields with collate="stack".
    """

    values: Any
    offsets: Any = None
    lengths: Any = None


class SampleTransform(NamedTuple):
    """What `augment` did to one sample.

    The window of the source begins at row `crop_y` and column `crop_x`, in pixels. With `random_resized_crop` it has
    `crop_height` by `crop_width` pixels and is scaled; otherwise these are 0. Flips follow.
    """

    crop_y: int
    crop_x: int
    flipped: bool
    flipped_vertically: bool
    crop_height: int
    crop_width: int


class Batch(tuple[Array, ...], Generic[Array]):
    """One batch: the tuple `(data, target)`, or `(data,)` without a target.

    `data` has the shape (B, C, H, W) for images, else (B, stored shape); `target` (B,) or (B, …). The arrays
    are writable, share no memory with other batches, and stay valid after the loader is closed.
    """

    _raw: "_core.Batch | None" = None
    _given: Mapping[str, Array] = {}

    @classmethod
    def _of(cls, arrays: tuple[Array, ...], raw: "_core.Batch | None", given: Mapping[str, Array] = {}) -> Self:
        """Makes a batch; `given` holds the values of fields that the core wrote to memory of the consumer."""
        batch = tuple.__new__(cls, arrays)
        batch._raw = raw
        batch._given = given
        return batch

    @property
    def data(self) -> Array:
        """The samples."""
        return self[0]

    @property
    def target(self) -> Array | None:
        """The targets; None if the dataset has none."""
        return self[1] if len(self) > 1 else None

    @property
    def indices(self) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """Sample numbers in the dataset, in batch order: int64 (B,)."""
        return self._held.indices

    @property
    def sets(self) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """Set of each sample of a mixture, its number in the list given to `mix`: int64 (B,); else empty."""
        return self._held.sets

    @property
    def fields(self) -> dict[str, Field]:
        """The fields of `Dataset.open(fields=…)` by name: NumPy arrays, but of h5feed.torch tensors, and DeviceArrays on a GPU."""
        named = {}
        for name, values, *lengths in self._held.fields:
            array = self._given[name] if name in self._given else self._field_array(values)
            named[name] = Field(array, *(None if tensor is None else self._field_array(tensor) for tensor in lengths))
        return named

    @property
    def origins(self) -> "list[_core.SampleOrigin]":
        """File, dataset and row of each sample; empty without `provenance=True`."""
        return self._held.origins

    @property
    def transforms(self) -> list[SampleTransform]:
        """Crop and flips of each sample; empty without `augment`."""
        return [SampleTransform(*transform) for transform in self._held.transforms]

    @property
    def epoch(self) -> int:
        """Epoch that the batch belongs to."""
        return self._held.epoch

    @property
    def number(self) -> int:
        """Number of the batch within its epoch."""
        return self._held.number

    @property
    def repeat(self) -> int:
        """Earlier deliveries of this batch with `echo`; 0 for the first."""
        return self._held.repeat

    @staticmethod
    def _field_array(tensor: "_core.Tensor | _core.DeviceArray") -> Any:
        return tensor if isinstance(tensor, _core.DeviceArray) else tensor.numpy()

    @property
    def _held(self) -> "_core.Batch":
        if self._raw is None:
            raise AttributeError("a batch that was copied or mapped has only data and target")
        return self._raw

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), tuple(self))

    def __repr__(self) -> str:
        arrays: tuple[Any, ...] = self
        parts = [f"{name}: {array.dtype} {tuple(array.shape)}" if hasattr(array, "dtype") else f"{name}: {array!r}"
                 for name, array in zip(("data", "target"), arrays)]
        return f"{type(self).__name__}({', '.join(parts)})"


def _rebuild(cls: type[Batch[Any]], arrays: tuple[Any, ...]) -> Batch[Any]:
    return cls._of(arrays, None)
