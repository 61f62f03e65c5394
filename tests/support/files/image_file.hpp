// SPDX-License-Identifier: Apache-2.0
// Fixture: a file of encoded images.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loaded_rows.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {

/// Returns the image as OpenCV decodes it.
inline cv::Mat decoded(const Bytes& bytes, int flags = cv::IMREAD_COLOR) {
  const cv::Mat view(1, static_cast<int>(bytes.size()), CV_8U, const_cast<std::byte*>(bytes.data()));
  return cv::imdecode(view, flags);
}

/// Fixture for tests on a file with a dataset of images of variable length.
class Images : public testing::Test {
 protected:
  void write(const std::vector<Bytes>& values, const RaggedStorage& storage = {},
             TestFileOptions options = {}) {
    const H5TestFile file(path(), options);
    write_ragged(file, "encoded", values, storage);
  }
  Dataset open(const ImageOptions& images = {}) const {
    return Dataset::open({.files = {path()}, .data = "encoded", .images = images});
  }
  std::string refusal(const ImageOptions& images = {}, bool load = true) const {
    return refusal_in<Error>(dir_.path(), [&] {
      const Dataset dataset = open(images);
      if (load) load_rows(dataset, {.batch_size = 4});
    });
  }
  std::filesystem::path path() const { return dir_ / "x.h5"; }

  TempDir dir_;
};

}  // namespace h5feed::test
