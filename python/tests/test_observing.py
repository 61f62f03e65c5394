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
        for _ in range(2):  # an iteration may end early, and the epoch then starts again
            assert next(iter(loader)).indices.tolist() == first
            assert loader.epoch == 1
        assert len(list(loader)) == len(loader)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_trace_path_gets_a_timeline(dataset, tmp_path, num_workers):
    path = tmp_path / "run.json"
    loader = h5feed.DataLoader(dataset, batch_size=10, num_workers=num_workers, trace_path=path)
    for _ in loader:
        pass
    loader.close()
    events = json.loads(path.read_text())["traceEvents"]
    stages = [event for event in events if event["ph"] == "X"]
    assert {"plan", "read+decode", "gather", "wait"} <= {event["name"] for event in stages}
    assert all({"name", "ts", "dur", "pid", "tid"} <= event.keys() for event in stages)
    assert sum(event["name"] == "wait" for event in stages) >= 10
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_a_trace_path_that_cannot_be_written_is_named(dataset, tmp_path):
    with pytest.raises(h5feed.OptionError, match="trace_path: .*run.json cannot be written: No such file"):
        h5feed.DataLoader(dataset, trace_path=tmp_path / "none" / "run.json")
