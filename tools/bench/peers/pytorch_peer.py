# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader over h5py, in the ways that people use.

per_item opens the file in every __getitem__, which is safe with any number of workers.
per_sample is the idiom of most tutorials: the file is opened on first use in each worker. Both read one row per
sample, and the default collation stacks them. A windowed order has no counterpart there and becomes shuffle=True.
in_memory reads the whole file before the workers start.
tuned is what experienced users write: a chunk cache of 1 GiB, targets in memory, and whole batches from the workers,
without collation. For chunk:K each worker reads windows of K whole chunks and shuffles within them; sequential does so
without shuffling; full reads the rows of a batch in the order of the file.
tuned_same_order reads the batches that h5feed would deliver in the same way, by a list of sample numbers.
"""

import os
import sys

import harness
import h5py_rows
from harness import Way

MODULES = h5py_rows.MODULES
IMPORTS = ("torch.utils.data",)


def ways(order):
    single = harness.any_order(order)
    found = [
        Way("per_item", "PyTorch + h5py, open per item", single, note="one row a sample; default collation"),
        Way("per_sample", "PyTorch + h5py, per sample", single, note="one row a sample; default collation"),
        Way("in_memory", "PyTorch, whole file in memory", single, slow_start=True,
            note="read by h5py at the start; default collation"),
        Way("tuned", "PyTorch + h5py, tuned", order,
            note="1 GiB chunk cache, whole chunks (full: rows in file order), no collation"),
    ]
    if order != "sequential":
        found.append(Way("tuned_same_order", "PyTorch + h5py, tuned", order, same_order=True,
                         note="1 GiB chunk cache, rows in file order, no collation"))
    return found


class PerItem:
    """Map-style dataset that opens its file for every sample."""

    def __init__(self, source, length):
        self.source = source
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        data, target = self.source.open(False)
        with data.file:
            return data[index] if target is None else (data[index], target[index])


class PerSample(PerItem):
    """Map-style dataset that opens its file lazily, so that each worker has its own handle."""

    data = None

    def __getitem__(self, index):
        if self.data is None:
            self.data, self.target = self.source.open(False)
        sample = self.data[index]
        return sample if self.target is None else (sample, self.target[index])


class InMemory(PerItem):
    """Map-style dataset over arrays in memory, which forked workers share."""

    def __init__(self, source, length):
        super().__init__(source, length)
        data, target = source.open(False)
        require_memory(data.size * data.dtype.itemsize)
        self.data = data[:]
        self.target = None if target is None else target[:]

    def __getitem__(self, index):
        return self.data[index] if self.target is None else (self.data[index], self.target[index])


def require_memory(needed):
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                available = int(line.split()[1]) * 1024
    if needed > available / 2:
        raise MemoryError(f"the samples take {needed / 2**30:.1f} GiB, more than half of the {available / 2**30:.1f} GiB "
                          "of memory that are available")


class TunedRows(h5py_rows.BatchReader):
    """Returns the rows of a list of sample numbers as a batch."""

    def __getitem__(self, numbers):
        return tensors(*self.rows(numbers))


def tensors(rows, labels):
    import torch

    rows = torch.from_numpy(rows)
    return rows if labels is None else (rows, torch.as_tensor(labels))


class TunedWindows(h5py_rows.BatchReader):
    """Batches of one worker: windows of whole chunks, shuffled within each window if `shuffle`."""

    def __init__(self, source, length, chunk_rows, window_chunks, shuffle, batch_size, seed):
        super().__init__(source)
        self.length = length
        self.chunk_rows = chunk_rows
        self.window_chunks = window_chunks
        self.shuffle = shuffle
        self.batch_size = batch_size
        self.seed = seed

    def windows(self):
        """Returns the row ranges of this worker's windows."""
        import numpy
        from torch.utils.data import get_worker_info

        starts = numpy.arange(0, self.length, self.chunk_rows)
        if self.shuffle:
            numpy.random.default_rng(self.seed).shuffle(starts)
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        windows = range(0, len(starts), self.window_chunks)
        for window in windows[first::step]:
            yield [(int(s), min(int(s) + self.chunk_rows, self.length))
                   for s in starts[window:window + self.window_chunks]]

    def __iter__(self):
        import numpy

        self.open()
        random = numpy.random.default_rng(self.seed + 1)
        pool = numpy.empty((self.window_chunks * self.chunk_rows, *self.data.shape[1:]), self.data.dtype)
        batch, numbers, filled = None, None, 0
        for window in self.windows():
            pooled = 0
            pooled_numbers = numpy.concatenate([numpy.arange(begin, end) for begin, end in window])
            for begin, end in window:
                pool[pooled:pooled + end - begin] = self.data[begin:end]
                pooled += end - begin
            order = random.permutation(pooled) if self.shuffle else numpy.arange(pooled)
            taken = 0
            while taken < pooled:
                if batch is None:
                    batch = numpy.empty((self.batch_size, *self.data.shape[1:]), self.data.dtype)
                    numbers, filled = numpy.empty(self.batch_size, numpy.int64), 0
                count = min(self.batch_size - filled, pooled - taken)
                places = order[taken:taken + count]
                numpy.take(pool, places, axis=0, out=batch[filled:filled + count], mode="clip")
                numbers[filled:filled + count] = pooled_numbers[places]
                filled, taken = filled + count, taken + count
                if filled == self.batch_size:
                    yield tensors(batch, self.labels(numbers))
                    batch = None
        if batch is not None:
            yield tensors(batch[:filled], self.labels(numbers[:filled]))


def make_loader(settings, source):
    import torch
    from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler

    mode, order, batch_size = settings["mode"], settings["order"], settings["batch_size"]
    data, _ = source.open(False)
    length, chunk_rows = data.shape[0], h5py_rows.rows_per_chunk(data)
    del data  # libhdf5's handles must not be shared with the workers
    torch.manual_seed(settings["seed"])
    several = {"num_workers": settings["num_workers"]}
    if settings["num_workers"] > 0:
        several.update(persistent_workers=True, multiprocessing_context="fork")
    if mode in ("per_item", "per_sample", "in_memory"):
        dataset = {"per_item": PerItem, "per_sample": PerSample, "in_memory": InMemory}[mode](source, length)
        return DataLoader(dataset, batch_size=batch_size, shuffle=order != "sequential", **several)
    if mode == "tuned_same_order":
        batches = [batch.tolist() for batch in h5py_rows.batches_of(harness.numbers_of(settings), batch_size)]
        return DataLoader(TunedRows(source), sampler=batches, batch_size=None, **several)
    if order == "full":
        batches = BatchSampler(RandomSampler(range(length)), batch_size, drop_last=False)
        return DataLoader(TunedRows(source), sampler=batches, batch_size=None, **several)

    class Windows(TunedWindows, IterableDataset):
        pass

    shuffle = order.startswith("chunk:")
    window_chunks = int(order[len("chunk:"):]) if shuffle else 1
    windows = Windows(source, length, chunk_rows, window_chunks, shuffle, batch_size, settings["seed"])
    return DataLoader(windows, batch_size=None, **several)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
