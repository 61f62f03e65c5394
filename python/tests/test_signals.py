# SPDX-License-Identifier: Apache-2.0
"""SIGINT, SIGTERM and SIGKILL at random moments of a training: nothing is lost, doubled or left behind."""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import h5py
import numpy as np
import pytest

import h5feed

SAMPLES = 203
ROUNDS = int(os.environ.get("H5FEED_TEST_KILLS", "3"))
HANG = 60 * ROUNDS  # seconds after which a process of the tests is ended
ISOLATION = pytest.mark.parametrize("isolation", ["none", "process"])

# What the processes of the tests begin with. Row i of /rows has the numbers 16 i to 16 i + 15.
BEGINNING = f"""
import gc, json, logging, os, signal, sys, time
import numpy as np
import h5feed

path, isolation = sys.argv[1:3]
logging.getLogger("h5feed").setLevel(logging.ERROR)  # it warns of rows that only libhdf5 can read
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as in a shell's background
numbers = []  # of the samples delivered, epoch after epoch

def tell(what):
    os.write(1, what.encode() + b"\\n")

def make_loader(num_workers=2):
    dataset = h5feed.Dataset.open(path, data="rows", target="labels", isolation=isolation)
    return h5feed.DataLoader(dataset, batch_size=4, shuffle="full", seed=5, num_workers=num_workers)

def train(loader, commit, enough):
    while not enough():
        for batch in loader:
            assert np.array_equal(batch.data, batch.indices[:, None] * 16 + np.arange(16))
            assert np.array_equal(batch.target, batch.indices * 3)
            numbers.extend(batch.indices.tolist())
            commit()

def whole_epochs():
    return len(numbers) >= {SAMPLES} and len(numbers) % {SAMPLES} == 0
"""

ENDLESS = """
tell("opening")
loader = make_loader()
tell("training")
train(loader, lambda: None, lambda: False)
"""


@pytest.fixture
def rows_file(folder, isolation) -> pathlib.Path:
    """A file of /rows and /labels. With isolation, /rows is read by the reader, as libhdf5 has to convert its source."""
    path = folder / f"rows_{isolation}.h5"
    rows = np.arange(SAMPLES * 16).reshape(SAMPLES, 16)
    with h5py.File(path, "w") as file:
        if isolation == "process":
            file["narrow"] = rows.astype("i2")
            layout = h5py.VirtualLayout(rows.shape, rows.dtype)
            layout[:] = h5py.VirtualSource(file["narrow"])
            file.create_virtual_dataset("rows", layout)
        else:
            file.create_dataset("rows", data=rows, chunks=(5, 16), compression="gzip")
        file["labels"] = np.arange(SAMPLES) * 3
    return path


@pytest.fixture
def moments() -> random.Random:
    """Draws the moments of a test; pytest prints the seed if it fails."""
    seed = int(os.environ.get("H5FEED_TEST_SEED", random.randrange(2**32)))
    print("H5FEED_TEST_SEED:", seed)
    return random.Random(seed)


