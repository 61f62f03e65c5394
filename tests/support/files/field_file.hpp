// SPDX-License-Identifier: Apache-2.0
// Fixture: a file of samples with named fields of any type, chunked or not, fixed or variable in length.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {

/// Rows of every dataset in the tests' file, except "short".
constexpr std::int64_t kSamples = 23;

/// Returns a size that differs from sample to sample; some are 0.
inline std::size_t length_of(std::int64_t sample) { return static_cast<std::size_t>(sample * 7 % 5); }

/// Returns first, first + 1, …
template <typename T>
std::vector<T> counted(std::size_t count, T first) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Creates a dataset, compressed if `chunk` is not empty; writes `values` unless null.
inline void put(hid_t file, const std::string& path, hid_t file_type, hid_t type,
                const std::vector<hsize_t>& shape, const void* values,
                const std::vector<hsize_t>& chunk = {}) {
  const Hid links(H5Pcreate(H5P_LINK_CREATE));
  require(H5Pset_create_intermediate_group(links.get(), 1), "H5Pset_create_intermediate_group");
  const Hid space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
  if (!chunk.empty()) {
    require(H5Pset_chunk(plist.get(), static_cast<int>(chunk.size()), chunk.data()), "H5Pset_chunk");
    require(H5Pset_deflate(plist.get(), 1), "H5Pset_deflate");
  }
  const Hid set(
      H5Dcreate2(file, path.c_str(), file_type, space.get(), links.get(), plist.get(), H5P_DEFAULT));
  if (values != nullptr)
    require(H5Dwrite(set.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dwrite");
}

/// Writes numbers of variable length, as h5py writes them.
template <typename T>
void put_vlen(hid_t file, const std::string& path, hid_t file_element, hid_t element,
              std::vector<std::vector<T>> rows) {
  const Hid file_type(H5Tvlen_create(file_element));
  const Hid type(H5Tvlen_create(element));
  std::vector<hvl_t> values;
  for (std::vector<T>& row : rows) values.push_back({row.size(), row.data()});
  put(file, path, file_type.get(), type.get(), {values.size()}, values.data());
}

/// Reads numbers of variable length with H5Dread.
template <typename T>
std::vector<std::vector<T>> read_vlen(const std::filesystem::path& path, const std::string& name,
                                      hid_t element) {
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid set(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
  const Hid space(H5Dget_space(set.get()));
  const Hid type(H5Tvlen_create(element));
  std::vector<hvl_t> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())));
  require(H5Dread(set.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dread");
  std::vector<std::vector<T>> rows;
  for (const hvl_t& value : values) {
    const T* const begin = static_cast<const T*>(value.p);
    rows.emplace_back(begin, begin + value.len);
  }
  require(H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, values.data()), "H5Dvlen_reclaim");
  return rows;
}

/// Fixture for tests on a file with images, labels and fields of many kinds.
class Fields : public testing::Test {
 protected:
  Fields() {
    const Hid file(H5Fcreate(path().c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    put(file.get(), "images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {kSamples, 4, 5},
        counted<std::uint8_t>(kSamples * 20, 0).data(), {5, 4, 5});
    put(file.get(), "labels", H5T_STD_I32LE, H5T_NATIVE_INT, {kSamples}, counted<int>(kSamples, 100).data());
    put(file.get(), "pose", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, {kSamples, 3},
        counted<float>(kSamples * 3, -10).data(), {4, 2});
    put(file.get(), "depth", H5T_STD_U16LE, H5T_NATIVE_UINT16, {kSamples, 2, 3},
        counted<std::uint16_t>(kSamples * 6, 1000).data(), {6, 2, 3});
    put(file.get(), "camera", H5T_STD_U8LE, H5T_NATIVE_UINT8, {kSamples, 2, 2, 3},
        counted<std::uint8_t>(kSamples * 12, 5).data(), {3, 2, 2, 3});
    std::vector<std::vector<float>> boxes;
    std::vector<std::vector<std::int16_t>> words;
    for (std::int64_t sample = 0; sample < kSamples; ++sample) {
      boxes.push_back(counted<float>(length_of(sample), static_cast<float>(sample * 100)));
      words.push_back(counted<std::int16_t>(2, static_cast<std::int16_t>(sample)));
    }
    put_vlen(file.get(), "boxes", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, boxes);
    put_vlen(file.get(), "words", H5T_STD_I16LE, H5T_NATIVE_INT16, words);
    put(file.get(), "short", H5T_STD_I32LE, H5T_NATIVE_INT, {kSamples - 1},
        counted<int>(kSamples - 1, 0).data());
  }

  std::filesystem::path path() const { return dir_ / "a.h5"; }

  DatasetOptions with(std::vector<FieldOptions> fields) const {
    return {.files = {path()}, .data = "images", .target = "labels", .fields = std::move(fields)};
  }

  std::string refusal(std::vector<FieldOptions> fields) const {
    return refusal_in<Error>(dir_.path(), [&] { Dataset::open(with(std::move(fields))); });
  }

  TempDir dir_;
};

}  // namespace h5feed::test
