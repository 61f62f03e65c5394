// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/scratch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/files/folder_of.hpp"
#include "h5feed/error.hpp"
#include "store/write/staged_file.hpp"

namespace h5feed::cli {
namespace {

[[noreturn]] void fail(const std::filesystem::path& directory, std::string_view action, int error) {
  throw FileError(fmt::format("{}: cannot {} the scratch file: {}; free space there or give more --memory",
                              directory.string(), action, std::generic_category().message(error)));
}

FileDescriptor open_nameless(const std::filesystem::path& directory) {
  FileDescriptor fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid()) return fd;
  // Not every file system supports unnamed files.
  std::string name = (directory / ".h5feed-scratch-XXXXXX").string();
  fd = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd.valid()) fail(directory, "create", errno);
  ::unlink(name.c_str());
  return fd;
}

}  // namespace

ScratchFile::ScratchFile(const std::filesystem::path& neighbor, std::uint64_t bytes)
    : directory_(folder_of(neighbor)), bytes_(bytes), fd_(open_nameless(directory_)) {
  if (const int error = bytes > 0 ? claim_storage(fd_.get(), 0, bytes) : 0; error != 0)
    fail(directory_, "make room for", error);
}

void ScratchFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(directory_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void ScratchFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t done = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail(directory_, "read", done == 0 ? EIO : errno);
    out = out.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

ScratchLayout::ScratchLayout(const RecutShapes& shapes, const std::vector<ChunkBox>& regions)
    : regions_(regions), element_bytes_(shapes.element_bytes) {
  std::uint64_t begin = 0;
  for (const ChunkBox& region : regions) {
    begins_.push_back(begin);
    begin += elements_of(region);
  }
}

// The parts of a region are the cells of a grid, in row-major order. Before a cell come, for each dimension,
// the cells that share its position in all previous dimensions and have a smaller one in this dimension.
std::uint64_t ScratchLayout::offset(std::size_t region, const ChunkBox& piece) const noexcept {
  const ChunkBox& whole = regions_[region];
  std::uint64_t offset = begins_[region];
  std::uint64_t across = 1;  // elements of the cell over the previous dimensions
  std::uint64_t behind = elements_of(whole);
  for (std::size_t d = 0; d < piece.start.size(); ++d) {
    behind /= whole.count[d];
    offset += (piece.start[d] - whole.start[d]) * across * behind;
    across *= piece.count[d];
  }
  return offset * element_bytes_;
}

}  // namespace h5feed::cli
