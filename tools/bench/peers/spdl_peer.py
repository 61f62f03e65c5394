# SPDX-License-Identifier: Apache-2.0
"""SPDL: a pipeline of threads over h5py.

SPDL reads no HDF5 and leaves the order to its user. The pipeline here gets the batches that h5feed would deliver. Each
task reads one batch. gzip chunks are read as they are stored and decoded by zlib, which releases Python's lock, so that
threads decode in parallel; decoded chunks stay in a cache of 1 GiB. h5py reads all other storage, one thread at a time.
"""

import collections
import sys
import threading
import zlib
from concurrent.futures import Future

import harness
import h5py_rows
from harness import Way

MODULES = {"spdl": ("spdl.pipeline", "spdl", ""), **h5py_rows.MODULES}
IMPORTS = ()
CACHE_BYTES = 1 << 30


def ways(order):
    return [Way("spdl", "SPDL + h5py", order, same_order=True,
                note="threads; gzip decoded by zlib outside libhdf5, 1 GiB cache")]


class ChunkCache:
    """Decoded chunks of a dataset that has no filter but gzip. Thread-safe; each chunk is decoded by one thread."""

    def __init__(self, data):
        self.data = data
        self.chunk = data.chunks
        self.bytes = data.dtype.itemsize
        for extent in self.chunk:
            self.bytes *= extent
        self.lock = threading.Lock()
        self.chunks = collections.OrderedDict()

    @staticmethod
    def fits(data):
        whole_rows = data.chunks is not None and tuple(data.chunks[1:]) == tuple(data.shape[1:])
        return whole_rows and data.compression == "gzip" and not data.shuffle and not data.fletcher32

    def decode(self, number):
        import numpy

        offset = (number * self.chunk[0],) + (0,) * (len(self.chunk) - 1)
        mask, stored = self.data.id.read_direct_chunk(offset)
        raw = stored if mask else zlib.decompress(stored, bufsize=self.bytes)
        return numpy.frombuffer(raw, self.data.dtype).reshape(self.chunk)

    def get(self, number):
        with self.lock:
            found = self.chunks.get(number)
            if found is not None:
                self.chunks.move_to_end(number)
            else:
                own = self.chunks[number] = Future()
                while len(self.chunks) > max(1, CACHE_BYTES // self.bytes):
                    self.chunks.popitem(last=False)
        if found is not None:
            return found.result()
        try:
            own.set_result(self.decode(number))
        except Exception as error:
            own.set_exception(error)
        return own.result()


class Reader(h5py_rows.BatchReader):
    """Reads a batch in one task; all threads share the file."""

    def __init__(self, source):
        super().__init__(source)
        self.open()
        self.cache = ChunkCache(self.data) if ChunkCache.fits(self.data) else None

    def rows(self, numbers):
        import numpy

        if self.cache is None:
            return super().rows(numbers)
        rows = numpy.empty((len(numbers), *self.data.shape[1:]), self.data.dtype)
        chunk_of = numbers // self.cache.chunk[0]
        for chunk in numpy.unique(chunk_of):
            places = numpy.flatnonzero(chunk_of == chunk)
            rows[places] = self.cache.get(int(chunk))[numbers[places] - chunk * self.cache.chunk[0]]
        return rows, self.labels(numbers)

    def __call__(self, numbers):
        import torch

        rows, labels = self.rows(numbers)
        rows = torch.from_numpy(rows)
        return rows if labels is None else (rows, torch.as_tensor(labels))


class Loader:
    def __init__(self, settings, source):
        self.batches = h5py_rows.batches_of(harness.numbers_of(settings), settings["batch_size"])
        self.threads = max(1, settings["num_workers"])
        self.read = Reader(source)

    def __iter__(self):
        from spdl.pipeline import PipelineBuilder

        pipeline = (
            PipelineBuilder()
            .add_source(self.batches)
            .pipe(self.read, concurrency=self.threads, output_order="input")
            .add_sink(2 * self.threads)
            .build(num_threads=self.threads)
        )
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()


def make_loader(settings, source):
    return Loader(settings, source)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
