# SPDX-License-Identifier: Apache-2.0
"""Files of every layout, filter, type and index by h5py, each read in a process of its own; and the table that says how.

The whole corpus, also by an old h5py, is left to tools/scripts/long.sh.
"""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "conformance" / "corpus"


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(CORPUS / script), *map(str, arguments)], capture_output=True, text=True,
                          timeout=600)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    made = run("generate.py", folder, "--files", 200)
    assert made.returncode == 0, made.stderr
    return folder


def test_every_dataset_is_equal_or_refused_by_name(corpus: Path) -> None:
    result = run("compare.py", corpus, "--timeout", 120)
    assert result.returncode == 0, result.stdout + result.stderr
    last = result.stdout.splitlines()[-1]
    assert last.startswith("200 files: "), last
    assert int(re.search(r"(\d+) equal", last).group(1)) >= 100, last


def test_the_table_of_the_docs_is_what_was_found(corpus: Path) -> None:
    result = run("table.py", corpus)
    assert result.returncode == 0, result.stdout + result.stderr


def test_files_are_known_by_their_signature_whatever_their_names(tmp_path: Path) -> None:
    for name, block in {"a.nwb": 0, "b": 0, "sub/c.H5": 512, "d.loom": 2048}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with h5py.File(path, "w", userblock_size=block) as file:
            file["x"] = np.arange(6, dtype="u1").reshape(3, 2)
    (tmp_path / "notes.txt").write_text("no HDF5 file")
    (tmp_path / "empty").touch()
    lines = run("compare.py", tmp_path).stdout.splitlines()
    assert lines[-2:] == ["left out, no HDF5 files: 2", "4 files: 4 equal"]


def test_refusals_with_the_same_reason_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CORPUS))
    compare = importlib.import_module("compare")

    def reason(dataset: str, message: str) -> str:
        return compare.reason_of(compare.Verdict("/tmp/0001.h5", dataset, "refused", message=message))

    assert (reason("x", "/tmp/0001.h5:/x: 12 texts exceed /g/x and /x2; export it by h5py or libhdf5 1.10")
            == "FILE:/DATASET: N texts exceed /g/x and /xN; export it by h5py or libhdf5 N.N")
    assert reason("g/x", "/tmp/0001.h5:/g/x: no texts") == "FILE:/DATASET: no texts"
    assert reason("", "/tmp/0001.h5: libhdf5 cannot open it") == "FILE: libhdf5 cannot open it"


def test_a_crash_a_hang_and_a_wrong_value_are_told(tmp_path: Path) -> None:
    made = run("generate.py", tmp_path, "--files", 1)
    assert made.returncode == 0, made.stderr
    script = tmp_path / "spoiled.py"
    script.write_text(f"""
import os, sys, time
sys.path.insert(0, {str(CORPUS)!r})
import compare
right = compare.ours
def ours(file, name):
    number = int(os.path.basename(file)[:4])
    if number == 0: os.kill(os.getpid(), 11)
    if number == 1: time.sleep(60)
    values, way = right(file, name)
    return (values + 1, way) if number == 2 else (values, way)
compare.ours = ours
sys.exit(compare.main())
""")
    names = ["0000.h5", "0001.h5", "0002.h5", "0003.h5"]
    result = subprocess.run([sys.executable, str(script), *(str(tmp_path / name) for name in names), "--timeout", "10",
                             "--jobs", "4"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 1, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert sum(line.startswith(f"crashed: {tmp_path / '0000.h5'}:/x: SIGSEGV") for line in lines) == 1, lines
    assert sum(line.startswith(f"hung: {tmp_path / '0001.h5'}:/x") for line in lines) == 1, lines
    assert sum(line.startswith(f"wrong: {tmp_path / '0002.h5'}:/x") for line in lines) == 1, lines
    # The last file has a virtual dataset and its source.
    assert lines[-1] == "4 files: 1 crashed, 2 equal, 1 hung, 1 wrong"


def test_a_process_that_ends_over_one_dataset_costs_that_one_only(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "several.h5", "w") as file:
        for name in ("a", "b", "c", "d"):
            file[name] = np.arange(3)
    script = tmp_path / "spoiled.py"
    script.write_text(f"""
import os, sys
sys.path.insert(0, {str(CORPUS)!r})
import compare
right, read = compare.ours, compare.oracle
def ours(file, name):
    return os.abort() if name == "b" else right(file, name)
def oracle(dataset):
    return os.abort() if dataset.name == "/c" else read(dataset)
compare.ours, compare.oracle = ours, oracle
sys.exit(compare.main())
""")
    result = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=300)
    place = tmp_path / "several.h5"
    assert result.stdout.splitlines() == [
        f"crashed: {place}:/b: SIGABRT", f"unreadable: {place}:/c: h5py ended its process",
        "left out, no HDF5 files: 1", "1 files: 1 crashed, 2 equal, 1 unreadable"], result.stdout + result.stderr
    assert result.returncode == 1
