# SPDX-License-Identifier: Apache-2.0
"""Public HDF5 readers other than h5py, in the loop that tools/bench/peers/pytorch_peer.py calls tuned.

    python3 other_readers.py READER describe ORDER
    python3 other_readers.py READER measure SETTINGS FILE DATA TARGET

Shape and chunks come from h5py, every row of the data from READER (hidefix or pyfive). hidefix reads its whole index
at open, and uses its own threads.
"""

import dataclasses
import os
import sys
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench", "peers"))
import h5py_rows  # noqa: E402
import harness  # noqa: E402
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

    def __init__(self, reader, file, path, data):
        self.shape, self.dtype, self.chunks = data.shape, data.dtype, data.chunks
        self.make = lambda: reader(file, path.strip("/"), self.shape)
        self.data = None

    def __getitem__(self, rows):
        if self.data is None:
            self.data = self.make()
        return self.data[rows]


def peer_of(name):
    """Returns the peer that the harness runs."""

    def ways(order):
        if name == "hidefix" and order == "full":
            return []  # hidefix 0.12 returns wrong values for single rows of a chunk
        tuned = next(way for way in pytorch_peer.ways(order) if way.mode == "tuned")
        return [dataclasses.replace(tuned, mode=name, name=name, note="in PyTorch's tuned loop")]

    def make_loader(settings, source):
        return pytorch_peer.make_loader({**settings, "mode": "tuned"}, source)

    return types.SimpleNamespace(MODULES={name: (name, name, ""), **pytorch_peer.MODULES}, IMPORTS=pytorch_peer.IMPORTS,
                                 ways=ways, make_loader=make_loader)


def main(name, arguments):
    def open_data(file, data, target, tuned):
        stored, labels = h5py_rows.open_h5py(file, data, target, tuned)
        return LazyReader(READERS[name], file, data, stored), None if labels is None else labels[:]

    harness.main(peer_of(name), open_data, arguments)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
