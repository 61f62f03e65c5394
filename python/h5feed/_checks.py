# SPDX-License-Identifier: Apache-2.0
"""Checks and copies of arguments, before the core gets them."""

import operator
from collections.abc import Iterable, Mapping, Set
from dataclasses import is_dataclass
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np

from ._errors import OptionError

# The options that are sequences, or one value or several.
_SEQUENCES = frozenset({"channels", "columns", "mean", "overlap", "size", "std", "stride", "target_window", "window"})


def as_numbers(samples: Any) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Returns sample numbers as the core takes them: a contiguous array of int64, which may be the caller's."""
    array = np.asarray(samples)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim > 1:
        raise TypeError(f"sample numbers must be a flat sequence, got an array of shape {array.shape}")
    if array.dtype.kind in "fO":  # as NumPy takes numbers beyond 64 bits
        exact = np.asarray(samples, dtype=object)
        if not all(isinstance(number, int) for number in exact.flat):
            raise TypeError(f"sample numbers must be integers, got {array.dtype}")
        array = exact
    if array.dtype.kind not in "iuO":
        raise TypeError(f"sample numbers must be integers, got {array.dtype}")
    if array.dtype.kind != "i":
        for number in array[(array < -2**63) | (array >= 2**63)]:  # beyond what the core counts with
            raise IndexError(f"sample {number} is out of range")
    return np.ascontiguousarray(array, dtype=np.int64).reshape(-1)


def as_count(name: str, value: Any) -> int:
    """Returns an argument as a number from 0 to 2^64 - 1."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name}: expected int, got {type(value).__name__}")
    number = operator.index(value)
    if not 0 <= number < 2**64:
        raise OptionError(f"{name} is {number}; use a number from 0 to 2^64 - 1")
    return number


def as_bool(name: str, value: Any) -> bool:
    """Returns an argument that is a bool, of Python or NumPy."""
    if not isinstance(value, (bool, np.bool_)):
        raise OptionError(f"{name}: expected bool, got {type(value).__name__}; use True or False")
    return bool(value)


def as_shuffle(value: Any) -> bool | str:
    """Returns the argument `shuffle`, of which None stands for False, as PyTorch has it."""
    if isinstance(value, str):
        return value
    if value is None:
        return False
    if not isinstance(value, (bool, np.bool_)):
        raise OptionError(f'shuffle: expected bool or str, got {type(value).__name__}; use True, False or "chunk:K"')
    return bool(value)


def as_float(name: str, value: Any) -> float | None:
    """Returns an argument that is a number, or None."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (SupportsFloat, SupportsIndex)):
        raise TypeError(f"{name}: expected float, got {type(value).__name__}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):  # as of an array of several numbers
        raise TypeError(f"{name}: expected float, got {type(value).__name__}") from None


def owned(name: str, value: Any) -> Any:
    """Returns a copy of an option that shares nothing with the caller: groups become dicts, arrays and iterators lists.

    What is neither is returned as it is, for the core to refuse.

    >>> owned("tiles", {"size": np.array([4, 4]), "edges": "pad"})
    {'size': [4, 4], 'edges': 'pad'}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if name in _SEQUENCES and isinstance(value, (bytes, bytearray, Set, Mapping)):
        raise TypeError(f"{name}: expected a sequence, got {type(value).__name__}")
    if isinstance(value, Mapping):
        return {key: owned(str(key), part) for key, part in value.items()}
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()  # a number of NumPy or an array without dimensions, which can be changed
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable) and not hasattr(value, "__getitem__"):
        return value
    parts = [owned(name, part) for part in value]
    return tuple(parts) if isinstance(value, tuple) else parts
