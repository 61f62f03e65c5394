# SPDX-License-Identifier: Apache-2.0
"""Four processes that train on a file of which one chunk in a hundred is damaged."""

import json
import subprocess
import sys
import textwrap

import h5py
import numpy as np
import pytest

import h5feed

SAMPLES, ROWS = 2000, 5
BAD = {7, 130, 255, 399}  # of 400 chunks

RANK = """
    import json, sys
    import h5feed

    path, bad_list, on_error, rank = sys.argv[1:]
    loader = h5feed.DataLoader(path, data="images", batch_size=16, shuffle=True, seed=3, num_workers=2,
                               rank=int(rank), world_size=4, on_error=on_error, max_bad_share=0.03,
                               bad_list=bad_list)
    epochs = [[batch.indices.tolist() for batch in loader] for _ in range(2)]
    print(json.dumps(epochs))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "train.h5"
    with h5py.File(path, "w") as out:
        values = np.random.default_rng(1).integers(0, 256, (SAMPLES, 3, 8, 6), dtype=np.uint8)
        stored = out.create_dataset("images", data=values, chunks=(ROWS, 3, 8, 6), compression="gzip", fletcher32=True)
        places = [stored.id.get_chunk_info_by_coord((chunk * ROWS, 0, 0, 0)).byte_offset for chunk in BAD]
    with open(path, "r+b") as out:
        for place in places:
            out.seek(place + 20)
            out.write(b"damage")
    return path


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_ranks_have_as_many_batches_each_and_share_a_list(file, tmp_path, on_error):
    bad_list = tmp_path / "bad.tsv"
    ranks = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(RANK), file, bad_list, on_error, str(rank)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(4)]
    outputs = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 4, [error for _, error in outputs]
    epochs = [json.loads(out) for out, _ in outputs]
    good = {sample for sample in range(SAMPLES) if sample // ROWS not in BAD}
    for epoch in range(2):
        assert len({len(rank[epoch]) for rank in epochs}) == 1
        samples = [sample for rank in epochs for batch in rank[epoch] for sample in batch]
        assert set(samples) == good
        assert len(samples) == (len(good) if on_error == "skip" else SAMPLES)
    header, *lines = bad_list.read_text().splitlines()
    assert header.split("\t")[2] == "chunk"
    assert {line.split("\t")[2] for line in lines} == {f"{chunk},0,0,0" for chunk in BAD}


def test_the_default_share_stops_a_run_that_loses_more(file):
    loader = h5feed.DataLoader(file, data="images", batch_size=16, shuffle=True, num_workers=2, on_error="skip",
                               max_bad_share=0.009)
    with pytest.raises(h5feed.ChunkError, match="(19|20) of the 2,000 samples"):
        list(loader)
    list(h5feed.DataLoader(file, data="images", batch_size=16, on_error="skip"))  # 1 % is the default
