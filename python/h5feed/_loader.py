# SPDX-License-Identifier: Apache-2.0
"""The loader, with NumPy arrays."""

import atexit
import contextlib
import copy
import functools
import inspect
import json
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, NoReturn, Self, TypeAlias, TypeVar

from . import _core
from ._batch import Batch
from ._checks import as_bool, as_count, as_float, as_shuffle, owned
from ._config import read_config
from ._dataset import Dataset
from ._errors import DatasetError, OptionError, StateError, in_python_terms
from ._options import Augment, DeviceLike, DTypeLike, Echo, Normalize, PathLike, dtype_name
from ._samplers import EpochOrder, as_batches, as_samples, called, largest_batch, shards_itself

Item = TypeVar("Item")
#: A function from the epoch to sample numbers, or a sampler of PyTorch.
SamplerLike: TypeAlias = Any

# Arguments of PyTorch's DataLoader that are left out, and what stands for them.
_NOT_NEEDED = {
    "generator": "set seed instead", "multiprocessing_context": "leave it out: there are no worker processes",
    "persistent_workers": "leave it out: worker threads persist", "pin_memory_device": "set device instead",
}
log = logging.getLogger("h5feed")
_alive: "weakref.WeakSet[Loader[Any]]" = weakref.WeakSet()


def refuse_unknown(names: Iterable[str]) -> None:
    """Raises TypeError if there is a name."""
    for name in names:
        hint = f"; {_NOT_NEEDED[name]}" if name in _NOT_NEEDED else ""
        raise TypeError(f"DataLoader() got an unexpected keyword argument '{name}'{hint}")


