# SPDX-License-Identifier: Apache-2.0
"""Files that another process reads."""

import os
import pathlib
import stat

import h5feed
import numpy as np
import pytest


def test_the_samples_are_the_same(gzip_file, stored):
    dataset = h5feed.Dataset.open(gzip_file, data="images", target="labels", isolation="process", isolation_timeout=30,
                                  isolation_memory_bytes=1 << 30)
    for batch in h5feed.DataLoader(dataset, batch_size=4):
        np.testing.assert_array_equal(batch.data, stored[0][batch.indices])


def test_a_process_that_ends_is_an_error_that_names_the_file(gzip_file, tmp_path, monkeypatch):
    reader = tmp_path / "reader"
    reader.write_text("#!/bin/sh\nexit 3\n")
    reader.chmod(reader.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("H5FEED_READER", os.fspath(reader))
    with pytest.raises(h5feed.IsolationError, match="which reads it, ended with exit code 3 and no answer") as error:
        h5feed.Dataset.open(gzip_file, data="images", isolation="process")
    assert pathlib.Path(gzip_file).name in str(error.value)
    assert isinstance(error.value, h5feed.FileError)


def test_words_that_are_none_are_refused(gzip_file):
    with pytest.raises(h5feed.OptionError, match="isolation"):
        h5feed.Dataset.open(gzip_file, isolation="sandbox")
