#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small HDF5 files with the h5py of this interpreter: one property of each varied, then several at random.

    generate.py FOLDER [--files N] [--seed N]

FOLDER gets the files and cases.json, which tells what each is. With N files the first ones, one for each value of each
property and several for each format, are always there: they are the rows of the table in docs/formats.md. Filters of plugins
need hdf5plugin.
"""

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

try:
    import hdf5plugin
except ImportError:
    hdf5plugin = None

EVERY_ROW = (13, 7, 11)
CHUNKS = ("B-tree v1", "single chunk", "implicit", "fixed array", "extensible array", "B-tree v2")


class Case(NamedTuple):
    format: str = "earliest"
    user_block: int = 0
    layout: str = "contiguous"
    filters: str = "none"
    type: str = "<f4"
    shape: tuple[int, ...] = EVERY_ROW
    values: str = "all"
    fill: str = "default"


def works(action: Any) -> bool:
    try:
        action()
    except (ValueError, RuntimeError, KeyError, OSError, TypeError, AttributeError):
        return False
    return True


def formats() -> list[str]:
    """The lower bounds of the format that this h5py knows."""
    def open_one(name: str) -> None:
        h5py.File("none.h5", "w", libver=(name, "latest"), driver="core", backing_store=False).close()

    return [n for n in ("earliest", "v108", "v110", "v112", "v114", "v200") if works(lambda n=n: open_one(n))]


def narrow(base: Any, bits: int, first: int) -> Any:
    made = base.copy()
    made.set_precision(bits)
    made.set_offset(first)
    return made


def brain_float() -> Any:
    made = h5t.IEEE_F32LE.copy()
    made.set_fields(15, 7, 8, 0, 7)
    made.set_size(2)
    made.set_ebias(127)
    return made


def long_double() -> Any:
    return h5t.py_create(np.dtype(np.longdouble))


NUMBERS = ["u1", "i1", *(o + k for k in ("u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8") for o in "<>")]
# Types by name: that of the file, and that of the values in memory.
OTHER_TYPES: dict[str, tuple[Any, str]] = {
    "bool": (lambda: h5t.py_create(np.dtype("?"), logical=True), "?"),
    "enumeration of i2": (lambda: h5t.py_create(h5py.enum_dtype({"a": 0, "b": 1, "c": 70}, "i2"), logical=True), "i2"),
    "complex64": (lambda: h5t.py_create(np.dtype("<c8")), "<c8"),
    "complex128, big-endian": (lambda: h5t.py_create(np.dtype(">c16")), ">c16"),
    "bitfield of 8 bits": (lambda: h5t.STD_B8LE, "u1"),
    "bitfield of 16 bits, big-endian": (lambda: h5t.STD_B16BE, ">u2"),
    "bfloat16": (brain_float, "u2"),
    "12 bits of i2": (lambda: narrow(h5t.STD_I16LE, 12, 2), "i2"),
    "20 bits of u4, big-endian": (lambda: narrow(h5t.STD_U32BE, 20, 0), "u4"),
    "3 bits of u1": (lambda: narrow(h5t.STD_U8LE, 3, 4), "u1"),
    "long double": (long_double, "g"),
    "fixed string": (lambda: h5t.py_create(np.dtype("S5")), "S5"),
    "string of variable length": (lambda: h5t.py_create(h5py.string_dtype(), logical=True), "O"),
    "compound": (lambda: h5t.py_create(np.dtype([("a", "<i4"), ("b", "<f8")])), "<i4,<f8"),
    "array": (lambda: h5t.array_create(h5t.STD_I16LE, (3,)), "3i2"),
    "opaque": (lambda: h5t.create(h5t.OPAQUE, 6), "V6"),
}
PACKED = [name for name in OTHER_TYPES if " bits of " in name]

Filters = list[tuple[int, tuple[int, ...]]]


def own(*ids: int) -> Filters:
    return [(id_, (1,) if id_ == h5z.FILTER_DEFLATE else ()) for id_ in ids]


GZIP, SHUFFLE, FLETCHER32, LZF, NBIT = h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32, 32000, 5
FILTERS: dict[str, Filters] = {
    "none": [], "gzip": own(GZIP), "shuffle, gzip": own(SHUFFLE, GZIP), "fletcher32": own(FLETCHER32),
    "shuffle, gzip, fletcher32": own(SHUFFLE, GZIP, FLETCHER32), "LZF": own(LZF), "fletcher32, LZF": own(FLETCHER32, LZF),
    "scaleoffset": [], "nbit": own(NBIT), "nbit, gzip": own(NBIT, GZIP),
}
if works(lambda: h5p.create(h5p.DATASET_CREATE).set_szip(h5z.SZIP_NN_OPTION_MASK, 8)):
    FILTERS["szip"] = []
PLUGINS = {
    "LZ4": lambda p: p.LZ4(), "zstd": lambda p: p.Zstd(), "bzip2": lambda p: p.BZip2(),
    "bitshuffle, LZ4": lambda p: p.Bitshuffle(cname="lz4"), "bitshuffle, zstd": lambda p: p.Bitshuffle(cname="zstd"),
    "blosc of LZ4": lambda p: p.Blosc(cname="lz4"), "blosc of zstd": lambda p: p.Blosc(cname="zstd", shuffle=2),
    "blosc2 of LZ4": lambda p: p.Blosc2(cname="lz4"), "blosc2 of zstd": lambda p: p.Blosc2(cname="zstd", filters=2),
    "blosc2 of blosclz": lambda p: p.Blosc2(cname="blosclz"), "blosc2 of zlib": lambda p: p.Blosc2(cname="zlib", filters=3),
    "zfp, lossless": lambda p: p.Zfp(reversible=True), "zfp, fixed rate": lambda p: p.Zfp(rate=10),
    "zfp, fixed precision": lambda p: p.Zfp(precision=14), "zfp, fixed accuracy": lambda p: p.Zfp(accuracy=0.01),
    "SZ3": lambda p: p.SZ3(absolute=0.01), "SPERR": lambda p: p.Sperr(rate=8),
}
if hdf5plugin:
    for name, make in PLUGINS.items():
        if works(lambda make=make: make(hdf5plugin)):
            made = make(hdf5plugin)
            FILTERS[name] = [(made.filter_id, tuple(made.filter_options))]

AXES: dict[str, list[Any]] = {
    "layout": ["contiguous", "compact", "external", "virtual, whole rows", "virtual, columns", "virtual, rows in turn",
               "virtual, irregular rows", "virtual, another type", *CHUNKS],
    "filters": list(FILTERS), "type": [*NUMBERS, *OTHER_TYPES],
    "shape": [EVERY_ROW, (13,), (13, 7), (3, 4, 5, 6, 2), (1,), (1, 1, 1), (), (0, 4)],
    "values": ["all", "some", "none"], "fill": ["default", "defined", "undefined"],
    "format": formats(), "user_block": [0, 512, 4096],
}


# Each has a description of its own in some formats.
FORMS = {
    "contiguous": Case(), "chunks": Case(layout="fixed array"), "chunks with gzip": Case(layout="fixed array", filters="gzip"),
    "virtual": Case(layout="virtual, whole rows"), "bool": Case(type="bool"), "complex64": Case(type="complex64"),
}


def is_valid(case: Case) -> bool:
    """Whether the format has such a file, and this h5py writes it."""
    chunked, number = case.layout in CHUNKS, case.type in NUMBERS
    new_index = chunked and case.layout != "B-tree v1"
    elements = int(np.prod(case.shape))
    if chunked and new_index == (case.format in ("earliest", "v108")):
        return False
    if not chunked and (case.filters != "none" or case.values == "some"):
        return False
    if case.filters != "none" and (case.layout == "implicit" or case.type in ("string of variable length", "long double")):
        return False
    if case.shape == () and (chunked or "virtual" in case.layout):
        return False
    if elements == 0 and case.layout != "contiguous" or len(case.shape) < 2 and case.layout in ("B-tree v2", "virtual, columns"):
        return False
    if case.layout == "virtual, rows in turn" and case.shape[0] < 2:
        return False
    if case.layout == "virtual, irregular rows" and case.shape[0] < 4:
        return False
    if case.layout != "contiguous" and case.type == "string of variable length":
        return False
    if "virtual" in case.layout and (not number or case.values != "all" or case.fill != "default"):
        return False
    if case.layout == "external" and case.values == "none":
        return False
    if case.fill != "default" and (not number or case.fill == "undefined" and case.values != "all"):
        return False
    if "nbit" in case.filters:
        return case.type in PACKED or number
    if case.filters == "scaleoffset":
        return number and case.type[1:] not in ("f2",)
    if case.filters == "szip":
        return number and elements >= 64
    if "zfp" in case.filters:
        floats = case.type in ("<f4", "<f8")
        return floats or case.type in ("<i4", "<i8") and "accuracy" not in case.filters
    if case.filters in ("SZ3", "SPERR"):
        return case.type in ("<f4", "<f8") and case.shape == EVERY_ROW and case.layout != "single chunk"
    return not hdf5plugin or case.filters not in PLUGINS or number


def values_of(case: Case, rng: np.random.Generator) -> np.ndarray:
    memory = np.dtype(OTHER_TYPES[case.type][1] if case.type in OTHER_TYPES else case.type)
    shape, count = case.shape, int(np.prod(case.shape))
    if case.type in PACKED:
        bits, signed = int(case.type.split()[0]), memory.kind == "i"
        low = -(1 << bits - 1) if signed else 0
        return rng.integers(low, low + (1 << bits), shape).astype(memory)
    if case.type == "enumeration of i2":
        return rng.choice(np.array([0, 1, 70], "i2"), shape)
    if memory.kind == "O":
        return np.array([b"text %d" % i for i in range(count)], object).reshape(shape)
    if memory.kind in "fc":
        return (1000 * np.sin(np.arange(count) / 7)).reshape(shape).astype(memory)
    if memory.kind == "b":
        return rng.integers(0, 2, shape).astype(memory)
    if memory.kind in "iu" and memory.subdtype is None:
        # Smooth, with jumps: lossy filters of integers overflow at their limits.
        spread = min(np.iinfo(memory).max, 1 << 20)
        return ((np.arange(count) * 37 % 1009).reshape(shape) % spread).astype(memory)
    raw = rng.integers(0, 100, (*shape, memory.itemsize), "u1")
    if memory.subdtype is None:
        return raw.view(memory).reshape(shape)
    return raw.view(memory.base).reshape(*shape, *memory.shape)


def property_list(case: Case, stored: Any, folder: Path, name: str) -> Any:
    plist = h5p.create(h5p.DATASET_CREATE)
    if case.layout == "compact":
        plist.set_layout(h5d.COMPACT)
    if case.layout == "external":
        plist.set_external(str(folder / f"{name}.raw").encode(), 0, h5s.UNLIMITED)
    if case.layout in CHUNKS:
        chunk = tuple(min(n, c) for n, c in zip(case.shape, (4, 3, 5, 4, 2), strict=False))
        plist.set_chunk(case.shape if case.layout == "single chunk" else chunk)
    if case.layout == "implicit":
        plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    if case.fill == "defined":
        plist.set_fill_value(np.array(3, case.type))
    if case.fill == "undefined":
        plist.set_fill_time(h5d.FILL_TIME_NEVER)
    if case.filters == "scaleoffset":
        floats = case.type[1] == "f"
        plist.set_scaleoffset(h5z.SO_FLOAT_DSCALE if floats else h5z.SO_INT, 2 if floats else 0)
    if case.filters == "szip":
        plist.set_szip(h5z.SZIP_NN_OPTION_MASK, 8)
    for number, options in FILTERS[case.filters]:
        plist.set_filter(number, h5z.FLAG_OPTIONAL, options)
    return plist


def write_irregular(file: h5py.File, values: np.ndarray) -> None:
    """The first row and those from the third on by one selection, which is no regular one; the second by another."""
    space = h5s.create_simple(values.shape)
    plist = h5p.create(h5p.DATASET_CREATE)
    for parts in (((0, 1), (2, values.shape[0] - 2)), ((1, 1),)):
        space.select_none()
        for begin, rows in parts:
            space.select_hyperslab((begin,) + (0,) * (values.ndim - 1), (rows, *values.shape[1:]), op=h5s.SELECT_OR)
        plist.set_virtual(space, b".", b"source", space)
    space.select_all()
    h5d.create(file.id, b"x", h5t.py_create(values.dtype), space, plist)


def another_type(dtype: np.dtype) -> np.dtype:
    """One of the same kind that holds all of its values."""
    wide = np.dtype(f"<{dtype.kind}8")
    return wide.newbyteorder() if wide == dtype else wide


def write_virtual(file: h5py.File, case: Case, values: np.ndarray) -> None:
    stored = another_type(values.dtype) if case.layout == "virtual, another type" else values.dtype
    file.create_dataset("source", data=values.astype(stored), chunks=True)
    if case.layout == "virtual, irregular rows":
        return write_irregular(file, values)
    layout = h5py.VirtualLayout(case.shape, values.dtype)
    source = h5py.VirtualSource(".", "source", case.shape)
    if case.layout == "virtual, columns":
        layout[:, : case.shape[1] // 2] = source[:, : case.shape[1] // 2]
    elif case.layout == "virtual, rows in turn":
        half = (case.shape[0] + 1) // 2
        layout[::2] = source[:half]
        layout[1::2] = source[half:]
    else:
        layout[...] = source
    file.create_virtual_dataset("x", layout)
    return None


def write(path: Path, case: Case, seed: int) -> None:
    values = values_of(case, np.random.default_rng(seed))
    with h5py.File(path, "w", libver=(case.format, "latest"), userblock_size=case.user_block) as file:
        if "virtual" in case.layout:
            return write_virtual(file, case, values)
        stored = OTHER_TYPES[case.type][0]() if case.type in OTHER_TYPES else h5t.py_create(np.dtype(case.type))
        most: list[int] = list(case.shape)
        if case.layout == "extensible array":
            most[seed % len(most)] = h5s.UNLIMITED
        elif case.layout == "B-tree v2":
            most[0] = most[1] = h5s.UNLIMITED
        space = h5s.create_simple(case.shape, tuple(most)) if case.shape else h5s.create(h5s.SCALAR)
        plist = property_list(case, stored, path.parent, path.stem)
        dataset = h5d.create(file.id, b"x", stored, space, plist)
        if case.values == "none" or values.size == 0:
            return None
        memory = stored
        if case.type in PACKED:
            memory = h5t.py_create(values.dtype)
        if case.values == "some":
            rows = max(1, case.shape[0] // 2)
            space.select_hyperslab((0,) * len(case.shape), (rows, *case.shape[1:]))
            box = h5s.create_simple((rows, *case.shape[1:]))
            dataset.write(box, space, np.ascontiguousarray(values[:rows]), memory)
        else:
            dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values), memory)
    return None


def adapted(case: Case) -> Case | None:
    """A valid case with most of the given properties: of the storage that filters and indexes need."""
    for layout in (case.layout, "fixed array", "B-tree v1"):
        for form in (case.format, "v110" if "v110" in AXES["format"] else "latest", "earliest"):
            for kind in (case.type, PACKED[0]):
                made = case._replace(layout=layout, format=form, type=kind)
                if is_valid(made):
                    return made
    return None


def forms_of(axis: str, choice: Any) -> list[tuple[str, Case]]:
    """The names of the rows of a property's value, and what they vary: a format is tried in several forms."""
    if axis != "format":
        return [(str(choice), Case())]
    old = choice in ("earliest", "v108")
    return [(f"{choice}, {name}", form._replace(layout="B-tree v1") if old and form.layout in CHUNKS else form)
            for name, form in FORMS.items()]


