# SPDX-License-Identifier: Apache-2.0
"""Rows of sparse matrices equal the slices of indptr, indices and data that h5py gives."""

import pathlib
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import h5feed
from h5feed import _sparse


def write_cells(path: pathlib.Path, rows: int, columns: int, chunk: int | None = None, seed: int = 0,
                dtype: str = "float32") -> "np.ndarray[Any, Any]":
    """Writes "X" as AnnData does; returns it with zeros."""
    random = np.random.default_rng(seed)
    dense = np.where(random.random((rows, columns)) < 0.2, random.integers(1, 100, (rows, columns)), 0).astype(dtype)
    dense[::4] = 0
    row, column = np.nonzero(dense)
    storage = {} if chunk is None else {"chunks": (chunk,), "compression": "gzip", "maxshape": (None,)}
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"] = "csr_matrix"
        group.attrs["shape"] = np.array(dense.shape)
        group.create_dataset("data", data=dense[row, column], **storage)
        group.create_dataset("indices", data=column.astype(np.int32), **storage)
        group.create_dataset("indptr", data=np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype(np.int64))
        names = file.create_group("var")
        names.attrs["_index"] = "_index"
        names.create_dataset("_index", data=[f"gene{i}" for i in range(columns)])
        kinds = file.create_group("obs/kind")
        kinds.attrs["encoding-type"] = "categorical"
        kinds.create_dataset("codes", data=(np.arange(rows) % 3 - 1).astype(np.int8))
        kinds.create_dataset("categories", data=["B", "T"])
    return dense


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 60), columns=st.integers(1, 40), chunk=st.sampled_from([None, 1, 7, 1000]),
       workers=st.sampled_from([0, 1, 2, 4]), shuffle=st.sampled_from([False, True, "chunk:1"]),
       batch=st.integers(1, 20), cache=st.sampled_from([0, 10_000, None]),
       dtype=st.sampled_from(["float32", "float64", "int32", "uint16"]))
def test_every_row_is_delivered_once(tmp_path: pathlib.Path, rows: int, columns: int, chunk: int | None, workers: int,
                                     shuffle: Any, batch: int, cache: int | None, dtype: str) -> None:
    dense = write_cells(tmp_path / "cells.h5ad", rows, columns, chunk, seed=rows, dtype=dtype)
    dataset = h5feed.Dataset.open(tmp_path / "cells.h5ad", data="X", target="obs/kind")
    seen: "list[int]" = []
    for data, target in (loader := h5feed.DataLoader(dataset, batch_size=batch, num_workers=workers, shuffle=shuffle,
                                                     cache_bytes=cache, seed=1)):
        del data, target
    for one in loader:
        np.testing.assert_array_equal(one.data.toarray(), dense[one.indices])
        np.testing.assert_array_equal(one.target, one.indices % 3 - 1)
        assert one.data.dtype == dtype
        seen += one.indices.tolist()
    assert sorted(seen) == list(range(rows))
    assert dataset.categories() == ["B", "T"]


def test_chosen_columns_are_dense(tmp_path: pathlib.Path) -> None:
    dense = write_cells(tmp_path / "cells.h5ad", 30, 20, 50)
    chosen = h5feed.SparseOptions(format="dense", columns=["gene3", 19, "gene0"])
    dataset = h5feed.Dataset.open(tmp_path / "cells.h5ad", data="X", sparse=chosen)
    np.testing.assert_array_equal(dataset[:].data, dense[:, [3, 19, 0]])
    everything = h5feed.Dataset.open(tmp_path / "cells.h5ad", data="X", sparse={"format": "dense"})
    np.testing.assert_array_equal(everything[4:9].data, dense[4:9])
    with pytest.raises(h5feed.OptionError, match="has no column \"gene20\""):
        h5feed.Dataset.open(tmp_path / "cells.h5ad", data="X", sparse={"format": "dense", "columns": ["gene20"]})
    with pytest.raises(TypeError, match="a sequence of int or str"):
        h5feed.Dataset.open(tmp_path / "cells.h5ad", data="X", sparse={"columns": "gene1"})


def test_without_scipy_rows_have_values_columns_and_offsets(tmp_path: pathlib.Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    dense = write_cells(tmp_path / "cells.h5ad", 9, 20)
    monkeypatch.setattr(_sparse, "_csr_matrix", None)
    dataset = h5feed.Dataset.open(tmp_path / "cells.h5ad", data="X")
    rows = dataset[:].data
    assert isinstance(rows, h5feed.SparseRows)
    np.testing.assert_array_equal(rows.toarray(), dense)
    np.testing.assert_array_equal(rows[5].toarray(), dense[5:6])
    np.testing.assert_array_equal(dataset[6][0].toarray(), dense[6:7])
    assert [row.shape for row in rows] == [(1, 20)] * 9
    with pytest.raises(IndexError):
        rows[9]


def test_torch_delivers_sparse_tensors(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    import h5feed.torch
    dense = write_cells(tmp_path / "cells.h5ad", 30, 20, 50)
    dataset = h5feed.Dataset.open(tmp_path / "cells.h5ad", data="X")
    for batch in h5feed.torch.DataLoader(dataset, batch_size=8, shuffle=True, num_workers=1):
        assert batch.data.layout == torch.sparse_csr
        np.testing.assert_array_equal(batch.data.to_dense().numpy(), dense[batch.indices])
    weights = torch.ones(20, 3)
    assert (batch.data @ weights).shape == (len(batch.indices), 3)


def test_matrices_that_cannot_be_read_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cells.h5ad"
    write_cells(path, 30, 20, 50)
    with h5py.File(path, "r+") as file:
        file["X"].attrs["encoding-type"] = "csc_matrix"
    with pytest.raises(h5feed.DatasetError, match=r"a\.X = a\.X\.tocsr\(\)"):
        h5feed.Dataset.open(path, data="X")
    with h5py.File(path, "r+") as file:
        file["X"].attrs["encoding-type"] = "csr_matrix"
        file["X/indptr"][3] = 10**6
    with pytest.raises(h5feed.DatasetError, match="falls from 1000000"):
        h5feed.Dataset.open(path, data="X")
