// SPDX-License-Identifier: Apache-2.0
// Writes HDF5 files of any layout with libhdf5 itself.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/format/dataset_info.hpp"

namespace h5feed::test {

/// Owns an HDF5 identifier. Move-only.
class Hid {
 public:
  Hid() = default;
  /// Throws std::runtime_error if `id` is negative: libhdf5 refused.
  explicit Hid(hid_t id);
  Hid(Hid&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Hid& operator=(Hid&& other) noexcept;
  ~Hid();
  hid_t get() const noexcept { return id_; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// Throws std::runtime_error that names `call` if `status` is negative.
void require(herr_t status, const char* call);

/// How to create a file.
struct TestFileOptions {
  bool latest = false;  ///< newest format: chunk indexes other than the version 1 B-tree
  std::uint64_t user_block = 0;
};

/// A dataset to create. Members left out have libhdf5's defaults.
struct TestDataset {
  std::string path = "x";
  hid_t file_type = H5T_STD_U8LE;
  std::vector<std::uint64_t> shape = {};
  std::vector<std::uint64_t> max_shape = {};  ///< empty: `shape`; ~0 is unlimited
  std::vector<std::uint64_t> chunk = {};      ///< empty: contiguous, or compact
  bool compact = false;
  std::vector<FilterSpec> filters = {};
  bool unfiltered_edges = false;
  bool early_allocation = false;
  std::vector<std::byte> fill_value = {};  ///< in `file_type`; empty: libhdf5's default
  bool undefined_fill_value = false;
  std::string external_file = {};  ///< external file that holds the values instead
};

/// Returns the deflate filter, optional as `H5Pset_deflate` sets it.
inline FilterSpec gzip_filter(unsigned level) {
  return {.id = 1, .optional = true, .params = {level}, .name = {}};
}

/// Creates a 16-bit float type with the given mantissa bits and bias: binary16 has 10 and 15, bfloat16 7 and
/// 127. The caller closes it.
hid_t float16_type(std::size_t mantissa_bits, std::size_t bias, H5T_order_t order);

/// An HDF5 file open for writing. Calls throw std::runtime_error if libhdf5 refuses.
class H5TestFile {
 public:
  explicit H5TestFile(const std::filesystem::path& path, TestFileOptions options = {});

  hid_t id() const noexcept { return file_.get(); }

  /// Creates a dataset without writing values.
  void create(const TestDataset& dataset);
  /// Creates a virtual dataset of bytes that only libhdf5 reads, because it has to convert its source, the
  /// dataset `path` + "_wide" of two bytes for each.
  void create_converted(const std::string& path, const std::vector<std::uint64_t>& shape,
                        std::span<const std::byte> values);
  /// Writes all elements of a dataset, given in the host's byte order.
  void write(const std::string& path, std::span<const std::byte> bytes);
  /// Writes a box of a dataset, given in the host's byte order.
  void write_box(const std::string& path, std::span<const std::uint64_t> start,
                 std::span<const std::uint64_t> count, std::span<const std::byte> bytes);
  /// Stores the bytes of a chunk as they are, without running filters.
  void write_chunk(const std::string& path, std::span<const std::uint64_t> offset,
                   std::span<const std::byte> stored, std::uint32_t filter_mask = 0);
  /// Changes the extents of a dataset.
  void set_extent(const std::string& path, std::span<const std::uint64_t> shape);
  /// Returns the filter pipeline as stored: libhdf5 completes the parameters of its own filters.
  std::vector<FilterSpec> filters(const std::string& path) const;
  /// Returns the kind of chunk index that libhdf5 chose.
  H5D_chunk_index_t index_type(const std::string& path) const;

 private:
  Hid open(const std::string& path) const;

  Hid file_;
};

/// Reads `dataset` of a file with H5Dread, in the host's byte order.
std::vector<std::byte> read_through_libhdf5(const std::filesystem::path& file, const std::string& dataset);

/// Returns compressible bytes that differ from element to element: a function of position and `seed`.
std::vector<std::byte> patterned_bytes(std::size_t size, unsigned seed = 0);

/// Returns incompressible bytes: a function of position and `seed`.
std::vector<std::byte> random_bytes(std::size_t size, unsigned seed = 0);

/// Returns the whole content of a file.
std::vector<std::byte> file_bytes(const std::filesystem::path& path);
/// Replaces the content of a file.
void replace_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace h5feed::test
