# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings and on the documentation page run."""

import doctest
import importlib
import pathlib
import re

import h5py
import numpy as np
import pytest

import h5feed

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = DOCS / "python.md"


@pytest.mark.parametrize("module", ["_errors", "_options", "_samplers", "_dataset", "_loader", "_batch", "_mixture"])
def test_docstrings(module):
    assert doctest.testmod(importlib.import_module(f"h5feed.{module}")).failed == 0


def snippets(page: pathlib.Path = PAGE) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


@pytest.mark.parametrize("number", range(len(snippets())))
def test_the_page(number, tmp_path, monkeypatch):
    code = snippets()[number]
    for module in re.findall(r"^import (torch|jax|lightning|accelerate)|^import h5feed\.(torch|jax)|^from (nvidia\.dali) import",
                             code, re.M):
        pytest.importorskip(next(name for name in module if name))
    monkeypatch.chdir(tmp_path)
    with h5py.File("train.h5", "w") as file:
        file.create_dataset("images", data=np.zeros((64, 3, 8, 8), np.uint8), chunks=(4, 3, 8, 8), compression="gzip")
        file["labels"] = np.arange(64) % 10
        file["boxes"] = np.zeros((64, 4), np.float32)
    exec(compile(code, f"{PAGE.name}: snippet {number}", "exec"), {"__name__": "snippet"})


def run(page: str, number: int) -> None:
    """Runs a snippet of a page, with fewer epochs and for PyTorch only where that is installed."""
    code = snippets(DOCS / page)[number].replace("range(10)", "range(1)")
    if "torch" in code:
        pytest.importorskip("torch")
    exec(compile(code, f"{page}: snippet {number}", "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("number", range(len(snippets(DOCS / "volumes.md"))))
def test_the_page_of_volumes(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("scans").mkdir()
    random = np.random.default_rng(1)
    for scan, shape in enumerate([(64, 70, 80), (66, 64, 64)] * 4):
        with h5py.File(f"scans/{scan}.h5", "w") as file:
            file["raw"] = random.integers(0, 65535, shape, dtype=np.uint16)
            file["label"] = random.integers(0, 4, shape, dtype=np.uint8)
            file["weight"] = np.ones(shape, np.float32)
            file["kspace"] = (random.random((6, 8, 9)) + 1j).astype(np.complex64)
            file["reconstruction_rss"] = random.random((6, 8, 9), np.float32)
            file["mask"] = np.ones(9, np.float32)
    run("volumes.md", number)


def test_the_page_of_windows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("readings").mkdir()
    for day in range(4):
        with h5py.File(f"readings/{day}.h5", "w") as file:
            file.create_dataset("sensors", data=np.zeros((200, 3), np.float32), chunks=(4, 3))
    run("windows.md", 0)


def test_the_page_of_climate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    for year in ("train/1", "train/2", "train/3", "valid/4"):
        pathlib.Path(f"era5/{year}").parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(f"era5/{year}.h5", "w") as file:
            file.create_dataset("fields", data=random.random((30, 5, 8, 9), np.float32), chunks=(1, 1, 8, 9))
    run("climate.md", 0)


@pytest.mark.parametrize("number", range(len(snippets(DOCS / "robotics.md"))))
def test_the_page_of_robotics(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    pathlib.Path("act").mkdir()
    for part in range(4):
        with h5py.File(f"act/episode_{part}.hdf5", "w") as file:
            file["observations/images/top"] = random.integers(0, 255, (20, 6, 7, 3), np.uint8)
            file["observations/qpos"] = random.random((20, 14), np.float32)
            file["action"] = random.random((20, 14), np.float32)
    with h5py.File("demos.hdf5", "w") as file:
        for demo in range(8):
            file[f"data/demo_{demo}/obs/agentview_image"] = random.integers(0, 255, (20, 6, 7, 3), np.uint8)
            file[f"data/demo_{demo}/obs/robot0_eef_pos"] = random.random((20, 3))
            file[f"data/demo_{demo}/actions"] = random.random((20, 7))
        file["mask/train"] = np.array([f"demo_{demo}" for demo in range(6)], dtype="S")
    with h5py.File("frames.h5", "w") as file:
        file.create_dataset("observation", data=random.random((400, 12), np.float32), chunks=(10, 12))
        file["action"] = random.random((400, 7), np.float32)
        file["episode_index"] = np.repeat(np.arange(40), 10)
        file["task"] = np.arange(40)
    run("robotics.md", number)


@pytest.mark.parametrize("number", range(len(snippets(DOCS / "vision.md"))))
def test_the_page_of_vision(number, tmp_path, monkeypatch, png):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    with h5py.File("fashion.h5", "w") as file:
        for part, samples in (("train", 2000), ("test", 500)):
            file.create_dataset(f"{part}/images", data=np.zeros((samples, 28, 28), np.uint8), chunks=(100, 28, 28))
            file[f"{part}/labels"] = (np.arange(samples) % 10).astype(np.uint8)
    with h5py.File("ilsvrc2012.hdf5", "w") as file:
        encoded = file.create_dataset("encoded_images", (20,), dtype=h5py.vlen_dtype(np.uint8))
        for row in range(20):
            encoded[row] = np.frombuffer(png(random.integers(0, 256, (30, 40, 3), np.uint8)), np.uint8)
        file["targets"] = np.arange(20, dtype=np.int16).reshape(20, 1)
    with h5py.File("slides.h5", "w") as file:
        file.create_dataset("slides", data=random.integers(0, 255, (2, 200, 180, 3), np.uint8), chunks=(1, 64, 64, 3))
        file["masks"] = np.zeros((2, 200, 180), np.uint8)
    try:
        run("vision.md", number)
    except h5feed.Error as error:
        if "install the wheel h5feed_images" not in str(error):
            raise
        pytest.skip("this h5feed has no codecs of images: it is a wheel without the wheel h5feed_images, or was built without OpenCV")


def test_the_page_of_mixtures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("web").mkdir()
    for path, samples in (("web/0.h5", 600), ("web/1.h5", 400), ("clean.h5", 500)):
        with h5py.File(path, "w") as file:
            file.create_dataset("images", data=np.zeros((samples, 3, 8, 8), np.uint8), chunks=(10, 3, 8, 8))
            file["labels"] = np.arange(samples) % 10
    (code,) = snippets(DOCS / "mixtures.md")
    exec(compile(code, "mixtures.md", "exec"), {"__name__": "snippet"})


def test_the_page_of_single_cells(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    with h5py.File("cells.h5ad", "w") as file:
        matrix = file.create_group("X")
        matrix.attrs["encoding-type"] = "csr_matrix"
        matrix.attrs["shape"] = np.array([400, 50])
        matrix["data"] = np.ones(800, np.float32)
        matrix["indices"] = np.tile(np.array([3, 40], np.int32), 400)
        matrix["indptr"] = np.arange(0, 801, 2)
        kinds = file.create_group("obs/cell_type")
        kinds.attrs["encoding-type"] = "categorical"
        kinds["codes"] = (np.arange(400) % 3 - 1).astype(np.int8)
        kinds["categories"] = ["B", "T"]
    (code,) = snippets(DOCS / "single-cells.md")
    code = code.replace("range(10)", "range(1)").replace('"chunk:16"', '"chunk:1"')
    exec(compile(code, "single-cells.md", "exec"), {"__name__": "snippet"})
