# SPDX-License-Identifier: Apache-2.0
"""Packages that bring a libhdf5 of their own, in one process with h5feed: every order of import."""

import importlib.util
import itertools
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import h5feed

# Imports the packages named by its arguments, the first of which is the flags of dlopen. Then each writes and reads in turn,
# twice: h5feed reads what h5py, netCDF4 and torch wrote.
SCRIPT = textwrap.dedent("""
    import importlib, os, sys

    sys.setdlopenflags(os.RTLD_NOW | getattr(os, sys.argv[1]))
    loaded = {name: importlib.import_module(name) for name in sys.argv[2:]}
    import numpy as np

    rows = np.arange(4000, dtype=np.float32).reshape(100, 40)


    def with_h5py(name):
        with loaded["h5py"].File(name, "w") as file:
            file.create_dataset("rows", data=rows, chunks=(7, 40), compression="gzip", shuffle=True, fletcher32=True)
        with loaded["h5py"].File(name) as file:
            assert (file["rows"][:] == rows).all()


    def with_netcdf(name):
        with loaded["netCDF4"].Dataset(name, "w") as file:
            for dimension, size in zip("xy", rows.shape):
                file.createDimension(dimension, size)
            file.createVariable("rows", "f4", ("x", "y"), zlib=True, chunksizes=(7, 40))[:] = rows
        with loaded["netCDF4"].Dataset(name) as file:
            assert (file["rows"][:] == rows).all()


    def with_torch(name):
        torch = loaded["torch"]
        torch.save(torch.from_numpy(rows), name)
        assert torch.equal(torch.load(name) @ torch.ones(40), torch.from_numpy(rows.sum(1)))


    def with_h5feed(names):
        for name in names:
            loader = loaded["h5feed"].DataLoader(name, data="rows", batch_size=8, shuffle=True, num_workers=2, seed=1)
            for batch in loader:
                assert (batch.data == rows[batch.indices]).all()


    writers = {"h5py": (with_h5py, "rows.h5"), "netCDF4": (with_netcdf, "rows.nc"), "torch": (with_torch, "rows.pt")}
    for turn in range(2):
        written = []
        for package in loaded:
            if package in writers:
                write, name = writers[package]
                write(name)
                if package != "torch":
                    written.append(name)
            with_h5feed(written)
    print("read by", *loaded)
""")

OWN_LIBRARIES = pathlib.Path(h5feed.__file__).parents[1] / "h5feed.libs"  # only a wheel has it
ORDERS = [*itertools.permutations(("h5py", "h5feed")), *itertools.permutations(("h5py", "netCDF4", "torch", "h5feed"))]


@pytest.mark.parametrize("flags", ["RTLD_LOCAL", "RTLD_GLOBAL"])
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_every_order_of_import(order, flags, tmp_path):
    missing = [name for name in order if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    outcome = subprocess.run([sys.executable, "-c", SCRIPT, flags, *order], cwd=tmp_path, text=True, capture_output=True,
                             timeout=300, check=False)
    before = order[:order.index("h5feed")]
    if flags == "RTLD_GLOBAL" and {"h5py", "netCDF4"} & set(before) and not OWN_LIBRARIES.exists():
        # h5feed has bound to a libhdf5 that was loaded before it.
        assert outcome.returncode == 1
        assert re.search(r"VersionError: libhdf5 [^;]*; import h5feed before other packages that use HDF5", outcome.stderr)
        return
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == f"read by {' '.join(order)}\n"
