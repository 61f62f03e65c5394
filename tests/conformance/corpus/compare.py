#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every dataset of every HDF5 file in a folder with h5feed and with h5py, and compares the values bit by bit.

    compare.py FOLDER ... [--timeout SECONDS] [--jobs N] [--json FILE]

Each file is read in a process of its own, which may die or hang; another one goes on behind the dataset over which it
did. A dataset is `equal`; `refused`, by a message that names file or dataset; `wrong`: other values, an error while h5py
reads it, or a message without a name; `unreadable` by h5py, over which that may crash as well; `crashed` or `hung` by
h5feed. Prints each dataset that is neither equal nor refused, the reasons of refusals with how often
they occur, and how many there are of each kind. Exits with 1 if any is wrong, crashed or hung.

Needs the Python package h5feed, h5py and NumPy, and for filters of plugins hdf5plugin.
"""

import argparse
import collections
import contextlib
import itertools
import json
import logging
import os
import re
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

import h5feed

with contextlib.suppress(ImportError):
    import hdf5plugin  # noqa: F401

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Of files that are compared even if their signature is damaged.
SUFFIXES = {".h5", ".hdf5", ".hdf", ".he5", ".nc", ".h5ad", ".mat", ".nx", ".nxs", ".cxi"}
BAD = ("wrong", "crashed", "hung")


class Verdict(NamedTuple):
    """What became of one dataset; of the whole file if `dataset` is empty."""

    file: str
    dataset: str
    kind: str  # equal, refused, wrong, unreadable, crashed, hung
    path: str = ""  # of what was read: direct, or libhdf5
    message: str = ""


def oracle(dataset: h5py.Dataset) -> np.ndarray:
    """The values by h5py, as h5feed delivers their type."""
    stored = dataset.id.get_type()
    if stored.get_class() == h5py.h5t.BITFIELD:
        values = np.empty(dataset.shape, f"u{stored.get_size()}")
        memory = getattr(h5py.h5t, f"NATIVE_B{8 * stored.get_size()}")
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, memory)
        return values
    values = dataset[()] if dataset.shape == () else dataset[...]
    values = np.asarray(values)
    if values.dtype.kind == "b":
        return values.view("u1")
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.dtype.kind == "c":
        values = values.view(values.real.dtype).reshape(*values.shape, 2)
    return values


def ours(file: str, name: str) -> tuple[np.ndarray, str]:
    """The values by h5feed, and the path that they took."""
    dataset = h5feed.Dataset.open(re.sub(r"([*?\[])", r"[\1]", file), data=name, input_layout="none")
    reader = h5feed.SampleReader(dataset)
    try:
        values = np.array(reader.read(np.arange(len(dataset))).data)
    except h5feed.DatasetError as error:
        if "NumPy has no bfloat16" not in str(error):
            raise
        loader = h5feed.DataLoader(dataset, batch_size=len(dataset), output_dtype="float32", num_workers=0)
        values = np.array(next(iter(loader)).data)
    return values, "libhdf5" if reader.stats()["fallback_chunks"] else "direct"


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same values; those of floats the same bits, or of another width the same numbers."""
    if a.shape != b.shape:
        return False
    if a.dtype == b.dtype:
        return a.tobytes() == b.tobytes() or (a.dtype.kind == "f" and np.array_equal(a, b, equal_nan=True))
    return a.dtype.kind == b.dtype.kind == "f" and np.array_equal(a.astype("f8"), b.astype("f8"), equal_nan=True)


def judge(path: Path, file: h5py.File, name: str, put: Callable[[Any], None]) -> Verdict:
    """What becomes of a dataset; says before each library is asked which one it is."""
    put([name, "h5py"])
    try:
        expected, problem = oracle(file[os.fsencode(name)]), ""
    except Exception as error:  # noqa: BLE001 - whatever h5py has against it
        expected, problem = None, f"{type(error).__name__}: {error}"
    return judge_ours(path, name, expected, problem, put)


def judge_ours(path: Path, name: str, expected: np.ndarray | None, problem: str, put: Callable[[Any], None]) -> Verdict:
    """What becomes of a dataset of which h5py has these values, or this problem."""

    def verdict(kind: str, way: str = "", message: str = "") -> Verdict:
        return Verdict(str(path), name, kind, way, message)

    put([name, "h5feed"])
    try:
        values, way = ours(str(path), name)
    except h5feed.Error as error:
        message = str(error)
        if isinstance(error, h5feed.ChunkError) and not problem:
            return verdict("wrong", message=message)
        named = path.name in message or name.lstrip("/") in message
        return verdict("refused" if named else "wrong", message=message)
    if expected is None:
        return verdict("unreadable", way, problem)
    if same(values, expected):
        return verdict("equal", way)
    return verdict("wrong", way, f"{values.dtype} {values.shape} differs from h5py's {expected.dtype} {expected.shape}")


def datasets_of(file: h5py.File) -> list[str]:
    """The datasets, each once: links of other names are not followed, nor those to other files."""
    names: list[str] = []
    file.visititems(lambda name, thing: names.append(os.fsdecode(name)) if isinstance(thing, h5py.Dataset) else None)
    return names


