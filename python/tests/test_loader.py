# SPDX-License-Identifier: Apache-2.0
import itertools
import logging
import pickle

import numpy as np
import pytest
from conftest import targets

import h5feed


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_delivers_what_is_stored(dataset, stored, num_workers):
    loader = h5feed.DataLoader(dataset, batch_size=32, num_workers=num_workers)
    assert len(loader) == 4
    batches = list(loader)
    np.testing.assert_array_equal(np.concatenate([data for data, _ in batches]), stored[0])
    np.testing.assert_array_equal(np.concatenate([target for _, target in batches]), stored[1])
    assert batches[0].target.dtype == np.int64
    assert batches[3].data.shape == (4, 3, 8, 6)


def test_a_loader_opens_paths(gzip_file):
    loader = h5feed.DataLoader(str(gzip_file), data="images", target="labels", batch_size=100)
    assert isinstance(loader.dataset, h5feed.Dataset)
    assert targets(loader) == [list(range(0, 300, 3))]
    with pytest.raises(ValueError, match="Dataset.open"):
        h5feed.DataLoader(loader.dataset, data="images")


def test_a_batch_is_a_tuple_with_names(dataset, plain_file):
    batch = next(iter(h5feed.DataLoader(dataset, batch_size=5, shuffle=True, seed=3, provenance=True)))
    data, target = batch
    assert data is batch.data and target is batch.target and isinstance(batch, tuple)
    np.testing.assert_array_equal(batch.indices * 3, target)
    assert [origin.row for origin in batch.origins] == batch.indices.tolist()
    assert (batch.epoch, batch.number, batch.repeat) == (0, 0, 0)
    assert repr(batch) == "Batch(data: uint8 (5, 3, 8, 6), target: int64 (5,))"
    alone = next(iter(h5feed.DataLoader(plain_file, data="data")))
    assert len(alone) == 1 and alone.target is None


def test_a_batch_can_be_pickled(dataset):
    batch = next(iter(h5feed.DataLoader(dataset, batch_size=5)))
    copy = pickle.loads(pickle.dumps(batch))
    assert type(copy) is h5feed.Batch
    np.testing.assert_array_equal(copy.data, batch.data)


def test_arrays_are_writable_and_outlive_the_loader(dataset, stored):
    loader = h5feed.DataLoader(dataset, batch_size=10, num_workers=2)
    batches = list(loader)
    loader.close()
    del loader
    batches[0].data[:] = 0
    for number, batch in enumerate(batches[1:], 1):
        np.testing.assert_array_equal(batch.data, stored[0][10 * number:10 * number + 10])


def test_batches_are_not_copied(dataset):
    raw = h5feed.DataLoader(dataset, batch_size=10)
    core = raw._loader.next(raw._loader.start())
    first, second = core.arrays()[0], core.arrays()[0]
    assert np.shares_memory(first, second)


def test_single_samples_without_a_batch_size(dataset, stored):
    data, target = next(iter(h5feed.DataLoader(dataset, batch_size=None)))
    assert data.shape == (3, 8, 6) and target.shape == ()
    np.testing.assert_array_equal(data, stored[0][0])


def test_fields_arrive_by_name(gzip_file):
    dataset = h5feed.Dataset.open(gzip_file, data="images", fields=[
        {"name": "boxes", "dtype": np.float64}, h5feed.FieldOptions(name="words", data="text", collate="ragged"),
        h5feed.FieldOptions(name="padded", data="text", collate="pad")])
    fields = next(iter(h5feed.DataLoader(dataset, batch_size=3))).fields
    assert fields["boxes"].values.dtype == np.float64 and fields["boxes"].values.shape == (3, 4)
    assert fields["words"].offsets.tolist() == [0, 1, 3, 6]
    assert fields["words"].values.tolist() == [0, 0, 1, 0, 1, 2]
    assert fields["padded"].lengths.tolist() == [1, 2, 3]


