# SPDX-License-Identifier: Apache-2.0
"""Patches of volumes equal the slices that h5py gives."""

import pathlib
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import h5feed


def write_volumes(folder: pathlib.Path, shapes: "list[tuple[int, int, int]]", chunk: int,
                  seed: int = 0) -> "list[pathlib.Path]":
    """Writes a file for each volume, with "raw", "label" and "weight"."""
    random = np.random.default_rng(seed)
    paths = []
    for number, shape in enumerate(shapes):
        paths.append(folder / f"volume_{number:02}.h5")
        with h5py.File(paths[-1], "w") as file:
            chunks = tuple(min(chunk, extent) for extent in shape)
            file.create_dataset("raw", data=random.integers(0, 65535, shape, dtype=np.uint16), chunks=chunks,
                                compression="gzip", compression_opts=1)
            label = (random.random(shape) < 0.01).astype(np.int32) * random.integers(1, 4, shape, dtype=np.int32)
            file.create_dataset("label", data=label, chunks=(1, *shape[1:]))
            file.create_dataset("weight", data=random.random(shape, dtype=np.float32))
    return paths


def patch_of(volume: "np.ndarray[Any, Any]", first: "tuple[int, int, int]", size: "tuple[int, int, int]") -> "np.ndarray[Any, Any]":
    """The slice of a volume, with zeros outside it."""
    out = np.zeros(size, dtype=volume.dtype)
    to, of = [], []
    for begin, extent, wanted in zip(first, volume.shape, size):
        of.append(slice(max(begin, 0), min(begin + wanted, extent)))
        to.append(slice(of[-1].start - begin, of[-1].stop - begin))
    out[tuple(to)] = volume[tuple(of)]
    return out


def check(dataset: h5feed.Dataset, paths: "list[pathlib.Path]", size: "tuple[int, int, int]",
          **options: Any) -> "list[int]":
    """Compares an epoch with h5py; returns the samples in order."""
    files = [h5py.File(path, "r") for path in paths]
    seen: "list[int]" = []
    for batch in h5feed.DataLoader(dataset, provenance=True, **options):
        for i, origin in enumerate(batch.origins):
            first = (origin.z, origin.y, origin.x)
            file = files[origin.image]
            assert pathlib.Path(origin.file) == paths[origin.image]
            np.testing.assert_array_equal(batch.data[i, 0], patch_of(file["raw"][...], first, size))
            np.testing.assert_array_equal(batch.target[i], patch_of(file["label"][...], first, size))
            np.testing.assert_array_equal(batch.fields["weight"].values[i, 0], patch_of(file["weight"][...], first, size))
        seen += batch.indices.tolist()
    for file in files:
        file.close()
    return seen


def open_patches(paths: "list[pathlib.Path]", **tiles: Any) -> h5feed.Dataset:
    return h5feed.Dataset.open(paths, data="raw", target="label", sample="dataset", input_layout="ndhw", tiles=tiles,
                               fields=[{"name": "weight", "input_layout": "ndhw"}])


extents = st.tuples(*[st.integers(1, 22)] * 3)


@settings(max_examples=40, deadline=None, database=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes=st.lists(extents, min_size=1, max_size=3), size=st.tuples(*[st.integers(1, 9)] * 3),
       chunk=st.integers(3, 11), workers=st.sampled_from([0, 1, 2, 4]), cache=st.sampled_from([0, 3000, 2**30]),
       shuffle=st.sampled_from(["sequential", "full", "chunk:1"]), data=st.data())
def test_patches_equal_the_slices_of_h5py(tmp_path_factory, shapes, size, chunk, workers, cache, shuffle, data):
    paths = write_volumes(tmp_path_factory.mktemp("volumes"), shapes, chunk)
    edges = data.draw(st.sampled_from(["drop", "pad", "shift"]))
    tiles: "dict[str, Any]" = {"size": size, "edges": edges}
    if data.draw(st.booleans()):
        tiles["per_image"] = data.draw(st.integers(1, 5))
        tiles["foreground"] = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    elif data.draw(st.booleans()):
        tiles["overlap"] = tuple(data.draw(st.integers(0, side - 1)) for side in size)
    else:
        tiles["stride"] = data.draw(st.tuples(*[st.integers(1, 12)] * 3))
    fits = all(side <= extent for shape in shapes for side, extent in zip(size, shape))
    if not fits and edges != "pad":
        with pytest.raises(h5feed.DatasetError, match="do not fit"):
            open_patches(paths, **tiles)
        return
    dataset = open_patches(paths, **tiles)
    seen = check(dataset, paths, size, batch_size=3, shuffle=shuffle, seed=1, num_workers=workers, cache_bytes=cache)
    assert sorted(seen) == list(range(len(dataset)))


