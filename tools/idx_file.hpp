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
#include "tools/pack_source.hpp"

namespace h5feed::cli {

/// An IDX file, plain or gzip (told by its content), read from front to back in bounded memory. The
/// header is checked before anything is believed: sizes that overflow, or that the file cannot hold,
/// are errors. For one thread.
class IdxFile final : public ArraySource {
 public:
  /// Reads the header. Throws FileError: unreadable, not IDX, or a header that disagrees with the
  /// file's length.
  explicit IdxFile(std::filesystem::path path);
  ~IdxFile() override;

  const std::filesystem::path& path() const noexcept { return path_; }
  DType dtype() const noexcept override { return dtype_; }
  /// Elements along each dimension, all at least 1; at least one dimension.
  const std::vector<std::uint64_t>& shape() const noexcept override { return shape_; }

  /// Fills `out` with the next elements, in the byte order of the host. `out` must hold whole elements
  /// and ask for no more than are left. Throws FileError: damaged, or ends early.
  void read(std::span<std::byte> out) override;

  /// To be called when all elements were read: throws FileError where the file goes on.
  void expect_end() override;

 private:
  class Stream;
  void read_bytes(std::span<std::byte> out, const char* what);
  [[noreturn]] void refuse(const std::string& reason) const;

  std::filesystem::path path_;
  std::unique_ptr<Stream> stream_;
  DType dtype_ = DType::u8;
  std::vector<std::uint64_t> shape_;
};

}  // namespace h5feed::cli
