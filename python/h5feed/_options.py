# SPDX-License-Identifier: Apache-2.0
"""Groups of options. Wherever one is taken, a dict of its fields is too."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, Union

import numpy as np

from ._checks import owned
from ._errors import OptionError

PathLike: TypeAlias = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
#: A NumPy dtype, a torch dtype, or a name: "float32", "bfloat16".
DTypeLike: TypeAlias = Any
#: "cpu", "cuda:N", "auto", or what has such a name, as torch.device has.
DeviceLike: TypeAlias = Any
InputLayout: TypeAlias = Literal["automatic", "auto", "nchw", "nhwc", "nhw", "ncdhw", "ndhwc", "ndhw", "none"]
SampleUnit: TypeAlias = Literal["row", "dataset"]
Isolation: TypeAlias = Literal["none", "process"]
Extent: TypeAlias = Union[int, tuple[int, int], tuple[int, int, int]]


@dataclass(frozen=True, kw_only=True)
class Normalize:
    """Values become (x * scale - mean) / std, per channel, computed in float64 and rounded once."""

    #: Factor of every stored value; default: 1/255 for uint8 data, 1 for other types.
    scale: float | None = None
    #: Mean after scaling: one value, or one per channel.
    mean: float | Sequence[float] = ()
    #: Standard deviation after scaling: one value, or one per channel.
    std: float | Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Decoding of variable-length bytes into images."""

    #: Height in pixels to scale to; 0: that of the first image.
    height: int = 0
    #: Width in pixels to scale to; 0: that of the first image.
    width: int = 0
    color: Literal["rgb", "bgr", "gray", "unchanged"] = "rgb"
    #: Path of a table (N,3) of shapes, if the bytes are pixels and not an encoded image.
    shapes: str = ""


@dataclass(frozen=True, kw_only=True)
class TileOptions:
    """Splits images into tiles, or volumes into patches, which are the samples.

    Extents are pixels: one number for height and width, (height, width), or (depth, height, width).
    """

    size: Extent
    #: Excludes `overlap` and `per_image`.
    stride: Extent | None = None
    #: Excludes `stride` and `per_image`.
    overlap: Extent | None = None
    edges: Literal["drop", "pad", "shift"] = "drop"
    #: Tiles of each image at random places, drawn again in each epoch; 0: the tiles of a grid.
    per_image: int = 0
    #: Probability, 0 to 1, that a tile at a random place is centred on a labelled pixel.
    foreground: float = 0.0
    #: Smallest share, 0 to 1, of labelled pixels in a tile of a grid; tiles with less are not samples.
    min_foreground: float = 0.0
    #: Name of the field that holds the labels; empty: the target.
    labels: str = ""
    #: Flips and turns by 90°, drawn alike for data, target and fields that are cut into tiles.
    turns: Literal["none", "flips", "planar", "all"] = "none"


@dataclass(frozen=True, kw_only=True)
class SparseOptions:
    """How the rows of a sparse matrix are delivered: "X" or "layers/NAME" of AnnData, "matrix" of 10x Genomics."""

    #: "csr": SciPy's csr_matrix, or a sparse CSR tensor of torch. "dense": an array (B, columns) with zeros.
    format: Literal["csr", "dense"] = "csr"
    #: Numbers or names of the columns to deliver, in this order, with "dense". Empty: all.
    columns: Sequence[int | str] = ()


@dataclass(frozen=True, kw_only=True)
class FieldOptions:
    """A further dataset of each sample, delivered in `Batch.fields`."""

    name: str
    #: Path of the dataset; empty: `name`.
    data: str = ""
    files: Sequence[PathLike] = ()
    sample: SampleUnit | None = None
    input_layout: InputLayout = "none"
    images: ImageOptions | Mapping[str, Any] | None = None
    collate: Literal["stack", "pad", "ragged"] = "stack"
    dtype: DTypeLike = None
    normalize: Normalize | Mapping[str, Any] | None = None
    #: Rows that a sample takes, as ascending offsets from its anchor: (batch, len(window), ...).
    window: Sequence[int] = ()
    #: What a row of the field belongs to; "episode" and "file": one dataset, or one row, for each.
    per: Literal["row", "episode", "file"] = "row"


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """Runs of rows that the windows of samples do not leave, and the rows (anchors) that windows are placed at.

    If `missing_before` or `missing_after` is not 0, each field with a window brings `batch.fields[NAME + ".valid"]`,
    uint8 (batch, len(window)), 1 for each row that exists.
    """

    #: "datasets": each dataset that `data` matches is an episode. "series": all rows of all files are one, in which each
    #: file continues the one before it. The others read `table`.
    index: Literal["datasets", "lengths", "ends", "ids", "series"] = "datasets"
    #: Path of the table of integers in each file.
    table: str = ""
    #: Path of a list of the episodes that take part, such as "mask/train"; empty: all.
    only: str = ""
    #: An epoch has every anchor, or each episode once at an anchor drawn in each epoch.
    anchors: Literal["every", "one_random"] = "every"
    #: Offsets of a window that may be in front of the episode; -1: any number.
    missing_before: int = 0
    #: Offsets of a window that may be behind the episode; -1: any number.
    missing_after: int = 0
    #: Missing rows repeat the first or last row of the episode, or are zero, before `normalize`.
    fill: Literal["repeat", "zero"] = "repeat"


