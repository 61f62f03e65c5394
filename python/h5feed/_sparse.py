# SPDX-License-Identifier: Apache-2.0
"""Sparse rows of a batch."""

import functools
import importlib
import operator
from collections.abc import Iterator
from typing import Any, SupportsIndex

import numpy as np


class SparseRows:
    """Rows of a sparse matrix in compressed form (CSR), where SciPy is not installed.

    Row i has `values[offsets[i]:offsets[i + 1]]` in the columns `columns[offsets[i]:offsets[i + 1]]`.
    """

    def __init__(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int]) -> None:
        self.values = values
        self.columns = columns
        self.offsets = offsets
        self.shape = shape

    @property
    def dtype(self) -> Any:
        """Type of the values."""
        return self.values.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, row: SupportsIndex) -> "SparseRows":
        """Returns one row, as a matrix of one row."""
        if not isinstance(row, SupportsIndex):
            raise TypeError(f"the index of SparseRows is the number of a row, got {type(row).__name__}; use toarray(), or "
                            "install SciPy, for parts of the matrix")
        number = operator.index(row)
        if not 0 <= number < len(self):
            raise IndexError(f"row {number} is out of range for {len(self)} rows")
        begin, end = (int(offset) for offset in self.offsets[number:number + 2])
        offsets = np.array([0, end - begin], dtype=self.offsets.dtype)
        return SparseRows(self.values[begin:end], self.columns[begin:end], offsets, (1, self.shape[1]))

    def __iter__(self) -> "Iterator[SparseRows]":
        return (self[row] for row in range(len(self)))

    def toarray(self) -> "np.ndarray[Any, Any]":
        """Returns the rows with their zeros; values of the same place are added."""
        dense = np.zeros(self.shape, dtype=self.values.dtype)
        rows = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        np.add.at(dense, (rows, self.columns), self.values)
        return dense


@functools.cache
def matrix_of_scipy() -> Any:
    """Returns SciPy's csr_matrix; None if SciPy is not installed. Imported at the first sparse batch."""
    try:
        return importlib.import_module("scipy.sparse").csr_matrix
    except ImportError:
        return None


def as_matrix(values: Any, columns: Any, offsets: Any, shape: tuple[int, int]) -> Any:
    """Returns SciPy's csr_matrix over these arrays, without a copy; SparseRows if SciPy is not installed."""
    csr_matrix = matrix_of_scipy()
    if csr_matrix is None:
        return SparseRows(values, columns, offsets, shape)
    return csr_matrix((values, columns, offsets), shape=shape, copy=False)
