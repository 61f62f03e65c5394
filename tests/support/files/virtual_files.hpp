// SPDX-License-Identifier: Apache-2.0
// Virtual datasets of any regular selections, and their sources.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "store/format/selection.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {

/// Extents, slowest dimension first.
using Shape = std::vector<std::uint64_t>;

/// Elements of the source `dataset` of `file`, and where they go; an empty `from` selects all.
struct VirtualPiece {
  std::string file;
  std::string dataset;
  Shape source_shape;
  Selection to;
  Selection from;
};

/// Returns a dataspace of `shape` with the selection, or with all elements.
inline Hid space_of(const Shape& shape, const Selection& selection) {
  std::vector<hsize_t> extent(shape.begin(), shape.end()), start, stride, count, block;
  Hid space(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
  for (const SelectedIndices& indices : selection) {
    start.push_back(indices.start);
    stride.push_back(indices.stride);
    count.push_back(indices.count);
    block.push_back(indices.block);
  }
  if (!selection.empty()) {
    require(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), stride.data(), count.data(),
                                block.data()),
            "H5Sselect_hyperslab");
  }
  return space;
}

/// Returns one index, and `number` indices from `first` on.
inline SelectedIndices one(std::uint64_t index) { return SelectedIndices::run_of(index, 1); }
inline SelectedIndices run(std::uint64_t first, std::uint64_t number) {
  return SelectedIndices::run_of(first, number);
}

/// Returns the elements of an array.
inline std::size_t elements_of(const Shape& shape) {
  std::size_t elements = 1;
  for (const std::uint64_t extent : shape) elements *= extent;
  return elements;
}

/// Returns bytes in host byte order as numbers.
inline std::vector<std::uint16_t> numbers_of(std::span<const std::byte> bytes) {
  std::vector<std::uint16_t> numbers(bytes.size() / sizeof(std::uint16_t));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// A folder of its own with virtual datasets and their sources.
class VirtualFiles {
 public:
  static constexpr std::uint16_t kFill = 4711;

  /// Writes the dataset "x" of a source: random values, which it returns. Chunks, if any, are compressed.
  std::vector<std::uint16_t> source(const std::string& name, const Shape& shape, const Shape& chunk = {},
                                    hid_t type = H5T_STD_U16LE) {
    const std::vector<std::byte> bytes = random_bytes(elements_of(shape) * H5Tget_size(type), seed_++);
    H5TestFile file(dir_ / name);
    TestDataset dataset{.file_type = type, .shape = shape, .chunk = chunk};
    if (!chunk.empty()) dataset.filters = {gzip_filter(1)};
    file.create(dataset);
    file.write("x", bytes);
    return numbers_of(bytes);
  }

  /// Writes the virtual dataset "x". Of uint16, its fill value is `kFill`.
  void make(const std::string& name, const Shape& shape, const std::vector<VirtualPiece>& pieces,
            hid_t type = H5T_STD_U16LE) {
    make_of(
        name, shape,
        [&](hid_t plist) {
          for (const VirtualPiece& piece : pieces) {
            add_source(plist, space_of(shape, piece.to), piece.file, space_of(piece.source_shape, piece.from),
                       piece.dataset);
          }
        },
        type);
  }

  /// Writes the virtual dataset "x" of the sources that `add_sources(plist)` adds by `add_source`. Of uint16,
  /// its fill value is `kFill`. `most`: its largest extents; empty: `shape`.
  template <typename AddSources>
  void make_of(const std::string& name, const Shape& shape, const AddSources& add_sources,
               hid_t type = H5T_STD_U16LE, const Shape& most = {}) {
    const H5TestFile file(dir_ / name);
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    if (type == H5T_STD_U16LE)
      require(H5Pset_fill_value(plist.get(), H5T_NATIVE_UINT16, &kFill), "H5Pset_fill_value");
    add_sources(plist.get());
    const std::vector<hsize_t> extent(shape.begin(), shape.end()), limit(most.begin(), most.end());
    const Hid space(H5Screate_simple(static_cast<int>(extent.size()), extent.data(),
                                     most.empty() ? nullptr : limit.data()));
    const Hid dataset(H5Dcreate2(file.id(), "x", type, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }

  /// Adds a source to the property list of a virtual dataset.
  static void add_source(hid_t plist, const Hid& to, const std::string& file, const Hid& from,
                         const std::string& dataset = "x") {
    require(H5Pset_virtual(plist, to.get(), file.c_str(), dataset.c_str(), from.get()), "H5Pset_virtual");
  }

  const std::filesystem::path& folder() const noexcept { return dir_.path(); }

 private:
  TempDir dir_;
  unsigned seed_ = 1;
};

}  // namespace h5feed::test
