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


@pytest.fixture
def wide_file(folder):
    with h5py.File(folder / "wide.h5", "w") as file:
        file["tokens"] = np.array([[1, -2], [2**40 + 5, 7]])
        file["hashes"] = np.array([[2**32 - 1], [2**63]], np.uint64)
        file["floats"] = np.array([[0.1], [2]], np.float64)
        file["labels"] = np.array([3, 2**40 + 5])
    return folder / "wide.h5"


@pytest.mark.parametrize("data, options, dtype, first", [
    ("tokens", {}, np.int32, [[1, -2]]), ("hashes", {}, np.uint32, [[2**32 - 1]]),
    ("floats", {"target": "labels", "target_dtype": "int64"}, np.float32, [[np.float32(0.1)]])])
def test_integers_of_64_bits_are_narrowed_or_refused(wide_file, data, options, dtype, first):
    batches = iter(h5feed.jax.DataLoader(wide_file, data=data, batch_size=1, **options))
    batch = next(batches)
    assert batch.data.dtype == dtype and batch.data.tolist() == first
    assert all(target.dtype == np.int32 for target in batch[1:])
    with pytest.raises(h5feed.DatasetError, match="does not fit u?int32, the widest .*; set jax_enable_x64$"):
        next(batches)


def test_integers_of_64_bits_stay_with_x64(wide_file):
    jax.config.update("jax_enable_x64", True)
    try:
        batch = next(iter(h5feed.jax.DataLoader(wide_file, data="tokens", target="labels", target_dtype="int64", batch_size=2)))
        assert batch.data.tolist() == [[1, -2], [2**40 + 5, 7]] and batch.target.tolist() == [3, 2**40 + 5]
        hashes = next(iter(h5feed.jax.DataLoader(wide_file, data="hashes", batch_size=2))).data
        assert hashes.tolist() == [[2**32 - 1], [2**63]]
    finally:
        jax.config.update("jax_enable_x64", False)
