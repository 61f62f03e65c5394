# SPDX-License-Identifier: Apache-2.0
"""Mixtures of datasets, and the classes of a dataset."""

import operator
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from . import _core
from ._dataset import Dataset, MixedSet, live
from ._errors import OptionError
from ._opening import mixed


class LabelShare(NamedTuple):
    """One class of a dataset."""

    label: int
    #: Number of samples of the class.
    samples: int
    #: Share among the samples that an epoch delivers: of a mixture by the weights of its sets, else of all samples.
    share: float


def mix(sets: "Sequence[MixedSet | tuple[Dataset, float] | tuple[Dataset, float, bool | str | None]]", *,
        epoch_size: "Literal['shortest', 'longest'] | int" = "shortest") -> Dataset:
    """Returns a dataset whose loaders draw from several sets by weights: `mix([(a, 0.7), (b, 0.3)])`.

    All sets need the same shape, type and layout of samples, of the target and of the fields. Weights are rounded to
    multiples of 1/4096 of their sum, and each block of 4096 positions of an epoch has exactly these shares. A set keeps its
    order, `MixedSet.shuffle` or that of the loader, and begins a new pass in a new order when it is exhausted.

    An epoch of "shortest" ends before a set would repeat a sample; "longest" ends when every sample of every set has been
    drawn; otherwise it has `epoch_size` samples over all ranks. `Batch.sets` names the set of each sample.

    Raises OptionError for weights that are not finite or too small, for tiles and for mixtures among the sets, and
    DatasetError if two sets do not match.
    """
    checked = []
    for number, given in enumerate(sets):
        if isinstance(given, Dataset) or not isinstance(given, Sequence) or not 2 <= len(given) <= 3:
            raise TypeError(f"mix(): set {number} is {type(given).__name__}; give a pair (dataset, weight)")
        dataset, weight, *shuffle = given
        live(dataset)
        order = shuffle[0] if shuffle else None
        if isinstance(order, bool):
            order = "full" if order else "sequential"
        if order is not None and not isinstance(order, str):
            raise TypeError(f"mix(): the shuffle of set {number} is {type(order).__name__}; expected bool, str or None")
        # A copy, so that refresh() of the caller's dataset does not change the mixture.
        opened, steps = dataset._snapshot()
        own = Dataset(_opened=opened, _steps=steps)
        checked.append(MixedSet(own, float(weight), order))
    if isinstance(epoch_size, bool) or (not isinstance(epoch_size, str) and not hasattr(epoch_size, "__index__")):
        raise TypeError(f"epoch_size: expected int, \"shortest\" or \"longest\", got {type(epoch_size).__name__}")
    if not isinstance(epoch_size, str):
        epoch_size = operator.index(epoch_size)
        if not 1 <= epoch_size < 2**63:
            raise OptionError(f"epoch_size is {epoch_size}; use a number from 1 to 2^63 - 1, \"shortest\" or \"longest\"")
    return Dataset(_opened=mixed(checked, epoch_size), _steps=(("mix", checked, epoch_size),))


def label_share(dataset: Dataset, field: str = "") -> list[LabelShare]:
    """Returns the classes of a dataset, subset or mixture, in ascending order of their labels.

    `field` names a field with one integer per sample; "": the target. OptionError if there is none.
    """
    return [LabelShare(*share) for share in _core.label_share(live(dataset), field)]


def balanced_weights(dataset: Dataset, field: str = "") -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Returns a weight for each sample, with which a weighted sampler draws every class equally often.

    For `torch.utils.data.WeightedRandomSampler(weights, len(dataset))`. The weight is 1/(n·k), where n samples have the
    same label and k is the number of classes. `field` as for `label_share`.
    """
    return np.asarray(_core.balanced_weights(live(dataset), field))


def open_mixture(mixture: dict[str, Any]) -> Dataset:
    """Opens the sets of a checked configuration, and mixes them."""
    sets = [(Dataset.open(**part["dataset"]), part.get("weight", 1.0), part.get("shuffle")) for part in mixture["sets"]]
    return mix(sets, epoch_size=mixture.get("epoch_size", "shortest"))
