# SPDX-License-Identifier: Apache-2.0
"""Windows in time within episodes equal the rows that h5py gives."""

import pathlib
import pickle
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import h5feed


def write_demos(path: pathlib.Path, lengths: "list[int]", chunk: int) -> None:
    """Writes demonstrations in the layout of robomimic, and the same rows as flat tables."""
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        flat: "dict[str, list[np.ndarray[Any, Any]]]" = {"image": [], "action": []}
        for number, length in enumerate(lengths):
            demo = file.create_group(f"data/demo_{number}")
            image = random.integers(0, 255, (length, 4, 5, 3), dtype=np.uint8)
            action = random.random((length, 7), dtype=np.float32)
            demo.create_dataset("obs/image", data=image, chunks=(min(chunk, max(length, 1)), 4, 5, 3), compression="gzip",
                                compression_opts=1)
            demo.create_dataset("actions", data=action)
            demo.create_dataset("next_obs", data=random.random((length + 1, 2), dtype=np.float32))
            demo.create_dataset("task", data=np.float32(number))
            flat["image"].append(image)
            flat["action"].append(action)
        file["mask/train"] = np.array([f"demo_{number}" for number in range(0, len(lengths), 2)], dtype="S")
        file["mask/text"] = [f"demo_{number}" for number in range(1, len(lengths), 2)]
        file.create_dataset("image", data=np.concatenate(flat["image"]), chunks=(min(chunk, sum(lengths)), 4, 5, 3),
                            compression="gzip", compression_opts=1)
        file.create_dataset("action", data=np.concatenate(flat["action"]))
        file["lengths"] = np.array(lengths, dtype=np.int32)
        file["ends"] = np.cumsum(lengths)
        file["ids"] = np.repeat(np.arange(len(lengths)), lengths)


def window_of(rows: "np.ndarray[Any, Any]", frame: int, offsets: "list[int]", fill: str) -> "np.ndarray[Any, Any]":
    """The rows around a frame, repeated or zero where they are missing."""
    at = np.array(offsets) + frame
    window = rows[np.clip(at, 0, len(rows) - 1)].copy()
    if fill == "zero":
        window[(at < 0) | (at >= len(rows))] = 0
    return window


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 11), min_size=1, max_size=6), chunk=st.integers(1, 6),
       window=st.lists(st.integers(-4, 4), min_size=1, max_size=4, unique=True).map(sorted),
       ahead=st.lists(st.integers(-1, 6), min_size=1, max_size=4, unique=True).map(sorted),
       missing=st.tuples(st.integers(-1, 3), st.integers(-1, 3)), fill=st.sampled_from(["repeat", "zero"]),
       index=st.sampled_from(["datasets", "lengths", "ends", "ids"]),
       anchors=st.sampled_from(["every", "one_random"]), workers=st.sampled_from([0, 1, 2, 4]),
       cache=st.sampled_from([0, 500, 1 << 28]), shuffle=st.sampled_from([False, True, "chunk:1"]))