class Loader(Generic[Item]):
    """What the loaders of all frameworks share. Use h5feed.DataLoader, h5feed.torch.DataLoader or h5feed.jax.DataLoader."""

    def __init__(self, dataset: Dataset | PathLike | Sequence[PathLike], *, data: str = "", target: str = "",
                 batch_size: int | None = 1, shuffle: bool | str = False, sampler: SamplerLike = None,
                 batch_sampler: SamplerLike = None, num_workers: int | Literal["auto"] = 0, cpu_limit: float | None = None,
                 collate_fn: Callable[[Any], Any] | None = None, prefetch_factor: int | None = None,
                 prefetch_bytes: int | None = None, drop_last: bool = False, timeout: float | None = None,
                 worker_init_fn: Callable[[int], object] | None = None, in_order: bool = True,
                 device: DeviceLike = "cpu", pin_memory: bool = False, copy_depth: int | None = None,
                 seed: int | None = None, rank: int | None = None, world_size: int | None = None,
                 local_world_size: int = 0,
                 shard: Literal["strided", "contiguous", "by_chunk"] = "strided",
                 uneven: Literal["exact", "pad", "drop"] = "exact", cache_bytes: int | None = None,
                 cache_policy: Literal["lru", "clairvoyant", "keep_first"] = "lru", preload: bool = False,
                 memory_budget_bytes: int | None = None, io_depth: int | None = None,
                 normalize: Normalize | Mapping[str, Any] | None = None, output_dtype: DTypeLike = None,
                 output_layout: Literal["nchw", "channels_last"] = "nchw",
                 augment: Augment | Mapping[str, Any] | None = None, echo: Echo | int = 1,
                 target_dtype: DTypeLike = None, provenance: bool = False,
                 row_reads: Literal["automatic", "auto", "always", "never"] = "automatic",
                 gpu_cache_bytes: int | Literal["auto"] = 0,
                 on_error: Literal["fail", "skip", "replace"] = "fail", max_bad_share: float = 0.01,
                 bad_list: PathLike | None = None, epoch_log: PathLike | None = None, headroom: bool = False,
                 trace_path: PathLike | None = None, **unknown: NoReturn) -> None:
        refuse_unknown(unknown)
        for name, function in (("collate_fn", collate_fn), ("worker_init_fn", worker_init_fn)):
            if function is not None and not callable(function):
                raise TypeError(f"{name}: expected a function, got {type(function).__name__}")
        if isinstance(dataset, Dataset):
            if data or target:
                raise OptionError("data and target belong to Dataset.open, which was already called")
        else:
            if not isinstance(dataset, Iterable) and not hasattr(dataset, "__fspath__"):
                raise TypeError(f"dataset: expected an h5feed.Dataset, a path or several paths, got {type(dataset).__name__}")
            dataset = Dataset.open(dataset, data=data, target=target)
        self.dataset: Dataset = dataset
        self.batch_size = batch_size if batch_sampler is None else None
        self._collate_fn = collate_fn
        rank, world_size = self._ranks(rank, world_size)
        options: dict[str, Any] = {
            "batch_size": batch_size, "shuffle": as_shuffle(shuffle), "num_workers": num_workers,
            "cpu_limit": as_float("cpu_limit", cpu_limit), "prefetch_factor": prefetch_factor, "prefetch_bytes": prefetch_bytes,
            "drop_last": as_bool("drop_last", drop_last), "timeout": as_float("timeout", timeout) or None,
            "in_order": as_bool("in_order", in_order), "device": str(device),
            "pin_memory": as_bool("pin_memory", pin_memory), "copy_depth": copy_depth, "seed": seed,
            "rank": rank, "world_size": world_size, "local_world_size": local_world_size,
            "shard": shard, "uneven": uneven, "cache_bytes": cache_bytes, "cache_policy": cache_policy,
            "preload": as_bool("preload", preload), "memory_budget_bytes": memory_budget_bytes, "io_depth": io_depth,
            "normalize": owned("normalize", normalize), "output_dtype": dtype_name(output_dtype), "output_layout": output_layout,
            "augment": owned("augment", augment), "echo": owned("echo", echo),
            "target_dtype": dtype_name(target_dtype), "provenance": as_bool("provenance", provenance),
            "row_reads": row_reads, "gpu_cache_bytes": gpu_cache_bytes, "on_error": on_error,
            "max_bad_share": as_float("max_bad_share", max_bad_share),
            "bad_list": "" if bad_list is None else os.fspath(bad_list),
            "epoch_log": "" if epoch_log is None else os.fspath(epoch_log),
            "headroom": as_bool("headroom", headroom),
            "trace_path": "" if trace_path is None else os.fspath(trace_path),
        }
        self._own_names = (*options,)
        if worker_init_fn is not None:
            options["worker_init_fn"] = functools.partial(called, "worker_init_fn", worker_init_fn)
        self._order: EpochOrder | None = None
        if sampler is not None:
            self._order = EpochOrder(sampler, as_samples)
            options["sampler"] = self._order
        if batch_sampler is not None:
            if sampler is not None:
                raise OptionError("batch_sampler excludes sampler")
            self._order = EpochOrder(batch_sampler, as_batches)
            options["batch_sampler"] = self._order
            options["max_batch_size"] = largest_batch(batch_sampler, self._order)
        if shards_itself(sampler if sampler is not None else batch_sampler):
            options["rank"], options["world_size"] = 0, 1  # else each rank would get its part of a part
        elif self._order is not None and not self._order.is_function_of_epoch and options["world_size"] > 1:
            log.warning("sampler: %d ranks divide what it draws, so it must draw the same on each: give its generator the same "
                        "seed, or use one with num_replicas", options["world_size"])
        self._batched = batch_size is not None or batch_sampler is not None
        self._adapt(options)
        self._start(options)

    @classmethod
    def from_config(cls, path: PathLike, **options: Any) -> Self:
        """Makes the loader that a configuration file describes: the JSON that `h5feed info FILE --write-config` writes.

        `options` override those of the file. Raises FileError if the file cannot be read, OptionError if it is no
        configuration, and what `Dataset.open` and the loader raise.
        """
        names = set(inspect.signature(Loader.__init__).parameters) - {"self", "dataset", "data", "target", "unknown"}
        return cls(Dataset.from_config(path), **{**read_config(path, "loader", names), **options})

    def _start(self, options: dict[str, Any]) -> None:
        """Makes the loader of the core."""
        self._loader = _core.Loader(self.dataset._live, options)
        self._used = {name: options[name] for name in self._own_names}
        self._last: dict[str, Any] = {}
        _alive.add(self)

    # What the frameworks differ in.

    def _ranks(self, rank: int | None, world_size: int | None) -> tuple[int, int]:
        return 0 if rank is None else rank, 1 if world_size is None else world_size

    def _adapt(self, options: dict[str, Any]) -> None:
        """Completes the options for the framework."""

    def _fetch(self) -> Callable[[int], Any]:
        """Returns what gets the next batch of an iteration, which has a number; None at its end."""
        return self._loader.next

    def _item(self, fetched: Any) -> Item:
        """Returns what users get of a batch that `_fetch` got."""
        raise NotImplementedError

    # Iteration

    def __iter__(self) -> Iterator[Item]:
        """Starts an epoch: the next one if all batches of the last were delivered, else the same again.

        Ends the iterators made before: they raise RuntimeError.
        """
        return _Iteration(self)

    def __len__(self) -> int:
        """Batches of a whole epoch, also after load_state_dict()."""
        return self._loader.size()

    @property
    def epoch(self) -> int:
        """Number of the epoch being delivered, else of the next one."""
        return self._loader.epoch()

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next iteration. Without it, epochs count 0, 1, 2, …

        After load_state_dict(), selecting the epoch of the state keeps its position.
        """
        self._loader.set_epoch(as_count("epoch", epoch))

    def warm_up(self) -> None:
        """Lets the workers prepare the first batches of the next epoch. Does not block."""
        self._loader.warm_up()

    # Position

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last batch delivered; at the end of an epoch, the next one's beginning.

        The same on every rank. Plain values: torch.save, JSON and pickle take it.
        """
        if self._order is not None and not self._order.is_function_of_epoch:
            raise StateError("the order of this sampler cannot be made again from the number of an epoch, so a position in "
                             "it means nothing; use shuffle and seed, a function of the epoch, or a sampler with set_epoch")
        epoch, state = self._loader.state()
        return {"h5feed": 1, "epoch": epoch, "state": state.hex()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from a position: the next iteration delivers the batch after it.

        Workers, cache and device may differ from the saved run; with shard="strided" and uneven="exact" also
        batch size and world size. Raises StateError, a ValueError, for a state of other data or another order.
        """
        try:
            version, saved = state_dict["h5feed"], bytes.fromhex(state_dict["state"])
        except (KeyError, TypeError, ValueError):
            raise StateError("this is no state_dict() of an h5feed DataLoader") from None
        if version != 1:
            raise StateError(f"this state_dict() has version {version!r}, and this h5feed reads version 1; use the h5feed that "
                             "saved it, or start the epoch again with set_epoch()")
        self._loader.restore(saved)

    # What it does

    def stats(self) -> dict[str, float]:
        """Returns the counters since the loader was made as a flat dict, ready for a logger. Thread-safe.

        Like report() and verdict(), still there after close().
        """
        return dict(self._last["stats"]) if self._last else self._loader.stats()

    def report(self) -> str:
        """Returns a summary of a few lines for display. Thread-safe."""
        return self._last["report"] if self._last else in_python_terms(self._loader.report())

    def verdict(self) -> dict[str, Any] | None:
        """Returns where the time of the running or last epoch went, as a flat dict; None before the first.

        "bottleneck" is "consumer", "read", "decode", "gather", "transform", "transfer" or "other"; the times are in seconds;
        "advice" is a list of what would help. Thread-safe.
        """
        found = self._last["verdict"] if self._last else self._loader.verdict()
        if found is None:
            return None
        verdict: dict[str, Any] = json.loads(found)
        return verdict

    def plan(self) -> "_core.PlanReport":
        """Returns the predicted cost of an epoch."""
        return self._loader.plan()

    @property
    def options(self) -> dict[str, Any]:
        """The options in use, and values that follow from them, such as "samples_per_epoch". Without functions and samplers.

        An option that the loader resolves has the value that it chose; "row_reads" says whether rows bypass the cache. Each
        other option has the value that was given, or its default; None means unset.
        """
        chosen = self._loader.options()
        device = self._loader.device()
        own = {"echo": chosen.pop("echo_factor"), "device": "cpu" if device is None else f"cuda:{device}"}
        given = {name: None if value == "" else copy.deepcopy(value) for name, value in self._used.items()}
        return {**given, **chosen, **own}

    # End

    def close(self) -> None:
        """Ends the worker threads. Batches stay valid. Does nothing the second time."""
        if not self._last:
            with contextlib.suppress(RuntimeError):  # of a loader that another process made, or another thread closes
                self._last = {"stats": self.stats(), "report": self.report(), "verdict": self._loader.verdict()}
        self._loader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._loader.closed():
            return f"<closed {type(self).__name__}>"
        used = self.options
        workers = "auto" if used["self_tuning"] else used["num_workers"]
        return (f"{type(self).__name__}({self.dataset!r}, batch_size={used['batch_size']}, "
                f"shuffle={used['shuffle']!r}, num_workers={workers}, {len(self):,} batches)")

    def __reduce__(self) -> Any:
        raise TypeError("a DataLoader has threads and cannot be pickled; pickle its dataset, and make a loader in the other "
                        "process")

    def _collated(self, batch: Batch[Any]) -> Any:
        """Returns what `collate_fn` makes of the samples of a batch."""
        assert self._collate_fn is not None
        return called("collate_fn", self._collate_fn, list(zip(*batch)) if self._batched else tuple(batch))


class _Iteration(Iterator[Any]):
    """One pass over an epoch."""

    __slots__ = ("_item", "_loader", "_next", "_number")

    def __init__(self, loader: Loader[Any]) -> None:
        self._loader = loader
        self._item = loader._item
        self._next = loader._fetch()
        self._number = loader._loader.start()

    def __next__(self) -> Any:
        fetched = self._next(self._number)
        if fetched is None:
            raise StopIteration
        return self._item(fetched)

    def __len__(self) -> int:
        return len(self._loader)


class DataLoader(Loader[Batch[Any]]):
    """Delivers a dataset in batches of NumPy arrays, epoch after epoch.

    `dataset` is a Dataset, or files, with `data` and `target` as for Dataset.open. The options are those of the
    C++ library; docs/options.md describes them. The order depends only on (seed, epoch). Worker threads
    persist over all epochs. For one thread at a time; stats() and report() are thread-safe.

    `collate_fn` gets the list of samples of a batch, on the consumer's thread: it costs the training that time.
    `sampler` and `batch_sampler` are functions from the epoch to sample numbers (lists of them), or samplers of
    PyTorch.

    With device="cuda:N" a batch, with its fields of collate="stack", holds DeviceArrays in the memory of that GPU, for
    other libraries to take over: `cupy.from_dlpack(batch.data)`.
    """

    def _adapt(self, options: dict[str, Any]) -> None:
        if self._collate_fn is not None and options["device"] != "cpu":
            raise OptionError('collate_fn works on arrays in host memory; use device="cpu" instead of '
                              f"\"{options['device']}\"")
        if options["output_dtype"] in ("bfloat16", "bf16") and not options["device"].startswith("cuda"):
            raise DatasetError('NumPy has no bfloat16; use output_dtype="float32" or "float16", or h5feed.torch.DataLoader')

    def _item(self, fetched: "_core.Batch") -> Any:
        batch: Batch[Any] = Batch._of(fetched.arrays(), fetched)
        return batch if self._collate_fn is None else self._collated(batch)


class _Plan(DataLoader):
    """The options of a loader without the loader."""

    def _start(self, options: dict[str, Any]) -> None:
        self.predicted = _core.plan(self.dataset._live, options)


def plan(dataset: Dataset | PathLike | Sequence[PathLike], **options: Any) -> "_core.PlanReport":
    """Predicts the cost of an epoch of a DataLoader with these arguments, without making the loader."""
    return _Plan(dataset, **options).predicted


@atexit.register
def _close_all() -> None:
    for loader in list(_alive):
        loader.close()
    _core.deliver_log()  # of loaders that were dropped
