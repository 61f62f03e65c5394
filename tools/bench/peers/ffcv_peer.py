# SPDX-License-Identifier: Apache-2.0
"""FFCV: the samples converted to its own format, uncompressed, which it maps into memory.

Its threads copy rows by compiled code; compiling takes seconds at the start. It accepts a list of sample numbers, and
so delivers h5feed's order too.
"""

import os
import sys

os.environ.setdefault("TQDM_DISABLE", "1")

import harness  # noqa: E402
import h5py_rows  # noqa: E402
from harness import Way  # noqa: E402

MODULES = {"ffcv": ("ffcv", "ffcv", ""), **h5py_rows.MODULES}
IMPORTS = ("ffcv.loader", "ffcv.fields.basics", "ffcv.fields.ndarray", "ffcv.transforms")


def ways(order):
    own = harness.any_order(order)
    several = {"converts": True, "slow_start": True, "note": "its own format, uncompressed, mapped into memory"}
    found = [Way("ffcv", "FFCV", own, **several)]
    if order != "sequential":
        found.append(Way("ffcv_same_order", "FFCV", order, same_order=True, **several))
    return found


def path_in(settings):
    return os.path.join(settings["folder"], "samples.beton")


class Samples:
    """The samples for FFCV's writer, whose workers read them in order."""

    def __init__(self, source):
        self.source = source
        self.data = None
        self.length = source.length()

    def __len__(self):
        return self.length

    def __getitem__(self, number):
        if self.data is None:
            self.data, self.target = self.source.open(True)
        label = 0 if self.target is None else int(self.target[number])
        return self.data[number], label


def convert(settings, source):
    from ffcv.fields import IntField, NDArrayField
    from ffcv.writer import DatasetWriter

    data, _ = source.open(False)
    fields = {"data": NDArrayField(dtype=data.dtype, shape=tuple(data.shape[1:])), "target": IntField()}
    del data  # libhdf5's handles must not be shared with the workers
    DatasetWriter(path_in(settings), fields, num_workers=1).from_indexed_dataset(Samples(source), chunksize=64)


def make_loader(settings, source):
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.ndarray import NDArrayDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import ToTensor

    _, target = source.open(False)
    same = settings["mode"] == "ffcv_same_order"
    sequential = same or settings["order"] == "sequential"
    pipelines = {"data": [NDArrayDecoder(), ToTensor()],
                 "target": None if target is None else [IntDecoder(), ToTensor()]}
    return Loader(path_in(settings), batch_size=settings["batch_size"], num_workers=max(1, settings["num_workers"]),
                  order=OrderOption.SEQUENTIAL if sequential else OrderOption.RANDOM, os_cache=True, drop_last=False,
                  seed=settings["seed"], indices=harness.numbers_of(settings) if same else None, pipelines=pipelines)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
