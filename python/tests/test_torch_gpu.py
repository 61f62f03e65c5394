# SPDX-License-Identifier: Apache-2.0
"""Tensors on a GPU, on a fake CUDA runtime: torch itself has no CUDA here, or no GPU."""

import ctypes
import types
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import h5feed  # noqa: E402
import h5feed.torch  # noqa: E402
from conftest import GPU_OPTIONS  # noqa: E402


@pytest.fixture
def torch_gpu(gpu, monkeypatch):
    """torch with CUDA, as far as h5feed calls it: allocates memory of the fake runtime. `current` is the current stream."""
    gpu.current = gpu.stream(1)
    made_by_torch = torch.empty_strided

    def empty_strided(shape, strides, *, dtype, device):
        assert device == torch.device("cuda", 1)
        count = int(np.prod(shape))
        size = max(1, count) * made_by_torch((1,), (1,), dtype=dtype).element_size()
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(gpu.allocate(size, 1)))
        return torch.from_numpy(memory).view(dtype).as_strided(shape, strides)

    monkeypatch.setattr(torch, "empty_strided", empty_strided)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: types.SimpleNamespace(cuda_stream=gpu.current))
    return gpu


@pytest.mark.parametrize("device", ["cuda:1", "cuda", "auto"])
def test_torch_gets_tensors_of_its_own_allocator_on_its_current_stream(torch_gpu, dataset, expected, device):
    options = {**GPU_OPTIONS, "num_workers": 2, "echo": 2, "device": device}
    loader = h5feed.torch.DataLoader(dataset, **options)
    twice = [batch for batch in expected for _ in range(2)]
    for batch, (data, target) in zip(loader, twice, strict=True):
        assert isinstance(batch, h5feed.torch.Batch) and batch.data.data_ptr() in torch_gpu.allocated
        np.testing.assert_array_equal(torch_gpu.read(batch.data.data_ptr(), data.shape, "f32", torch_gpu.current), data)
        np.testing.assert_array_equal(batch.target, target)
        assert len(batch.indices) == len(target)
        torch_gpu.current = torch_gpu.stream(1)  # the stream is asked for with each batch
    assert loader.stats()["outputs_allocated"] == 0


def test_stacked_fields_are_tensors_of_torch_and_others_stay_in_host_memory(torch_gpu, with_fields, expected_fields):
    loader = h5feed.torch.DataLoader(with_fields, device="cuda:1", num_workers=2, **GPU_OPTIONS)
    for batch, same in zip(loader, expected_fields, strict=True):
        assert len(batch) == 2
        mapped = torch.utils._pytree.tree_map(lambda tensor: tensor, batch)
        for fields in (batch.fields, batch.to(torch.float64).fields, mapped.fields):
            boxes, text = fields["boxes"].values, fields["text"]
            assert boxes.data_ptr() in torch_gpu.allocated and boxes.dtype == torch.float32
            np.testing.assert_array_equal(torch_gpu.read(boxes.data_ptr(), boxes.shape, "f32", torch_gpu.current),
                                          same["boxes"].values)
            assert text.values.data_ptr() not in torch_gpu.allocated
            np.testing.assert_array_equal(text.values, same["text"].values)
            np.testing.assert_array_equal(text.lengths, same["text"].lengths)
    assert loader.stats()["outputs_allocated"] == 0


def test_a_field_of_a_type_that_torch_lacks_is_refused(torch_gpu, gzip_file, monkeypatch):
    dataset = h5feed.Dataset.open(gzip_file, data="images", fields=[{"name": "labels", "dtype": "uint16"}])
    monkeypatch.delitem(h5feed.torch._TYPES_OF_TORCH, "u16", raising=False)
    with pytest.raises(h5feed.DatasetError, match='a field is uint16, a type that torch .* set its dtype'):
        next(iter(h5feed.torch.DataLoader(dataset, device="cuda:1", batch_size=10)))


def test_torch_devices_name_a_gpu_and_the_layout_is_kept(torch_gpu, dataset):
    loader = h5feed.torch.DataLoader(dataset, device=torch.device("cuda", 1), batch_size=10, output_layout="channels_last",
                                     collate_fn=len)
    assert next(iter(loader)) == 10
    loader = h5feed.torch.DataLoader(dataset, device=torch.device("cuda", 1), batch_size=10, output_layout="channels_last")
    data, target = next(iter(loader))
    torch_gpu.read(data.data_ptr(), data.shape, "u8", torch_gpu.current)
    assert data.is_contiguous(memory_format=torch.channels_last) and target.tolist() == list(range(0, 30, 3))


def test_torch_pins_the_memory_that_workers_fill(torch_gpu, dataset, stored, monkeypatch):
    made, empty = [], torch.empty

    def pinned(size, *, dtype, pin_memory):
        assert pin_memory
        tensor = empty(size, dtype=dtype)
        made.append((weakref.ref(tensor), tensor.data_ptr()))
        return tensor

    monkeypatch.setattr(torch, "empty", pinned)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # as it does with pinned tensors
    loader = h5feed.torch.DataLoader(dataset, batch_size=10, num_workers=2, pin_memory=True, seed=1,
                                     output_layout="channels_last")
    for number, (data, target) in enumerate(loader):
        np.testing.assert_array_equal(data, stored[0][10 * number:10 * number + 10])
        assert target.tolist() == list(range(30 * number, 30 * number + 30, 3))
        assert {data.data_ptr(), target.data_ptr()} <= {address for _, address in made}
        assert data.is_contiguous(memory_format=torch.channels_last)
    del data, target
    loader.close()
    next(iter(h5feed.DataLoader(dataset)))  # any loader releases what is not used any more
    assert not any(tensor() for tensor, _ in made)


def test_memory_that_torch_cannot_pin_is_pageable(torch_gpu, dataset, monkeypatch, caplog):
    def refused(size, *, dtype, pin_memory):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch, "empty", refused)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    assert len(list(h5feed.torch.DataLoader(dataset, batch_size=50, pin_memory=True, seed=1))) == 2
    assert any("no pinned memory can be allocated: CUDA error: out of memory" in record.message for record in caplog.records)


def test_a_torch_without_cuda_refuses_a_gpu(gpu, dataset, monkeypatch, caplog):
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(h5feed.OptionError, match=r'device "cuda:0": this PyTorch \(.*\) has no CUDA'):
        h5feed.torch.DataLoader(dataset, device="cuda:0")
    data, _ = next(iter(h5feed.torch.DataLoader(dataset, device="auto")))
    assert data.device.type == "cpu"
    assert any(record.message.startswith('device "auto": batches go to the CPU') for record in caplog.records)
