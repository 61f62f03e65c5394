# SPDX-License-Identifier: Apache-2.0
"""Configuration files."""

import json

import h5py
import numpy as np
import pytest

import h5feed


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Returns a function that writes a configuration and returns its path."""
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.h5", "w") as file:
        file["x"] = np.arange(40, dtype=np.uint8).reshape(10, 4)
        file["y"] = np.arange(10)

    def write(**parts):
        (tmp_path / "c.json").write_text(json.dumps(parts))
        return tmp_path / "c.json"
    return write


DATASET = {"files": ["a.h5"], "data": "x", "target": "y", "input_layout": "none"}


def test_makes_the_loader_that_it_describes(config):
    path = config(dataset=DATASET, loader={"batch_size": 4, "num_workers": "auto", "shuffle": "full", "seed": 3,
                                           "normalize": {"scale": 0.5}, "echo": {"factor": 2}, "shard": "by_chunk"})
    with h5feed.DataLoader.from_config(path) as loader:
        assert loader.options["batch_size"] == 4
        assert loader.options["shard"] == "by_chunk"
        data, target = next(iter(loader))
        assert data.dtype == np.float32
        assert len(loader) == 6
    with h5feed.DataLoader.from_config(path, batch_size=5, echo=1) as loader:
        assert len(loader) == 2
    assert h5feed.Dataset.from_config(path).shape == (10, 4)


def test_names_what_is_wrong(config, tmp_path):
    for parts, message in (({"loader": {"batchsize": 4}, "dataset": DATASET}, 'loader has no option "batchsize"'),
                           ({"dataset": {"path": "a.h5"}}, 'dataset has no option "path"'),
                           ({"data": {}}, 'no part "data"'), ({"dataset": []}, "not a configuration")):
        with pytest.raises(h5feed.OptionError, match=message):
            h5feed.DataLoader.from_config(config(**parts))
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(h5feed.OptionError, match="not JSON"):
        h5feed.DataLoader.from_config("c.json")
    with pytest.raises(h5feed.FileError, match=r"none\.json: cannot be read"):
        h5feed.Dataset.from_config("none.json")
