// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files (numpy.lib.format, "Format Version 1.0" to "3.0").
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "store/format/byte_source.hpp"
#include "tools/pack/source.hpp"

namespace h5feed::cli {

/// An array of numbers or booleans, in C order, in either byte order, read from front to back. The header is
/// validated first. For one thread.
class NpyFile final : public ArraySource {
 public:
  /// Opens the file and reads its header. Throws FileError if the file cannot be read, is not .npy, is in
  /// Fortran order, holds elements that are not numbers, or has a size that disagrees with its header.
  explicit NpyFile(std::filesystem::path path);

  DType dtype() const noexcept override { return dtype_; }
  const std::vector<std::uint64_t>& shape() const noexcept override { return shape_; }
  void read(std::span<std::byte> out) override;
  void expect_end() override;

 private:
  [[noreturn]] void refuse(const std::string& reason) const;
  void parse_header(const std::string& header);

  std::filesystem::path path_;
  std::shared_ptr<const ByteSource> bytes_;
  DType dtype_ = DType::u8;
  bool byte_swapped_ = false;
  std::vector<std::uint64_t> shape_;
  std::uint64_t position_ = 0;
};

}  // namespace h5feed::cli
