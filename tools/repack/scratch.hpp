// SPDX-License-Identifier: Apache-2.0
// An unnamed file for intermediate values, and the order of a dataset's parts in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "store/format/byte_source.hpp"
#include "tools/storage/recut_plan.hpp"

namespace h5feed::cli {

/// An unnamed file, so that nothing of it stays however the process ends. Thread-safe for distinct ranges.
class ScratchFile final : public ByteSource {
 public:
  /// Creates the file in the directory of `neighbor` and reserves `bytes` if the file system supports that.
  /// Throws FileError.
  ScratchFile(const std::filesystem::path& neighbor, std::uint64_t bytes);

  /// Writes `bytes` at `offset`. Throws FileError.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Fills `out` from `offset`. Throws FileError.
  void read(std::uint64_t offset, std::span<std::byte> out) const override;
  std::uint64_t size() const noexcept override { return bytes_; }

 private:
  const std::filesystem::path directory_;
  const std::uint64_t bytes_;
  FileDescriptor fd_;
};

/// Order of values in a scratch file: region by region and, within a region, source chunk by source chunk,
/// each with the part that is in the region.
class ScratchLayout {
 public:
  /// Borrows `regions`, which must outlive this object.
  ScratchLayout(const RecutShapes& shapes, const std::vector<ChunkBox>& regions);

  /// Returns the byte offset of `piece`, a source chunk's share of the region.
  std::uint64_t offset(std::size_t region, const ChunkBox& piece) const noexcept;

 private:
  const std::vector<ChunkBox>& regions_;
  std::vector<std::uint64_t> begins_;  // start of each region, in elements
  std::size_t element_bytes_;
};

}  // namespace h5feed::cli
