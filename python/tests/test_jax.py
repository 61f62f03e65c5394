# SPDX-License-Identifier: Apache-2.0
import pytest

jax = pytest.importorskip("jax")

import h5py  # noqa: E402
import numpy as np  # noqa: E402

import h5feed.jax  # noqa: E402


def test_images_are_channels_last_and_targets_int32(gzip_file):
    loader = h5feed.jax.DataLoader(gzip_file, data="images", target="labels", batch_size=10, num_workers=1)
    batch = next(iter(loader))
    images, labels = batch
    assert isinstance(images, jax.Array) and images.shape == (10, 8, 6, 3) and labels.dtype == np.int32
    with h5py.File(gzip_file) as file:
        np.testing.assert_array_equal(images, file["images"][:10].transpose(0, 2, 3, 1))
    doubled = jax.tree_util.tree_map(lambda array: array * 2, batch)
    assert isinstance(doubled, h5feed.jax.Batch)
    np.testing.assert_array_equal(doubled.target, labels * 2)


def test_arrays_stay_as_they_are_when_the_loader_goes_on(gzip_file):
    loader = h5feed.jax.DataLoader(gzip_file, data="images", batch_size=10)
    batches = [batch.data for batch in loader]
    with h5py.File(gzip_file) as file:
        for number, images in enumerate(batches):
            np.testing.assert_array_equal(images, file["images"][number * 10:number * 10 + 10].transpose(0, 2, 3, 1))


def test_what_is_no_image_stays_as_stored(plain_file):
    assert next(iter(h5feed.jax.DataLoader(plain_file, data="data", batch_size=4))).data.shape == (4, 5)


def test_jax_moves_batches_itself(dataset):
    with pytest.raises(h5feed.OptionError, match="default device"):
        h5feed.jax.DataLoader(dataset, device="cuda:0")


def test_bfloat16(dataset, stored):
    loader = h5feed.jax.DataLoader(dataset, batch_size=100, output_dtype="bfloat16", normalize={"scale": 1})
    data = next(iter(loader)).data
    assert data.dtype == jax.numpy.bfloat16
    np.testing.assert_array_equal(data.astype(np.float32), stored[0].transpose(0, 2, 3, 1))


def test_targets_that_are_no_integers_keep_their_values(folder):
    with h5py.File(folder / "weights.h5", "w") as file:
        file["rows"] = np.zeros((4, 2), np.float32)
        file["weights"] = np.array([0.25, 0.5, 0.75, 1], np.float32)
        file["numbers"] = np.array([1, 2, 2**31, -1])
    weights = next(iter(h5feed.jax.DataLoader(folder / "weights.h5", data="rows", target="weights", batch_size=4))).target
    assert weights.dtype == np.float32 and weights.tolist() == [0.25, 0.5, 0.75, 1]
    batches = iter(h5feed.jax.DataLoader(folder / "weights.h5", data="rows", target="numbers", batch_size=2))
    assert next(batches).target.tolist() == [1, 2]
    with pytest.raises(ValueError, match="does not fit int32"):
        next(batches)
