# SPDX-License-Identifier: Apache-2.0
"""Delivery to a real GPU, with PyTorch; skipped where there is none."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch finds no GPU", allow_module_level=True)

import h5feed  # noqa: E402
import h5feed._core  # noqa: E402
import h5feed.torch  # noqa: E402
from conftest import GPU_OPTIONS  # noqa: E402

if h5feed._core.why_no_gpu_part() is not None:
    pytest.skip(f"{h5feed._core.why_no_gpu_part()}", allow_module_level=True)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "auto", torch.device("cuda", 0)])
def test_torch_gets_the_batches_of_the_cpu(dataset, expected, device):
    loader = h5feed.torch.DataLoader(dataset, device=device, num_workers=2, **GPU_OPTIONS)
    with torch.cuda.stream(torch.cuda.Stream()):
        for batch, (data, target) in zip(loader, expected, strict=True):
            assert batch.data.is_cuda and batch.target.is_cuda
            np.testing.assert_array_equal(batch.data.cpu().numpy(), data)
            np.testing.assert_array_equal(batch.target.cpu().numpy(), target)


def test_stacked_fields_are_those_of_the_cpu(with_fields, expected_fields):
    of_torch = h5feed.torch.DataLoader(with_fields, device="cuda:0", num_workers=2, **GPU_OPTIONS)
    of_loader = h5feed.DataLoader(with_fields, device="cuda:0", num_workers=2, **GPU_OPTIONS)
    for batch, other, same in zip(of_torch, of_loader, expected_fields, strict=True):
        boxes = batch.fields["boxes"].values
        assert boxes.is_cuda
        np.testing.assert_array_equal(boxes.cpu().numpy(), same["boxes"].values)
        np.testing.assert_array_equal(torch.from_dlpack(other.fields["boxes"].values).cpu().numpy(), same["boxes"].values)
        np.testing.assert_array_equal(batch.fields["text"].values, same["text"].values)


def test_torch_takes_arrays_of_the_loader_over(dataset, expected):
    kept = []
    for batch, (data, _) in zip(h5feed.DataLoader(dataset, device="cuda:0", num_workers=2, **GPU_OPTIONS), expected, strict=True):
        tensor = torch.from_dlpack(batch.data)
        assert tensor.is_cuda
        kept.append((tensor * 2, data))
    for doubled, data in kept:
        np.testing.assert_array_equal(doubled.cpu().numpy(), data * 2)


def test_pinned_batches_are_copied_asynchronously(dataset, stored):
    copies = []
    for data, _ in h5feed.torch.DataLoader(dataset, batch_size=10, num_workers=2, pin_memory=True, seed=1):
        assert data.is_pinned()
        copies.append(data.to("cuda", non_blocking=True))
    np.testing.assert_array_equal(torch.cat(copies).cpu().numpy(), stored[0])