def test_values_are_normalized_and_converted(dataset, stored):
    loader = h5feed.DataLoader(dataset, batch_size=4, normalize={"mean": [0.1, 0.2, 0.3], "std": 0.5},
                               output_layout="channels_last", target_dtype=np.float32)
    data, target = next(iter(loader))
    assert data.shape == (4, 3, 8, 6) and data.strides[1] == 4 and target.dtype == np.float32
    mean = np.array([0.1, 0.2, 0.3]).reshape(3, 1, 1)
    np.testing.assert_allclose(data, (stored[0][:4] / 255 - mean) / 0.5, rtol=1e-5, atol=1e-6)
    half = next(iter(h5feed.DataLoader(dataset, output_dtype="float16")))
    assert half.data.dtype == np.float16
    with pytest.raises(ValueError, match="bfloat16"):
        h5feed.DataLoader(dataset, output_dtype="bfloat16")


def test_augment_reports_its_crops(dataset, stored):
    loader = h5feed.DataLoader(dataset, batch_size=8, seed=1,
                               augment=h5feed.Augment(horizontal_flip=1.0, vertical_flip=1.0,
                                                      random_crop={"height": 4, "width": 4}))
    batch = next(iter(loader))
    assert batch.data.shape == (8, 3, 4, 4)
    drawn = batch.transforms[0]
    y, x = drawn.crop_y, drawn.crop_x
    assert drawn.flipped and drawn.flipped_vertically and (drawn.crop_height, drawn.crop_width) == (0, 0)
    np.testing.assert_array_equal(batch.data[0], stored[0][0][:, y:y + 4, x:x + 4][:, ::-1, ::-1])


def test_random_resized_crop_scales_its_window(dataset):
    crop = h5feed.RandomResizedCrop(height=5, width=9, min_scale=0.3)
    loader = h5feed.DataLoader(dataset, batch_size=8, seed=1, augment=h5feed.Augment(random_resized_crop=crop))
    batch = next(iter(loader))
    assert batch.data.shape == (8, 3, 5, 9) and batch.data.dtype == np.uint8
    assert all(drawn.crop_height > 0 and drawn.crop_width > 0 for drawn in batch.transforms)
    with pytest.raises(ValueError, match="exclude each other"):
        h5feed.DataLoader(dataset, augment={"random_resized_crop": {}, "random_crop": {}})


def test_echo_repeats_each_batch(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=50, echo=2)
    assert len(loader) == 4
    assert [batch.repeat for batch in loader] == [0, 1, 0, 1]


def test_collate_fn_gets_the_samples(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=3, collate_fn=lambda samples: [int(target) for _, target in samples])
    assert next(iter(loader)) == [0, 3, 6]


# Epochs and iterators

def test_a_full_epoch_leads_to_the_next(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=50, shuffle=True, seed=1, num_workers=2)
    assert loader.epoch == 0
    first = targets(loader)
    assert loader.epoch == 1
    assert first != targets(loader)
    loader.set_epoch(0)
    assert targets(loader) == first


def test_an_unfinished_epoch_starts_again(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=20, shuffle=True, seed=1, num_workers=2)
    first = next(iter(loader)).target.tolist()
    assert next(iter(loader)).target.tolist() == first
    assert targets(loader)[0] == first
    assert loader.epoch == 1


@pytest.mark.parametrize("options", [{}, {"in_order": False}, {"echo": 2}, {"drop_last": True}])
def test_who_takes_all_batches_and_no_end_gets_the_next_epoch(dataset, options):
    """As Lightning does, which stops after len(loader) batches."""
    loader = h5feed.DataLoader(dataset, batch_size=30, shuffle=True, seed=1, num_workers=2, **options)
    expected = [sorted(sum(targets(loader), [])) for _ in range(3)]
    loader.set_epoch(0)
    for epoch in range(3):
        batches = list(itertools.islice(loader, len(loader)))
        assert {batch.epoch for batch in batches} == {epoch}
        assert sorted(sum((batch.target.tolist() for batch in batches), [])) == expected[epoch]
    batches = list(itertools.islice(loader, len(loader) - 1))
    assert next(iter(loader)).epoch == batches[0].epoch == 3


