# SPDX-License-Identifier: Apache-2.0
"""Files that the tests read, written by h5py, and the fake machine with GPUs."""

import pathlib
import struct
import zlib

import h5py
import numpy as np
import pytest

import h5feed
from fake_gpu import machine

# Options whose batches the fixture `expected` has.
GPU_OPTIONS = {"batch_size": 16, "shuffle": True, "seed": 5, "normalize": {"mean": 0.5, "std": 0.25}}


def images(samples: int, shape=(3, 8, 6), seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (samples, *shape), dtype=np.uint8)


def targets(loader) -> list[list[int]]:
    """The targets of an epoch, batch by batch."""
    return [batch.target.tolist() for batch in loader]


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("h5feed")


@pytest.fixture(scope="session")
def gzip_file(folder) -> pathlib.Path:
    """/images (100, 3, 8, 6) uint8 in chunks of 7 rows, gzip; /labels (100,) int32; /boxes; /lengths; /text."""
    path = folder / "gzip.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=images(100), chunks=(7, 3, 8, 6), compression="gzip")
        file["labels"] = np.arange(100, dtype=np.int32) * 3
        file["boxes"] = np.arange(400, dtype=np.float32).reshape(100, 4)
        ragged = file.create_dataset("text", (100,), dtype=h5py.vlen_dtype(np.int32))
        for row in range(100):
            ragged[row] = np.arange(row % 5 + 1)
    return path


@pytest.fixture(scope="module")
def dataset(gzip_file) -> h5feed.Dataset:
    return h5feed.Dataset.open(gzip_file, data="images", target="labels")


@pytest.fixture(scope="module")
def with_fields(gzip_file) -> h5feed.Dataset:
    """`dataset` with the field boxes, and text, which is padded."""
    return h5feed.Dataset.open(gzip_file, data="images", target="labels",
                               fields=[{"name": "text", "collate": "pad"}, {"name": "boxes"}])


@pytest.fixture(scope="module")
def stored(gzip_file) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of `gzip_file` as h5py reads them."""
    with h5py.File(gzip_file) as file:
        return file["images"][:], file["labels"][:]


@pytest.fixture(scope="session")
def plain_file(folder) -> pathlib.Path:
    """/data (64, 5) float32, contiguous, without a target."""
    path = folder / "plain.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.random.default_rng(2).random((64, 5), dtype=np.float32)
    return path


@pytest.fixture(scope="session")
def damaged_file(folder) -> pathlib.Path:
    """/images of 40 rows in chunks of 10, of which the third is damaged."""
    path = folder / "damaged.h5"
    with h5py.File(path, "w") as file:
        stored = file.create_dataset("images", data=images(40), chunks=(10, 3, 8, 6), compression="gzip", fletcher32=True)
        place = stored.id.get_chunk_info(2).byte_offset
    with open(path, "r+b") as file:
        file.seek(place + 20)
        file.write(b"damage")
    return path


@pytest.fixture
def gpu(monkeypatch):
    """A machine with two GPUs."""
    with machine(monkeypatch, 2) as made:
        yield made


@pytest.fixture
def expected(dataset) -> list[tuple[np.ndarray, np.ndarray]]:
    """The batches of GPU_OPTIONS on the CPU."""
    return [(data, target) for data, target in h5feed.DataLoader(dataset, **GPU_OPTIONS)]


@pytest.fixture
def expected_fields(with_fields) -> list[dict[str, h5feed.Field]]:
    """The fields of the batches of GPU_OPTIONS on the CPU."""
    return [batch.fields for batch in h5feed.DataLoader(with_fields, **GPU_OPTIONS)]


@pytest.fixture(scope="session")
def png():
    """Returns a function that encodes RGB pixels (height, width, 3)."""
    def part(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    def encode(image: np.ndarray) -> bytes:
        header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 2, 0, 0, 0)
        lines = b"".join(b"\0" + line.tobytes() for line in image)
        return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(lines)) + part(b"IEND", b"")
    return encode
