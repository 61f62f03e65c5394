// SPDX-License-Identifier: Apache-2.0
// What the tests of public datasets' layouts have in common.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "h5feed/dataset.hpp"
#include "store/filters/filters.hpp"
#include "support/files/bytes.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loaded_rows.hpp"

namespace h5feed::test {

/// A dataset of a file of the test.
struct Place {
  std::string file;
  std::string path;
};

/// Tests that write what a public writer writes and compare what a loader reads.
class Compatibility : public testing::Test {
 protected:
  static void group(const H5TestFile& file, const std::string& path, bool track_order = false) {
    const Hid plist(H5Pcreate(H5P_GROUP_CREATE));
    if (track_order) {
      require(H5Pset_link_creation_order(plist.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
              "H5Pset_link_creation_order");
    }
    const Hid made(H5Gcreate2(file.id(), path.c_str(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }

  // A dataset with values of its own.
  void add(H5TestFile& file, const TestDataset& dataset) {
    file.create(dataset);
    std::size_t bytes = H5Tget_size(dataset.file_type);
    for (const std::uint64_t extent : dataset.shape) bytes *= extent;
    Bytes values = patterned_bytes(bytes, ++seed_);
    if (H5Tget_class(dataset.file_type) == H5T_ENUM) {
      for (std::byte& value : values) value &= std::byte{1};
    }
    file.write(dataset.path, values);
  }

  // As libhdf5 reads them, one after the other.
  Bytes reference(const std::vector<Place>& places) const {
    Bytes all;
    for (const Place& place : places) {
      const Bytes values = read_through_libhdf5(dir_ / place.file, place.path);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  // Integers as targets arrive.
  template <typename Integer>
  static Bytes widened(const Bytes& values) {
    Bytes wide;
    for (std::size_t at = 0; at < values.size(); at += sizeof(Integer)) {
      Integer value;
      std::memcpy(&value, values.data() + at, sizeof value);
      const auto as_delivered = static_cast<std::int64_t>(value);
      const auto bytes = std::as_bytes(std::span(&as_delivered, 1));
      wide.insert(wide.end(), bytes.begin(), bytes.end());
    }
    return wide;
  }

  void expect_equal(DatasetOptions options, const Bytes& data, const Bytes& target = {}) const {
    for (std::filesystem::path& file : options.files) file = dir_ / file.string();
    for (std::filesystem::path& file : options.target_files) file = dir_ / file.string();
    if (options.input_layout == InputLayout::automatic) options.input_layout = InputLayout::none;
    EXPECT_EQ(first_difference(Dataset::open(options), data, target), "");
  }

  TempDir dir_;
  unsigned seed_ = 0;
};

/// What h5py makes of NumPy's bool.
inline Hid boolean_type() {
  Hid boolean(H5Tenum_create(H5T_STD_I8LE));
  const std::int8_t values[] = {0, 1};
  require(H5Tenum_insert(boolean.get(), "FALSE", &values[0]), "H5Tenum_insert");
  require(H5Tenum_insert(boolean.get(), "TRUE", &values[1]), "H5Tenum_insert");
  return boolean;
}

/// h5py's default.
inline const std::vector<FilterSpec>& gzip() {
  static const std::vector<FilterSpec> filters = {{.id = 1, .params = {4}}};
  return filters;
}

}  // namespace h5feed::test