def test_a_failed_last_batch_is_no_reason_to_stay_in_the_epoch(damaged_file):
    loader = h5feed.DataLoader(damaged_file, data="images", batch_size=10, sampler=[*range(20), *range(30, 40), *range(20, 30)])
    iterator = iter(loader)
    assert [next(iterator).number for _ in range(3)] == [0, 1, 2]
    with pytest.raises(h5feed.ChunkError):
        next(iterator)
    assert next(iter(loader)).epoch == 1


def test_a_newer_iterator_ends_the_older(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=20)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    with pytest.raises(RuntimeError, match="newer iter"):
        next(older)
    assert next(newer).number == 0


def test_an_iterator_stays_at_its_end(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=100)
    iterator = iter(loader)
    next(iterator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)
    assert loader.epoch == 1


def test_a_closed_loader_says_so(dataset):
    with h5feed.DataLoader(dataset, num_workers=1) as loader:
        iterator = iter(loader)
        next(iterator)
    loader.close()
    with pytest.raises(RuntimeError, match="closed"):
        next(iterator)
    assert repr(loader) == "<closed DataLoader>"


def test_a_closed_loader_still_tells_what_it_did(dataset):
    with h5feed.DataLoader(dataset, batch_size=10) as loader:
        delivered = sum(len(batch.data) for batch in loader)
        stats, report = loader.stats(), loader.report()
    assert loader.stats().keys() == stats.keys() and loader.stats()["samples"] == delivered
    assert loader.report().splitlines()[0].split(",")[0] == report.splitlines()[0].split(",")[0]
    assert loader.verdict()["bottleneck"]


def test_auto_delivers_what_a_fixed_number_of_workers_delivers(dataset):
    fixed = h5feed.DataLoader(dataset, batch_size=4, shuffle=True, seed=3, num_workers=2)
    loader = h5feed.DataLoader(dataset, batch_size=4, shuffle=True, seed=3, num_workers="auto", cpu_limit=1.5,
                               local_world_size=1)
    for _ in range(3):
        for expected, batch in zip(fixed, loader, strict=True):
            assert np.array_equal(batch.data, expected.data)
    assert loader.options["self_tuning"] and 0 < loader.options["cpu_limit"] <= 1.5
    assert not fixed.options["self_tuning"] and fixed.options["cpu_limit"] is None
    stats = loader.stats()
    assert 1 <= stats["active_workers"] <= loader.options["num_workers"]
    assert 1 <= stats["prefetched_batches"] <= loader.options["prefetch_batches"]
    assert 0 <= stats["reads_in_flight"] <= loader.options["io_depth"]
    assert fixed.stats()["active_workers"] == 2
    assert 'num_workers="auto": ' in loader.report()
    assert "num_workers=auto" in repr(loader)