def read_file(path: Path, done: Mapping[str, str], out: int) -> None:
    """Writes lines of JSON: for each dataset of a file who is about to read it, and what became of it.

    `done` names the datasets over which a process has crashed or hung, and the library that did.
    """

    def put(thing: Any) -> None:
        os.write(out, (json.dumps(thing) + "\n").encode())

    problem = "h5py ended its process"
    try:
        if "" in done:
            raise RuntimeError(problem)
        put(["", "h5py"])
        file = h5py.File(path, "r", locking=False)
        names = datasets_of(file)
    except Exception as error:  # noqa: BLE001 - whatever h5py has against it
        put(["", "h5feed"])
        try:
            h5feed.Dataset.open(str(path))
        except h5feed.Error as refusal:
            put(Verdict(str(path), "", "refused", message=str(refusal)))
        else:
            put(Verdict(str(path), "", "unreadable", message=f"{type(error).__name__}: {error}"))
        return
    with file:
        for name in names:
            if name not in done:
                put(judge(path, file, name, put))
            elif done[name] == "h5py":
                put(judge_ours(path, name, None, problem, put))


class Running(NamedTuple):
    path: Path
    done: dict[str, str]
    pid: int
    end: float
    output: list[bytes]


def start(path: Path, done: dict[str, str], timeout: float, running: dict[int, Running]) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            read_file(path, done, writing)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    running[reading] = Running(path, done, pid, time.monotonic() + timeout, [])


def verdicts_of(job: Running, status: int, hung: bool) -> Iterator[Verdict]:
    """What a process said; adds to `job.done` the dataset over which it ended, and all before it."""
    name, library = "", ""
    for line in b"".join(job.output).decode().splitlines():
        thing = json.loads(line)
        if len(thing) == 2:
            name, library = thing
        else:
            job.done[thing[1]] = "told"
            name = library = ""
            yield Verdict(*thing)
    if not hung and status == 0:
        return
    job.done[name] = library
    how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "an exception"
    if library != "h5py":
        yield Verdict(str(job.path), name, "hung" if hung else "crashed", message="" if hung else how)


def compare(paths: Iterable[Path], *, timeout: float = 60, jobs: int = 1) -> Iterator[Verdict]:
    """Compares files, `jobs` at a time, and yields what became of each of their datasets."""
    logging.getLogger("h5feed").setLevel(logging.ERROR)
    waiting, running = iter(paths), dict[int, Running]()
    unfinished: list[Running] = []
    while True:
        while unfinished and len(running) < jobs:
            job = unfinished.pop()
            start(job.path, job.done, timeout, running)
        for path in itertools.islice(waiting, jobs - len(running)):
            start(path, {}, timeout, running)
        if not running:
            return
        begin = time.monotonic()
        wait = max(0.0, min(job.end for job in running.values()) - begin)
        ready = select.select(list(running), [], [], wait)[0]
        # A machine that was stopped meanwhile stopped the others as well.
        if (late := time.monotonic() - begin - wait) > 1:
            running = {pipe: job._replace(end=job.end + late) for pipe, job in running.items()}
        for pipe in list(running):
            job = running[pipe]
            hung = time.monotonic() > job.end
            if pipe in ready and (piece := os.read(pipe, 1 << 16)):
                job.output.append(piece)
                continue
            if pipe not in ready and not hung:
                continue
            if hung:
                os.kill(job.pid, signal.SIGKILL)
            os.close(pipe)
            status = os.waitpid(job.pid, 0)[1]
            del running[pipe]
            yield from verdicts_of(job, status, hung)
            if (hung or status != 0) and job.done.get("") in (None, "h5py"):
                unfinished.append(job)


def is_hdf5(path: Path) -> bool:
    """Whether the signature is at the beginning, or behind a user block of 512 bytes or twice as many, and so on."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        size, place = path.stat().st_size, 0
        while place + len(SIGNATURE) <= size:
            file.seek(place)
            if file.read(len(SIGNATURE)) == SIGNATURE:
                return True
            place = 2 * place or 512
    return False


def files_in(folders: Iterable[str]) -> tuple[list[Path], int]:
    """The files to compare, and how many others there are, which are no HDF5 files."""
    found: list[Path] = []
    others = 0
    for folder in map(Path, folders):
        if folder.is_file():
            found.append(folder)
            continue
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        chosen = [path for path in files if path.suffix.lower() in SUFFIXES or is_hdf5(path)]
        found += chosen
        others += len(files) - len(chosen)
    return found, others


def reason_of(verdict: Verdict) -> str:
    """A refusal without what differs from file to file."""
    text = verdict.message.replace(verdict.file, "FILE")
    if verdict.dataset:
        # Only as a whole name: it may be as short as a letter of the reason.
        text = re.sub(rf"(?<!\w)/{re.escape(verdict.dataset)}(?![\w/])", "/DATASET", text)
    return re.sub(r"(?<!hdf)(?<!HDF)(?<!\bh)\d+", "N", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("folder", nargs="+", help="folders of files, or files")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one file (default: 60)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="files at a time")
    parser.add_argument("--json", type=Path, help="writes each dataset's result to this file, one a line")
    arguments = parser.parse_args()
    files, others = files_in(arguments.folder)
    kinds, reasons = collections.Counter[str](), collections.Counter[str]()
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(arguments.json.open("w")) if arguments.json else None
        for verdict in compare(files, timeout=arguments.timeout, jobs=arguments.jobs):
            kinds[verdict.kind] += 1
            if verdict.kind == "refused":
                reasons[reason_of(verdict)] += 1
            elif verdict.kind != "equal":
                print(f"{verdict.kind}: {verdict.file}:/{verdict.dataset}: {verdict.message}", flush=True)
            if report:
                report.write(json.dumps(verdict._asdict()) + "\n")
    for reason, times in reasons.most_common():
        print(f"refused, {times} times: {reason}")
    summary = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    if others:
        print(f"left out, no HDF5 files: {others}")
    print(f"{len(files)} files: {summary or 'no datasets'}")
    return 1 if any(kinds[kind] for kind in BAD) else 0


if __name__ == "__main__":
    sys.exit(main())
