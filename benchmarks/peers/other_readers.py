# SPDX-License-Identifier: Apache-2.0
"""Runs public HDF5 readers other than h5py in the loop that tools/bench/pytorch_peer.py calls tuned.

    python3 other_readers.py READER SETTINGS FILE DATA

Shape and chunks come from h5py, every row from READER (hidefix or pyfive). With num_workers 0 the file is
opened before the clock starts, since hidefix reads its whole index at open. hidefix uses its own threads.
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import pytorch_peer  # noqa: E402


class Hidefix:
    def __init__(self, file, path, shape):
        import hidefix

        self.data = hidefix.Index(file).dataset(path)
        self.rest = tuple(slice(0, extent) for extent in shape[1:])

    def __getitem__(self, rows):
        if isinstance(rows, slice):
            return self.data[(rows, *self.rest)]
        return self.data[(slice(rows, rows + 1), *self.rest)][0]


class Pyfive:
    def __init__(self, file, path, shape):
        import pyfive

        self.data = pyfive.File(file)[path]

    def __getitem__(self, rows):
        return self.data[rows]


READERS = {"hidefix": Hidefix, "pyfive": Pyfive}


class LazyReader:
    """Opens the file on the first read, so that each worker opens it itself."""

    def __init__(self, reader, file, path):
        import h5py

        with h5py.File(file, "r") as opened:
            data = opened[path]
            self.shape, self.dtype, self.chunks = data.shape, data.dtype, data.chunks
        self.make = lambda: reader(file, path.strip("/"), self.shape)
        self.data = None

    def __getitem__(self, rows):
        if self.data is None:
            self.data = self.make()
        return self.data[rows]


def main(arguments):
    reader = READERS[arguments[0]]
    opened = {}

    def open_data(file, data, target, tuned):
        if os.getpid() not in opened:
            opened[os.getpid()] = LazyReader(reader, file, data)
            if json.loads(arguments[1])["num_workers"] == 0:
                opened[os.getpid()][0]
        return opened[os.getpid()], None

    return pytorch_peer.main([*arguments[1:], ""], open_data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
