# SPDX-License-Identifier: Apache-2.0
"""Measures PyTorch's DataLoader over h5py once, or prints the versions of its modules.

    python3 pytorch_peer.py --versions
    python3 pytorch_peer.py SETTINGS FILE DATA TARGET

SETTINGS is a JSON object: mode (per_sample, tuned), order (sequential, full, chunk:K), num_workers,
batch_size, seconds, seed. DATA and TARGET are paths of datasets; an empty TARGET means none. Prints one
JSON line: batches, samples, seconds.

per_sample is the idiom of most tutorials: a map-style dataset that opens the file on first use in each
worker and reads one row per sample; the default collation stacks them. A windowed order has no counterpart
there and becomes shuffle=True.

tuned is what experienced users write: a chunk cache of 1 GiB (rdcc_nbytes, rdcc_nslots=11213, rdcc_w0=1),
targets in memory, and whole batches from the workers, without collation. For chunk:K each worker reads
windows of K whole chunks and shuffles within them; sequential does so without shuffling; full reads the
rows of a batch in the order of the file.
"""

import importlib
import json
import multiprocessing
import os
import sys
import time

CHUNK_CACHE = {"rdcc_nbytes": 1 << 30, "rdcc_nslots": 11213, "rdcc_w0": 1.0}
ROWS_WITHOUT_CHUNKS = 20  # rows that a window counts as a chunk if storage is contiguous


def versions():
    """Returns the versions of the modules; None for one that cannot be imported."""
    found = {"python": sys.version.split()[0]}
    for name in ("torch", "h5py"):
        try:
            found[name] = importlib.import_module(name).__version__
        except ImportError:
            found[name] = None
    return found


def open_h5py(file, data, target, tuned):
    """Opens the two datasets; target is None if its path is empty."""
    import h5py

    try:
        import hdf5plugin  # noqa: F401  more filters for libhdf5, if installed
    except ImportError:
        pass
    opened = h5py.File(file, "r", **(CHUNK_CACHE if tuned else {}))
    return opened[data], opened[target] if target else None


def rows_per_chunk(data):
    chunks = getattr(data, "chunks", None)
    return chunks[0] if chunks else ROWS_WITHOUT_CHUNKS


class PerSample:
    """Map-style dataset that opens its file lazily, so that each worker has its own handle."""

    def __init__(self, opener, length):
        self.opener = opener
        self.length = length
        self.data = None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.data is None:
            self.data, self.target = self.opener(False)
        sample = self.data[index]
        return sample if self.target is None else (sample, self.target[index])


class Tuned:
    """Dataset that opens its file lazily and reads the whole target."""

    def __init__(self, opener):
        self.opener = opener
        self.data = None

    def open(self):
        if self.data is None:
            self.data, target = self.opener(True)
            self.target = None if target is None else target[:]

    def batch(self, rows, indices):
        import torch

        rows = torch.from_numpy(rows)
        return rows if self.target is None else (rows, torch.as_tensor(self.target[indices]))


class TunedRows(Tuned):
    """Returns the rows of a list of indices as a batch, read in the order of the file."""

    def __getitem__(self, indices):
        import numpy

        self.open()
        indices = numpy.sort(numpy.asarray(indices))
        rows = numpy.empty((len(indices), *self.data.shape[1:]), self.data.dtype)
        for place, index in enumerate(indices):
            rows[place] = self.data[int(index)]
        return self.batch(rows, indices)


