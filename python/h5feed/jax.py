# SPDX-License-Identifier: Apache-2.0
"""The loader for JAX: images as (B, H, W, C), and int32 targets."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes

from . import _core
from ._batch import Batch as _Batch
from ._errors import DatasetError, OptionError
from ._loader import Loader


class Batch(_Batch[jax.Array]):
    """A batch of JAX arrays: the tuple `(data, target)`, or `(data,)`."""


class DataLoader(Loader[Batch]):
    """Delivers a dataset in batches of JAX arrays; options as for h5feed.DataLoader.

    Images have the shape (B, H, W, C), which is how JAX's convolutions take them. Without `jax_enable_x64` JAX has
    numbers of up to 32 bits: integers of 64 bits become int32 or uint32, and one that does not fit raises DatasetError
    with its batch; float64 becomes float32. Integer targets are int32 also with it if `target_dtype` is unset. JAX
    copies the arrays to its default device itself, so `device` stays "cpu".
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
        data = _narrowed(data, dtypes.canonicalize_dtype(data.dtype), "a value of the data", "jax_enable_x64")
        targets = [self._narrowed_target(target) for target in targets]
        batch = Batch._of(tuple(jnp.asarray(array) for array in (data, *targets)), fetched)
        return batch if self._collate_fn is None else self._collated(batch)

    def _narrowed_target(self, target: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        if self._narrows and target.dtype == np.int64:
            return _narrowed(target, np.dtype(np.int32), "a target", 'jax_enable_x64 and target_dtype="int64"')
        return _narrowed(target, dtypes.canonicalize_dtype(target.dtype), "a target", "jax_enable_x64")


def _numpy(tensor: "_core.Tensor") -> "np.ndarray[Any, Any]":
    return tensor.bits().view(jnp.dtype(jnp.bfloat16)) if tensor.dtype == "bf16" else tensor.numpy()


def _narrowed(values: "np.ndarray[Any, Any]", dtype: "np.dtype[Any]", what: str, cure: str) -> "np.ndarray[Any, Any]":
    """Returns integers of 64 bits as `dtype`, and others as they are; JAX itself would drop the upper bits."""
    if values.dtype.kind not in "iu" or values.dtype == dtype:
        return values
    narrow = values.astype(dtype)
    if not np.array_equal(narrow, values):
        raise DatasetError(f"{what} does not fit {dtype}, the widest integer of JAX by default; set {cure}")
    return narrow


def _flatten(batch: Batch) -> tuple[tuple[Any, ...], Any]:
    return tuple(batch), None


def _unflatten(_: Any, values: Any) -> Batch:
    return Batch._of(tuple(values), None)


jax.tree_util.register_pytree_node(Batch, _flatten, _unflatten)
