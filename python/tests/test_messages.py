# SPDX-License-Identifier: Apache-2.0
"""Messages, reports and log lines speak of Python's names, and reach the user in time."""

import inspect
import logging
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

import h5feed
from h5feed import _errors


@pytest.mark.parametrize(("call", "message"), [
    (lambda dataset: h5feed.DataLoader(dataset, in_order=False).state_dict(), r"state_dict\(\) needs in_order=True"),
    (lambda dataset: h5feed.DataLoader(dataset, in_order=False).load_state_dict(h5feed.DataLoader(dataset).state_dict()),
     r"load_state_dict\(\) needs in_order=True"),
    (lambda dataset: h5feed.DataLoader(dataset).load_state_dict({"h5feed": 1, "state": "00"}), r"pass what state_dict\(\) returned"),
    (lambda dataset: h5feed.DataLoader(dataset, cpu_limit=1.0), 'set num_workers="auto", or leave it unset'),
    (lambda dataset: dataset.split([0.5, 0.5], seed=1, by="part"), 'by="part" keeps .* use by="automatic"'),
    (lambda dataset: h5feed.DataLoader(dataset, echo=0), "echo must be 1 to 1024"),
    (lambda dataset: h5feed.DataLoader(dataset, num_workers=-1), 'num_workers must be "auto" or a number of at least 0; got -1'),
])
def test_an_error_names_what_python_has(dataset, call, message):
    with pytest.raises(ValueError, match=message):
        call(dataset)


def test_advice_is_worded_for_every_language(dataset, caplog):
    said = 'num_workers auto: batches are then made while the model computes'
    with caplog.at_level(logging.INFO, "h5feed"):
        for _ in range(50):  # on a busy machine, the training may seem the slow side of an epoch
            loader = h5feed.DataLoader(dataset, batch_size=10)
            list(loader)
            if said in loader.verdict()["advice"] and said in loader.report():
                break
    assert said in loader.report()
    assert said in loader.verdict()["advice"]
    assert said in caplog.text, "the last next() of an epoch delivers what was logged at its end"


def test_a_warning_about_unscaled_values_gives_the_argument(dataset, caplog):
    h5feed.DataLoader(dataset, normalize={"mean": 0.5, "std": 0.2, "scale": 1})
    assert "with unit_range=True, or set normalize={'scale': 1.0 / 255}" in caplog.text


@pytest.mark.parametrize("end", ["loader.close()", "del loader"])
def test_what_is_logged_when_a_loader_ends_arrives(gzip_file, tmp_path, end):
    program = f"""
import logging, os, h5feed
logging.basicConfig(format="%(name)s: %(message)s")
os.mkdir("folder")
loader = h5feed.DataLoader({str(gzip_file)!r}, data="images", batch_size=10, trace_path="folder/run.json")
next(iter(loader))
os.rmdir("folder")
{end}
"""
    outcome = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=60, check=True, cwd=tmp_path)
    assert "h5feed: trace_path" in outcome.stderr and "cannot be written" in outcome.stderr


ODD_NAMES = ["std::nullopt", "Batch::field", "my::run", "state()", "restore() needs", "options.files", "options.data",
             "shuffle = true", "sample = row", "num_workers = auto", "data=false", ".data = x", "in_order = true",
             "a sparse.format = dense", "echo.factor", "SplitBy::part", "device = ", "DatasetOptions::fields"]


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_of_files_and_datasets_are_not_spelled_in_another_way(tmp_path, monkeypatch, name, relative):
    monkeypatch.chdir(tmp_path)
    file_name = name + ".h5" if relative else os.fspath(tmp_path / (name + ".h5"))
    with pytest.raises(h5feed.MissingFileError) as caught:
        h5feed.Dataset.open(file_name, data="x")
    assert str(caught.value).startswith(file_name + ": no such file")
    with h5py.File(file_name, "w") as file:
        stored = file.create_dataset(name, data=np.zeros((4, 2)), chunks=(1, 2), fletcher32=True)
        place = stored.id.get_chunk_info(0).byte_offset
    with open(file_name, "r+b") as file:
        file.seek(place)
        file.write(b"x")
    with pytest.raises(h5feed.ChunkError) as caught:
        h5feed.Dataset.open(file_name, data=name)[0]
    assert str(caught.value).startswith(f"{file_name}:/{name}: chunk (0,0)")
    with pytest.raises(h5feed.DatasetError) as caught:
        h5feed.Dataset.open(file_name, data=name + "?")
    assert f"{name}?" in str(caught.value) and file_name in str(caught.value)


@pytest.mark.parametrize(("said", "expected"), [
    ("set options.normalize = {.scale = 1.0} to get", "set normalize={'scale': 1.0} to get"),
    ("use e.g. options.seed = 1", "use e.g. seed=1"), ("set options.device, or use next()", "set device, or use next()"),
    ('field "depth": .data = "x/y"', 'field "depth": data="x/y"'),
    ("with .unit_range = true (a TorchDataset may set it too), or", "with unit_range=True, or"),
    ("set shard = strided with uneven = exact, or", 'set shard="strided" with uneven="exact", or'),
    ("uneven = pad or drop, or set batch_size", 'uneven="pad" or "drop", or set batch_size'),
    ("a.h5:/x (u8): collate = pad is for", 'a.h5:/x (u8): collate="pad" is for'), ("with std::nullopt.", "with None."),
    ("by which Batch::field finds it", "by which Batch.fields finds it"),
    ("(LoaderStats::pageable_batches counts", "(LoaderStats.pageable_batches counts"),
    ("(DatasetOptions::fields, or none", "(fields, or none"), ("restore it with echo.factor = 2", "restore it with echo=2"),
    ("state() needs headroom = false: one batch", "state_dict() needs headroom=False: one batch"),
    ('/data/.data = "x" y/shard = exact/in_order = true/a.h5: set .data = "x"',
     '/data/.data = "x" y/shard = exact/in_order = true/a.h5: set data="x"'),
])
def test_options_are_spelled_as_arguments(said, expected):
    assert _errors.in_python_terms(said) == expected


def test_every_option_has_a_spelling():
    functions = (h5feed.Dataset.open, h5feed.DataLoader)
    names = {name for function in functions for name in inspect.signature(function).parameters} - {"dataset", "unknown"}
    assert set(_errors._OPTIONS.split("|")) == names


class Mapped:
    """A dataset of PyTorch, as it seems."""

    def __len__(self):
        return 3

    def __getitem__(self, number):
        return number


def test_a_dataset_of_another_library_is_refused_by_name():
    with pytest.raises(TypeError, match="dataset: expected an h5feed.Dataset, a path or several paths, got Mapped"):
        h5feed.DataLoader(Mapped())


@pytest.mark.parametrize("sample", [-1, 100, 2**63, 2**64])
def test_an_origin_out_of_range_is_an_index_error(dataset, sample):
    with pytest.raises(IndexError, match="sample"):
        dataset.origin(sample)


def test_a_reader_takes_the_numbers_that_the_dataset_takes(dataset, stored):
    reader = h5feed.SampleReader(dataset)
    assert reader.read([-1, 2]).indices.tolist() == [99, 2]
    with pytest.raises(IndexError, match="sample 100 is out of range for 100 samples"):
        reader.read([100])
