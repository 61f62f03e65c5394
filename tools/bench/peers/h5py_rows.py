# SPDX-License-Identifier: Apache-2.0
"""Reading samples through h5py, as experienced users write it; common to the peers that have no reader of HDF5."""

# What every peer needs, by name: module, package of pip, package of Debian.
MODULES = {"torch": ("torch", "torch", "python3-torch"), "h5py": ("h5py", "h5py", "python3-h5py")}
CHUNK_CACHE = {"rdcc_nbytes": 1 << 30, "rdcc_nslots": 11213, "rdcc_w0": 1.0}
ROWS_WITHOUT_CHUNKS = 20  # rows that a window counts as a chunk if storage is contiguous


def open_h5py(file, data, target, tuned):
    """Opens the two datasets, with a chunk cache of 1 GiB if `tuned`; the second is None if its path is empty."""
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


class BatchReader:
    """Reads whole batches; opens its file at the first one, so that each worker has its own handle."""

    def __init__(self, source):
        self.source = source
        self.data = None

    def open(self):
        """Opens the file and reads the whole target."""
        if self.data is None:
            self.data, target = self.source.open(True)
            self.target = None if target is None else target[:]

    def rows(self, numbers):
        """Returns the rows of these numbers, in their order, and their targets; reads in the order of the file."""
        import numpy

        self.open()
        numbers = numpy.asarray(numbers)
        rows = numpy.empty((len(numbers), *self.data.shape[1:]), self.data.dtype)
        for place in numpy.argsort(numbers, kind="stable"):
            rows[place] = self.data[int(numbers[place])]
        return rows, self.labels(numbers)

    def labels(self, numbers):
        return None if self.target is None else self.target[numbers]


def batches_of(numbers, batch_size):
    """Cuts sample numbers into batches; the last may be smaller."""
    return [numbers[at:at + batch_size] for at in range(0, len(numbers), batch_size)]
