# SPDX-License-Identifier: Apache-2.0
"""Every option is an argument; those of the wrong kind are refused by name, and `options` tells those in use."""

import dataclasses
import inspect
import pathlib
import re

import h5py
import numpy as np
import pytest

import h5feed
from h5feed._sparse import SparseRows

BOOLS = ("drop_last", "in_order", "pin_memory", "preload", "provenance", "headroom")
NO_BOOLS = [None, 0, 1, float("nan"), "yes", [], [True], np.array([True])]


@pytest.mark.parametrize("value", NO_BOOLS, ids=repr)
@pytest.mark.parametrize("name", BOOLS)
def test_a_bool_is_a_bool(dataset, name, value):
    with pytest.raises(h5feed.OptionError, match=f"{name}: expected bool, got {type(value).__name__}; use True or False"):
        h5feed.DataLoader(dataset, **{name: value})


@pytest.mark.parametrize("value", [value for value in NO_BOOLS if value != "yes"], ids=repr)
def test_shuffle_and_unit_range_are_checked_too(dataset, gzip_file, value):
    if value is not None:  # as PyTorch spells False
        with pytest.raises(h5feed.OptionError, match='shuffle: expected bool or str, got .*; use True, False or "chunk:K"'):
            h5feed.DataLoader(dataset, shuffle=value)
    with pytest.raises(h5feed.OptionError, match="unit_range: expected bool"):
        h5feed.Dataset.open(gzip_file, data="images", unit_range=value)
    with pytest.raises(h5feed.OptionError, match="unit_range: expected bool"):
        h5feed.SampleReader(dataset, unit_range=value)


def test_bools_of_numpy_are_bools(dataset):
    loader = h5feed.DataLoader(dataset, shuffle=np.True_, batch_size=30, **{name: np.False_ for name in BOOLS})
    assert (loader.options["shuffle"], loader.options["drop_last"], len(loader)) == ("full", False, 4)