def test_windows_equal_the_rows_of_h5py(tmp_path_factory, lengths, chunk, window, ahead, missing, fill, index, anchors,
                                        workers, cache, shuffle):
    path = tmp_path_factory.mktemp("demos") / "demos.h5"
    write_demos(path, lengths, chunk)
    groups = index == "datasets"
    options: "dict[str, Any]" = {
        "data": "data/demo_*/obs/image" if groups else "image", "input_layout": "nhwc", "window": window,
        "target": "data/demo_*/actions" if groups else "action", "target_window": ahead,
        "episodes": {"index": index, "table": "" if groups else index, "anchors": anchors, "fill": fill,
                     "missing_before": missing[0], "missing_after": missing[1]}}

    def fits(length: int, frame: int) -> bool:
        return all((before < 0 or sum(frame + offset < 0 for offset in offsets) <= before) and
                   (after < 0 or sum(frame + offset >= length for offset in offsets) <= after)
                   for before, after in [missing] for offsets in (window, ahead))

    expected = [[frame for frame in range(length) if fits(length, frame)] for length in lengths]
    if not any(expected):
        with pytest.raises(h5feed.DatasetError, match="use shorter windows"):
            h5feed.Dataset.open(path, **options)
        return
    dataset = h5feed.Dataset.open(path, **options)
    assert dataset.num_episodes == len(lengths)
    loader = h5feed.DataLoader(dataset, batch_size=3, shuffle=shuffle, seed=5, num_workers=workers, cache_bytes=cache,
                               provenance=True)
    with h5py.File(path, "r") as file:
        images = [file[f"data/demo_{number}/obs/image"][...] for number in range(len(lengths))]
        actions = [file[f"data/demo_{number}/actions"][...] for number in range(len(lengths))]
    for _ in range(2):
        seen = []
        for batch in loader:
            for i, origin in enumerate(batch.origins):
                assert origin.frame in expected[origin.episode]
                np.testing.assert_array_equal(
                    batch.data[i], window_of(images[origin.episode], origin.frame, window, fill).transpose(0, 3, 1, 2))
                np.testing.assert_array_equal(batch.target[i],
                                              window_of(actions[origin.episode], origin.frame, ahead, fill))
                if missing != (0, 0):
                    at = np.array(window) + origin.frame
                    np.testing.assert_array_equal(batch.fields["data.valid"].values[i],
                                                  (at >= 0) & (at < lengths[origin.episode]))
                seen.append((origin.episode, origin.frame))
        assert len(seen) == len(dataset) == len({sample[:1] if anchors == "one_random" else sample for sample in seen})
    wanted = sum(map(bool, expected)) if anchors == "one_random" else sum(map(len, expected))
    assert len(dataset) == wanted


def test_lists_of_names_choose_episodes(tmp_path):
    path = tmp_path / "demos.h5"
    write_demos(path, [5, 6, 7, 8], 4)
    for only, chosen in (("mask/train", [0, 2]), ("mask/text", [1, 3])):
        dataset = h5feed.Dataset.open(path, data="data/demo_*/obs/image", input_layout="nhwc", window=[0, 1],
                                      episodes=h5feed.EpisodeOptions(only=only))
        assert dataset.num_episodes == 2
        paths = {dataset.origin(sample).path for sample in range(len(dataset))}
        assert paths == {f"/data/demo_{number}/obs/image" for number in chosen}
        assert len(dataset) == sum(4 + number for number in chosen)


def test_fields_have_windows_rows_more_and_units(tmp_path):
    path = tmp_path / "demos.h5"
    write_demos(path, [5, 1, 7], 4)
    dataset = h5feed.Dataset.open(
        path, data="data/demo_*/actions", fields=[
            dict(name="state", data="data/demo_*/next_obs", window=[0, 1]),
            h5feed.FieldOptions(name="task", data="data/demo_*/task", per="episode")])
    assert len(dataset) == 13
    again = pickle.loads(pickle.dumps(dataset.split([0.6, 0.4], 1, by="part")[1]))
    assert {again.origin(int(i)).episode for i in h5feed.DataLoader(again, batch_size=13).__iter__().__next__().indices} \
        != {0, 1, 2}
    with h5py.File(path, "r") as file:
        for batch in h5feed.DataLoader(dataset, batch_size=4, provenance=True):
            for i, origin in enumerate(batch.origins):
                rows = file[f"data/demo_{origin.episode}/next_obs"][origin.frame:origin.frame + 2]
                np.testing.assert_array_equal(batch.fields["state"].values[i], rows)
                assert batch.fields["task"].values[i] == origin.episode


def test_channels_are_chosen_in_order(tmp_path):
    values = np.random.default_rng(1).random((20, 6, 8, 9), dtype=np.float32)
    with h5py.File(tmp_path / "era5.h5", "w") as file:
        file.create_dataset("fields", data=values, chunks=(1, 1, 8, 9), compression="gzip")
    dataset = h5feed.Dataset.open(tmp_path / "era5.h5", data="fields", input_layout="nchw", channels=[4, 0],
                                  window=[-1, 0], target="fields", target_window=[1])
    assert dataset.sample_shape == (2, 2, 8, 9)
    for batch in h5feed.DataLoader(dataset, batch_size=5, num_workers=2, shuffle=True, seed=1, provenance=True):
        for i, origin in enumerate(batch.origins):
            np.testing.assert_array_equal(batch.data[i], values[origin.row - 1:origin.row + 1][:, [4, 0]])
            np.testing.assert_array_equal(batch.target[i, 0], values[origin.row + 1])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(years=st.lists(st.integers(1, 7), min_size=2, max_size=6), chunk=st.integers(1, 5),
       window=st.lists(st.integers(-4, 2), min_size=1, max_size=4, unique=True).map(sorted),
       ahead=st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True).map(sorted),
       missing=st.tuples(st.integers(-1, 2), st.integers(-1, 2)), fill=st.sampled_from(["repeat", "zero"]),
       workers=st.sampled_from([0, 1, 2, 4]), cache=st.sampled_from([0, 300, 1 << 28]),
       shuffle=st.sampled_from([False, True, "chunk:1"]))
