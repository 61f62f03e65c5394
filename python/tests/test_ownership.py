# SPDX-License-Identifier: Apache-2.0
"""A dataset keeps what it was opened with: copies of arguments, and where relative paths led."""

import os
import pickle
import threading

import h5py
import numpy as np
import pytest

import h5feed
from test_dataset import in_forked_child

forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def copy_of(dataset: h5feed.Dataset) -> h5feed.Dataset:
    return pickle.loads(pickle.dumps(dataset))


def values(dataset: h5feed.Dataset) -> list:
    return [array.tolist() for array in dataset[:]]


@forks
def test_a_subset_keeps_the_numbers_that_it_was_given(dataset):
    numbers = np.arange(40)
    part = dataset.subset(numbers)
    expected = values(part)
    numbers[:] = numbers[::-1].copy()
    assert values(copy_of(part)) == expected
    assert in_forked_child(lambda: values(part) == expected)


@forks
@pytest.mark.parametrize("form", [list, np.array, lambda numbers: [np.array(number) for number in numbers]])
@pytest.mark.parametrize("options", [
    lambda pair: {"channels": pair}, lambda pair: {"tiles": {"size": pair}},
    lambda pair: {"tiles": h5feed.TileOptions(size=pair)},
    lambda pair: {"episodes": {"index": "series"}, "window": pair},
    lambda pair: {"episodes": {"index": "series"}, "fields": [{"name": "boxes", "window": pair}]},
])
def test_a_dataset_keeps_the_options_that_it_was_given(gzip_file, options, form):
    pair = form([0, 2] if "channels" in options(0) else [1, 2])
    opened = h5feed.Dataset.open(gzip_file, data="images", **options(pair))
    expected = values(opened)
    if isinstance(pair, np.ndarray):
        pair[:] = [0, 1]
    elif isinstance(pair[0], np.ndarray):
        pair[0][...], pair[1][...] = 0, 1
    else:
        pair[:] = [0, 1]
    assert values(copy_of(opened)) == expected
    assert in_forked_child(lambda: values(opened) == expected)
    opened.refresh()
    assert values(opened) == expected


def test_a_dict_of_options_may_be_changed_after_opening(gzip_file):
    tiles, field = {"size": 4}, {"name": "boxes"}
    opened = h5feed.Dataset.open(gzip_file, data="images", tiles=tiles)
    with_field = h5feed.Dataset.open(gzip_file, data="images", fields=[field])
    tiles["size"], field["name"] = 2, "labels"
    assert copy_of(opened).sample_shape == opened.sample_shape == (3, 4, 4)
    assert list(copy_of(with_field)[:2].fields) == ["boxes"]


def test_iterators_are_taken_once(gzip_file):
    opened = h5feed.Dataset.open(gzip_file, data="images", episodes={"index": "series"}, window=iter([0, 1]),
                                 channels=(number for number in (0, 2)))
    assert opened.sample_shape == copy_of(opened).sample_shape
    assert values(opened) == values(copy_of(opened))


