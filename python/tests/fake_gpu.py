# SPDX-License-Identifier: Apache-2.0
"""The CUDA backend on the fake CUDA runtime of the C++ tests: memory of a GPU is host memory, streams are threads."""

import ctypes
import functools
import gc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import h5feed
import h5feed._core
import h5feed._loader

PATH = pathlib.Path(h5feed._core.__file__).parents[1] / "fake_gpu" / "_gpu.abi3.so"
NUMPY_TYPES = {"u8": np.uint8, "i32": np.int32, "i64": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64}


@functools.cache
def fake_module() -> types.ModuleType:
    """h5feed._gpu over the fake runtime."""
    if not PATH.exists():
        pytest.skip("the CUDA backend of the tests was not built")
    loader = importlib.machinery.ExtensionFileLoader("h5feed._gpu", str(PATH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("h5feed._gpu", loader))
    loader.exec_module(module)
    return module


@functools.cache
def fake_library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(PATH))
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for name, result, arguments in [
            ("start", None, [number]), ("stop", None, []), ("objects", size, []), ("calls", size, [ctypes.c_char_p]),
            ("fail", None, [ctypes.c_char_p]), ("allocate", address, [size, number]), ("free", None, [address]),
            ("make_stream", address, [number]), ("end_stream", None, [address]),
            ("read", None, [address, address, address, size]), ("synchronize", None, [address]), ("wait", None, [])]:
        function = getattr(library, f"fake_gpu_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class FakeGpu:
    """A machine with some GPUs, and memory and streams of a consumer on it."""

    _left_over = False  # a test that failed holds batches; its machine goes on for the next test

    def __init__(self, devices: int) -> None:
        self.library = fake_library()
        if not FakeGpu._left_over:
            self.library.fake_gpu_start(devices)
        self.allocated: list[int] = []
        self.streams: list[int] = []

    def allocate(self, size: int, device: int = 0) -> int:
        self.allocated.append(self.library.fake_gpu_allocate(size, device))
        return self.allocated[-1]

    def stream(self, device: int = 0) -> int:
        self.streams.append(self.library.fake_gpu_make_stream(device))
        return self.streams[-1]

    def calls(self, function: str) -> int:
        return self.library.fake_gpu_calls(function.encode())

    def fail(self, function: str) -> None:
        """Makes the next call of a function of the runtime fail."""
        self.library.fake_gpu_fail(function.encode())

    def read(self, address: int, shape: tuple[int, ...], dtype: str, stream: int | None) -> np.ndarray:
        """Copies an array on a stream, as a kernel of the consumer would read it, and waits for the stream."""
        array = np.empty(shape, NUMPY_TYPES[dtype])
        self.library.fake_gpu_read(stream, array.ctypes.data, address, array.nbytes)
        self.library.fake_gpu_synchronize(stream)
        return array

    def end(self) -> None:
        for loader in list(h5feed._loader._alive):
            loader.close()
        gc.collect()
        h5feed._core.deliver_log()
        for stream in self.streams:
            self.library.fake_gpu_end_stream(stream)
        for address in self.allocated:
            self.library.fake_gpu_free(address)
        left = self.library.fake_gpu_objects()
        FakeGpu._left_over = left > 0
        if left == 0:
            self.library.fake_gpu_stop()
        assert left == 0, f"{left} objects of CUDA are left"


@contextmanager
def machine(monkeypatch: pytest.MonkeyPatch, devices: int) -> Iterator[FakeGpu]:
    """A machine with so many GPUs; with 0, one without a driver."""
    monkeypatch.setitem(sys.modules, "h5feed._gpu", fake_module())
    gpu = FakeGpu(devices)
    try:
        yield gpu
    finally:
        gpu.end()


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("dimensions", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):  # DLManagedTensor
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):  # DLManagedTensorVersioned
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


class Taken:
    """An array that was taken over from a DLPack capsule, as another library does it."""

    def __init__(self, capsule: object) -> None:
        api = ctypes.pythonapi
        api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
        name = api.PyCapsule_GetName(capsule)
        self.versioned = name == b"dltensor_versioned"
        self.address = api.PyCapsule_GetPointer(capsule, name)
        self._name = b"used_" + name  # the capsule borrows it
        api.PyCapsule_SetName(capsule, self._name)
        form = (_Versioned if self.versioned else _Managed).from_address(self.address)
        self.flags = form.flags if self.versioned else None
        self.version = (form.major, form.minor) if self.versioned else None
        tensor = form.tensor
        self.data = tensor.data
        self.device = (tensor.device_type, tensor.device)
        self.type = (tensor.code, tensor.bits)
        self.shape = tuple(tensor.shape[:tensor.dimensions])
        self.strides = tuple(tensor.strides[:tensor.dimensions])
        self._delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(form.deleter)

    def delete(self) -> None:
        """Ends the array, without the GIL: ctypes releases it."""
        self._delete(self.address)
