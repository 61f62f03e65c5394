# SPDX-License-Identifier: Apache-2.0
"""Delivery to GPUs, on a fake CUDA runtime, and machines and installations without one."""

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import types

import numpy as np
import pytest

import h5feed
import h5feed._core
from conftest import GPU_OPTIONS
from fake_gpu import FakeGpu, Taken, machine

def first_array(dataset, **options) -> "h5feed.DeviceArray":
    return next(iter(h5feed.DataLoader(dataset, batch_size=10, device="cuda:1", **options))).data


def read(gpu: FakeGpu, array: "h5feed.DeviceArray", stream: int) -> np.ndarray:
    taken = Taken(array.__dlpack__(stream=stream))
    values = gpu.read(taken.data, taken.shape, array.dtype, stream)
    taken.delete()
    return values


# Arrays of the loader


@pytest.mark.parametrize("workers", [0, 2])
def test_device_arrays_hold_what_the_cpu_delivers(gpu, dataset, expected, workers):
    loader = h5feed.DataLoader(dataset, device="cuda:1", num_workers=workers, **GPU_OPTIONS)
    stream = gpu.stream(1)
    for batch, (data, target) in zip(loader, expected, strict=True):
        assert isinstance(batch.data, h5feed.DeviceArray)
        assert (batch.data.device, batch.data.dtype, batch.target.dtype) == (1, "f32", "i64")
        np.testing.assert_array_equal(read(gpu, batch.data, stream), data)
        np.testing.assert_array_equal(read(gpu, batch.target, stream), target)
    assert "cuda:1" in loader.report() and loader.stats()["gpu_memory_loader"] > 0


def test_stacked_fields_are_device_arrays_and_others_stay_in_host_memory(gpu, with_fields, expected_fields):
    stream = gpu.stream(1)
    loader = h5feed.DataLoader(with_fields, device="cuda:1", num_workers=2, **GPU_OPTIONS)
    for fields, same in zip((batch.fields for batch in loader), expected_fields, strict=True):
        boxes, text = fields["boxes"], fields["text"]  # outlive the batch
        assert isinstance(boxes.values, h5feed.DeviceArray) and boxes.values.device == 1
        np.testing.assert_array_equal(read(gpu, boxes.values, stream), same["boxes"].values)
        np.testing.assert_array_equal(text.values, same["text"].values)
        np.testing.assert_array_equal(text.lengths, same["text"].lengths)
        assert boxes.offsets is None and boxes.lengths is None


def test_an_array_taken_over_outlives_batch_and_loader_and_ends_on_any_thread_without_python(gpu, dataset, expected):
    loader = h5feed.DataLoader(dataset, device="cuda:0", **GPU_OPTIONS)
    stream = gpu.stream()
    taken = Taken(next(iter(loader)).data.__dlpack__(stream=stream))
    loader.close()
    del loader
    gc.collect()
    np.testing.assert_array_equal(gpu.read(taken.data, taken.shape, "f32", stream), expected[0][0])
    thread = threading.Thread(target=taken.delete)
    thread.start()
    thread.join()


def test_dlpack_states_device_type_and_version(gpu, dataset):
    array = first_array(dataset, output_layout="channels_last")
    assert array.__dlpack_device__() == (2, 1) and repr(array) == "DeviceArray(u8, (10, 3, 8, 6), cuda:1)"
    for version, form in [(None, None), ((0, 8), None), ((1, 0), (1, 0)), ((1, 3), (1, 0)), ((2, 0), (1, 0))]:
        taken = Taken(array.__dlpack__(max_version=version))
        assert (taken.version, taken.device, taken.type) == (form, (2, 1), (1, 8))
        assert (taken.shape, taken.strides) == ((10, 3, 8, 6), (144, 1, 18, 3)) == (array.shape, array.strides)
        assert not taken.flags  # writable, not a copy
        taken.delete()
    array.__dlpack__()  # a capsule that nobody takes frees itself


@pytest.mark.parametrize("stream", [None, 1, 2])
def test_default_streams_wait_for_the_batch(gpu, dataset, stream):
    array = first_array(dataset)
    waits, records = gpu.calls("cudaStreamWaitEvent"), gpu.calls("cudaEventRecord")
    taken = Taken(array.__dlpack__(stream=stream))
    assert gpu.calls("cudaStreamWaitEvent") == waits + 1
    del array
    taken.delete()
    gc.collect()
    assert gpu.calls("cudaEventRecord") == records + 1, "reuse waits for the stream"