def test_the_launcher_tells_how_many_processes_share_the_host(dataset, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert h5feed.DataLoader(dataset).options["local_world_size"] == 8
    assert h5feed.DataLoader(dataset, local_world_size=2).options["local_world_size"] == 2


# Errors and options

def test_a_damaged_chunk_raises_at_its_batch_and_the_loader_goes_on(damaged_file):
    loader = h5feed.DataLoader(damaged_file, data="images", batch_size=10, num_workers=2)
    iterator = iter(loader)
    assert [next(iterator).number for _ in range(2)] == [0, 1]
    with pytest.raises(h5feed.ChunkError, match="damaged.h5") as caught:
        next(iterator)
    assert isinstance(caught.value, OSError)
    assert next(iterator).number == 3
    assert loader.stats()["errors"] == 1


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_damaged_chunk_is_left_out_or_replaced(damaged_file, tmp_path, num_workers):
    bad_list = tmp_path / "bad.tsv"
    options = {"data": "images", "batch_size": 10, "num_workers": num_workers, "max_bad_share": 0.5}
    skipping = h5feed.DataLoader(damaged_file, on_error="skip", bad_list=bad_list, **options)
    sizes = [len(batch.indices) for batch in skipping]
    assert min(sizes) == 0 and sum(sizes) == skipping.stats()["samples"]
    assert skipping.stats()["bad_chunks"] == 1 and skipping.stats()["errors"] == 0
    assert skipping.stats()["samples_skipped"] == 10 and skipping.stats()["read_retries"] == 0
    header, line = bad_list.read_text().splitlines()
    assert header.startswith("file\tdataset\tchunk") and line.startswith(str(damaged_file) + "\t/images\t2,0,0,0\t")
    replacing = h5feed.DataLoader(damaged_file, on_error="replace", **options)
    assert [len(batch.indices) for batch in replacing] == [10] * len(sizes)
    assert replacing.stats()["samples_replaced"] == 10
    options["max_bad_share"] = 0.01
    with pytest.raises(h5feed.ChunkError, match="max_bad_share 0.01"):
        list(h5feed.DataLoader(damaged_file, on_error="skip", **options))


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"on_error": "ignore"}, ValueError, 'on_error: "ignore" is not one of "fail", "skip", "replace"'),
    ({"on_error": "skip", "max_bad_share": 2}, ValueError, "max_bad_share must be 0 to 1"),
    ({"on_error": "skip", "bad_list": "/none/bad.tsv"}, ValueError, "bad_list: /none/bad.tsv cannot be written"),
    ({"batch_size": 0}, ValueError, "batch_size"),
    ({"batch_size": "4"}, TypeError, "batch_size: expected int, got str"),
    ({"num_workers": True}, TypeError, "num_workers: expected int, got bool"),
    ({"batch_size": False}, TypeError, "batch_size: expected int, got bool"),
    ({"cache_bytes": True}, TypeError, "cache_bytes: expected int, got bool"),
    ({"gpu_cache_bytes": True}, TypeError, "gpu_cache_bytes: expected int, got bool"),
    ({"rank": False}, TypeError, "rank: expected int, got bool"),
    ({"echo": True}, TypeError, "echo: expected int, got bool"),
    ({"augment": {"random_crop": {"padding": True}}}, TypeError, "padding: expected int, got bool"),
    ({"shuffle": "sometimes"}, ValueError, "sometimes"),
    ({"cache_policy": "mru"}, ValueError, 'cache_policy: "mru" is not one of "lru", "clairvoyant", "keep_first"'),
    ({"cache_bytes": -1}, ValueError, "cache_bytes is -1"),
    ({"gpu_cache_bytes": "all"}, ValueError, "gpu_cache_bytes.*auto"),
    ({"num_workers": "all"}, ValueError, 'num_workers must be "auto" or a number; got "all"'),
    ({"num_workers": -2}, ValueError, 'num_workers must be 0 to 1024, or "auto"; got -2'),
    ({"num_workers": 2.5}, TypeError, "num_workers"),
    ({"num_workers": 2, "cpu_limit": 1}, ValueError, 'cpu_limit bounds what num_workers="auto" may choose'),
    ({"num_workers": "auto", "cpu_limit": 0}, ValueError, "cpu_limit must be above 0; got 0"),
    ({"local_world_size": -1}, ValueError, "local_world_size must be 0"),
    ({"shuffle": True, "sampler": [1]}, ValueError, "sampler"),
    ({"prefetch_factor": 2}, ValueError, "num_workers"),
    ({"output_dtype": "float31"}, ValueError, "float31"),
    ({"normalize": {"means": 1}}, TypeError, "means"),
    ({"world_size": 2}, ValueError, "seed=1"),
    ({"device": "gpu"}, ValueError, 'device "gpu" is not known; use "cpu", "cuda:N" or "auto"'),
    ({"workers": 3}, TypeError, "workers"),
    ({"sampler": 3}, TypeError, "function of the epoch"),
    ({"sampler": iter([1, 2])}, TypeError, "used up after one epoch"),
    ({"batch_sampler": ([number] for number in range(3))}, TypeError, "used up after one epoch"),
    ({"batch_sampler": lambda epoch: [[1] * (epoch + 1)]}, ValueError, "the largest of epoch 0; .* attribute batch_size"),
    ({"persistent_workers": True}, TypeError, r"^DataLoader.* 'persistent_workers'; leave it out: worker threads persist"),
    ({"generator": None}, TypeError, "set seed instead"),
    ({"collate_fn": 3}, TypeError, "collate_fn: expected a function, got int"),
    ({"worker_init_fn": 3}, TypeError, "worker_init_fn: expected a function, got int"),
    ({"num_workers": 1, "timeout": float("nan")}, ValueError, "timeout must be positive seconds; got nan"),
    ({"num_workers": 1, "timeout": float("-inf")}, ValueError, "timeout must be positive seconds; got -inf"),
    ({"num_workers": 1, "timeout": -0.5}, ValueError, "timeout must be positive seconds; got -0.5"),
    ({"target_dtype": "i8"}, ValueError, 'the type "i8" is int64 in NumPy and int8 in h5feed; use "int64" or "int8"'),
    ({"output_dtype": "<U3"}, ValueError, "output_dtype: no element type"),
    ({"shard": "by_chunk", "sampler": [1]}, ValueError, 'shard="by_chunk" has an order of its own'),
])
def test_a_wrong_option_is_named(dataset, options, error, message):
    with pytest.raises(error, match=message) as caught:
        loader = h5feed.DataLoader(dataset, **options)
        list(zip(range(100), loader)) + list(loader)
    assert "::" not in str(caught.value) and "options." not in str(caught.value)


