# SPDX-License-Identifier: Apache-2.0
"""The loader for PyTorch: batches of tensors."""

import inspect
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import torch
import torch.utils._pytree
import torch.utils.data
import torch.utils.dlpack

from . import _core
from ._batch import Batch as _Batch
from ._checks import owned
from ._dataset import Dataset
from ._errors import DatasetError, OptionError
from ._loader import Loader, refuse_unknown
from ._sparse import SparseRows

_from_dlpack = torch.utils.dlpack.from_dlpack
_NO_TYPES_OF_TORCH = {"u16": "uint16", "u32": "uint32", "u64": "uint64"}
_TYPES_OF_TORCH = {"u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
                   "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
                   **{name: getattr(torch, dtype) for name, dtype in _NO_TYPES_OF_TORCH.items() if hasattr(torch, dtype)}}
_cuda: Any = torch.cuda  # not all of it has types
_sparse_csr_tensor: Callable[..., torch.Tensor] = torch.sparse_csr_tensor  # its types lack the form that takes the parts
# torch before 2.0 does not check, and lacks the argument.
_UNCHECKED = {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}
_log = logging.getLogger("h5feed")
# A dtype, a shape, and strides in elements.
_Description = tuple[str, tuple[int, ...], tuple[int, ...]]


class Batch(_Batch[torch.Tensor]):
    """A batch of tensors: the tuple `(data, target)`, or `(data,)`."""

    def to(self, *args: Any, **kwargs: Any) -> "Batch":
        """Returns the batch with `Tensor.to` applied to data and target."""
        return Batch._of(tuple(tensor.to(*args, **kwargs) for tensor in self), self._raw, self._given)

    def pin_memory(self) -> "Batch":
        """Returns a copy in pinned memory, for asynchronous copies to a GPU."""
        return Batch._of(tuple(tensor.pin_memory() for tensor in self), self._raw, self._given)

    @staticmethod
    def _field_array(tensor: "_core.Tensor | _core.DeviceArray") -> torch.Tensor:
        assert isinstance(tensor, _core.Tensor)  # torch gave the memory of all others
        return _tensor(tensor)


class BatchSampler(NamedTuple):
    """What code for PyTorch's loader looks for in its batch sampler."""

    #: Has `set_epoch`.
    sampler: "DataLoader"
    batch_size: int | None
    drop_last: bool


