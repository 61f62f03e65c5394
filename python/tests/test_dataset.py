# SPDX-License-Identifier: Apache-2.0
import os
import pickle
import shutil

import h5py
import numpy as np
import pytest

import h5feed


def test_a_dataset_says_what_was_found(dataset, gzip_file):
    assert len(dataset) == 100
    assert dataset.shape == (100, 3, 8, 6)
    assert dataset.sample_shape == (3, 8, 6)
    assert dataset.dtype == np.uint8
    assert dataset.has_target
    assert repr(dataset) == f"Dataset({str(gzip_file)!r}, data='images': 100 samples of 3 × 8 × 6 u8, target='labels')"
    origin = dataset.origin(7)
    assert (origin.file, origin.path, origin.row) == (str(gzip_file), "/images", 7)


def test_a_number_reads_one_sample(dataset, stored):
    data, target = dataset[5]
    np.testing.assert_array_equal(data, stored[0][5])
    assert target == stored[1][5]
    np.testing.assert_array_equal(dataset[-1][0], stored[0][-1])
    np.testing.assert_array_equal(dataset[np.int64(3)][0], stored[0][3])


@pytest.mark.parametrize("index", [slice(3, 50, 7), slice(None, None, -9), [4, 2, 4, -1], np.array([9, 8])])
def test_a_slice_or_list_reads_a_batch(dataset, stored, index):
    batch = dataset[index]
    np.testing.assert_array_equal(batch.data, stored[0][index])
    np.testing.assert_array_equal(batch.target, stored[1][index])


def test_a_mask_reads_its_samples(dataset, stored):
    mask = stored[1] % 2 == 0
    np.testing.assert_array_equal(dataset[mask].target, stored[1][mask])
    with pytest.raises(IndexError, match="mask"):
        dataset[mask[:5]]


@pytest.mark.parametrize("index", [100, -101, [5, 100]])
def test_a_number_out_of_range_is_an_index_error(dataset, index):
    with pytest.raises(IndexError, match="out of range for 100 samples"):
        dataset[index]


def test_a_float_is_no_sample_number(dataset):
    with pytest.raises(TypeError, match="integers"):
        dataset[[1.5]]


def test_getitems_gives_a_list_of_samples(dataset, stored):
    samples = dataset.__getitems__([8, 1])
    assert len(samples) == 2
    np.testing.assert_array_equal(samples[1][0], stored[0][1])
    assert samples[0][1] == stored[1][8]


def test_a_subset_and_a_split_keep_the_numbers_of_the_whole(dataset, stored):
    part = dataset.subset([30, 10, 20])
    assert len(part) == 3
    np.testing.assert_array_equal(part[:].target, stored[1][[30, 10, 20]])
    train, rest = dataset.split([0.9, 0.1], seed=3)
    assert (len(train), len(rest)) == (90, 10)
    assert sorted([*train[:].target, *rest[:].target]) == sorted(stored[1])


def test_a_dataset_is_opened_again_when_it_is_unpickled(dataset):
    part = dataset.split([0.5, 0.5], seed=3)[1].subset([4, 2])
    copy = pickle.loads(pickle.dumps(part))
    np.testing.assert_array_equal(copy[:].data, part[:].data)


def test_refresh_finds_appended_samples(folder):
    path = folder / "growing.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros((4, 2)), maxshape=(None, 2))
    dataset = h5feed.Dataset.open(path, data="x")
    loader = h5feed.DataLoader(dataset)
    with h5py.File(path, "a") as file:
        file["x"].resize(6, axis=0)
    assert len(dataset) == 4
    dataset.refresh()
    assert len(dataset) == 6
    assert len(loader) == 4


def first_values(dataset) -> list[float]:
    return dataset[:].data[:, 0].tolist()