def test_stats_plan_and_report(dataset, gzip_file):
    loader = h5feed.DataLoader(dataset, batch_size=10, shuffle=True)
    list(loader)
    stats = loader.stats()
    assert stats["samples"] == 100 and all(isinstance(value, (int, float)) for value in stats.values())
    plan = loader.plan()
    assert (plan.samples, plan.batches, plan.chunks) == (100, 10, 15)
    assert "an epoch: 100 samples" in str(plan)
    assert h5feed.plan(dataset, batch_size=10, shuffle=True).batches == 10
    assert h5feed.plan(dataset, batch_size=10, sampler=[1, 2, 3], collate_fn=list, bad_list=None, timeout=0).samples == 3
    assert h5feed.plan(gzip_file, data="images", batch_sampler=[[1, 2], [3]]).batches == 2
    assert "samples/s" in loader.report()
    assert (loader.options["shuffle"], loader.options["shard"], loader.options["uneven"]) == ("full", "strided", "exact")


def test_the_log_reaches_logging(dataset, caplog):
    with caplog.at_level(logging.INFO, "h5feed"):
        h5feed.DataLoader(dataset, batch_size=200, drop_last=True)
    assert any("no batches" in record.message and record.levelno == logging.WARNING for record in caplog.records)


def test_a_handler_of_the_log_that_raises_loses_no_batch(gzip_file):
    class Strict(logging.Handler):
        def emit(self, record):
            raise UserWarning(record.getMessage())

    dataset = h5feed.Dataset.open(gzip_file, data="images")
    loader = h5feed.DataLoader(dataset, batch_size=50, cache_bytes=2**21)
    iterator = iter(loader)
    h5feed.plan(dataset, cache_bytes=2**20)  # leaves a line for the next batch to deliver: the loader has another cache
    handler = Strict()
    logging.getLogger("h5feed").addHandler(handler)
    try:
        with pytest.raises(UserWarning, match="cache_bytes"):
            next(iterator)
    finally:
        logging.getLogger("h5feed").removeHandler(handler)
    assert [batch.number for batch in iterator] == [0, 1]


def test_a_loader_cannot_be_pickled(dataset):
    with pytest.raises(TypeError, match="pickle its dataset"):
        pickle.dumps(h5feed.DataLoader(dataset))


@pytest.mark.parametrize(("name", "dtype"), [("f4", np.float32), ("<f4", np.float32), ("half", np.float16), ("f16", np.float16),
                                             (">f8", np.float64), (np.float32, np.float32)])
def test_types_have_the_names_of_numpy(dataset, name, dtype):
    assert next(iter(h5feed.DataLoader(dataset, output_dtype=name))).data.dtype == dtype


def test_a_batch_of_the_user_has_only_arrays():
    batch = h5feed.Batch((1, 2))
    assert (batch.data, batch.target) == (1, 2)
    with pytest.raises(AttributeError, match="only data and target"):
        batch.indices
