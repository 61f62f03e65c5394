# SPDX-License-Identifier: Apache-2.0
"""Any set of options delivers the values that h5py reads, in the order that the samples' numbers say."""

import h5py
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import h5feed

LAYOUTS = {
    "contiguous": {},
    "gzip": {"chunks": (7, 2, 4, 6), "compression": "gzip"},
    "shuffled gzip": {"chunks": (5, 2, 4, 3), "compression": "gzip", "shuffle": True},
    "lzf": {"chunks": (9, 2, 4, 6), "compression": "lzf"},
    "fletcher32": {"chunks": (4, 1, 4, 6), "fletcher32": True},
    "partly written": {"chunks": (8, 2, 4, 6), "fillvalue": 7},
}
DTYPES = ["uint8", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64", ">i2", ">f4"]


@pytest.fixture(scope="module")
def file(folder):
    path = folder / "layouts.h5"
    random = np.random.default_rng(7)
    with h5py.File(path, "w") as out:
        for layout, options in LAYOUTS.items():
            for dtype in DTYPES:
                values = random.integers(0, 100, (30, 2, 4, 6)).astype(dtype)
                stored = out.create_dataset(f"{layout}/{dtype}", values.shape, dtype, **options)
                stored[:20 if layout == "partly written" else 30] = values[:20 if layout == "partly written" else 30]
        out["labels"] = random.random((30, 3))
    return path


def stored_values(path, name):
    with h5py.File(path) as file:
        values = file[name][:]
    return values.astype(values.dtype.newbyteorder("="))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout_and_type_equals_h5py(file, layout, dtype):
    name = f"{layout}/{dtype}"
    dataset = h5feed.Dataset.open(file, data=name, input_layout="none")
    loader = h5feed.DataLoader(dataset, batch_size=30, num_workers=1)
    expected = stored_values(file, name)
    data = next(iter(loader)).data
    assert data.dtype == expected.dtype == dataset.dtype
    np.testing.assert_array_equal(data, expected)


@hypothesis.settings(max_examples=40, deadline=None, database=None, derandomize=True)
@hypothesis.given(st.fixed_dictionaries({
    "batch_size": st.one_of(st.none(), st.integers(1, 40)),
    "shuffle": st.sampled_from([False, True, "chunk:1", "chunk:3"]),
    "num_workers": st.integers(0, 2),
    "drop_last": st.booleans(),
    "seed": st.integers(0, 2**64 - 1),
    "cache_bytes": st.sampled_from([None, 0, 500, 5000]),
    "cache_policy": st.sampled_from(["lru", "clairvoyant", "keep_first"]),
    "shard": st.sampled_from(["strided", "contiguous", "by_chunk"]),
    "uneven": st.sampled_from(["exact", "pad", "drop"]),
    "world": st.sampled_from([(0, 1), (1, 2), (0, 3)]),
    "echo": st.integers(1, 2),
}), st.sampled_from(list(LAYOUTS)), st.integers(0, 3))
def test_any_options_deliver_the_stored_values(file, options, layout, epoch):
    rank, world_size = options.pop("world")
    if options["batch_size"] is None:
        options["drop_last"] = False
        if world_size > 1 and options["uneven"] == "exact":
            options["uneven"] = "pad"  # single samples cannot be shared out exactly
    dataset = h5feed.Dataset.open(file, data=f"{layout}/uint8", target="labels", input_layout="none")
    try:
        loader = h5feed.DataLoader(dataset, rank=rank, world_size=world_size, **options)
    except h5feed.OptionError:  # such as by_chunk with fewer chunks than ranks
        hypothesis.reject()
    workerless = h5feed.DataLoader(dataset, rank=rank, world_size=world_size, **{**options, "num_workers": 0})
    data, labels = stored_values(file, f"{layout}/uint8"), stored_values(file, "labels")
    loader.set_epoch(epoch)
    workerless.set_epoch(epoch)
    batches = list(loader)
    assert len(batches) == len(loader)
    for batch, other in zip(batches, workerless, strict=True):
        rows = batch.indices if options["batch_size"] is not None else batch.indices[0]
        np.testing.assert_array_equal(batch.indices, other.indices)
        np.testing.assert_array_equal(batch.data, data[rows])
        np.testing.assert_array_equal(batch.target, labels[rows])
    loader.close()
    workerless.close()


@hypothesis.settings(max_examples=25, deadline=None, database=None, derandomize=True)
@hypothesis.given(st.integers(0, 40), st.integers(1, 12), st.integers(1, 12), st.sampled_from([False, True, "chunk:2"]),
                  st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2))
def test_the_remaining_samples_arrive_once_after_any_batch(file, stop, size, next_size, shuffle, world, next_world, workers,
                                                           next_workers):
    dataset = h5feed.Dataset.open(file, data="gzip/uint8", input_layout="none")

    def loaders(batch_size, world_size, num_workers):
        return [h5feed.DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, seed=3, rank=rank, world_size=world_size,
                                  num_workers=num_workers) for rank in range(world_size)]

    seen = []
    first = loaders(size, world, workers)
    stop = min(stop, len(first[0]) - 1)  # after the last batch of an epoch, the state is that of the next
    for loader in first:
        iterator = iter(loader)
        for _ in range(stop):
            seen += next(iterator).indices.tolist()
    states = [loader.state_dict() for loader in first]
    assert all(state == states[0] for state in states)
    for loader in loaders(next_size, next_world, next_workers):
        loader.load_state_dict(states[0])
        for batch in loader:
            seen += batch.indices.tolist()
    assert sorted(seen) == list(range(30))