@dataclass(frozen=True, kw_only=True)
class RandomCrop:
    """A crop at a random position, in pixels; 0: the extent of the image."""

    height: int = 0
    width: int = 0
    #: Pixels of value 0 added on each side before cropping.
    padding: int = 0


@dataclass(frozen=True, kw_only=True)
class RandomResizedCrop:
    """Window of random size, shape and position, scaled to `height` by `width` (0: those of the image).

    As torchvision's: bilinear with antialiasing, in the stored type. `scale` is the window's share of the image's area,
    `ratio` its width divided by its height.
    """

    height: int = 0
    width: int = 0
    min_scale: float = 0.08
    max_scale: float = 1.0
    min_ratio: float = 3 / 4
    max_ratio: float = 4 / 3


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Random crops and flips: a function of (seed, epoch, sample number)."""

    #: Probability, 0 to 1, that a sample is mirrored left to right.
    horizontal_flip: float = 0.0
    #: Probability, 0 to 1, that a sample is mirrored top to bottom.
    vertical_flip: float = 0.0
    random_crop: RandomCrop | Mapping[str, Any] | None = None
    #: Excludes `random_crop`.
    random_resized_crop: RandomResizedCrop | Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Echo:
    """Data echoing: each batch is delivered `factor` times in a row."""

    factor: int = 1


#: Names of h5feed that NumPy does not have, or has for other types.
_OWN_NAMES = frozenset({"bfloat16", "bf16", "f16", "f32", "f64", "i16", "i32", "i64", "u16", "u32", "u64"})


def dtype_name(dtype: DTypeLike) -> str | None:
    """Returns the name of an element type.

    >>> dtype_name(np.float32), dtype_name("bfloat16"), dtype_name(np.dtype("<i8")), dtype_name("<f4")
    ('float32', 'bfloat16', 'int64', 'float32')
    """
    if dtype is None:
        return None
    if isinstance(dtype, str):
        if dtype in ("i8", "u8"):
            wide, narrow = np.dtype(dtype).name, {"i8": "int8", "u8": "uint8"}[dtype]
            raise OptionError(f'the type "{dtype}" is {wide} in NumPy and {narrow} in h5feed; use "{wide}" or "{narrow}"')
        if dtype in _OWN_NAMES:
            return dtype
        try:
            return np.dtype(dtype).name
        except (TypeError, ValueError):
            return dtype  # the core says which there are
    text = str(dtype)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    return np.dtype(dtype).name


def plain_fields(fields: Sequence[FieldOptions | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns a copy of the fields as the core takes them: with names of types and lists of paths."""
    if isinstance(fields, (str, Mapping, FieldOptions)) or not isinstance(fields, Iterable):
        raise TypeError(f"fields: expected a sequence of FieldOptions or dicts, got {type(fields).__name__}")
    plain = []
    for given in fields:
        if not isinstance(given, (Mapping, FieldOptions)):
            raise TypeError(f"fields: expected FieldOptions or dict, got {type(given).__name__}")
        values = given if isinstance(given, Mapping) else vars(given)
        plain.append({name: _PLAIN[name](value) if name in _PLAIN else owned(str(name), value)
                      for name, value in values.items()})
    return plain


def plain_paths(files: PathLike | Sequence[PathLike]) -> list[str]:
    """Returns one path or several as a list of strings.

    >>> plain_paths("a.h5"), plain_paths(["a.h5", "b.h5"])
    (['a.h5'], ['a.h5', 'b.h5'])
    """
    several: Any = [files] if isinstance(files, (str, bytes)) or hasattr(files, "__fspath__") else files
    if not isinstance(several, Iterable) or isinstance(several, Mapping):  # h5py.File is a mapping
        raise TypeError(f"files: expected a path or several, got {type(files).__name__}")
    plain = []
    for file in several:
        if not isinstance(file, (str, bytes)) and not hasattr(file, "__fspath__"):
            raise TypeError(f"files: expected a path or several, got {type(file).__name__} in {type(files).__name__}")
        plain.append(os.fsdecode(file))
    return plain


_PLAIN: dict[str, Callable[[Any], Any]] = {"files": plain_paths, "dtype": dtype_name}
