# SPDX-License-Identifier: Apache-2.0
"""Positions, samplers and the other callbacks."""

import gc
import itertools
import json
import weakref

import pytest
from conftest import targets

import h5feed


# Position

@pytest.mark.parametrize("delivered", [0, 3, 7])
def test_a_state_resumes_with_other_workers(dataset, delivered):
    first = h5feed.DataLoader(dataset, batch_size=10, shuffle="chunk:3", seed=5, num_workers=2)
    list(first)
    iterator = iter(first)
    for _ in range(delivered):
        next(iterator)
    state = json.loads(json.dumps(first.state_dict()))
    rest = [batch.target.tolist() for batch in iterator]
    second = h5feed.DataLoader(dataset, batch_size=10, shuffle="chunk:3", seed=5)
    second.load_state_dict(state)
    assert second.epoch == 1
    second.set_epoch(1)  # as training loops do
    assert targets(second) == rest
    assert targets(second) == targets(first)


def test_every_world_size_resumes_with_the_remaining_samples(dataset):
    ranks = [h5feed.DataLoader(dataset, batch_size=6, shuffle=True, seed=5, rank=rank, world_size=2) for rank in range(2)]
    seen = []
    for rank in ranks:
        iterator = iter(rank)
        for _ in range(4):
            seen += next(iterator).target.tolist()
    state = ranks[0].state_dict()
    for rank in range(3):
        loader = h5feed.DataLoader(dataset, batch_size=5, shuffle=True, seed=5, rank=rank, world_size=3)
        loader.load_state_dict(state)
        for batch in loader:
            seen += batch.target.tolist()
    assert sorted(seen) == list(range(0, 300, 3))


def test_a_state_behind_the_last_batch_is_of_the_next_epoch(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=60, shuffle=True, seed=1)
    iterator = iter(loader)
    epochs = []
    for _ in range(2):
        next(iterator)
        epochs.append(loader.state_dict()["epoch"])
    assert epochs == [0, 1]
    resumed = h5feed.DataLoader(dataset, batch_size=60, shuffle=True, seed=1)
    resumed.load_state_dict(loader.state_dict())
    assert resumed.epoch == 1


def test_a_wrong_state_is_refused(dataset, plain_file):
    loader = h5feed.DataLoader(dataset)
    other = h5feed.DataLoader(plain_file, data="data")
    with pytest.raises(h5feed.StateError):
        loader.load_state_dict(other.state_dict())
    for state in ({}, {"state": "xyz"}, {"state": ""}):
        with pytest.raises(ValueError, match="state"):
            loader.load_state_dict(state)


def test_a_state_needs_in_order(dataset):
    loader = h5feed.DataLoader(dataset, num_workers=1, in_order=False)
    with pytest.raises(ValueError, match="in_order=True"):
        loader.state_dict()


# Samplers and callbacks

def test_a_function_of_the_epoch_is_a_sampler(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=2, sampler=lambda epoch: [epoch, 5, 7], num_workers=2)
    assert targets(loader) == [[0, 15], [21]]
    assert targets(loader) == [[3, 15], [21]]
    loader.load_state_dict(loader.state_dict())
    assert targets(loader) == [[6, 15], [21]]


def test_a_batch_sampler_of_single_samples_is_refused(dataset):
    with pytest.raises(TypeError, match="batch_sampler: expected batches of sample numbers, got 1; sampler takes single"):
        h5feed.DataLoader(dataset, batch_sampler=[1, 2])


def test_a_batch_sampler_gives_batches(dataset):
    loader = h5feed.DataLoader(dataset, batch_sampler=lambda epoch: [[3, 1, 2], [epoch]])
    assert targets(loader) == [[9, 3, 6], [0]]
    assert len(loader) == 2


def test_a_sampler_like_pytorchs_is_asked_once_an_epoch(dataset):
    class Sampler:
        def __init__(self):
            self.asked = 0

        def __iter__(self):
            self.asked += 1
            return iter([self.asked, 0])

    sampler = Sampler()
    loader = h5feed.DataLoader(dataset, batch_size=2, sampler=sampler)
    assert targets(loader) == [[3, 0]]
    assert targets(loader) == [[6, 0]]
    with pytest.raises(ValueError, match="set_epoch"):
        loader.state_dict()


def test_a_sampler_that_shards_switches_sharding_off(dataset):
    class Distributed:
        num_replicas = 2

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter(range(0, 100, 2))

    loader = h5feed.DataLoader(dataset, batch_size=50, sampler=Distributed(), rank=1, world_size=2, seed=1)
    assert targets(loader) == [list(range(0, 300, 6))]


def test_what_a_sampler_raises_arrives(dataset):
    def sampler(epoch):
        if epoch > 0:
            raise KeyError("epoch")
        return [1]

    loader = h5feed.DataLoader(dataset, sampler=sampler, num_workers=1)
    list(loader)
    for _ in range(2):
        with pytest.raises(KeyError):
            next(iter(loader))


def test_worker_init_fn_runs_on_each_worker(dataset):
    called = []
    loader = h5feed.DataLoader(dataset, num_workers=2, worker_init_fn=called.append)
    next(iter(loader))
    assert sorted(called) == [0, 1]


def test_what_worker_init_fn_raises_arrives_each_time(dataset):
    def fail(worker):
        raise ZeroDivisionError(f"worker {worker}")

    loader = h5feed.DataLoader(dataset, num_workers=1, worker_init_fn=fail)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="worker 0"):
            next(iter(loader))


def test_a_cycle_through_a_callback_is_collected(dataset):
    class Training:
        def order(self, epoch):
            return [1, 2]

        def ready(self, worker):
            self.worker = worker

    training = Training()
    training.loader = h5feed.DataLoader(dataset, sampler=training.order, worker_init_fn=training.ready, num_workers=1)
    next(iter(training.loader))
    gone = weakref.ref(training)
    del training
    gc.collect()
    assert gone() is None


def test_selecting_the_restored_epoch_after_iter_keeps_the_position(dataset):
    options = {"batch_size": 10, "shuffle": True, "seed": 4}
    first = h5feed.DataLoader(dataset, **options)
    batches = targets(first)
    iterator = iter(first)
    list(iterator)
    first.set_epoch(0)
    next(iter(first))
    resumed = h5feed.DataLoader(dataset, **options)
    resumed.load_state_dict(first.state_dict())
    iterator = iter(resumed)
    resumed.set_epoch(0)
    assert next(iterator).target.tolist() == batches[1]
    resumed.set_epoch(0)  # from its beginning, as something was delivered
    assert targets(resumed) == batches


def test_a_state_of_another_version_is_refused(dataset):
    loader = h5feed.DataLoader(dataset)
    with pytest.raises(h5feed.StateError, match="version 2"):
        loader.load_state_dict({**loader.state_dict(), "h5feed": 2})


def test_a_resumed_epoch_whose_end_is_not_asked_for_is_followed_by_the_next(dataset):
    options = {"batch_size": 10, "shuffle": True, "seed": 4}
    first = h5feed.DataLoader(dataset, **options)
    iterator = iter(first)
    for _ in range(7):
        next(iterator)
    resumed = h5feed.DataLoader(dataset, **options)
    resumed.load_state_dict(first.state_dict())
    assert [(batch.epoch, batch.number) for batch in itertools.islice(resumed, 3)] == [(0, 7), (0, 8), (0, 9)]
    assert next(iter(resumed)).epoch == 1
