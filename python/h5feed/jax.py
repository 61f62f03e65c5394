# SPDX-License-Identifier: Apache-2.0
"""The loader for JAX: images as (B, H, W, C), and int32 targets."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _core
from ._batch import Batch as _Batch
from ._errors import DatasetError, OptionError
from ._loader import Loader


class Batch(_Batch[jax.Array]):
    """A batch of JAX arrays: the tuple `(data, target)`, or `(data,)`."""


class DataLoader(Loader[Batch]):
    """Delivers a dataset in batches of JAX arrays; options as for h5feed.DataLoader.

    Images have the shape (B, H, W, C), which is how JAX's convolutions take them, and integer targets are int32 if
    `target_dtype` is unset: one that int32 cannot hold raises DatasetError with its batch. JAX copies
    the arrays to its default device itself, so `device` stays "cpu".
    """

    def _adapt(self, options: dict[str, Any]) -> None:
        if options["device"] != "cpu":
            raise OptionError(f"device \"{options['device']}\": JAX copies batches to its default device itself; leave "
                              'device="cpu"')
        if self.dataset._live.delivers_csr():
            raise OptionError('the samples are sparse rows, which JAX has no array for; open the dataset with '
                              'sparse={"format": "dense"}')
        self._images = len(self.dataset.sample_shape) == 3
        if self._images and options["output_layout"] == "nchw":
            try:
                _core.plan(self.dataset._live, {**options, "output_layout": "channels_last"})
                options["output_layout"] = "channels_last"
            except OptionError:  # three dimensions, but no images
                self._images = False
        self._narrows = options["target_dtype"] is None

    def _item(self, fetched: "_core.Batch") -> Any:
        data, *targets = (_numpy(tensor) for tensor in fetched.tensors())
        if self._images:
            data = data.transpose((0, 2, 3, 1) if self._batched else (1, 2, 0))
        if self._narrows:
            targets = [_narrowed(target) for target in targets]
        batch = Batch._of(tuple(jnp.asarray(array) for array in (data, *targets)), fetched)
        return batch if self._collate_fn is None else self._collated(batch)


def _numpy(tensor: "_core.Tensor") -> "np.ndarray[Any, Any]":
    return tensor.bits().view(jnp.dtype(jnp.bfloat16)) if tensor.dtype == "bf16" else tensor.numpy()


def _narrowed(target: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Returns integers as int32, the widest type that JAX has by default."""
    if target.dtype != np.int64:
        return target
    narrow = target.astype(np.int32)
    if not np.array_equal(narrow, target):
        raise DatasetError("a target does not fit int32, the widest integer of JAX by default; set jax_enable_x64 and "
                           'target_dtype="int64"')
    return narrow


def _flatten(batch: Batch) -> tuple[tuple[Any, ...], Any]:
    return tuple(batch), None


def _unflatten(_: Any, values: Any) -> Batch:
    return Batch._of(tuple(values), None)


jax.tree_util.register_pytree_node(Batch, _flatten, _unflatten)
