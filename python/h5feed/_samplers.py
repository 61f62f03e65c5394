# SPDX-License-Identifier: Apache-2.0
"""Sample orders of the user: functions of the epoch, and the samplers of PyTorch."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ._checks import as_numbers
from ._errors import OptionError

_EPOCHS_KEPT = 3  # the running epoch, the next one that workers prepare, and epoch 0, which gives the size


class EpochOrder:
    """Calls a sampler once per epoch and remembers the answers, since the loader may ask again.

    `sampler` is a function of the epoch, or an iterable with an optional `set_epoch`, as PyTorch's are.
    """

    def __init__(self, sampler: Any, convert: Callable[[Any], Any]) -> None:
        self._sampler = sampler
        self._convert = convert
        self._known: OrderedDict[int, Any] = OrderedDict()
        self._iterates = hasattr(sampler, "__iter__")
        if not self._iterates and not callable(sampler):
            raise TypeError(f"expected a function of the epoch or a sampler of PyTorch, got {type(sampler).__name__}")
        if hasattr(sampler, "__next__"):
            raise TypeError(f"sampler: a {type(sampler).__name__} is used up after one epoch; give a list, a function of the "
                            "epoch, or a sampler of PyTorch")
        # PyTorch's BatchSampler iterates the sampler that depends on the epoch.
        inner = (sampler, getattr(sampler, "sampler", None))
        self._of_epoch = next((one for one in inner if hasattr(one, "set_epoch")), None)
        #: Whether the order can be made again from the number of the epoch: a saved state needs that.
        self.is_function_of_epoch = (not self._iterates or isinstance(sampler, (list, tuple, range))
                                     or hasattr(sampler, "__array__") or self._of_epoch is not None
                                     or any(type(one).__name__ == "SequentialSampler" for one in inner))

    def __call__(self, epoch: int) -> Any:
        """Returns the converted order of an epoch."""
        if epoch in self._known:
            return self._known[epoch]
        order = called("the sampler", self._order_of, epoch)
        self._known[epoch] = order
        while len(self._known) > _EPOCHS_KEPT:
            oldest = min(self._known, key=lambda known: (known == 0, known))
            del self._known[oldest]
        return order

    def _order_of(self, epoch: int) -> Any:
        if not self._iterates:
            return self._convert(self._sampler(epoch))
        if self._of_epoch is not None:
            self._of_epoch.set_epoch(epoch)
        return self._convert(self._sampler)


def called(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Returns what a function of the user returns. Its StopIteration would end the epoch, so it becomes a RuntimeError."""
    try:
        return function(*args)
    except StopIteration as error:
        raise RuntimeError(f"{name} raised StopIteration; call next() there with a default, or catch it") from error


def shards_itself(sampler: Any) -> bool:
    """Returns whether a sampler delivers the samples of one rank only, as PyTorch's DistributedSampler does."""
    return hasattr(sampler, "num_replicas") or shards_itself_within(sampler)


def shards_itself_within(sampler: Any) -> bool:
    inner = getattr(sampler, "sampler", None)
    return inner is not None and hasattr(inner, "num_replicas")


def as_samples(samples: Iterable[Any]) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Returns the samples of an epoch as an array, a copy: a sampler may use its array for the next epoch.

    >>> as_samples(range(3))
    array([0, 1, 2])
    """
    return as_numbers(samples if hasattr(samples, "__len__") and not hasattr(samples, "set_epoch")
                      and isinstance(samples, (list, tuple, range, np.ndarray)) else list(samples)).copy()


def as_batches(batches: Iterable[Any]) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Returns the batches of an epoch as one array of samples and one of batch sizes.

    >>> as_batches([[3, 1], [2]])
    (array([3, 1, 2]), array([2, 1]))
    """
    lists = [as_numbers(_samples_of(batch)) for batch in batches]
    sizes = np.array([len(batch) for batch in lists], dtype=np.int64)
    return (np.concatenate(lists) if lists else np.empty(0, dtype=np.int64)), sizes


def _samples_of(batch: Any) -> list[Any]:
    if not hasattr(batch, "__iter__"):
        raise TypeError(f"batch_sampler: expected batches of sample numbers, got {batch!r}; sampler takes single samples")
    return list(batch)


def largest_batch(batch_sampler: Any, order: EpochOrder) -> int:
    """Returns the samples of the largest batch: as the sampler states, else in epoch 0."""
    stated = getattr(batch_sampler, "batch_size", None)
    if isinstance(stated, int) and stated > 0:
        return stated
    sizes = order(0)[1]
    if not len(sizes):
        raise OptionError("batch_sampler gives no batches for epoch 0")
    return int(sizes.max())
