# SPDX-License-Identifier: Apache-2.0
import json

import pytest

import h5feed


def test_the_verdict_says_where_the_time_of_an_epoch_went(gzip_file, tmp_path):
    log = tmp_path / "epochs.jsonl"
    with h5feed.DataLoader(gzip_file, data="images", batch_size=10, num_workers=1, epoch_log=log) as loader:
        assert loader.verdict() is None
        batches = len(list(loader))
        verdict = loader.verdict()
    assert verdict is not None
    assert (verdict["epoch"], verdict["batches"], verdict["finished"]) == (0, batches, True)
    assert verdict["bottleneck"] in ("consumer", "read", "decode", "gather", "transform", "transfer", "other")
    assert json.loads(log.read_text()) == verdict


def test_headroom_repeats_the_first_batch(gzip_file):
    with h5feed.DataLoader(gzip_file, data="images", batch_size=10, shuffle=True, num_workers=1, headroom=True) as loader:
        first, *others = (batch.indices.tolist() for batch in loader)
        assert others and all(indices == first for indices in others)
        with pytest.raises(ValueError, match="headroom"):
            loader.state_dict()