def in_forked_child(check) -> bool:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if check() else 1)
    return os.waitpid(pid, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_dataset_opened_again_has_the_same_samples_though_the_file_grew(folder):
    path = folder / "grown.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(20.0).reshape(10, 2), maxshape=(None, 2))
    whole = h5feed.Dataset.open(path, data="x")
    part = whole.split([0.5, 0.5], seed=1)[0]
    expected = first_values(part)
    with h5py.File(path, "a") as file:
        file["x"].resize(20, axis=0)
    for again in (pickle.loads(pickle.dumps(part)), pickle.loads(pickle.dumps(part.subset(range(5))))):
        assert first_values(again) == expected
    assert len(pickle.loads(pickle.dumps(whole))) == 10
    assert in_forked_child(lambda: first_values(part) == expected and len(whole) == 10)
    part.refresh()
    assert first_values(part) == first_values(pickle.loads(pickle.dumps(part))) == expected
    whole.refresh()
    assert len(whole) == len(pickle.loads(pickle.dumps(whole))) == 20


def test_a_dataset_whose_samples_are_gone_is_not_opened_again(folder):
    for path, rows in ((folder / "two_0.h5", 4), (folder / "two_1.h5", 4)):
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=np.zeros((rows, 2)), maxshape=(None, 2))
    pickled = pickle.dumps(h5feed.Dataset.open(folder / "two_*.h5", data="x").subset([5, 1]))
    with h5py.File(folder / "two_0.h5", "a") as file:
        file["x"].resize(6, axis=0)  # moves the numbers of the second file
    with pytest.raises(h5feed.DatasetError, match="10 samples now, and had 8 others"):
        pickle.loads(pickled)
    with h5py.File(folder / "two_0.h5", "a") as file:
        file["x"].resize(1, axis=0)
    with pytest.raises(h5feed.DatasetError, match="5 samples now"):
        pickle.loads(pickled)


def test_a_missing_file_is_a_file_not_found_error(folder):
    for files in (folder / "none.h5", [str(folder / "no*.h5")], os.fsencode(folder / "none.h5")):
        with pytest.raises(FileNotFoundError, match="no") as caught:
            h5feed.Dataset.open(files)
        assert isinstance(caught.value, h5feed.FileError)


def test_a_file_that_is_not_hdf5_is_an_os_error(folder):
    path = folder / "text.h5"
    path.write_text("no HDF5")
    with pytest.raises(OSError, match="text.h5") as caught:
        h5feed.Dataset.open(path)
    assert not isinstance(caught.value, FileNotFoundError)


def test_a_missing_dataset_is_named_as_python_spells_it(gzip_file):
    with pytest.raises(h5feed.DatasetError, match='no dataset "imgs"') as caught:
        h5feed.Dataset.open(gzip_file, data="imgs")
    assert isinstance(caught.value, ValueError)
    assert ".data" not in str(caught.value)
    assert 'data="images"' in str(caught.value)


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"sample": "file"}, ValueError, 'sample: "file" is not one of "row", "dataset"'),
    ({"images": 3}, TypeError, "images"),
    ({"images": {"hight": 3}}, TypeError, "hight"),
    ({"tiles": {"size": True}}, TypeError, "size: expected int, got bool"),
    ({"tiles": {"size": (2, 3, 4, 5)}}, TypeError, "size: expected int, .height, width. or .depth, height, width., got"),
    ({"tiles": {"size": (2, 3, 4)}}, h5feed.OptionError, "has a depth, and the images have none"),
    ({"tiles": {"size": 2, "turns": "round"}}, ValueError, '"round" is not one of'),
    ({"data": 3}, TypeError, "data: expected str, got int"),
    ({"fields": "boxes"}, TypeError, "fields: expected a sequence of FieldOptions or dicts, got str"),
    ({"fields": {"name": "boxes"}}, TypeError, "fields: expected a sequence of FieldOptions or dicts, got dict"),
    ({"fields": ["boxes"]}, TypeError, "fields: expected FieldOptions or dict, got str"),
    ({"fields": [{"name": "boxes", "dtype": "i8"}]}, ValueError, 'use "int64" or "int8"'),
])
def test_a_wrong_option_is_named(gzip_file, options, error, message):
    with pytest.raises(error, match=message):
        h5feed.Dataset.open(gzip_file, **{"data": "images", **options})


