// SPDX-License-Identifier: Apache-2.0
// IDX files, the format of the MNIST family: http://yann.lecun.com/exdb/mnist/, "The IDX file format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "h5feed/dtype.hpp"
#include "tools/pack/source.hpp"

namespace h5feed::cli {

/// An IDX file, plain or gzip-compressed (detected from its content), read from front to back in bounded
/// memory. The header is validated first: sizes that overflow, or that the file cannot hold, are errors. For
/// one thread.
class IdxFile final : public ArraySource {
 public:
  /// Opens the file and reads its header; reads a gzip file whole if the length at its end is not that of the
  /// data. Throws FileError if the file cannot be read, is not IDX, or has a header that disagrees with its
  /// length.
  explicit IdxFile(std::filesystem::path path);
  ~IdxFile() override;

  const std::filesystem::path& path() const noexcept { return path_; }
  DType dtype() const noexcept override { return dtype_; }
  /// Elements along each dimension, each at least 1; at least one dimension.
  const std::vector<std::uint64_t>& shape() const noexcept override { return shape_; }

  /// Fills `out` with the next elements, in the byte order of the host. `out` must hold whole elements, at
  /// most as many as remain. Throws FileError if the file is damaged or ends early.
  void read(std::span<std::byte> out) override;

  /// Call when all elements have been read. Throws FileError if the file holds more data.
  void expect_end() override;

 private:
  class Stream;
  void read_bytes(std::span<std::byte> out, const char* what);
  // Reads the elements to the end of the file and returns to the first, so that damage is found before
  // anything is written.
  void read_ahead(std::uint64_t header_bytes, std::uint64_t bytes);
  [[noreturn]] void refuse_more() const;
  [[noreturn]] void refuse(const std::string& reason) const;

  std::filesystem::path path_;
  std::unique_ptr<Stream> stream_;
  DType dtype_ = DType::u8;
  std::vector<std::uint64_t> shape_;
};

}  // namespace h5feed::cli
