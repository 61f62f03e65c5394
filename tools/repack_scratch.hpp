// A nameless file for values on their way, and the order of a dataset's parts in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/file_descriptor.hpp"
#include "store/byte_source.hpp"
#include "tools/recut_plan.hpp"

namespace h5feed::cli {

/// A file that has no name, so that nothing of it stays however the process ends. Thread-safe on distinct
/// places.
class ScratchFile final : public ByteSource {
 public:
  /// In the directory of `beside`, with room for `bytes` where the file system can promise it. Throws
  /// FileError.
  ScratchFile(const std::filesystem::path& beside, std::uint64_t bytes);

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void read(std::uint64_t offset, std::span<std::byte> out) const override;
  std::uint64_t size() const noexcept override { return bytes_; }

 private:
  const std::filesystem::path directory_;
  const std::uint64_t bytes_;
  FileDescriptor fd_;
};

/// Values in the order in which regions need them: region by region, within it source chunk by source
/// chunk, each the part that lies in the region.
class ScratchLayout {
 public:
  ScratchLayout(const RecutShapes& shapes, const std::vector<ChunkBox>& regions);

  /// Where the part `piece` (a source chunk's share of the region) begins, in bytes.
  std::uint64_t offset(std::size_t region, const ChunkBox& piece) const noexcept;

 private:
  const std::vector<ChunkBox>& regions_;
  std::vector<std::uint64_t> begins_;  // of the regions, in elements
  std::size_t element_bytes_;
};

}  // namespace h5feed::cli