@pytest.mark.parametrize("value", [[], {}, "", "3", True, np.True_, np.array([1.0, 2.0]), 10**400],
                         ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("name", ["timeout", "cpu_limit", "max_bad_share"])
def test_a_number_is_a_number(dataset, name, value):
    with pytest.raises(TypeError, match=f"{name}: expected float, got {type(value).__name__}"):
        h5feed.DataLoader(dataset, **{name: value})


@pytest.mark.parametrize(("value", "used"), [(None, None), (0, None), (0.0, None), (2, 2.0), (np.float32(0.5), 0.5),
                                             (np.array(3), 3.0)])
def test_a_timeout_of_zero_is_none(dataset, value, used):
    assert h5feed.DataLoader(dataset, timeout=value, num_workers=1).options["timeout"] == used


@pytest.mark.parametrize("value", [{1, 2}, frozenset({1, 2}), b"\1\2", bytearray(b"\1\2"), {1: 2}], ids=repr)
@pytest.mark.parametrize(("name", "options"), [
    ("window", lambda value: {"window": value}), ("target_window", lambda value: {"target_window": value}),
    ("channels", lambda value: {"channels": value}), ("size", lambda value: {"tiles": {"size": value}}),
    ("stride", lambda value: {"tiles": h5feed.TileOptions(size=4, stride=value)}),
    ("columns", lambda value: {"sparse": {"columns": value}}),
    ("window", lambda value: {"fields": [{"name": "boxes", "window": value}]}),
])
def test_what_has_no_order_is_no_sequence(gzip_file, name, options, value):
    with pytest.raises(TypeError, match=f"{name}: expected a sequence, got {type(value).__name__}"):
        h5feed.Dataset.open(gzip_file, data="images", **options(value))


def test_sparse_rows_have_no_slices():
    rows = SparseRows(np.ones(2), np.array([0, 1]), np.array([0, 1, 2]), (2, 3))
    assert rows[np.int64(1)].columns.tolist() == [1]
    with pytest.raises(TypeError, match="the index of SparseRows is the number of a row, got slice; use toarray()"):
        rows[0:2]


def stop(*_):
    return next(iter([]))


@pytest.mark.parametrize("options", [
    {"collate_fn": stop}, {"sampler": lambda epoch: stop() if epoch else range(20)}, {"worker_init_fn": stop, "num_workers": 1},
    {"batch_sampler": lambda epoch: stop() if epoch else [[0, 1]]},
], ids=lambda options: next(iter(options)))
def test_stop_iteration_of_a_function_does_not_end_an_epoch(dataset, options):
    with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
        loader = h5feed.DataLoader(dataset, **options)
        for _ in range(2):
            list(loader)
    assert isinstance(caught.value.__cause__, StopIteration)


FUNCTIONS = {"sampler", "batch_sampler", "collate_fn", "worker_init_fn"}


def test_options_tells_every_option(dataset):
    names = set(inspect.signature(h5feed.DataLoader).parameters) - {"dataset", "data", "target", "unknown"} - FUNCTIONS
    used = h5feed.DataLoader(dataset).options
    assert names - set(used) == set()
    assert used["echo"] == 1 and used["device"] == "cpu" and used["bad_list"] is None and used["normalize"] is None
    assert used["max_bad_share"] == 0.01 and used["on_error"] == "fail" and used["pin_memory"] is False


def test_options_tells_what_was_given(dataset, tmp_path):
    mean = np.array([0.1, 0.2, 0.3])
    given = {"echo": h5feed.Echo(factor=2), "normalize": {"mean": mean, "scale": 1.0}, "on_error": "skip", "max_bad_share": 0.5,
             "bad_list": tmp_path / "bad.csv", "prefetch_factor": 3, "num_workers": 1, "output_dtype": np.float16}
    loader = h5feed.DataLoader(dataset, **given)
    mean[:] = 0
    expected = {"echo": 2, "normalize": {"mean": [0.1, 0.2, 0.3], "scale": 1.0}, "on_error": "skip", "max_bad_share": 0.5,
                "bad_list": str(tmp_path / "bad.csv"), "prefetch_factor": 3, "num_workers": 1, "output_dtype": "float16"}
    assert {name: loader.options[name] for name in expected} == expected
    loader.options["normalize"]["mean"].clear()
    assert loader.options["normalize"] == expected["normalize"], "a copy"


def test_layouts_are_taken_in_any_case_and_other_words_as_they_are(gzip_file):
    dataset = h5feed.Dataset.open(gzip_file, data="images", input_layout="NCHW")
    assert dataset[0][0].shape == (3, 8, 6)
    with pytest.raises(h5feed.OptionError, match='on_error: "Skip" is not one of "fail", "skip", "replace"'):
        h5feed.DataLoader(dataset, on_error="Skip")
    with pytest.raises(h5feed.OptionError, match='input_layout: "NHCW" is not one of "auto", "automatic", "nchw", '):
        h5feed.Dataset.open(gzip_file, data="images", input_layout="NHCW")


def test_stored_bfloat16_is_named_where_numpy_lacks_it(tmp_path):
    path = tmp_path / "b.h5"
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    with h5py.File(path, "w") as file:
        stored = h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((4,)))
        stored.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(4, dtype="f4"))
    dataset = h5feed.Dataset.open(path, data="x", input_layout="none")
    for use in (lambda: dataset.dtype, lambda: dataset[0], lambda: next(iter(h5feed.DataLoader(dataset)))):
        with pytest.raises(h5feed.DatasetError, match="NumPy"):
            use()
    loader = h5feed.DataLoader(dataset, batch_size=4, output_dtype="float32")
    np.testing.assert_array_equal(next(iter(loader)).data, np.arange(4, dtype="f4"))


def test_every_option_of_cpp_is_an_argument():
    page = pathlib.Path(__file__).parents[2] / "docs" / "options.md"
    text = page.read_text()
    loader = set(inspect.signature(h5feed.DataLoader).parameters)
    dataset = set(inspect.signature(h5feed.Dataset.open).parameters)
    only_cpp = {"output_memory", "trace", "gpu_probe", "transform"}

    def names(part):
        return {name for row in re.findall(r"^\| (`[^|]*) \|", part, re.M) for name in re.findall(r"`(\w+)`", row)}

    of_loader = names(text[text.index("## Loader"):text.index("## Dataset")])
    assert of_loader - loader == only_cpp
    assert names(text[text.index("## Dataset"):text.index("### Encoded images")]) <= dataset

    def names_below(heading):
        part = text[text.index(f"\n{heading}\n") + 1:]
        return names(part[:part.index("\n#")])

    for heading, options in {"Encoded images": h5feed.ImageOptions, "Tiles": h5feed.TileOptions,
                             "Episodes": h5feed.EpisodeOptions, "Sparse rows": h5feed.SparseOptions,
                             "Named fields": h5feed.FieldOptions}.items():
        assert names_below(f"### {heading}") == {field.name for field in dataclasses.fields(options)}
    assert names_below("## Mixture") == {*h5feed.MixedSet._fields, *inspect.signature(h5feed.mix).parameters} - {"sets"}