class DataLoader(Loader[Batch]):
    """Delivers a dataset in batches of tensors; options as for h5feed.DataLoader.

    Rank and world size default to those of torch.distributed, if a process group is initialized. An unset
    `seed` is drawn from torch's default generator, so that `torch.manual_seed` determines the order; with
    several ranks it must be set, to the same value on each.

    With device="cuda:N" the tensors are on that GPU, in memory of torch's allocator, also those of fields with
    collate="stack". They are made on the stream that is current for the GPU when the batch is taken: use them on that
    stream, or call record_stream(), as for any tensor. "cuda" is torch's current device. With pin_memory=True the tensors
    of data and target are in memory that torch pinned.
    """

    def _ranks(self, rank: int | None, world_size: int | None) -> tuple[int, int]:
        if rank is not None or world_size is not None:
            return super()._ranks(rank, world_size)
        return _ranks_of_torch("rank and world_size")

    @property
    def batch_sampler(self) -> BatchSampler:
        """For code that calls `loader.batch_sampler.sampler.set_epoch(epoch)`, such as Lightning before each epoch."""
        return BatchSampler(self, self.batch_size, self.options["drop_last"])

    def _adapt(self, options: dict[str, Any]) -> None:
        self._choose_device(options)
        self._pin = options["pin_memory"] and torch.cuda.is_available()
        options["pin_memory"] = self._pin and _core.why_no_gpu_part() is None
        if options["pin_memory"]:
            options["pinned_allocator"] = _pinned_memory
        stored = self.dataset._live.dtype()
        converted = options["output_dtype"] or options["normalize"] is not None or self.dataset.unit_range
        if stored in _NO_TYPES_OF_TORCH and not converted:
            raise DatasetError(f"the data is {_NO_TYPES_OF_TORCH[stored]}, a type that few operations of torch take; set "
                               'normalize={"scale": 1.0} to get its values as float32')
        if options["target_dtype"] in (*_NO_TYPES_OF_TORCH, *_NO_TYPES_OF_TORCH.values()):
            raise OptionError(f"target_dtype {options['target_dtype']}: few operations of torch take this type; leave "
                              "target_dtype unset for int64")
        if options["seed"] is None and options["world_size"] == 1:
            options["seed"] = int(torch.empty((), dtype=torch.int64).random_().item())

    def _choose_device(self, options: dict[str, Any]) -> None:
        name = options["device"]
        if name != "auto" and not name.startswith("cuda"):
            return
        options["output_memory"] = "consumer"
        if torch.version.cuda is None:
            if name != "auto":
                raise OptionError(f'device "{name}": this PyTorch ({torch.__version__}) has no CUDA; install one that has, '
                                  'or use device="cpu"')
            _log.warning('device "auto": batches go to the CPU; this PyTorch (%s) has no CUDA', torch.__version__)
            options["device"] = "cpu"
        elif (name == "cuda" and torch.cuda.is_available()) or (name == "auto" and _cuda.is_initialized()):
            options["device"] = f"cuda:{torch.cuda.current_device()}"

    def _fetch(self) -> Callable[[int], Any]:
        if self._loader.device() is None:
            return super()._fetch()
        next_into = self._loader.next_into

        def next_on_gpu(number: int) -> "tuple[_core.Batch, list[torch.Tensor]] | None":
            tensors: list[torch.Tensor] = []

            def provide(device: int, *described: _Description) -> tuple[int, ...]:
                where = torch.device("cuda", device)
                for dtype, shape, strides in described:
                    if dtype not in _TYPES_OF_TORCH:
                        raise DatasetError(f"a field is {_NO_TYPES_OF_TORCH[dtype]}, a type that torch {torch.__version__} does "
                                           'not have; set its dtype, e.g. to "float32"')
                    tensors.append(torch.empty_strided(shape, strides, dtype=_TYPES_OF_TORCH[dtype], device=where))
                return torch.cuda.current_stream(where).cuda_stream, *(tensor.data_ptr() for tensor in tensors)

            raw = next_into(number, provide)
            return None if raw is None else (raw, tensors)

        return next_on_gpu

    def _item(self, fetched: Any) -> Any:
        if isinstance(fetched, tuple):
            raw, tensors = fetched
            names = [name for name, values, *_ in raw.fields if isinstance(values, _core.DeviceArray)]
            count = len(tensors) - len(names)  # of data and target
            batch = Batch._of(tuple(tensors[:count]), raw, dict(zip(names, tensors[count:])))
        else:
            batch = Batch._of(tuple(_tensor(tensor) for tensor in fetched.tensors()), fetched)
            if self._pin:
                batch = batch.pin_memory()  # copies what is not pinned
        return batch if self._collate_fn is None else self._collated(batch)


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """An epoch of an h5feed loader as an iterable dataset, for code bound to torch.utils.data.DataLoader.

    Give it to `torch.utils.data.DataLoader(dataset, batch_size=None)`, and num_workers to this class. A worker process of
    torch's loader makes its own loader, and copies each batch to the training process: `h5feed.torch.DataLoader` is faster.
    It starts from a copy of this object: call set_epoch() before each epoch, or all have the same order.

    `shard` says who divides the samples: "ranks", torch.distributed's ranks; "workers", those and PyTorch's
    worker processes; "none", nobody, because each process shall deliver all samples.
    """

    def __init__(self, dataset: Dataset, *, shard: Literal["ranks", "workers", "none"], seed: int, **options: Any) -> None:
        if shard not in ("ranks", "workers", "none"):
            raise OptionError(f'shard: "{shard}" is not one of "ranks", "workers", "none"')
        if "rank" in options or "world_size" in options:
            raise OptionError("rank and world_size: shard says who divides the samples")
        refuse_unknown(set(options) - set(inspect.signature(DataLoader).parameters))  # not first in a worker process
        self._dataset = dataset
        self._shard = shard
        # Worker processes and later epochs get what was given now.
        groups = {name: owned(name, options[name]) for name in ("normalize", "augment", "echo") if name in options}
        self._options = {**options, **groups, "seed": seed}
        self._epoch = 0
        self._epoch_was_set = False
        self._loader: DataLoader | None = None
        self._process = 0
        self._rank, self._world = 0, 1
        if shard != "none":
            self._rank, self._world = _ranks_of_torch('shard="none"')

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next iteration. Persistent worker processes that run already do not learn of it."""
        self._epoch = epoch
        self._epoch_was_set = True

    def __iter__(self) -> Iterator[Any]:
        rank, world = self._rank, self._world
        worker = torch.utils.data.get_worker_info()
        if worker is not None and worker.num_workers > 1:
            if self._shard != "workers":
                raise OptionError(f'{worker.num_workers} worker processes would each deliver all samples; use shard="workers", '
                                  "or num_workers=1 of torch's and num_workers of h5feed's loader")
            rank, world = rank * worker.num_workers + worker.id, world * worker.num_workers
        if worker is not None and not self._epoch_was_set and self._options.get("shuffle"):
            _log.warning("a worker process of torch's DataLoader delivers epoch %d; without persistent_workers=True each "
                         "iteration repeats it: call set_epoch() before each, or use num_workers of h5feed's loader",
                         self._epoch)
        if self._loader is None or self._process != os.getpid():
            self._loader = DataLoader(self._dataset, rank=rank, world_size=world, **self._options)
            self._process = os.getpid()
        self._loader.set_epoch(self._epoch)
        self._epoch += 1
        for batch in self._loader:
            yield tuple(batch) if isinstance(batch, Batch) else batch

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None}


def _ranks_of_torch(instead: str) -> tuple[int, int]:
    """Returns rank and world size of torch.distributed; `instead` is what may be given without a process group."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    try:
        launched = int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        raise OptionError(f"the environment variable WORLD_SIZE is {os.environ['WORLD_SIZE']!r}; set it to the number of "
                          f"processes, unset it, or give {instead}") from None
    if launched > 1:
        raise RuntimeError(f"WORLD_SIZE is {launched}, but torch.distributed is not initialized; call init_process_group() "
                           f"before making the loader, or give {instead}")
    return 0, 1


