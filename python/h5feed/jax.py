# SPDX-License-Identifier: Apache-2.0
"""The loader for JAX: images as (B, H, W, C), and int32 targets."""

from typing import Any

import jax
import jax.numpy as jnp

from . import _core
from ._batch import Batch as _Batch
from ._errors import OptionError
from ._loader import Loader


class Batch(_Batch[jax.Array]):
    """A batch of JAX arrays: the tuple `(data, target)`, or `(data,)`."""


class DataLoader(Loader[Batch]):
    """Delivers a dataset in batches of JAX arrays; options as for h5feed.DataLoader.

    Images have the shape (B, H, W, C), which is how JAX's convolutions take them, and integer targets are int32. JAX copies
    the arrays to its default device itself, so `device` stays "cpu".
    """

    def _adapt(self, options: dict[str, Any]) -> None:
        if options["device"] != "cpu":
            raise OptionError(f"device \"{options['device']}\": JAX copies batches to its default device itself; leave "
                              'device="cpu"')
        self._images = len(self.dataset.sample_shape) == 3
        if self._images and options["output_layout"] == "nchw":
            try:
                _core.plan(self.dataset._live, {**options, "output_layout": "channels_last"})
                options["output_layout"] = "channels_last"
            except OptionError:  # three dimensions, but no images
                self._images = False
        if options["target_dtype"] is None and self.dataset.has_target:
            options["target_dtype"] = "int32"

    def _item(self, fetched: "_core.Batch") -> Any:
        arrays = fetched.arrays()
        data = arrays[0]
        if self._images:
            data = data.transpose((0, 2, 3, 1) if self._batched else (1, 2, 0))
        batch = Batch._of(tuple(jnp.asarray(array) for array in (data, *arrays[1:])), fetched)
        return batch if self._collate_fn is None else self._collated(batch)


def _flatten(batch: Batch) -> tuple[tuple[Any, ...], Any]:
    return tuple(batch), None


def _unflatten(_: Any, values: Any) -> Batch:
    return Batch._of(tuple(values), None)


jax.tree_util.register_pytree_node(Batch, _flatten, _unflatten)
