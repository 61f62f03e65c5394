# SPDX-License-Identifier: Apache-2.0
"""DLPack of batches in host memory; test_gpu.py has that of GPUs."""

import gc

import numpy as np
import pytest

import h5feed
from fake_gpu import Taken


def test_dlpack_shares_the_memory(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=10)
    raw = loader._loader.next(loader._loader.start())
    tensor = raw.tensors()[0]
    assert tensor.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(tensor)
    assert np.shares_memory(array, tensor.numpy()) and array.flags.writeable
    unversioned = tensor.__dlpack__()
    versioned = tensor.__dlpack__(max_version=(1, 0))
    assert '"dltensor"' in repr(unversioned) and '"dltensor_versioned"' in repr(versioned)
    with pytest.raises(BufferError, match="host memory"):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="stream"):
        tensor.__dlpack__(stream=1)
    del raw, tensor, loader
    gc.collect()
    assert array.shape == (10, 3, 8, 6)


@pytest.fixture
def tensor(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=10, output_layout="channels_last")
    return loader._loader.next(loader._loader.start()).tensors()[0]


def test_a_copy_has_its_own_memory_and_says_so(tensor, stored):
    for version in (None, (1, 0)):
        taken = Taken(tensor.__dlpack__(copy=True, max_version=version))
        assert taken.data != tensor.numpy().ctypes.data and taken.flags == (None if version is None else 2)
        assert (taken.shape, taken.strides, taken.device) == ((10, 3, 8, 6), (144, 1, 18, 3), (1, 0))
        taken.delete()
    array = np.from_dlpack(type("Copying", (), {
        "__dlpack__": lambda self, **arguments: tensor.__dlpack__(copy=True, **arguments),
        "__dlpack_device__": lambda self: tensor.__dlpack_device__()})())
    np.testing.assert_array_equal(array, stored[0][:10])
    assert not np.shares_memory(array, tensor.numpy())


def test_without_a_copy_memory_is_shared(tensor):
    for copy in (None, False):
        taken = Taken(tensor.__dlpack__(copy=copy, dl_device=(1, 0), max_version=(1, 2)))
        assert taken.data == tensor.numpy().ctypes.data and taken.flags == 0
        taken.delete()


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"stream": 1}, ValueError, "stream must be None"),
    ({"stream": -1}, ValueError, "stream must be None"),
    ({"dl_device": (2, 0)}, BufferError, "host memory"),
    ({"dl_device": 1}, TypeError, "indexing"),
    ({"max_version": 1}, TypeError, "indexing"),
    ({"max_version": ("1", 0)}, TypeError, "integer"),
])
def test_what_dlpack_cannot_do_in_host_memory_is_refused(tensor, arguments, error, message):
    with pytest.raises(error, match=message):
        tensor.__dlpack__(**arguments)
