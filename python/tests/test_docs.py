# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings and on the documentation page run."""

import doctest
import importlib
import pathlib
import re

import h5py
import numpy as np
import pytest

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
    for module in re.findall(r"^import (torch|jax|lightning|accelerate)|^import h5feed\.(torch|jax)", code, re.M):
        pytest.importorskip(module[0] or module[1])
    monkeypatch.chdir(tmp_path)
    with h5py.File("train.h5", "w") as file:
        file.create_dataset("images", data=np.zeros((64, 3, 8, 8), np.uint8), chunks=(4, 3, 8, 8), compression="gzip")
        file["labels"] = np.arange(64) % 10
    exec(compile(code, f"{PAGE.name}: snippet {number}", "exec"), {"__name__": "snippet"})


def test_the_page_of_volumes(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    pathlib.Path("scans").mkdir()
    random = np.random.default_rng(1)
    for number, shape in enumerate([(64, 70, 80), (66, 64, 64)] * 4):
        with h5py.File(f"scans/{number}.h5", "w") as file:
            file["raw"] = random.integers(0, 65535, shape, dtype=np.uint16)
            file["label"] = random.integers(0, 4, shape, dtype=np.uint8)
            file["weight"] = np.ones(shape, np.float32)
    (code,) = snippets(DOCS / "volumes.md")
    exec(compile(code.replace("range(10)", "range(1)"), "volumes.md", "exec"), {"__name__": "snippet"})


def test_the_page_of_mixtures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("web").mkdir()
    for path, samples in (("web/0.h5", 600), ("web/1.h5", 400), ("clean.h5", 500)):
        with h5py.File(path, "w") as file:
            file.create_dataset("images", data=np.zeros((samples, 3, 8, 8), np.uint8), chunks=(10, 3, 8, 8))
            file["labels"] = np.arange(samples) % 10
    (code,) = snippets(DOCS / "mixtures.md")
    exec(compile(code, "mixtures.md", "exec"), {"__name__": "snippet"})
