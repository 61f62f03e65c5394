# SPDX-License-Identifier: Apache-2.0
"""Mixtures deliver the rows that h5py reads, by weights; classes and their weights."""

import multiprocessing
import pathlib
import pickle
from typing import Any

import h5py
import numpy as np
import pytest

import h5feed
from conftest import images


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> "list[pathlib.Path]":
    """Two files of /images and /labels: 60 samples of 4 classes, 25 samples of 2 others."""
    folder = tmp_path_factory.mktemp("mixture")
    written = []
    for number, (samples, chunk) in enumerate([(60, 8), (25, 5)]):
        written.append(folder / f"{number}.h5")
        with h5py.File(written[-1], "w") as file:
            file.create_dataset("images", data=images(samples, seed=number), chunks=(chunk, 3, 8, 6), compression="gzip")
            file["labels"] = np.arange(samples, dtype=np.int32) % (4 if number == 0 else 2) + 10 * number
    return written


@pytest.fixture(scope="module")
def sets(paths) -> "list[h5feed.Dataset]":
    return [h5feed.Dataset.open(path, data="images", target="labels") for path in paths]


def check(loader: Any, paths: "list[pathlib.Path]") -> "tuple[list[int], list[int]]":
    """Compares an epoch with h5py; returns the samples and their sets, in order."""
    samples: "list[int]" = []
    of_set: "list[int]" = []
    files = [h5py.File(path) for path in paths]
    for batch in loader:
        for i, (index, part) in enumerate(zip(batch.indices.tolist(), batch.sets.tolist())):
            row = index - (60 if part == 1 else 0)
            assert (index >= 60) == (part == 1)
            np.testing.assert_array_equal(batch.data[i], files[part]["images"][row])
            assert batch.target[i] == files[part]["labels"][row]
            if batch.origins:
                origin = batch.origins[i]
                assert (origin.set, origin.row, pathlib.Path(origin.file)) == (part, row, paths[part])
        samples += batch.indices.tolist()
        of_set += batch.sets.tolist()
    for file in files:
        file.close()
    return samples, of_set


@pytest.mark.parametrize("shuffle", [False, True, "chunk:2"])
def test_mixture_delivers_the_rows_of_h5py(paths, sets, shuffle):
    mixture = h5feed.mix([(sets[0], 0.75), (sets[1], 0.25)], epoch_size="longest")
    assert len(mixture) == 85
    expected = None
    for workers in (0, 1, 2, 4):
        loader = h5feed.DataLoader(mixture, batch_size=16, shuffle=shuffle, seed=4, num_workers=workers, cache_bytes=4000,
                                   provenance=True)
        samples, of_set = check(loader, paths)
        assert len(samples) == 100 and sum(of_set) == 25
        assert set(samples) == set(range(85)), "every sample of both sets"
        expected = expected or samples
        assert samples == expected


def test_epoch_sizes(sets):
    for epoch_size, samples in (("shortest", 80), ("longest", 100), (1000, 1000)):
        mixture = h5feed.mix([(sets[0], 3), h5feed.MixedSet(sets[1], 1, shuffle=True)], epoch_size=epoch_size)
        loader = h5feed.DataLoader(mixture, batch_size=10)
        assert sum(len(batch.indices) for batch in loader) == samples
    plan = h5feed.plan(mixture, batch_size=10)
    assert [round(part.share, 3) for part in plan.sets] == [0.75, 0.25]
    assert plan.sets[1].passes == 10 and plan.sets[1].size == 25 and plan.sets[0].samples == 750
    assert "set 1: 25.0 % of the samples, 250 of 25 (10.00 passes) from 5 chunks" in str(plan)
    assert "set 1 25.0 %, 10.00 passes" in loader.report()


def test_resume_on_two_ranks(paths, sets):
    mixture = h5feed.mix([(sets[0], 0.5), (sets[1], 0.5)], epoch_size=120)
    options: "dict[str, Any]" = {"shuffle": "chunk:2", "seed": 8}
    whole, _ = check(h5feed.DataLoader(mixture, batch_size=10, **options), paths)
    first = h5feed.DataLoader(mixture, batch_size=10, **options)
    batches = iter(first)
    for _ in range(5):
        next(batches)
    saved = first.state_dict()
    together = [0] * 70
    for rank in (0, 1):
        part = h5feed.DataLoader(mixture, batch_size=6, rank=rank, world_size=2, num_workers=1, **options)
        part.load_state_dict(saved)
        together[rank::2] = check(part, paths)[0]
    assert together == whole[50:]


def _samples(mixture: h5feed.Dataset) -> "list[int]":
    loader = h5feed.DataLoader(mixture, batch_size=50, shuffle=True, seed=1)
    return [int(index) for batch in loader for index in batch.indices]


def test_mixture_is_pickled_and_used_in_a_forked_process(sets):
    mixture = h5feed.mix([(sets[0].subset([5, 1, 9]), 1), (sets[1], 1)], epoch_size=64)
    assert repr(mixture) == "Dataset(mixture of weights 1, 1: 28 samples of 3 × 8 × 6 u8)"
    expected = _samples(mixture)
    assert _samples(pickle.loads(pickle.dumps(mixture))) == expected
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_samples, (mixture,)) == expected
    mixture.refresh()
    assert _samples(mixture) == expected
    np.testing.assert_array_equal(mixture[0][0], sets[0][5][0])
    np.testing.assert_array_equal(mixture[3][0], sets[1][0][0])


def test_refusals(sets, plain_file):
    a, b = sets
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(h5feed.OptionError, match="weights must be finite and above 0"):
            h5feed.mix([(a, 1), (b, wrong)])
    with pytest.raises(h5feed.DatasetError, match="the sets of a mixture need the same"):
        h5feed.mix([(a, 1), (h5feed.Dataset.open(plain_file, data="data", input_layout="none"), 1)])
    with pytest.raises(h5feed.OptionError, match="at least one set"):
        h5feed.mix([])
    for given in (a, [a], [(a,)], 7):
        with pytest.raises(TypeError):
            h5feed.mix(given)  # type: ignore[arg-type]
    for size in (0, -1, 2**63, "all"):
        with pytest.raises(h5feed.OptionError, match="\"shortest\""):
            h5feed.mix([(a, 1)], epoch_size=size)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="epoch_size: expected int"):
        h5feed.mix([(a, 1)], epoch_size=1.5)  # type: ignore[arg-type]
    mixture = h5feed.mix([(a, 1), (b, 1)])
    with pytest.raises(h5feed.OptionError, match="an order of its own; leave sampler unset"):
        h5feed.DataLoader(mixture, sampler=[1, 2])
    with pytest.raises(h5feed.OptionError, match="before mix"):
        mixture.subset([1])


def test_classes(sets):
    a, b = sets
    assert h5feed.label_share(b) == [(10, 13, pytest.approx(0.52)), (11, 12, pytest.approx(0.48))]
    assert h5feed.label_share(h5feed.mix([(a, 3), (b, 1)], epoch_size=4096))[0] == (0, 15, pytest.approx(0.75 / 4))
    weights = h5feed.balanced_weights(b)
    assert weights.shape == (25,)
    assert weights[::2].sum() == pytest.approx(weights[1::2].sum())
    with pytest.raises(h5feed.OptionError, match="no field \"x\""):
        h5feed.balanced_weights(b, "x")