def test_a_sampler_may_use_its_array_again(dataset):
    numbers = np.arange(20)

    def sampler(epoch):
        np.random.default_rng().shuffle(numbers)
        return numbers

    loader = h5feed.DataLoader(dataset, sampler=sampler, batch_size=4)
    first = next(iter(loader)).indices.tolist()
    sampler(7)
    assert next(iter(loader)).indices.tolist() == first, "the same epoch begins again"


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Folders A and B with files of the same names and other values, in A. The folder of both has the wildcard [."""
    for name, first in (("[A]", 0), ("B", 1000)):
        folder = tmp_path / name
        (folder / "local").mkdir(parents=True)
        for number in range(2):
            with h5py.File(folder / f"x{number}.h5", "w") as file:
                file.create_dataset("data", data=np.arange(10) + first + 10 * number, maxshape=(None,), chunks=(5,))
                file["more"] = np.arange(10) + first
    monkeypatch.chdir(tmp_path / "[A]")
    return tmp_path


@forks
@pytest.mark.parametrize("options", [
    {"files": "x0.h5"}, {"files": b"./x0.h5"}, {"files": "../[[]A]/x*.h5"}, {"files": ["x0.h5", "x1.h5"]}, {"files": "x?.h5"},
    {"files": "x0.h5", "stage_dir": "local"}, {"files": os.path.abspath, "fields": [{"name": "more", "files": ["x0.h5"]}]},
    {"files": "x0.h5", "target": "more", "target_files": "x0.h5"},
])
@pytest.mark.parametrize("part", [lambda whole: whole, lambda whole: whole.subset([3, 1]),
                                  lambda whole: h5feed.mix([(whole, 1.0)])])
def test_relative_paths_lead_where_they_led(folders, monkeypatch, options, part):
    files = options["files"]
    given = {**options, "files": files("x0.h5") if callable(files) else files}
    opened = part(h5feed.Dataset.open(**given, data="data"))
    pickled, expected = pickle.dumps(opened), values(opened)
    assert pickle.loads(pickled).origin(0).file == opened.origin(0).file, "names stay as they were given"
    assert expected[0][0] in (0, 3)
    monkeypatch.chdir(folders / "B")
    assert values(pickle.loads(pickled)) == values(pickle.loads(pickle.dumps(pickle.loads(pickled)))) == expected
    assert in_forked_child(lambda: values(opened) == expected)
    opened.refresh()
    assert values(opened) == values(copy_of(opened)) == expected


def test_refresh_finds_what_was_appended_to_the_file_of_another_folder(folders, monkeypatch):
    whole = h5feed.Dataset.open("x0.h5", data="data")
    part = whole.subset([2])
    monkeypatch.chdir(folders / "B")
    with h5py.File(folders / "[A]" / "x0.h5", "a") as file:
        file["data"].resize(12, axis=0)
        file["data"][10:] = 7
    whole.refresh()
    part.refresh()
    assert values(whole)[0] == [*range(10), 7, 7] and values(part) == [[2]]


def test_a_state_fits_the_same_files_under_other_names(folders, monkeypatch):
    saved = h5feed.DataLoader("x0.h5", data="data", shuffle=True, seed=1, batch_size=2)
    next(iter(saved))
    monkeypatch.chdir(folders / "B")
    for dataset in (copy_of(saved.dataset), h5feed.Dataset.open(folders / "[A]" / "x0.h5", data="data")):
        resumed = h5feed.DataLoader(dataset, shuffle=True, seed=1, batch_size=2)
        resumed.load_state_dict(saved.state_dict())
        assert next(iter(resumed)).number == 1


def test_a_folder_that_was_removed_is_no_error(folders, monkeypatch, tmp_path):
    path = tmp_path / "B" / "x0.h5"
    monkeypatch.chdir(tmp_path / "B" / "local")
    (tmp_path / "B" / "local").rmdir()
    assert values(copy_of(h5feed.Dataset.open(path, data="data")))[0][0] == 1000


def test_a_thread_that_reads_during_a_refresh_leaves_no_old_reader(folder, monkeypatch):
    path = folder / "growing.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(10), maxshape=(None,), chunks=(64,))
    dataset = h5feed.Dataset.open(path, data="x")
    with h5py.File(path, "a") as file:
        file["x"].resize((11,))
        file["x"][10] = 10
    making, refreshed, make = threading.Event(), threading.Event(), h5feed._core.SampleReader

    def make_slowly(*args):
        making.set()
        refreshed.wait(0.5)  # a refresh() that does not wait for this thread ends by then
        return make(*args)

    monkeypatch.setattr(h5feed._core, "SampleReader", make_slowly)
    thread = threading.Thread(target=lambda: dataset[0])
    thread.start()
    making.wait(60)
    dataset.refresh()
    refreshed.set()
    thread.join()
    assert dataset[10] == (10,)


@forks
def test_a_forked_child_does_not_wait_for_a_lock_of_its_parent(dataset):
    part = dataset.subset([1, 2])
    held, done = threading.Event(), threading.Event()

    def hold():
        with part._lock("reader"), part._lock("refresh"):
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        assert in_forked_child(lambda: part.refresh() is None and part[0][1] == 3)
    finally:
        done.set()
        thread.join()
