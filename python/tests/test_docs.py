# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings and on the documentation page run."""

import doctest
import importlib
import pathlib
import re

import h5py
import numpy as np
import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.parametrize("module", ["_errors", "_options", "_samplers", "_dataset", "_loader", "_batch"])
def test_docstrings(module):
    assert doctest.testmod(importlib.import_module(f"h5feed.{module}")).failed == 0


def snippets() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


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
