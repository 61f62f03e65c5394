# SPDX-License-Identifier: Apache-2.0
"""DALI on the CPU: an external source over h5py, and its WebDataset reader over the converted samples.

DALI reads no HDF5. The external source runs the reader of PyTorch's tuned way in worker processes and delivers h5feed's
order. The WebDataset reader has its own buffered shuffle; num_workers are its threads.
"""

import io
import os
import sys
import tarfile

import harness
import h5py_rows
from harness import Way

MODULES = {"dali": ("nvidia.dali", "nvidia-dali-cuda130", ""), **h5py_rows.MODULES}
IMPORTS = ("nvidia.dali.plugin.pytorch",)
LABEL_BYTES = 8


def ways(order):
    own = "sequential" if order == "sequential" else "its shuffle"
    return [
        Way("dali_external", "DALI, external source over h5py", order, same_order=True, slow_start=True,
            note="worker processes with a 1 GiB chunk cache each"),
        Way("dali_webdataset", "DALI, WebDataset reader", own, converts=True, slow_start=True,
            note="its own format, uncompressed"),
    ]


def convert(settings, source):
    """Writes a tar file with two members a sample, and the index that DALI reads."""
    data, target = source.open(True)
    labels = None if target is None else target[:]
    step = data.chunks[0] if data.chunks else 256
    path = os.path.join(settings["folder"], "samples.tar")
    lines = []
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:

        def add(number, suffix, content):
            member = tarfile.TarInfo(f"{number:09d}.{suffix}")
            member.size = len(content)
            begin = tar.offset
            tar.addfile(member, io.BytesIO(content))
            return f"{suffix} {begin + tarfile.BLOCKSIZE} {len(content)} {member.name}"

        for begin in range(0, data.shape[0], step):
            for number, row in enumerate(data[begin:begin + step], begin):
                label = 0 if labels is None else int(labels[number])
                lines.append(add(number, "bin", row.tobytes()) + " "
                             + add(number, "cls", label.to_bytes(LABEL_BYTES, "little", signed=True)))
    with open(os.path.join(settings["folder"], "samples.idx"), "w", encoding="ascii") as index:
        index.write("\n".join([f"v1.2 {len(lines)}", *lines, ""]))


class ExternalBatches(h5py_rows.BatchReader):
    """Callback of DALI's external source, which copies it to its workers."""

    def __init__(self, source, batches):
        super().__init__(source)
        self.batches = batches

    def __call__(self, batch):
        if batch.iteration >= len(self.batches):
            raise StopIteration
        rows, labels = self.rows(self.batches[batch.iteration])
        return rows if labels is None else (rows, labels)


class Loader:
    """DALI's iterator for PyTorch, without the names of its outputs."""

    def __init__(self, pipeline, outputs, **several):
        from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

        self.outputs = outputs
        self.iterator = DALIGenericIterator([pipeline], outputs, auto_reset=True,
                                            last_batch_policy=LastBatchPolicy.PARTIAL, **several)

    def __iter__(self):
        for batch in self.iterator:
            yield tuple(batch[0][name] for name in self.outputs)


def external_source(settings, source, pipeline, labelled):
    from nvidia.dali import fn

    batches = h5py_rows.batches_of(harness.numbers_of(settings), settings["batch_size"])
    outputs = ["data", "target"] if labelled else ["data"]
    callback = ExternalBatches(source, batches)
    several = {"parallel": True, "prefetch_queue_depth": 2} if settings["num_workers"] > 0 else {}
    with pipeline:
        found = fn.external_source(callback, num_outputs=len(outputs), batch=True, batch_info=True, **several)
        pipeline.set_outputs(*found)
    if several:
        pipeline.start_py_workers()
    pipeline.build()
    return Loader(pipeline, outputs)


def web_dataset(settings, data, pipeline, labelled):
    from nvidia.dali import fn, types

    tar, index = (os.path.join(settings["folder"], "samples." + suffix) for suffix in ("tar", "idx"))
    outputs = ["data", "target"] if labelled else ["data"]
    kinds = {"uint8": types.UINT8, "int8": types.INT8, "uint16": types.UINT16, "int16": types.INT16,
             "int32": types.INT32, "int64": types.INT64, "float16": types.FLOAT16, "float32": types.FLOAT,
             "float64": types.FLOAT64}
    with pipeline:
        image, label = fn.readers.webdataset(paths=[tar], index_paths=[index], ext=["bin", "cls"], name="samples",
                                             random_shuffle=settings["order"] != "sequential", seed=settings["seed"])
        image = fn.reinterpret(image, dtype=kinds[str(data.dtype)], shape=list(data.shape[1:]))
        label = fn.reinterpret(label, dtype=types.INT64, shape=[1])
        pipeline.set_outputs(*((image, label) if labelled else (image,)))
    pipeline.build()
    return Loader(pipeline, outputs, reader_name="samples")


def make_loader(settings, source):
    from nvidia.dali import Pipeline

    data, target = source.open(False)
    workers = settings["num_workers"]
    external = settings["mode"] == "dali_external"
    several = {"py_num_workers": workers, "py_start_method": "fork"} if external and workers > 0 else {}
    pipeline = Pipeline(batch_size=settings["batch_size"], num_threads=max(1, workers), device_id=None,
                        seed=settings["seed"], **several)
    labelled = target is not None
    if external:
        del data, target  # libhdf5's handles must not be shared with the workers
        return external_source(settings, source, pipeline, labelled)
    return web_dataset(settings, data, pipeline, labelled)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
