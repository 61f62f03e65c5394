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


def test_mixes_the_sets_that_it_describes(config):
    other = {**DATASET, "files": ["b.h5"]}
    path = config(mixture={"sets": [{"dataset": DATASET, "weight": 3}, {"dataset": other, "shuffle": "sequential"}],
                           "epoch_size": 16}, loader={"batch_size": 8, "shuffle": "full", "seed": 3})
    with h5py.File("b.h5", "w") as file:
        file["x"] = np.full((6, 4), 200, dtype=np.uint8)
        file["y"] = np.arange(6)
    with h5feed.DataLoader.from_config(path) as loader:
        sets = np.concatenate([batch.sets for batch in loader])
    assert len(sets) == 16
    assert sum(sets == 1) == 4
    assert len(h5feed.Dataset.from_config(path)) == 16


def test_takes_windows_fields_and_files_of_targets(config):
    with h5py.File("t.h5", "w") as file:
        file["y"] = np.arange(10)[::-1]
    path = config(dataset={"files": ["a.h5"], "data": "x", "input_layout": "none", "target": "y", "target_files": ["t.h5"],
                           "window": [-1, 0], "episodes": {"index": "series", "missing_before": 1},
                           "fields": [{"name": "label", "data": "y", "window": [0, 1]}]}, loader={"batch_size": 4})
    with h5feed.DataLoader.from_config(path) as loader:
        batch = next(iter(loader))
    np.testing.assert_array_equal(batch.data[:, 1, 0], [0, 4, 8, 12])
    np.testing.assert_array_equal(batch.target, [9, 8, 7, 6])
    np.testing.assert_array_equal(batch.fields["label"].values, [[0, 1], [1, 2], [2, 3], [3, 4]])
    np.testing.assert_array_equal(batch.fields["data.valid"].values[0], [0, 1])


def test_names_what_is_wrong(config, tmp_path):
    for parts, message in (({"loader": {"batchsize": 4}, "dataset": DATASET}, 'loader has no option "batchsize"'),
                           ({"loader": {"output_memory": "ring"}, "dataset": DATASET}, "output_memory is an option of C"),
                           ({"dataset": {"path": "a.h5"}}, 'dataset has no option "path"'),
                           ({"data": {}}, 'no part "data"'), ({"dataset": []}, "not a configuration"),
                           ({"dataset": DATASET, "mixture": {"sets": []}}, "exclude each other"),
                           ({"mixture": {"sets": 1}}, r"mixture\.sets: expected a list"),
                           ({"mixture": {"sets": [{"weight": 1}]}}, r"sets\[0\]: expected an object with a .dataset"),
                           ({"mixture": {"sets": [{"dataset": {"path": 1}}]}}, 'dataset has no option "path"'),
                           ({"mixture": {"sets": [], "weights": []}}, 'mixture has no option "weights"'),
                           ({"mixture": {"sets": []}}, "needs at least one set")):
        with pytest.raises(h5feed.OptionError, match=message):
            h5feed.DataLoader.from_config(config(**parts))
    for levels in (65, 900, 200_000):
        (tmp_path / "c.json").write_text('{"loader": {"normalize": ' + "[" * (levels - 2) + "]" * (levels - 2) + "}}")
        with pytest.raises(h5feed.OptionError, match=r"^c\.json: nested more than 64 levels deep, which no configuration is$"):
            h5feed.DataLoader.from_config("c.json")
    for name, value in (("files", ["a.h5\0x"]), ("data", "x\0y"), ("target", "y\0")):
        with pytest.raises(h5feed.OptionError, match=f"{name}: embedded null byte"):
            h5feed.DataLoader.from_config(config(dataset={**DATASET, name: value}))
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(h5feed.OptionError, match="not JSON"):
        h5feed.DataLoader.from_config("c.json")
    with pytest.raises(h5feed.FileError, match=r"none\.json: cannot be read"):
        h5feed.Dataset.from_config("none.json")