@contextlib.contextmanager
def started(script: str, temporary: pathlib.Path, *arguments: object):
    """A process with a session of its own, whose temporary files belong in `temporary`."""
    with subprocess.Popen([sys.executable, "-c", BEGINNING + textwrap.dedent(script), *map(str, arguments)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                          env={**os.environ, "TMPDIR": os.fspath(temporary)}) as process:
        watchdog = threading.Timer(HANG, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def alive(session: int) -> list[str]:
    """Names of the processes of a session that have not ended."""
    names = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            name, _, rest = stat.read_text().rpartition(")")
            state, _, _, its_session = rest.split()[:4]
            if int(its_session) == session and state not in "ZX":
                names.append(name.partition("(")[2])
    return names


def expect_nothing_left(process: subprocess.Popen, temporary: pathlib.Path) -> None:
    deadline = time.monotonic() + 10
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive(process.pid) == []
    assert list(temporary.iterdir()) == []


def signal_training(process: subprocess.Popen, number: signal.Signals, isolation: str, moments: random.Random) -> None:
    """Sends a signal at a random moment of opening or of training."""
    stage = moments.choice(["opening", "training"])
    while (line := process.stdout.readline().strip()) != stage:
        assert line, process.stderr.read()
    if stage == "training":
        assert len(alive(process.pid)) == (2 if isolation == "process" else 1)
    time.sleep(moments.random() * 0.05)
    assert process.poll() is None, process.stderr.read()
    process.send_signal(number)


def contents(path: pathlib.Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(path.parent.glob(path.stem + ".*"))]


def expect_order(numbers: list[int], path: pathlib.Path) -> None:
    """Epochs have every sample once, in the order of a training that nothing interrupts."""
    assert numbers and len(numbers) % SAMPLES == 0
    loader = h5feed.DataLoader(path, data="rows", batch_size=4, shuffle="full", seed=5)
    for at in range(0, len(numbers), SAMPLES):
        epoch = numbers[at:at + SAMPLES]
        assert sorted(epoch) == list(range(SAMPLES))
        assert epoch == [sample for batch in loader for sample in batch.indices.tolist()]


@ISOLATION
@pytest.mark.parametrize("resumed_by", ["same loader", "new loader"])
def test_a_training_goes_on_after_each_sigint(rows_file, tmp_path, moments, isolation, resumed_by):
    # A signal is sent only after a line of the process, so that none arrives while it recovers from the one before. The
    # position is kept with each batch: Python may raise between the end of next() and the use of what it returned.
    interruptions = 10 * ROUNDS
    with started("""
        wanted, resumed_by = int(sys.argv[3]), sys.argv[4]

        def resources():
            return [len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))]

        before = resources()
        interrupted, loader, committed = 0, None, (0, None)

        def commit():
            global committed
            committed = (len(numbers), loader.state_dict())

        while True:
            try:
                tell("ready")
                if loader is None:
                    loader = make_loader(num_workers=interrupted % 3 if resumed_by == "new loader" else 2)
                if committed[1]:
                    loader.load_state_dict(committed[1])
                train(loader, commit, lambda: interrupted == wanted and whole_epochs())
                break
            except KeyboardInterrupt:
                interrupted += 1
                del numbers[committed[0]:]
                if resumed_by == "new loader":
                    loader = None
        del loader
        gc.collect()
        deadline = time.monotonic() + 10
        while resources() != before and time.monotonic() < deadline:  # a thread that was joined may be listed a moment longer
            time.sleep(0.01)
        print(json.dumps({"before": before, "after": resources(), "numbers": numbers}))
    """, tmp_path, rows_file, isolation, interruptions, resumed_by) as process:
        for _ in range(interruptions):
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            time.sleep(moments.random() * 0.02)
            process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
        ready, _, result = output.partition("\n")
        result = json.loads(result)
        assert ready == "ready" and result["after"] == result["before"]
        expect_order(result["numbers"], rows_file)
        expect_nothing_left(process, tmp_path)


@pytest.mark.parametrize("isolation", ["process"])
def test_sigint_ends_opening_a_file_over_which_the_reader_hangs(rows_file, tmp_path):
    # The handler also closes another file, and opens one, while the answer is awaited.
    reader = tmp_path / "reader"
    reader.write_text('#!/bin/sh\n: > "$0.started"\nexec sleep 600\n')
    reader.chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with started("""
        others = [make_loader(), make_loader()]

        def handler(*_):
            del os.environ["H5FEED_READER"]
            others.clear()
            gc.collect()
            others.append(make_loader())
            raise KeyboardInterrupt

        signal.signal(signal.SIGINT, handler)
        os.environ["H5FEED_READER"] = sys.argv[3]
        try:
            make_loader()
        except KeyboardInterrupt:
            tell("interrupted")
        train(make_loader(), lambda: None, whole_epochs)
        train(others.pop(), lambda: None, lambda: len(numbers) >= 2 * {samples})
        print(json.dumps(numbers))
    """.replace("{samples}", str(SAMPLES)), temporary, rows_file, "process", reader) as process:
        while not reader.with_suffix(".started").exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
        interrupted, _, numbers = output.partition("\n")
        assert interrupted == "interrupted"
        assert sorted(json.loads(numbers)) == sorted([*range(SAMPLES), *range(SAMPLES)])
        expect_nothing_left(process, temporary)


@ISOLATION
def test_sigterm_ends_a_training(rows_file, tmp_path, moments, isolation):
    for _ in range(ROUNDS):
        with started(ENDLESS, tmp_path, rows_file, isolation) as process:
            signal_training(process, signal.SIGTERM, isolation, moments)
            _, errors = process.communicate()
            assert (process.returncode, errors) == (-signal.SIGTERM, "")
            expect_nothing_left(process, tmp_path)


@ISOLATION
def test_a_handler_of_sigterm_that_exits_gives_its_code(rows_file, tmp_path, moments, isolation):
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
    for _ in range(ROUNDS):
        with started(handler + ENDLESS, tmp_path, rows_file, isolation) as process:
            signal_training(process, signal.SIGTERM, isolation, moments)
            _, errors = process.communicate()
            assert (process.returncode, errors) == (7, "")
            expect_nothing_left(process, tmp_path)


@ISOLATION
def test_a_training_that_sigkill_ended_is_resumed(rows_file, tmp_path, moments, isolation):
    script = """
        saved, last = sys.argv[3], sys.argv[4] == "last"

        def commit():
            with open(saved + ".new", "w") as file:
                json.dump({"numbers": numbers, "state": loader.state_dict()}, file)
            os.replace(saved + ".new", saved)

        tell("opening")
        loader = make_loader()
        if os.path.exists(saved):
            with open(saved) as file:
                position = json.load(file)
            numbers += position["numbers"]
            loader.load_state_dict(position["state"])
        tell("training")
        train(loader, commit, lambda: last and whole_epochs())
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = contents(rows_file)
    for number in range(ROUNDS):
        saved = tmp_path / f"{number}.json"
        with started(script, temporary, rows_file, isolation, saved, "endless") as process:
            signal_training(process, signal.SIGKILL, isolation, moments)
            assert process.wait() == -signal.SIGKILL
            expect_nothing_left(process, temporary)
        assert contents(rows_file) == before
        with started(script, temporary, rows_file, isolation, saved, "last") as process:
            _, errors = process.communicate()
            assert (process.returncode, errors) == (0, "")
            expect_nothing_left(process, temporary)
        expect_order(json.loads(saved.read_text())["numbers"], rows_file)