def test_minus_one_leaves_waiting_to_the_consumer(gpu, dataset):
    array = first_array(dataset)
    waits = gpu.calls("cudaStreamWaitEvent")
    Taken(array.__dlpack__(stream=-1)).delete()
    assert gpu.calls("cudaStreamWaitEvent") == waits


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"stream": 0}, ValueError, "stream 0 is none"),
    ({"stream": -2}, ValueError, "stream -2 is none"),
    ({"stream": "default"}, TypeError, "integer"),
    ({"dl_device": (1, 0)}, BufferError, "on a GPU"),
    ({"dl_device": (2, 0)}, BufferError, "on a GPU"),
    ({"copy": True}, BufferError, "copy=None"),
])
def test_what_dlpack_cannot_do_on_a_gpu_is_refused(gpu, dataset, arguments, error, message):
    with pytest.raises(error, match=message):
        first_array(dataset).__dlpack__(**arguments)


def test_dlpack_accepts_what_is_the_case(gpu, dataset):
    Taken(first_array(dataset).__dlpack__(dl_device=(2, 1), copy=False)).delete()


def test_the_cuda_array_interface(gpu, dataset):
    batch = next(iter(h5feed.DataLoader(dataset, batch_size=10, device="cuda:0", output_layout="channels_last")))
    waits = gpu.calls("cudaStreamWaitEvent")
    interface = batch.data.__cuda_array_interface__
    assert gpu.calls("cudaStreamWaitEvent") == waits + 1
    address = interface.pop("data")
    assert interface == {"shape": (10, 3, 8, 6), "typestr": "<u1", "strides": (144, 1, 18, 3), "stream": 1, "version": 3}
    assert address[0] > 0 and address[1] is False
    interface = batch.target.__cuda_array_interface__
    assert (interface["typestr"], interface["shape"], interface["strides"]) == ("<i8", (10,), None)
    assert not hasattr(first_array(dataset, normalize={}, output_dtype="bfloat16"), "__cuda_array_interface__")


