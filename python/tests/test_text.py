# SPDX-License-Identifier: Apache-2.0
"""Paths and texts that are not UTF-8, texts with null characters, numbers beyond 64 bits, and NumPy's scalars."""

import logging
import os
import pickle

import h5py
import numpy as np
import pytest
from conftest import targets

import h5feed

SURROGATE = os.fsdecode(b"\xff")


@pytest.fixture
def odd_file(tmp_path, gzip_file) -> bytes:
    """A copy of `gzip_file` whose folder and name are not UTF-8."""
    folder = os.fsencode(tmp_path) + b"/d\xff"
    os.mkdir(folder)
    path = folder + b"/t\xfe.h5"
    with open(path, "wb") as file:
        file.write(gzip_file.read_bytes())
    return path


@pytest.mark.parametrize("form", [bytes, os.fsdecode])
def test_a_path_that_is_not_utf_8_is_opened(odd_file, stored, form):
    loader = h5feed.DataLoader(form(odd_file), data="images", target="labels", batch_size=100, provenance=True)
    batch = next(iter(loader))
    np.testing.assert_array_equal(batch.data, stored[0])
    assert batch.origins[0].file == os.fsdecode(odd_file) == loader.dataset.origin(3).file
    assert r"\udcff" in repr(loader) and loader.report()
    assert str(loader.plan())
    copy = pickle.loads(pickle.dumps(loader.dataset))
    assert copy.origin(0).file == os.fsdecode(odd_file)


def test_a_pattern_of_paths_that_are_not_utf_8(odd_file, tmp_path):
    dataset = h5feed.Dataset.open(tmp_path / "d*" / "t*.h5", data="images")
    assert dataset.origin(0).file == os.fsdecode(odd_file)
    assert "d*" in repr(dataset)


def test_messages_have_paths_that_are_not_utf_8(odd_file):
    with pytest.raises(FileNotFoundError) as caught:
        h5feed.Dataset.open(odd_file + b"x")
    assert os.fsdecode(odd_file) in str(caught.value)
    with pytest.raises(h5feed.DatasetError) as caught:
        h5feed.Dataset.open(odd_file, data="imgs")
    assert os.fsdecode(odd_file) in str(caught.value)


def test_a_log_line_with_a_path_that_is_not_utf_8_arrives(odd_file, tmp_path, caplog):
    with h5py.File(odd_file, "a") as file:
        damaged = file.create_dataset("damaged", data=np.zeros((40, 4)), chunks=(10, 4), compression="gzip", fletcher32=True)
        place = damaged.id.get_chunk_info(2).byte_offset
    with open(odd_file, "r+b") as file:
        file.seek(place)
        file.write(b"damage")
    with caplog.at_level(logging.INFO, "h5feed"):
        loader = h5feed.DataLoader(odd_file, data="damaged", batch_size=10, on_error="skip", max_bad_share=1,
                                   bad_list=os.fsencode(tmp_path) + b"/bad\xff.tsv")
        assert sum(len(batch.indices) for batch in loader) == 30
        h5feed.plan(loader.dataset, batch_size=10)  # delivers what the last batch left
    assert os.fsdecode(odd_file) in (tmp_path / f"bad{SURROGATE}.tsv").read_text(errors="surrogateescape")
    assert any(os.fsdecode(odd_file) in record.getMessage() for record in caplog.records)


def test_a_name_in_a_file_that_is_not_utf_8(tmp_path):
    with h5py.File(tmp_path / "names.h5", "w") as file:
        file[b"im\xff"] = np.arange(12).reshape(4, 3)
    dataset = h5feed.Dataset.open(tmp_path / "names.h5", data="im" + SURROGATE)
    assert dataset.origin(1).path == "/im" + SURROGATE
    assert dataset[1][0].tolist() == [3, 4, 5]


@pytest.mark.parametrize("name", ["shuffle", "shard", "uneven", "output_dtype", "device", "cache_policy"])
@pytest.mark.parametrize("text", [SURROGATE, "\ud800", "full\0", "strided\0", "\0"])
def test_a_word_that_is_no_text_is_refused(dataset, name, text):
    with pytest.raises(ValueError, match=name):
        h5feed.DataLoader(dataset, **{name: text})


@pytest.mark.parametrize("name", ["data", "target"])
@pytest.mark.parametrize(("text", "message"), [
    (SURROGATE, "no dataset"), ("\ud800", r"'\\ud800' has a lone surrogate"), ("images\0x", "embedded null byte"),
])
def test_a_name_that_is_no_text_is_refused(gzip_file, name, text, message):
    with pytest.raises(ValueError, match=message):
        h5feed.Dataset.open(gzip_file, **{"data": "images", name: text})


@pytest.mark.parametrize("tail", ["\0", "\0x", b"\0x"])
def test_a_null_character_in_a_path_is_refused(gzip_file, tail):
    path = str(gzip_file) + tail if isinstance(tail, str) else os.fsencode(gzip_file) + tail
    with pytest.raises(ValueError, match="embedded null byte"):
        h5feed.Dataset.open(path, data="images")
    with pytest.raises(ValueError, match="bad_list: embedded null byte"):
        h5feed.DataLoader(gzip_file, data="images", on_error="skip", bad_list=path)


