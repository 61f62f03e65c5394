# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends calls that take long: what a signal handler raises arrives within them."""

import fcntl
import os
import pathlib
import re
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
    """/images of 180 MiB, which gzip takes long to decode; /stored of 700 MiB, uncompressed."""
    path = tmp_path_factory.mktemp("large") / "large.h5"
    image = np.random.default_rng(1).integers(0, 8, (1, 3, 128, 800), dtype=np.uint8)
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (SAMPLES, 3, 128, 800), np.uint8, chunks=(1, 3, 128, 800), compression="gzip",
                                     compression_opts=1)
        images[0] = image
        _, packed = images.id.read_direct_chunk((0, 0, 0, 0))
        for number in range(1, SAMPLES):
            images.id.write_direct_chunk((number, 0, 0, 0), packed)
        stored = file.create_dataset("stored", (4 * SAMPLES, 3, 128, 800), np.uint8)
        stored[-1] = image
    return path


def bytes_read():
    """Returns how many bytes all threads of this process have read so far."""
    try:
        counts = pathlib.Path("/proc/self/io").read_text()
    except OSError:
        pytest.skip("the kernel does not count the bytes that a process reads")
    return int(re.search(r"^rchar: (\d+)$", counts, re.M)[1])


def size_of_images(path):
    """Returns the stored size of /images."""
    with h5py.File(path) as file:
        return file["images"].id.get_storage_size()


@pytest.fixture
def interrupted():
    """Returns a function that calls another one, which a signal 10 ms later must end.

    Python runs the handler also where the call pays no attention to signals: after it. Therefore `whole`, if it is not 0, says
    how many bytes the call reads at least where nothing interrupts it, and it must not have read them.
    """
    def handler(*_):
        raise Interrupted

    def call(function, whole=0):
        before = bytes_read() if whole else 0
        with pytest.raises(Interrupted):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            function()
        assert not whole or bytes_read() - before < 0.9 * whole, "the call went on to its end"

    before = signal.signal(signal.SIGALRM, handler)
    yield call
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_preload_can_be_interrupted(large_file, interrupted, num_workers):
    dataset = h5feed.Dataset.open(large_file, data="images")
    interrupted(lambda: h5feed.DataLoader(dataset, num_workers=num_workers, preload=True, cache_bytes=2**30),
                whole=size_of_images(large_file))
    assert len(next(iter(h5feed.DataLoader(dataset, num_workers=num_workers)))) == 1


def test_reading_many_samples_can_be_interrupted(large_file, interrupted):
    dataset = h5feed.Dataset.open(large_file, data="images")
    interrupted(lambda: dataset[:], whole=size_of_images(large_file))
    assert dataset[5][0].shape == (3, 128, 800)


def test_opening_many_files_can_be_interrupted(gzip_file, tmp_path, interrupted):
    files = [tmp_path / f"{number}.h5" for number in range(2000)]
    for path in files:
        os.link(gzip_file, path)
    before = bytes_read()
    h5feed.Dataset.open(files[:100], data="images")
    of_each = (bytes_read() - before) / 100
    interrupted(lambda: h5feed.Dataset.open(tmp_path / "*.h5", data="images"), whole=of_each * len(files))


def test_copying_to_stage_dir_can_be_interrupted(large_file, tmp_path, interrupted):
    interrupted(lambda: h5feed.Dataset.open(large_file, data="stored", stage_dir=tmp_path), whole=large_file.stat().st_size)
    assert not list(tmp_path.glob("*/*.part")), "what was copied is removed"


def test_waiting_for_another_process_that_copies_can_be_interrupted(gzip_file, tmp_path, interrupted):
    h5feed.Dataset.open(gzip_file, data="images", stage_dir=tmp_path)
    (lock,) = tmp_path.glob("*/lock")
    for copy in tmp_path.glob("*/*.h5"):
        copy.unlink()
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        interrupted(lambda: h5feed.Dataset.open(gzip_file, data="images", stage_dir=tmp_path))
