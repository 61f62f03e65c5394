# SPDX-License-Identifier: Apache-2.0
import logging

import pytest

torch = pytest.importorskip("torch")

import h5py  # noqa: E402
import numpy as np  # noqa: E402

import h5feed  # noqa: E402
import h5feed.torch  # noqa: E402


def test_batches_are_tensors(dataset, gzip_file):
    loader = h5feed.torch.DataLoader(dataset, batch_size=40, num_workers=2, normalize={"mean": 0.5, "std": 0.5})
    data, target = next(iter(loader))
    assert data.dtype == torch.float32 and target.dtype == torch.int64
    with h5py.File(gzip_file) as file:
        np.testing.assert_allclose(data.numpy(), file["images"][:40] / 127.5 - 1, rtol=1e-5, atol=1e-6)
    data.zero_()  # writable


def test_tensors_share_the_memory_of_the_loader(dataset):
    loader = h5feed.torch.DataLoader(dataset, batch_size=10)
    tensor = loader._loader.next(loader._loader.start()).tensors()[0]
    assert h5feed.torch._tensor(tensor).data_ptr() == tensor.numpy().ctypes.data


def test_a_batch_moves_as_a_whole(dataset):
    batch = next(iter(h5feed.torch.DataLoader(dataset, batch_size=4)))
    moved = batch.to(torch.float64)
    assert isinstance(moved, h5feed.torch.Batch) and moved.data.dtype == torch.float64
    assert moved.indices.tolist() == batch.indices.tolist()
    mapped = torch.utils._pytree.tree_map(lambda tensor: tensor + 1, batch)
    assert isinstance(mapped, h5feed.torch.Batch)
    assert torch.equal(mapped.target, batch.target + 1)


def test_bfloat16_and_channels_last(dataset):
    loader = h5feed.torch.DataLoader(dataset, batch_size=4, output_dtype=torch.bfloat16, output_layout="channels_last")
    data, _ = next(iter(loader))
    assert data.dtype == torch.bfloat16 and data.is_contiguous(memory_format=torch.channels_last)


def test_unsigned_types_are_refused(folder):
    path = folder / "u16.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros((4, 2), dtype=np.uint16)
    with pytest.raises(ValueError, match="normalize"):
        h5feed.torch.DataLoader(path, data="x")
    assert next(iter(h5feed.torch.DataLoader(path, data="x", normalize={"scale": 1.0}))).data.dtype == torch.float32


def test_manual_seed_governs_the_order(dataset):
    def order():
        torch.manual_seed(3)
        return [batch.target.tolist() for batch in h5feed.torch.DataLoader(dataset, batch_size=10, shuffle=True)]

    assert order() == order()


def test_world_size_in_the_environment_needs_a_group(dataset, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="init_process_group"):
        h5feed.torch.DataLoader(dataset)
    h5feed.torch.DataLoader(dataset, rank=1, world_size=2, seed=1)
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(h5feed.OptionError, match="the environment variable WORLD_SIZE is 'two'; set it to"):
        h5feed.torch.DataLoader(dataset)


def test_an_iterable_dataset_keeps_the_options_that_it_was_given(dataset):
    normalize = {"mean": [0.5, 0.5, 0.5]}
    iterable = h5feed.torch.IterableDataset(dataset, shard="none", seed=1, batch_size=100, normalize=normalize)
    normalize["mean"][:] = [0.0, 0.0, 0.0]
    (expected,) = h5feed.torch.DataLoader(dataset, batch_size=100, normalize={"mean": 0.5})
    assert torch.equal(next(iter(iterable))[0], expected.data)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pytorchs_loader_reads_a_dataset(dataset, method):
    dataset[0]  # a reader of the parent is not used by the workers
    loader = torch.utils.data.DataLoader(dataset, batch_size=30, num_workers=2, multiprocessing_context=method)
    targets = torch.cat([target for _, target in loader])
    assert targets.tolist() == list(range(0, 300, 3))


def test_pytorchs_samplers_are_samplers(dataset):
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, num_replicas=2, rank=1, shuffle=True, seed=4)
    loader = h5feed.torch.DataLoader(dataset, batch_size=50, sampler=sampler, rank=1, world_size=2, seed=1)
    sampler.set_epoch(0)
    assert next(iter(loader)).indices.tolist() == list(sampler)
    batches = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(dataset), 8, drop_last=True)
    loader = h5feed.torch.DataLoader(dataset, batch_sampler=batches)
    assert len(loader) == 12


