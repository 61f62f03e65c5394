# SPDX-License-Identifier: Apache-2.0
"""Files that h5py has open in SWMR mode, in another process."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import h5feed

# Appends to /x and /y: as many rows as each line of its input says, or three at a time from "run" on. An h5py newer than
# h5feed's libhdf5 needs `libver` to write a format that this one reads.
WRITER = textwrap.dedent("""
    import select
    import sys
    import h5py
    import numpy as np

    def more(rows):
        first = x.shape[0]
        numbers = np.arange(first, first + rows)
        x.resize(first + rows, axis=0)
        x[first:] = (1 + (numbers[:, None] * 131 + np.arange(24) * 7) % 255).reshape(rows, 4, 6)
        y.resize(first + rows, axis=0)
        y[first:] = numbers * 3 + 1
        x.flush()
        y.flush()

    file = h5py.File(sys.argv[1], "w", libver=("v110", "v110"))
    x = file.create_dataset("x", (0, 4, 6), maxshape=(None, 4, 6), chunks=(8, 4, 6), dtype="u1", compression=sys.argv[2])
    y = file.create_dataset("y", (0,), maxshape=(None,), chunks=(50,), dtype="i8")
    file.swmr_mode = True
    while True:
        print("done", flush=True)
        line = sys.stdin.readline().strip()
        if not line:
            break
        if line == "run":
            while not select.select([sys.stdin], [], [], 0)[0]:
                more(3)
        else:
            more(int(line))
    file.close()
""")


class Writer:
    def __init__(self, path, compression):
        self.process = subprocess.Popen([sys.executable, "-c", WRITER, path, compression], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "done\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def run(self) -> None:
        print("run", file=self.process.stdin, flush=True)

    def append(self, rows: int) -> None:
        print(rows, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"

    def close(self) -> None:
        self.process.communicate()


def check_epoch(dataset, workers: int = 2) -> int:
    seen = []
    for batch in h5feed.DataLoader(dataset, batch_size=16, shuffle=True, num_workers=workers, cache_bytes=0):
        numbers = np.asarray(batch.indices)
        values = 1 + (numbers[:, None] * 131 + np.arange(24) * 7) % 255
        np.testing.assert_array_equal(np.asarray(batch.data).reshape(len(numbers), 24), values)
        np.testing.assert_array_equal(np.asarray(batch.target), numbers * 3 + 1)
        seen += numbers.tolist()
    assert sorted(seen) == list(range(len(dataset)))
    return len(seen)


@pytest.fixture(params=["none", "process"])
def open_live(request):
    return lambda path: h5feed.Dataset.open(path, data="x", target="y", input_layout="none", isolation=request.param)


@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_a_file_in_swmr_mode_is_read_and_refresh_adds_what_is_complete(tmp_path, open_live, compression):
    path = tmp_path / "live.h5"
    with Writer(path, compression) as writer:
        writer.append(13)
        dataset = open_live(path)
        assert check_epoch(dataset) == 13
        writer.append(30)
        assert check_epoch(dataset) == 13
        dataset.refresh()
        assert check_epoch(dataset) == 43
        writer.run()
        for _ in range(5):
            dataset.refresh()
            assert check_epoch(dataset) >= 43


def test_a_file_whose_writer_was_killed_is_read(tmp_path, open_live):
    path = tmp_path / "live.h5"
    with Writer(path, "gzip") as writer:
        writer.append(20)
        writer.run()
        dataset = open_live(path)
        while len(dataset) < 50:
            dataset.refresh()
    dataset.refresh()
    assert check_epoch(dataset) >= 50


def test_a_file_is_the_same_after_its_writer_has_closed_it(tmp_path, open_live):
    path = tmp_path / "live.h5"
    with Writer(path, "gzip") as writer:
        writer.append(20)
        dataset = open_live(path)
        writer.close()
    assert check_epoch(dataset) == 20
    dataset.refresh()
    assert check_epoch(dataset, workers=0) == 20
