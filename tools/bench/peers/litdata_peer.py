# SPDX-License-Identifier: Apache-2.0
"""LitData: the samples converted to its own format, uncompressed, in chunks of 64 MB, as its `optimize` does.

Its shuffle permutes chunks, and samples within blocks of a chunk; it cannot be given an order.
"""

import os
import sys

os.environ.setdefault("LITDATA_DISABLE_VERSION_CHECK", "1")

import harness  # noqa: E402
import h5py_rows  # noqa: E402
from harness import Way  # noqa: E402

MODULES = {"litdata": ("litdata", "litdata", ""), **h5py_rows.MODULES}
IMPORTS = ("torch.utils.data",)


def ways(order):
    own = "sequential" if order == "sequential" else "its shuffle"
    return [Way("litdata", "LitData", own, converts=True, slow_start=True, note="its own format, uncompressed")]


def convert(settings, source):
    import torch
    from litdata.streaming.writer import BinaryWriter

    data, target = source.open(True)
    labels = None if target is None else target[:]
    writer = BinaryWriter(settings["folder"], chunk_bytes="64MB")
    step = data.chunks[0] if data.chunks else 256
    number = 0
    for begin in range(0, data.shape[0], step):
        for row in data[begin:begin + step]:
            image = torch.from_numpy(row)
            writer[number] = image if labels is None else (image, int(labels[number]))
            number += 1
    writer.done()
    writer.merge()


def make_loader(settings, source):
    from litdata import StreamingDataLoader, StreamingDataset

    dataset = StreamingDataset(settings["folder"], shuffle=settings["order"] != "sequential", seed=settings["seed"])
    workers = settings["num_workers"]
    several = {"persistent_workers": True} if workers > 0 else {}
    return StreamingDataLoader(dataset, batch_size=settings["batch_size"], num_workers=workers, **several)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