def test_windows_of_a_series_cross_from_file_to_file(tmp_path_factory, years, chunk, window, ahead, missing, fill, workers,
                                                     cache, shuffle):
    folder = tmp_path_factory.mktemp("series")
    random = np.random.default_rng(2)
    for number, length in enumerate(years):
        with h5py.File(folder / f"year_{number}.h5", "w") as file:
            file.create_dataset("fields", data=random.random((length, 2, 3, 4), dtype=np.float32),
                                chunks=(min(chunk, length), 1, 3, 4), compression="gzip", compression_opts=1)
    rows = []
    for number in range(len(years)):
        with h5py.File(folder / f"year_{number}.h5", "r") as file:
            rows.append(file["fields"][...])
    series = np.concatenate(rows)
    wanted = [frame for frame in range(len(series)) if all(
        (before < 0 or sum(frame + offset < 0 for offset in offsets) <= before) and
        (after < 0 or sum(frame + offset >= len(series) for offset in offsets) <= after)
        for before, after in [missing] for offsets in (window, ahead))]
    options: "dict[str, Any]" = {
        "data": "fields", "target": "fields", "input_layout": "nchw", "window": window, "target_window": ahead,
        "episodes": {"index": "series", "fill": fill, "missing_before": missing[0], "missing_after": missing[1]}}
    if not wanted:
        with pytest.raises(h5feed.DatasetError, match="use shorter windows"):
            h5feed.Dataset.open(folder / "year_*.h5", **options)
        return
    dataset = h5feed.Dataset.open(folder / "year_*.h5", **options)
    loader = h5feed.DataLoader(dataset, batch_size=3, shuffle=shuffle, seed=5, num_workers=workers, cache_bytes=cache,
                               provenance=True)
    seen = []
    for batch in loader:
        for i, origin in enumerate(batch.origins):
            np.testing.assert_array_equal(batch.data[i], window_of(series, origin.frame, window, fill))
            np.testing.assert_array_equal(batch.target[i], window_of(series, origin.frame, ahead, fill))
            seen.append(origin.frame)
    assert sorted(seen) == wanted


def test_a_reader_draws_as_a_loader_of_its_seed_and_epoch(tmp_path):
    path = tmp_path / "demos.h5"
    write_demos(path, [15, 16, 17], 4)
    dataset = h5feed.Dataset.open(path, data="data/demo_*/actions", window=[0, 1],
                                  episodes=dict(anchors="one_random"))
    loader = h5feed.DataLoader(dataset, batch_size=3, seed=8)
    for epoch in range(3):
        reader = h5feed.SampleReader(dataset, seed=8, epoch=epoch)
        for batch in loader:
            np.testing.assert_array_equal(reader.read(batch.indices).data, batch.data)


@pytest.mark.parametrize(("options", "message"), [
    (dict(window=[1, 0]), "offsets must ascend"),
    (dict(window=["a"]), "window"),
    (dict(window=[0], episodes=dict(index="rows")), "index"),
    (dict(episodes=dict(index="ends", table="lengths")), "before its first row"),
    (dict(episodes=dict(index="lengths", table="ends")), "name the table of this data"),
    (dict(window=list(range(100))), "the longest episode has 7"),
    (dict(channels=[9], window=[0]), "there is no channel 9"),
])
def test_impossible_windows_are_refused(tmp_path, options, message):
    path = tmp_path / "demos.h5"
    write_demos(path, [7, 5], 4)
    with pytest.raises((h5feed.Error, TypeError, ValueError), match=message):
        h5feed.Dataset.open(path, data="image" if options.get("episodes", {}).get("table") else "data/demo_*/obs/image",
                            input_layout="nhwc", **options)