def _tensor(tensor: "_core.Tensor | SparseRows") -> torch.Tensor:
    if isinstance(tensor, SparseRows):
        parts = (_tensor(part) for part in (tensor.offsets, tensor.columns, tensor.values))
        return _sparse_csr_tensor(*parts, size=tensor.shape, **_UNCHECKED)
    pinned: torch.Tensor | None = tensor.pinned_by
    if pinned is None:
        return _from_dlpack(tensor.__dlpack__())
    # A view of torch's own storage: torch notes there which copies from it run, and reuses it after them.
    dtype = _TYPES_OF_TORCH[tensor.dtype]
    flat = pinned[:tensor.nbytes].view(dtype)
    return flat.as_strided(tensor.shape, tensor.strides) if tensor.strides else flat.view(tensor.shape)


def _pinned_memory(size: int) -> tuple[int, torch.Tensor]:
    """Allocates for the core: returns the address, and what owns it."""
    tensor = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    return tensor.data_ptr(), tensor


def _flatten(batch: Batch) -> tuple[list[Any], Any]:
    return list(batch), (batch._raw, batch._given)


def _unflatten(values: Any, context: Any) -> Batch:
    return Batch._of(tuple(values), *context)


_pytree: Any = torch.utils._pytree
# torch before 2.2 names the function with an underscore.
_register = _pytree.register_pytree_node if hasattr(_pytree, "register_pytree_node") else _pytree._register_pytree_node
_register(Batch, _flatten, _unflatten)