def cases(files: int, seed: int) -> list[tuple[str, Case]]:
    """The row of the table that a file stands for, empty for most, and what it is."""
    made: dict[Case, str] = {}
    rows: list[tuple[str, Case]] = []
    for axis, choices in AXES.items():
        for choice in choices:
            for name, form in forms_of(axis, choice):
                case = adapted(form._replace(**{axis: choice}))
                if case is not None:
                    rows.append((f"{axis}/{name}", case))
                    made[case] = axis
    draw = random.Random(seed)
    while len(rows) < files:
        case = Case(**{axis: draw.choice(choices) for axis, choices in AXES.items()})
        if case not in made and is_valid(case):
            made[case] = ""
            rows.append(("", case))
    return rows


def generate(folder: Path, files: int, seed: int) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for number, (row, case) in enumerate(cases(files, seed)):
        path = folder / f"{number:04d}.h5"
        try:
            write(path, case, number)
        except Exception as error:  # what this libhdf5 refuses to write is a flaw of `is_valid`
            raise RuntimeError(f"{path}: {case}") from error
        index.append({"file": path.name, "row": row, **case._asdict()})
    (folder / "cases.json").write_text(json.dumps(index, indent=1))
    return len(index)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    written = generate(arguments.folder, arguments.files, arguments.seed)
    print(f"{written} files by h5py {h5py.version.version} with HDF5 {h5py.version.hdf5_version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
