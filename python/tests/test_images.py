# SPDX-License-Identifier: Apache-2.0
"""Encoded images, and an h5feed without their codecs, as its wheel is."""

import os
import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pytest

import h5feed

PIXELS = np.random.default_rng(4).integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def png_file(folder, png) -> pathlib.Path:
    path = folder / "png.h5"
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (len(PIXELS),), dtype=h5py.vlen_dtype(np.uint8))
        for row, image in enumerate(PIXELS):
            images[row] = np.frombuffer(png(image), np.uint8)
    return path


def test_encoded_images_are_decoded(png_file):
    try:
        dataset = h5feed.Dataset.open(png_file, data="images", images={})
    except h5feed.Error as error:
        if "install the wheel h5feed_images" not in str(error):
            raise
        pytest.skip("this h5feed has no codecs of images: it is a wheel without the wheel h5feed_images, or was built without OpenCV")
    (batch,) = h5feed.DataLoader(dataset, batch_size=len(PIXELS))
    assert (batch.data == PIXELS.transpose(0, 3, 1, 2)).all()


def test_without_the_codecs_the_error_says_what_to_install(png_file, tmp_path):
    missing = tmp_path / "h5feed_images.so"
    outcome = subprocess.run([sys.executable, "-m", "h5feed", "info", png_file, "--data", "images"], text=True,
                             capture_output=True, env={**os.environ, "H5FEED_IMAGES": str(missing)}, timeout=60, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith(f"images need h5feed_images.so, which is not there (looked for {missing}); ")
    assert outcome.stderr.removesuffix(
        "install the wheel h5feed_images of the same version, or set H5FEED_IMAGES to its path\n").endswith(
            ("; the wheel of h5feed does not contain it: ",
             "; this h5feed was built without OpenCV: build it with OpenCV, "))