def test_a_reader_normalizes(dataset, stored):
    reader = h5feed.SampleReader(dataset, normalize=h5feed.Normalize(mean=0.5, std=0.25))
    batch = reader.read([3, 3])
    assert batch.data.dtype == np.float32
    np.testing.assert_allclose(batch.data[1], (stored[0][3] / 255 - 0.5) / 0.25, rtol=1e-6)
    assert reader.stats()["cache_hits"] + reader.stats()["cache_misses"] >= 1


def test_tiles_are_samples(gzip_file, stored):
    dataset = h5feed.Dataset.open(gzip_file, data="images", tiles={"size": (4, 3)})
    assert dataset.tile_grid == h5feed.TileGrid(8, 6, 2, 2)
    assert len(dataset) == 400
    np.testing.assert_array_equal(dataset[3][0], stored[0][0][:, 4:, 3:])


def test_messages_spell_words_as_python_does(folder):
    with h5py.File(folder / "ambiguous.h5", "w") as file:
        file["x"] = np.zeros((4, 3, 4, 4), dtype=np.uint8)
        file["scalar"] = 1.0
    with pytest.raises(ValueError, match='state it: input_layout="nchw", "nhwc", "nhw", or "none" to deliver'):
        h5feed.Dataset.open(folder / "ambiguous.h5", data="x")
    with pytest.raises(ValueError, match='set sample="dataset" where'):
        h5feed.Dataset.open(folder / "ambiguous.h5", data="scalar")


def test_an_origin_says_where_it_is(dataset, gzip_file):
    assert repr(dataset.origin(2)) == f"SampleOrigin(file={str(gzip_file)!r}, path='/images', row=2, image=2, z=0, y=0, x=0, " \
        "episode=-1, frame=-1)"


@pytest.mark.parametrize(("path", "dtype"), [("i8", np.int64), ("u8", np.uint64), ("i4", np.int32)])
def test_integers_have_the_types_of_numpys_names(folder, path, dtype):
    with h5py.File(folder / "integers.h5", "w") as file:
        file[path] = np.arange(6, dtype=dtype).reshape(3, 2)
    batch = h5feed.Dataset.open(folder / "integers.h5", data=path, target=path)[1:]
    for array, expected in ((batch.data, dtype), (batch.target, np.int64), (batch.indices, np.int64)):
        assert type(array.flat[0]) is expected and array.dtype is np.dtype(expected) and array.flags.writeable


def test_a_path_is_no_dataset(gzip_file):
    with pytest.raises(TypeError, match="expected an h5feed.Dataset, got PosixPath; open files with Dataset.open"):
        h5feed.SampleReader(gzip_file)


def test_stage_dir_reads_a_copy(gzip_file, tmp_path, stored):
    original = tmp_path / "original.h5"
    shutil.copy(gzip_file, original)
    local = tmp_path / "local"
    local.mkdir()
    staged = h5feed.Dataset.open(original, data="images", target="labels", stage_dir=local)
    os.truncate(original, 10)
    batch = staged[:]
    np.testing.assert_array_equal(batch.data, stored[0])
    np.testing.assert_array_equal(batch.target, stored[1])
    assert staged.origin(3).file == str(original)
    assert len(list(local.glob("*/*-original.h5"))) == 1


def test_a_staged_dataset_can_be_pickled(gzip_file, tmp_path, stored):
    staged = h5feed.Dataset.open(gzip_file, data="images", stage_dir=str(tmp_path))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(staged))[:].data, stored[0])


def test_a_stage_dir_that_is_missing_is_named(gzip_file, tmp_path):
    with pytest.raises(h5feed.FileError, match="stage_dir: .*none does not exist; create it"):
        h5feed.Dataset.open(gzip_file, data="images", stage_dir=tmp_path / "none")
    with pytest.raises(TypeError):
        h5feed.Dataset.open(gzip_file, data="images", stage_dir=3)