def test_a_surrogate_that_no_path_has_is_refused():
    with pytest.raises(ValueError, match="lone surrogate"):
        h5feed.Dataset.open("\ud800.h5")


@pytest.mark.parametrize("given", [{SURROGATE: 1}, {"\ud800": 1}, {3: 1}, {"mean\0": 1}])
def test_an_unknown_key_that_is_no_text_is_named(dataset, given):
    with pytest.raises(TypeError, match="Normalize.* got an unexpected keyword argument"):
        h5feed.DataLoader(dataset, normalize=given)


# Numbers

def test_scalars_of_numpy_are_numbers(dataset, gzip_file):
    plain = h5feed.DataLoader(dataset, batch_size=10, normalize={"mean": 0.5, "std": 0.25, "scale": 0.125}, seed=3, echo=2,
                              shuffle=True, augment={"horizontal_flip": 0.5, "random_crop": {"height": 4, "padding": 1}})
    scalars = h5feed.DataLoader(
        dataset, batch_size=np.int32(10), seed=np.uint64(3), echo=np.int64(2), shuffle=np.bool_(True), timeout=np.float32(9),
        num_workers=np.int8(1), drop_last=np.False_, rank=np.int64(0), world_size=np.int64(1), cache_bytes=np.int64(2**20),
        normalize={"mean": np.float32(0.5), "std": np.array(0.25), "scale": np.float32(0.125)}, max_bad_share=np.float64(0.5),
        augment={"horizontal_flip": np.float64(0.5), "random_crop": {"height": np.int16(4), "padding": np.uint8(1)}})
    for left, right in zip(plain, scalars, strict=True):
        np.testing.assert_array_equal(left.data, right.data)
    scalars.set_epoch(np.int64(3))
    assert scalars.epoch == 3
    lists = h5feed.DataLoader(dataset, normalize={"mean": np.full(3, 0.5, dtype=np.float32), "std": (np.float16(1), 1, 1)})
    assert next(iter(lists)).data.dtype == np.float32
    for size in (np.int64(4), np.array([4, 4]), [np.int8(4), 4]):
        tiles = h5feed.Dataset.open(gzip_file, data="images", tiles={"size": size})
        assert tiles.sample_shape == (3, 4, 4)
    part, _ = dataset.split(np.array([0.25, 0.75]), seed=np.int64(3))
    assert part.origin(np.int64(2)).row == part.origin(2).row


@pytest.mark.parametrize("name", ["batch_size", "num_workers", "seed", "rank", "world_size", "cache_bytes", "io_depth", "echo",
                                  "prefetch_factor", "copy_depth", "memory_budget_bytes"])
@pytest.mark.parametrize("number", [2**64, -2**63 - 1, 10**5000], ids=["above", "below", "far"])
def test_a_number_beyond_64_bits_is_named(dataset, name, number):
    with pytest.raises(ValueError, match=name):
        h5feed.DataLoader(dataset, **{name: number})


def test_the_largest_numbers(dataset):
    with pytest.raises(ValueError, match="batch_size is 9223372036854775808"):
        h5feed.DataLoader(dataset, batch_size=2**63)
    seeded = h5feed.DataLoader(dataset, batch_size=100, shuffle=True, seed=2**64 - 1)
    assert sorted(targets(seeded)[0]) == list(range(0, 300, 3))


@pytest.mark.parametrize("index", [2**70, -2**70, 2**63, np.uint64(2**64 - 1), [2**70], [0, 2**64 - 1],
                                   np.array([2**64 - 1], dtype=np.uint64)])
def test_a_sample_number_beyond_64_bits_is_an_index_error(dataset, index):
    several = isinstance(index, (list, np.ndarray))
    for use in (dataset.__getitem__, dataset.__getitems__, dataset.subset) if several else (dataset.__getitem__, dataset.origin):
        with pytest.raises(IndexError, match="out of range"):
            use(index)


def test_a_seed_or_epoch_that_is_no_number_is_named(dataset):
    for value, error in ((-1, ValueError), (2**64, ValueError), (1.5, TypeError), ("1", TypeError), (None, TypeError)):
        with pytest.raises(error, match="seed"):
            dataset.split([0.5, 0.5], seed=value)
        with pytest.raises(error, match="epoch"):
            h5feed.DataLoader(dataset).set_epoch(value)


@pytest.mark.parametrize("index", [(1, 2), (0, slice(None)), np.zeros((2, 2), dtype=np.int64), [[1], [2]]])
def test_an_index_of_more_dimensions_is_refused(dataset, index):
    with pytest.raises(TypeError, match="one index|flat sequence"):
        dataset[index]


@pytest.mark.parametrize("files", [3, None, [3], {"train.h5": 1}, [np.zeros(2)]])
def test_files_that_are_no_paths_are_named(files):
    with pytest.raises(TypeError, match="(?i)path"):
        h5feed.Dataset.open(files)


def test_an_open_file_of_h5py_is_no_path(gzip_file):
    with h5py.File(gzip_file) as file, pytest.raises(TypeError, match="files: expected a path or several, got File"):
        h5feed.Dataset.open(file)