def test_tile_grids_of_differing_volumes(tmp_path):
    paths = write_volumes(tmp_path, [(8, 8, 8), (16, 8, 12)], 4)
    dataset = open_patches(paths, size=(4, 4, 4))
    assert dataset.num_images == 2
    assert dataset.sample_shape == (1, 4, 4, 4)
    assert dataset.tile_grid == h5feed.TileGrid(8, 8, 2, 2, 8, 2)
    assert dataset.tile_grid_of(1) == h5feed.TileGrid(8, 12, 2, 3, 16, 4)
    assert len(dataset) == 8 + 24
    with pytest.raises(h5feed.OptionError, match="no image 2"):
        dataset.tile_grid_of(2)
    origin = dataset.origin(31)
    assert (origin.image, origin.z, origin.y, origin.x) == (1, 12, 4, 8)


def test_patches_with_too_little_foreground_are_left_out(tmp_path):
    paths = write_volumes(tmp_path, [(8, 8, 8), (16, 8, 12)], 4)
    dataset = open_patches(paths, size=(4, 4, 4), min_foreground=1 / 64)
    volumes = [h5py.File(path, "r")["label"][...] for path in paths]
    whole = open_patches(paths, size=(4, 4, 4))
    labelled = []
    for number in range(len(whole)):
        origin = whole.origin(number)
        if patch_of(volumes[origin.image], (origin.z, origin.y, origin.x), (4, 4, 4)).any():
            labelled.append(number)
    assert 0 < len(labelled) < 32
    assert dataset.tiles_left_out == 32 - len(labelled)
    assert check(dataset, paths, (4, 4, 4), batch_size=5) == labelled


def test_a_reader_draws_as_a_loader_of_its_seed_and_epoch(tmp_path):
    paths = write_volumes(tmp_path, [(16, 16, 16)] * 2, 8)
    dataset = open_patches(paths, size=(6, 6, 6), per_image=4, turns="all")
    loader = h5feed.DataLoader(dataset, batch_size=8, seed=7)
    for epoch in range(2):
        (batch,) = list(loader)
        read = h5feed.SampleReader(dataset, seed=7, epoch=epoch).read(range(8))
        np.testing.assert_array_equal(read.data, batch.data)
        np.testing.assert_array_equal(read.target, batch.target)
        np.testing.assert_array_equal(read.fields["weight"].values, batch.fields["weight"].values)


def test_turns_are_alike_for_data_labels_and_weights(tmp_path):
    path = tmp_path / "volume.h5"
    with h5py.File(path, "w") as file:
        numbers = np.arange(4**3, dtype=np.int64).reshape(4, 4, 4)
        for name in ("raw", "label", "weight"):
            file[name] = numbers
    dataset = open_patches([path], size=(4, 4, 4), per_image=300, turns="all")
    (batch,) = list(h5feed.DataLoader(dataset, batch_size=300))
    np.testing.assert_array_equal(batch.data[:, 0], batch.target)
    np.testing.assert_array_equal(batch.data, batch.fields["weight"].values)
    ways = {sample.tobytes() for sample in batch.data}
    expected = set()
    for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
        for flips in range(8):
            axes = [axis for axis in range(3) if flips >> axis & 1]
            expected.add(np.ascontiguousarray(np.flip(numbers.transpose(order), axes)).tobytes())
    assert ways == expected


@pytest.mark.parametrize(("tiles", "message"), [
    ({"size": (99, 4, 4)}, "do not fit into images of 8×8×8"),
    ({"size": (4, 4, -4)}, "size must be 1 to"),
    ({"size": 4}, "has no depth"),
    ({"size": (4, 4, 4), "per_image": 2, "foreground": float("nan")}, "foreground must be 0 to 1"),
    ({"size": (4, 4, 4), "per_image": 2, "foreground": 1.5}, "foreground must be 0 to 1"),
    ({"size": (4, 4, 4), "foreground": 0.5}, "per_image"),
    ({"size": (4, 4, 4), "per_image": 2, "stride": (1, 1, 1)}, "exclude each other"),
])
def test_impossible_patches_are_refused(tmp_path, tiles, message):
    paths = write_volumes(tmp_path, [(8, 8, 8)], 4)
    with pytest.raises(h5feed.Error, match=message) as caught:
        open_patches(paths, **tiles)
    assert "\n" not in str(caught.value)
