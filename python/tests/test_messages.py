# SPDX-License-Identifier: Apache-2.0
"""Messages, reports and log lines speak of Python's names, and reach the user in time."""

import logging
import subprocess
import sys

import pytest

import h5feed


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
