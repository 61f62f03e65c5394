# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: what it exports, its types, and the example programs."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import h5py
import numpy as np
import pytest

import h5feed._core

ROOT = pathlib.Path(__file__).parents[2]


def output_of(*command: object) -> str:
    outcome = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=300, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


@pytest.fixture(scope="module")
def fashion(folder) -> pathlib.Path:
    """A file of the form of Fashion-MNIST with few images: train and test, each with /images and /labels."""
    path = folder / "fashion.h5"
    random = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        for part, samples in (("train", 400), ("test", 100)):
            images = random.integers(0, 256, (samples, 28, 28), dtype=np.uint8)
            file.create_dataset(f"{part}/images", data=images, chunks=(20, 28, 28), compression="gzip")
            file[f"{part}/labels"] = random.integers(0, 10, samples, dtype=np.uint8)
    return path


@pytest.mark.skipif(shutil.which("nm") is None, reason="binutils are not installed")
@pytest.mark.parametrize("module", ["_core", "_gpu"])
def test_other_modules_see_nothing_but_the_init_function(module):
    path = pathlib.Path(h5feed._core.__file__.replace("_core", module))
    if not path.exists():
        pytest.skip("h5feed was built without CUDA")
    lines = output_of("nm", "-D", "--defined-only", path).splitlines()
    assert [line.split()[-1] for line in lines] == [f"PyInit_{module}"]


@pytest.mark.skipif(shutil.which("nm") is None, reason="binutils are not installed")
def test_the_gpu_part_has_no_second_libhdf5_and_the_rest_no_cuda():
    core = pathlib.Path(h5feed._core.__file__)
    assert "cuda" not in output_of("nm", "-D", core)
    gpu = pathlib.Path(str(core).replace("_core", "_gpu"))
    assert not gpu.exists() or "H5" not in output_of("nm", "-D", "--undefined-only", gpu)


def test_all_parts_have_the_version_of_the_package():
    (library,) = re.findall(r"^project\(h5feed VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    images = tomllib.loads((ROOT / "python" / "images" / "pyproject.toml").read_text())["project"]
    assert (package["version"], images["version"]) == (library, library)
    assert package["optional-dependencies"]["images"] == [f"h5feed-images=={library}"]
    assert images["dependencies"] == [f"h5feed=={library}"]


def test_the_types_are_complete(tmp_path):
    pytest.importorskip("mypy")
    absent = {f"{name}.py" for name in ("jax", "torch") if importlib.util.find_spec(name) is None}
    sources = [path for path in (ROOT / "python" / "h5feed").glob("*.py") if path.name not in absent]
    output_of(sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, *sources)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_part_for_a_framework_is_imported_when_it_is_used(name):
    pytest.importorskip(name)
    assert output_of(sys.executable, "-c", f"import h5feed; print(h5feed.{name}.DataLoader.__module__)") == f"h5feed.{name}\n"


def test_a_framework_that_is_not_installed_is_named():
    code = "import sys; sys.modules['torch'] = None; import h5feed; h5feed.torch"
    outcome = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, check=False)
    assert "ModuleNotFoundError: import of torch halted" in outcome.stderr
    with pytest.raises(AttributeError, match="module 'h5feed' has no attribute 'Loader'"):
        h5feed.Loader


def test_the_example_of_resuming(gzip_file):
    shown = output_of(sys.executable, ROOT / "examples/python/resume.py", gzip_file, "--data", "images", "--target", "labels")
    assert "stopped after 64 samples" in shown and "each of 100 samples arrived once" in shown


def test_the_example_that_trains(fashion):
    pytest.importorskip("torch")
    shown = output_of(sys.executable, ROOT / "examples/python/fashion_mnist.py", fashion, "--epochs", 1, "--workers", 1)
    assert "epoch 0: test accuracy" in shown and "samples/s" in shown


def test_the_example_on_two_processes(fashion):
    torch = pytest.importorskip("torch")
    if int(torch.__version__.split(".")[0]) < 2:
        pytest.skip("torchrun of PyTorch 1 starts no process on Python 3.11")
    shown = output_of(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2,
                      ROOT / "examples/python/ranks.py", fashion, "--data", "train/images", "--target", "train/labels")
    assert "400 samples on 2 ranks" in shown