class TunedWindows(Tuned):
    """Batches of one worker: windows of whole chunks, shuffled within each window if `shuffle`."""

    def __init__(self, opener, length, chunk_rows, window_chunks, shuffle, batch_size, seed):
        super().__init__(opener)
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
        batch, indices, filled = None, None, 0
        for window in self.windows():
            pooled = 0
            numbers = numpy.concatenate([numpy.arange(begin, end) for begin, end in window])
            for begin, end in window:
                pool[pooled:pooled + end - begin] = self.data[begin:end]
                pooled += end - begin
            order = random.permutation(pooled) if self.shuffle else numpy.arange(pooled)
            taken = 0
            while taken < pooled:
                if batch is None:
                    batch = numpy.empty((self.batch_size, *self.data.shape[1:]), self.data.dtype)
                    indices, filled = numpy.empty(self.batch_size, numpy.int64), 0
                count = min(self.batch_size - filled, pooled - taken)
                places = order[taken:taken + count]
                numpy.take(pool, places, axis=0, out=batch[filled:filled + count], mode="clip")
                indices[filled:filled + count] = numbers[places]
                filled, taken = filled + count, taken + count
                if filled == self.batch_size:
                    yield self.batch(batch, indices)
                    batch = None
        if batch is not None:
            yield self.batch(batch[:filled], indices[:filled])


def make_loader(settings, opener):
    """Returns a DataLoader for the settings; `opener(tuned)` returns the two datasets."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler

    tuned = settings["mode"] == "tuned"
    order, batch_size, workers = settings["order"], settings["batch_size"], settings["num_workers"]
    data, _ = opener(tuned)
    length, chunk_rows = data.shape[0], rows_per_chunk(data)
    del data  # libhdf5's handles must not be shared with the workers
    torch.manual_seed(settings["seed"])
    several = {"num_workers": workers}
    if workers > 0:
        # fork, because there is no script file that a spawned interpreter could import.
        several.update(persistent_workers=True, multiprocessing_context="fork")
    if not tuned:
        return DataLoader(PerSample(opener, length), batch_size=batch_size, shuffle=order != "sequential", **several)
    if order == "full":
        batches = BatchSampler(RandomSampler(range(length)), batch_size, drop_last=False)
        return DataLoader(TunedRows(opener), sampler=batches, batch_size=None, **several)

    class Windows(TunedWindows, IterableDataset):
        pass

    shuffle = order.startswith("chunk:")
    window_chunks = int(order[len("chunk:"):]) if shuffle else 1
    windows = Windows(opener, length, chunk_rows, window_chunks, shuffle, batch_size, settings["seed"])
    return DataLoader(windows, batch_size=None, **several)


def measure(settings, opener):
    """Receives batches until the time is over; at least one from each worker.

    Workers deliver in turn, about as many batches at a time as there are workers, and only whole rounds
    are counted, so that a slow loader's rate does not depend on where in a round the time ended.
    """
    loader = make_loader(settings, opener)
    round_batches = max(1, settings["num_workers"])
    batches = samples = 0
    start = time.perf_counter()
    seconds = 0.0
    while seconds < settings["seconds"]:
        for batch in loader:
            data = batch[0] if isinstance(batch, (list, tuple)) else batch
            data.view(-1)[0].item()  # minimal work of a training step
            batches += 1
            samples += data.shape[0]
            seconds = time.perf_counter() - start
            if seconds >= settings["seconds"] and batches % round_batches == 0:
                break
        if batches == 0:
            raise ValueError("the loader delivered no batch")
    return {"batches": batches, "samples": samples, "seconds": seconds}


def main(arguments, open_data=open_h5py):
    if arguments == ["--versions"]:
        print(json.dumps(versions()))
        return 0
    settings = json.loads(arguments[0])
    file, data, target = arguments[1:]

    def opener(tuned):
        return open_data(file, data, target, tuned)

    try:
        result = measure(settings, opener)
    except Exception as error:  # any error of a reader means that it cannot read this file
        lines = [line for line in str(error).splitlines() if line.strip()] or [repr(error)]
        # A worker's message begins with a stack trace; other messages may end with one.
        line = lines[-1] if "worker process" in lines[0] else lines[0]
        result = {"error": line.strip()[:300]}
    print(json.dumps(result), flush=True)
    for worker in multiprocessing.active_children():
        worker.kill()  # its read-ahead is not needed
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
