# SPDX-License-Identifier: Apache-2.0
"""Sparse rows of a batch."""

from collections.abc import Iterator
from typing import Any

import numpy as np

try:
    from scipy.sparse import csr_matrix as _csr_matrix
except ImportError:
    _csr_matrix = None


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

    def __getitem__(self, row: int) -> "SparseRows":
        """Returns one row, as a matrix of one row."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} is out of range for {len(self)} rows")
        begin, end = (int(offset) for offset in self.offsets[row:row + 2])
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


def as_matrix(values: Any, columns: Any, offsets: Any, shape: tuple[int, int]) -> Any:
    """Returns SciPy's csr_matrix over these arrays, without a copy; SparseRows if SciPy is not installed."""
    if _csr_matrix is None:
        return SparseRows(values, columns, offsets, shape)
    return _csr_matrix((values, columns, offsets), shape=shape, copy=False)