def test_a_batch_is_not_freed_in_a_forked_child(gpu, dataset):
    array = first_array(dataset)
    array.use_on(gpu.stream(1))
    records = gpu.calls("cudaEventRecord")
    gpu.library.fake_gpu_wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        del array
        gc.collect()
        os._exit(0 if gpu.calls("cudaEventRecord") == records else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# Memory of the consumer


def test_next_into_writes_to_memory_of_the_consumer_on_its_stream(gpu, dataset, expected):
    core = h5feed._core.Loader(dataset._live, {**GPU_OPTIONS, "device": "cuda:1", "output_memory": "consumer"})
    stream = gpu.stream(1)
    number = core.start()
    for data, target in expected:
        given = []

        def provide(device, *described):
            assert device == 1
            for dtype, shape, strides in described:
                given.append((gpu.allocate(8 * int(np.prod(shape)), device), shape, dtype))
            return stream, *(address for address, _, _ in given)

        assert core.next_into(number, provide).size() == len(data)
        np.testing.assert_array_equal(gpu.read(*given[0], stream), data)
        np.testing.assert_array_equal(gpu.read(*given[1], stream), target)
    assert core.next_into(number, lambda *_: ()) is None


def test_what_the_consumer_raises_arrives_and_the_next_batch_follows(gpu, dataset):
    core = h5feed._core.Loader(dataset._live, {"batch_size": 40, "device": "cuda:0", "output_memory": "consumer"})
    number = core.start()

    def short_of_memory(device, *described):
        raise MemoryError("torch is out of memory")

    with pytest.raises(MemoryError, match="torch is out of memory"):
        core.next_into(number, short_of_memory)
    with pytest.raises(h5feed.OptionError, match="data is not in memory of cuda:0"):
        core.next_into(number, lambda device, *described: (0, np.empty(10**6).ctypes.data, np.empty(100).ctypes.data))
    assert core.next_into(number, lambda device, *described: (0, gpu.allocate(10**6), gpu.allocate(1000))).number == 2


def test_a_failure_of_the_gpu_is_a_device_error(gpu, dataset):
    gpu.fail("cudaMalloc")
    with pytest.raises(h5feed.DeviceError, match="cudaErrorMemoryAllocation.*batch_size"):
        h5feed.DataLoader(dataset, device="cuda:0")


# Machines and installations without a GPU


def test_pinned_memory_of_the_loader(gpu, dataset, stored):
    loader = h5feed.DataLoader(dataset, batch_size=50, pin_memory=True)
    for number, (data, _) in enumerate(loader):
        np.testing.assert_array_equal(data, stored[0][50 * number:50 * number + 50])
    assert loader.stats()["pinned_bytes"] > 0
    del data


def test_auto_takes_a_gpu_and_else_the_cpu(dataset, monkeypatch, caplog):
    with machine(monkeypatch, 2):
        assert isinstance(next(iter(h5feed.DataLoader(dataset, device="auto"))).data, h5feed.DeviceArray)
    with machine(monkeypatch, 0):
        assert isinstance(next(iter(h5feed.DataLoader(dataset, device="auto"))).data, np.ndarray)
        assert next(iter(h5feed.DataLoader(dataset, pin_memory=True))).data.shape == (1, 3, 8, 6)
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert any(line.startswith('device "auto": batches go to the CPU; no NVIDIA driver is loaded') for line in said)
    assert any(line.startswith("pin_memory: batches are in pageable memory; no NVIDIA driver is loaded") for line in said)


def test_a_machine_without_a_driver_says_so(dataset, monkeypatch):
    with machine(monkeypatch, 0):
        with pytest.raises(h5feed.DeviceError, match='device "cuda:0": no NVIDIA driver is loaded; install one, or use '
                                                     'device="cpu"'):
            h5feed.DataLoader(dataset, device="cuda:0")


def test_a_gpu_that_does_not_exist_is_named(gpu, dataset):
    with pytest.raises(h5feed.OptionError, match='device "cuda:2": this process sees cuda:0 to cuda:1'):
        h5feed.DataLoader(dataset, device="cuda:2")


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this machine has a GPU")
def test_the_installed_gpu_part_refuses_a_machine_without_a_gpu(dataset):
    with pytest.raises((h5feed.DeviceError, h5feed.OptionError), match='device "cuda:0": .*(driver|without CUDA)'):
        h5feed.DataLoader(dataset, device="cuda:0")


def test_without_the_gpu_part_gpus_are_refused_and_the_rest_works(dataset, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "h5feed._gpu", None)
    with pytest.raises(h5feed.OptionError, match='device "cuda:0": h5feed was built without CUDA; install it again.*, or use '
                                                 'device="cpu"'):
        h5feed.DataLoader(dataset, device="cuda:0")
    loader = h5feed.DataLoader(dataset, batch_size=50, device="auto", pin_memory=True)
    assert all(isinstance(batch.data, np.ndarray) for batch in loader)
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert any(line.startswith('device "auto": batches go to the CPU; h5feed was built without CUDA') for line in said)
    assert any(line.startswith("pin_memory: batches are in pageable memory; h5feed was built without CUDA") for line in said)


def test_a_gpu_part_that_cannot_be_used_is_named(dataset, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5feed._gpu", types.ModuleType("h5feed._gpu"))
    with pytest.raises(h5feed.DeviceError, match="h5feed._gpu is not a part of h5feed; install h5feed again"):
        h5feed.DataLoader(dataset, device="cuda:0")

    text = ctypes.create_string_buffer(b"h5feed 0.0.1")
    calls = (ctypes.c_size_t * 4)(len(text.value), ctypes.addressof(text), 0, 0)  # a std::string_view, and two functions
    make_capsule = ctypes.pythonapi.PyCapsule_New
    make_capsule.restype, make_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = b"h5feed._gpu.calls"
    sys.modules["h5feed._gpu"].calls = make_capsule(ctypes.addressof(calls), name, None)
    with pytest.raises(h5feed.DeviceError, match="h5feed._gpu is of another build than h5feed._core; install h5feed again"):
        h5feed.DataLoader(dataset, device="cuda:0")

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "h5feed._gpu":
                raise ImportError("libdl.so.2: cannot open shared object file")

    monkeypatch.delitem(sys.modules, "h5feed._gpu")
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    with pytest.raises(h5feed.DeviceError, match="h5feed._gpu cannot be loaded: libdl.so.2: cannot open"):
        h5feed.DataLoader(dataset, device="cuda:0")


def test_a_gpu_has_no_samples_for_collate_fn(dataset):
    with pytest.raises(h5feed.OptionError, match='collate_fn.*device="cpu" instead of "cuda:0"'):
        h5feed.DataLoader(dataset, device="cuda:0", collate_fn=len)