def test_a_batch_sampler_over_a_sampler_of_the_epoch_follows_it(dataset):
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, num_replicas=2, rank=0, shuffle=True, seed=4)
    batches = torch.utils.data.BatchSampler(sampler, 10, drop_last=False)
    loader = h5feed.torch.DataLoader(dataset, batch_sampler=batches, num_workers=1)
    epochs = [[batch.indices.tolist() for batch in loader] for _ in range(2)]
    for epoch in range(2):
        sampler.set_epoch(epoch)
        assert epochs[epoch] == list(batches)
    loader.set_epoch(1)
    next(iter(loader))
    loader.load_state_dict(loader.state_dict())
    assert [batch.indices.tolist() for batch in loader] == epochs[1][1:]


def test_the_last_batch_of_a_rank_may_be_empty(dataset):
    loader = h5feed.torch.DataLoader(dataset, batch_size=33, rank=2, world_size=3, seed=1)
    assert [tuple(data.shape) for data, target in loader] == [(33, 3, 8, 6), (0, 3, 8, 6)]


def test_an_epoch_feeds_pytorchs_own_loader(dataset):
    iterable = h5feed.torch.IterableDataset(dataset, shard="none", seed=3, batch_size=30, shuffle=True)
    seen = [torch.cat([target for _, target in torch.utils.data.DataLoader(iterable, batch_size=None, num_workers=workers)])
            for workers in (0, 1)]
    assert sorted(seen[0].tolist()) == sorted(seen[1].tolist()) == list(range(0, 300, 3))
    shared = h5feed.torch.IterableDataset(dataset, shard="workers", seed=3, batch_size=30)
    both = torch.cat([target for _, target in torch.utils.data.DataLoader(shared, batch_size=None, num_workers=2)])
    assert sorted(both.tolist()) == list(range(0, 300, 3))
    with pytest.raises(TypeError, match="shard"):
        h5feed.torch.IterableDataset(dataset, seed=3)


def test_an_iterable_dataset_refuses_wrong_options_at_once(dataset):
    with pytest.raises(TypeError, match="'batchsize'"):
        h5feed.torch.IterableDataset(dataset, shard="none", seed=1, batchsize=4)
    with pytest.raises(ValueError, match="shard says who divides"):
        h5feed.torch.IterableDataset(dataset, shard="none", seed=1, rank=0, world_size=2)


def test_an_iterable_dataset_delivers_what_collate_fn_returns(dataset):
    iterable = h5feed.torch.IterableDataset(dataset, shard="none", seed=1, batch_size=50,
                                            collate_fn=lambda samples: {"count": len(samples)})
    assert list(torch.utils.data.DataLoader(iterable, batch_size=None)) == [{"count": 50}] * 2


def test_an_iterable_dataset_of_ranks_needs_the_process_group(dataset, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for shard in ("ranks", "workers"):
        with pytest.raises(RuntimeError, match='torch.distributed is not initialized; .* or give shard="none"'):
            h5feed.torch.IterableDataset(dataset, shard=shard, seed=1)
    assert h5feed.torch.IterableDataset(dataset, shard="none", seed=1)


def test_ranks_that_share_a_random_sampler_are_warned(dataset, caplog):
    sampler = torch.utils.data.RandomSampler(dataset)
    h5feed.torch.DataLoader(dataset, sampler=sampler)
    assert not caplog.records
    h5feed.torch.DataLoader(dataset, sampler=sampler, rank=0, world_size=2, seed=1)
    assert "sampler: 2 ranks divide what it draws" in caplog.text


def test_code_for_pytorch_finds_set_epoch_at_the_batch_sampler(dataset):
    loader = h5feed.torch.DataLoader(dataset, batch_size=30, shuffle=True, seed=3, drop_last=True)
    assert (loader.batch_sampler.batch_size, loader.batch_sampler.drop_last) == (30, True)
    iterator = iter(loader)
    loader.batch_sampler.sampler.set_epoch(0)  # the epoch that has begun: the iterator goes on
    assert next(iterator).epoch == 0
    loader.batch_sampler.sampler.set_epoch(4)
    assert next(iter(loader)).epoch == 4


def test_a_worker_process_without_set_epoch_warns(dataset, tmp_path):
    def order(epochs):
        loader = torch.utils.data.DataLoader(epochs, batch_size=None, num_workers=1)
        return torch.cat([target for _, target in loader]).tolist()

    epochs = h5feed.torch.IterableDataset(dataset, shard="none", seed=1, batch_size=10, shuffle=True)
    handler = logging.FileHandler(tmp_path / "log", delay=True)  # inherited by the worker processes
    logging.getLogger("h5feed").addHandler(handler)
    try:
        first = order(epochs)
        assert order(epochs) == first
        assert (tmp_path / "log").read_text().count("call set_epoch() before each") == 2
        epochs.set_epoch(1)
        assert order(epochs) != first
        assert (tmp_path / "log").read_text().count("call set_epoch() before each") == 2
    finally:
        logging.getLogger("h5feed").removeHandler(handler)
        handler.close()
