# SPDX-License-Identifier: Apache-2.0
"""What `h5feed bench --peer` and benchmarks/peers/run.py run for each peer: the same loop around every loader.

    python3 NAME_peer.py describe ORDER
    python3 NAME_peer.py ways ORDER             (of describe, without importing anything)
    python3 NAME_peer.py convert SETTINGS FILE DATA TARGET
    python3 NAME_peer.py measure SETTINGS FILE DATA TARGET
    python3 NAME_peer.py verify SETTINGS FILE DATA TARGET

SETTINGS is a JSON object: mode, order (sequential, full, chunk:K), num_workers, batch_size, seconds, seed, numbers (a
file of int64 sample numbers: h5feed's order of an epoch), folder (of the converted samples); both paths may be relative
to the folder of the script. DATA and TARGET are paths of datasets; an empty TARGET means none. Each prints one line of
JSON; an error is {"error": TEXT}.

A peer is a module with
    MODULES      {name: (module, package of pip, package of Debian or "")}
    IMPORTS      further modules that make_loader imports
    ways(order)  the ways in which it can read, a list of Way
    make_loader(settings, source)  returns an iterable; each pass over it is an epoch of (data, target) or data, tensors
    convert(settings, source)      only if a Way needs it: writes the samples in the peer's own format
"""

import contextlib
import ctypes
import dataclasses
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import select
import signal
import sys
import time
import zlib

import h5py_rows


@dataclasses.dataclass
class Way:
    """One way to use a peer, a row of the comparison."""

    mode: str  # unique among all peers
    name: str
    order: str
    same_order: bool = False  # delivers the samples in h5feed's order, as listed in settings["numbers"]
    converts: bool = False  # reads the samples in the peer's own format
    slow_start: bool = False  # takes seconds to start, such as to read the whole file
    note: str = ""


@dataclasses.dataclass
class Source:
    """The HDF5 file; `target` is empty if there is none."""

    file: str
    data: str
    target: str
    open_data: object = h5py_rows.open_h5py

    def open(self, tuned):
        """Returns the two datasets; the second is None if there is no target."""
        return self.open_data(self.file, self.data, self.target, tuned)

    def length(self):
        return self.open(False)[0].shape[0]


def any_order(order):
    """Returns what a dataset of single rows makes of an order: it knows no windows of chunks."""
    return "sequential" if order == "sequential" else "full"


