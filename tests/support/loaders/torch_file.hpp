// SPDX-License-Identifier: Apache-2.0
// Fixture: a file whose samples identify themselves, for tests of the LibTorch adapter.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/torch.hpp"
#include "store/write/h5_writer.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {

/// Fixture with a file of two contiguous datasets, /data and, if given, /target. Element i of the data is i,
/// converted to its type.
class TorchLoader : public ::testing::Test {
 protected:
  template <typename T>
  static void write(H5Writer& writer, const std::string& path, std::vector<std::uint64_t> shape,
                    const std::vector<T>& values) {
    const std::uint64_t rows = shape.front();
    writer.create_dataset({.path = path, .dtype = dtype_of<T>(), .shape = std::move(shape)});
    writer.write_rows(path, 0, rows, std::as_bytes(std::span(values)));
  }

  template <typename T>
  static std::vector<T> counting(std::uint64_t count) {
    std::vector<T> values(count);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = static_cast<T>(i);
    return values;
  }

  template <typename Data, typename Target>
  Dataset open(std::vector<std::uint64_t> data_shape, std::vector<std::uint64_t> target_shape,
               const std::vector<Target>& target, InputLayout layout = InputLayout::automatic) const {
    const std::filesystem::path file = dir_ / "data.h5";
    H5Writer writer(file, true);
    const std::uint64_t elements =
        std::accumulate(data_shape.begin(), data_shape.end(), std::uint64_t{1}, std::multiplies<>());
    write(writer, "/data", data_shape, counting<Data>(elements));
    if (!target_shape.empty()) write(writer, "/target", target_shape, target);
    writer.commit();
    return Dataset::open({.files = {file},
                          .data = "data",
                          .target = target_shape.empty() ? std::string() : "target",
                          .input_layout = layout});
  }

  // Opens 20 images of 4 × 5 pixels whose label is their number.
  Dataset open_images() const {
    return open<std::uint8_t, std::uint8_t>({20, 4, 5}, {20}, counting<std::uint8_t>(20));
  }

  static std::vector<std::int64_t> labels_of_epoch(TorchDataLoader& loader) {
    std::vector<std::int64_t> labels;
    for (auto& batch : loader) {
      for (std::int64_t i = 0; i < batch.target.size(0); ++i)
        labels.push_back(batch.target[i].item<std::int64_t>());
    }
    return labels;
  }

  TempDir dir_;
};

}  // namespace h5feed::test
