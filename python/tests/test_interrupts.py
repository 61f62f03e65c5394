# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends calls that take long: what a signal handler raises arrives within them."""

import fcntl
import os
import signal

import h5py
import numpy as np
import pytest

import h5feed

SAMPLES = 600


class Interrupted(Exception):
    pass


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    """/images of 180 MiB, gzip; /stored of the same size, uncompressed."""
    path = tmp_path_factory.mktemp("large") / "large.h5"
    image = np.random.default_rng(1).integers(0, 256, (1, 3, 128, 800), dtype=np.uint8)
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (SAMPLES, 3, 128, 800), np.uint8, chunks=(1, 3, 128, 800), compression="gzip",
                                     compression_opts=1)
        images[0] = image
        _, packed = images.id.read_direct_chunk((0, 0, 0, 0))
        for number in range(1, SAMPLES):
            images.id.write_direct_chunk((number, 0, 0, 0), packed)
        stored = file.create_dataset("stored", (SAMPLES, 3, 128, 800), np.uint8)
        stored[-1] = image
    return path


@pytest.fixture
def interrupted():
    """Returns what calls a function, which a signal 10 ms later must end."""
    def handler(*_):
        raise Interrupted

    def call(function):
        with pytest.raises(Interrupted):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            function()

    before = signal.signal(signal.SIGALRM, handler)
    yield call
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_preload_can_be_interrupted(large_file, interrupted, num_workers):
    dataset = h5feed.Dataset.open(large_file, data="images")
    interrupted(lambda: h5feed.DataLoader(dataset, num_workers=num_workers, preload=True, cache_bytes=2**30))
    assert len(next(iter(h5feed.DataLoader(dataset, num_workers=num_workers)))) == 1


def test_reading_many_samples_can_be_interrupted(large_file, interrupted):
    dataset = h5feed.Dataset.open(large_file, data="images")
    interrupted(lambda: dataset[:])
    assert dataset[5][0].shape == (3, 128, 800)


def test_opening_many_files_can_be_interrupted(gzip_file, tmp_path, interrupted):
    for number in range(2000):
        os.link(gzip_file, tmp_path / f"{number}.h5")
    interrupted(lambda: h5feed.Dataset.open(tmp_path / "*.h5", data="images"))


def test_copying_to_stage_dir_can_be_interrupted(large_file, tmp_path, interrupted):
    interrupted(lambda: h5feed.Dataset.open(large_file, data="stored", stage_dir=tmp_path))
    assert not list(tmp_path.glob("*/*.part")), "what was copied is removed"


def test_waiting_for_another_process_that_copies_can_be_interrupted(gzip_file, tmp_path, interrupted):
    h5feed.Dataset.open(gzip_file, data="images", stage_dir=tmp_path)
    (lock,) = tmp_path.glob("*/lock")
    for copy in tmp_path.glob("*/*.h5"):
        copy.unlink()
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        interrupted(lambda: h5feed.Dataset.open(gzip_file, data="images", stage_dir=tmp_path))