def describe(peer, order):
    """Returns the versions of the peer's modules and the ways in which it can read."""
    modules = {}
    for name, (module, pip, apt) in peer.MODULES.items():
        modules[name] = {"version": None, "pip": pip, "apt": apt, "problem": ""}
        try:
            modules[name]["version"] = version_of(importlib.import_module(module), pip)
        except ModuleNotFoundError as error:
            if error.name and not module.startswith(error.name):
                modules[name]["problem"] = str(error)
        except Exception as error:  # a package that does not fit the versions of others
            modules[name]["problem"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return {"python": sys.version.split()[0], "modules": modules,
            "ways": ways(peer, order)}


def ways(peer, order):
    return [dataclasses.asdict(way) for way in peer.ways(order)]


def version_of(module, package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return getattr(module, "__version__", "unknown")


def numbers_of(settings):
    """Returns h5feed's order of an epoch."""
    import numpy

    return numpy.fromfile(settings["numbers"], "<i8")


def split(batch):
    """Returns data and target of a batch; the target may be None."""
    return tuple(batch) if isinstance(batch, (list, tuple)) else (batch, None)


def check_batch(data, target, source):
    """Every loader has to deliver the same: one contiguous tensor of the stored type, and as many labels."""
    stored, labels = source.open(False)
    if tuple(data.shape[1:]) != tuple(stored.shape[1:]) or str(data.dtype) != f"torch.{stored.dtype}":
        raise ValueError(f"the loader delivered {data.dtype} {tuple(data.shape)}, not batches of {stored.dtype} samples")
    if not data.is_contiguous():
        raise ValueError("the loader delivered a batch that is not contiguous")
    if labels is not None and (target is None or target.numel() != data.shape[0]):
        raise ValueError("the loader delivered a batch without a label for each sample")


def measure(peer, settings, source):
    """Receives batches for settings["seconds"]; at least one from each worker.

    The clock starts after all imports, before the loader is made. Workers deliver in turn, about as many batches at a
    time as there are workers, and only whole rounds are counted, so that a slow loader's rate does not depend on where
    in a round the time ended. The rate after the start begins with the batch after those prepared in advance.
    """
    for module in (*(module for module, _, _ in peer.MODULES.values()), *peer.IMPORTS):
        importlib.import_module(module)
    way = way_of(peer, settings)
    length = source.length()
    started = time.perf_counter()
    loader = peer.make_loader(settings, source)
    workers = settings["num_workers"]
    in_a_round = max(1, workers)
    prepared = 1 + 2 * max(2, workers)
    batches = samples = epochs = 0
    first_s = now = checking = 0.0
    prepared_at, prepared_samples = None, 0
    end = settings["seconds"]
    while now < end:
        before = batches
        for batch in loader:
            data, target = split(batch)
            data.view(-1)[0].item()  # minimal work of a training step
            batches += 1
            samples += data.shape[0]
            now = time.perf_counter() - started - checking
            if batches == 1:
                first_s = now
                if way.slow_start:
                    end += first_s
                check_batch(data, target, source)
                checking = time.perf_counter() - started - now
            if batches == prepared:
                prepared_at, prepared_samples = now, samples
            if now >= end and batches % in_a_round == 0:
                break
        epochs += 1
        if batches == before:
            raise ValueError("the loader delivered no batch")
    rate = samples / now
    after_start = None
    if batches >= prepared + 2 * in_a_round:
        after_start = (samples - prepared_samples) / (now - prepared_at)
        rate = length / (first_s + max(0, length - settings["batch_size"]) / after_start)
    return {"samples_per_s": rate, "after_start": after_start, "first_batch_s": first_s, "batches": batches}


def verify(peer, settings, source):
    """Reads an epoch: whether each sample of the file came once with its label, and in h5feed's order."""
    def digest(row, label):
        return zlib.crc32(b"" if label is None else str(int(label)).encode(), zlib.crc32(row.tobytes()))

    stored, labels = h5py_rows.open_h5py(source.file, source.data, source.target, True)
    labels = None if labels is None else labels[:]
    expected = [digest(stored[i], None if labels is None else labels[i]) for i in range(stored.shape[0])]
    del stored
    delivered = []
    for batch in peer.make_loader(settings, source):
        data, target = split(batch)
        if not delivered:
            check_batch(data, target, source)
        target = [None] * data.shape[0] if target is None else target.reshape(-1).tolist()
        delivered += [digest(row, label) for row, label in zip(data.numpy(), target)]
    in_order = os.path.isfile(settings["numbers"]) and delivered == [expected[i] for i in numbers_of(settings)]
    return {"samples": len(delivered), "complete": sorted(delivered) == sorted(expected), "in_order": bool(in_order)}


def way_of(peer, settings):
    return next(way for way in peer.ways(settings["order"]) if way.mode == settings["mode"])


def size_of(folder):
    return sum(os.path.getsize(os.path.join(parent, name)) for parent, _, names in os.walk(folder) for name in names)


def convert(peer, settings, source):
    """Converts the samples and returns how long that took and how large the result is."""
    os.makedirs(settings["folder"], exist_ok=True)
    started = time.perf_counter()
    peer.convert(settings, source)
    return {"seconds": time.perf_counter() - started, "bytes": size_of(settings["folder"])}


def follow_parent():
    """Has the kernel end this process with the thread that started it: a program that is killed cannot do that."""
    pr_set_pdeathsig = 1
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    output = select.poll()
    output.register(1, 0)
    if any(event & select.POLLERR for _, event in output.poll(0)):
        os._exit(1)  # a program that was killed before left the output without a reader


def main(peer, open_data=h5py_rows.open_h5py, arguments=None):
    """Runs the command of the command line for the module `peer`. Does not return."""
    follow_parent()
    command, *rest = arguments or sys.argv[1:]
    if command in ("describe", "ways"):
        print(json.dumps(describe(peer, rest[0]) if command == "describe" else ways(peer, rest[0])))
        sys.exit(0)
    settings = json.loads(rest[0])
    for key in ("numbers", "folder"):
        settings[key] = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), settings.get(key, ""))
    try:
        act = {"convert": convert, "measure": measure, "verify": verify}[command]
        result = act(peer, settings, Source(*rest[1:], open_data=open_data))
    except Exception as error:  # any error of a reader means that it cannot read this file
        lines = [line for line in str(error).splitlines() if line.strip()] or [repr(error)]
        # A worker's message begins with a stack trace; other messages may end with one.
        line = lines[-1] if "worker process" in lines[0] else lines[0]
        result = {"error": line.strip()[:300]}
    print(json.dumps(result), flush=True)
    for worker in multiprocessing.active_children():
        worker.kill()  # its read-ahead is not needed
    os._exit(0)
