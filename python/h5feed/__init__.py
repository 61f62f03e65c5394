# SPDX-License-Identifier: Apache-2.0
"""h5feed feeds deep-learning training from HDF5 files.

    loader = h5feed.DataLoader("train.h5", data="images", target="labels", batch_size=256, shuffle="chunk:16",
                               num_workers="auto")
    for data, target in loader:
        ...

h5feed.DataLoader delivers NumPy arrays, h5feed.torch.DataLoader tensors, h5feed.jax.DataLoader JAX arrays.
"""

import importlib as _importlib
import os
import sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

# Loads the core with RTLD_LOCAL even if the application has chosen RTLD_GLOBAL: other packages must not bind to its
# libraries, such as libhdf5.
_flags = sys.getdlopenflags()
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL)
try:
    from . import _core
finally:
    sys.setdlopenflags(_flags)

from ._batch import Batch, Field, SampleTransform
from ._core import DeviceArray, MixedSetPlan, PlanReport, SampleOrigin
from ._dataset import Dataset, MixedSet, SampleReader, TileGrid
from ._errors import (ChunkError, DatasetError, DeviceError, Error, FileError, IsolationError, MissingFileError, OptionError, StateError,
                      TimeoutError, VersionError)
from ._loader import DataLoader, plan
from ._mixture import LabelShare, balanced_weights, label_share, mix
from ._options import (Augment, Echo, EpisodeOptions, FieldOptions, ImageOptions, Normalize, RandomCrop, RandomResizedCrop,
                       SparseOptions, TileOptions)
from ._sparse import SparseRows

if not _TYPE_CHECKING:  # a type checker would take every misspelled name for a module
    def __getattr__(name: str) -> object:
        """Imports h5feed.torch and h5feed.jax when they are first used."""
        if name in ("torch", "jax"):
            return _importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

__version__ = "0.2.0"
__all__ = [
    "Augment", "Batch", "ChunkError", "DataLoader", "Dataset", "DatasetError", "DeviceArray", "DeviceError", "Echo",
    "EpisodeOptions", "Error", "Field", "FieldOptions", "FileError", "ImageOptions", "IsolationError", "LabelShare", "MissingFileError",
    "MixedSet", "MixedSetPlan", "Normalize", "OptionError", "PlanReport", "RandomCrop", "RandomResizedCrop", "SampleOrigin",
    "SampleReader", "SampleTransform", "SparseOptions", "SparseRows", "StateError", "TileGrid", "TileOptions", "TimeoutError", "VersionError",
    "balanced_weights", "label_share", "mix", "plan",
]
