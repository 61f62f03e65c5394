// SPDX-License-Identifier: Apache-2.0
#include "store/read/external_source.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files/folder_of.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/external_files.hpp"
#include "store/hdf5/virtual_sources.hpp"

namespace h5feed {
namespace {

namespace fs = std::filesystem;

// A run of the dataset's bytes in one of the files.
struct Run {
  std::uint64_t begin = 0;  // in the dataset
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // in the file
  std::shared_ptr<const ByteSource> file;
};

class ExternalSource final : public ByteSource {
 public:
  // `runs` follow each other without gaps, from byte 0 on.
  explicit ExternalSource(std::vector<Run> runs) : runs_(std::move(runs)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const Run& run = run_at(offset);
      const std::uint64_t skipped = offset - run.begin;
      const std::uint64_t bytes = std::min<std::uint64_t>(out.size(), run.bytes - skipped);
      run.file->read(run.offset + skipped, out.first(bytes));
      offset += bytes;
      out = out.subspan(bytes);
    }
  }

  void read_scattered(std::uint64_t offset, std::span<const std::span<std::byte>> outs) const override {
    std::uint64_t bytes = 0;
    for (const std::span<std::byte> out : outs) bytes += out.size();
    if (bytes == 0) return;
    const Run& run = run_at(offset);
    const std::uint64_t skipped = offset - run.begin;
    if (bytes <= run.bytes - skipped) {
      run.file->read_scattered(run.offset + skipped, outs);
    } else {
      ByteSource::read_scattered(offset, outs);
    }
  }

  void will_need(std::uint64_t offset, std::uint64_t bytes) const noexcept override {
    while (bytes > 0 && offset < size()) {
      const Run& run = run_at(offset);
      const std::uint64_t skipped = offset - run.begin;
      const std::uint64_t part = std::min(bytes, run.bytes - skipped);
      run.file->will_need(run.offset + skipped, part);
      offset += part;
      bytes -= part;
    }
  }

  bool resident(std::uint64_t offset) const noexcept override {
    if (offset >= size()) return true;
    const Run& run = run_at(offset);
    return run.file->resident(run.offset + (offset - run.begin));
  }

  std::uint64_t size() const noexcept override {
    return runs_.empty() ? 0 : runs_.back().begin + runs_.back().bytes;
  }

 private:
  // Requires `offset` < size().
  const Run& run_at(std::uint64_t offset) const noexcept {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), offset,
                                        [](std::uint64_t at, const Run& run) { return at < run.begin; });
    return *std::prev(after);
  }

  const std::vector<Run> runs_;
};

// Throws FileError unless `file` is a regular file that has the bytes of the run.
void check_file(const DatasetInfo& info, const fs::path& file, std::uint64_t offset, std::uint64_t bytes) {
  const std::string begin = fmt::format("{}:{}: its values are stored in another file, {}, which ", info.file,
                                        short_path(info.path), file.string());
  constexpr auto kElsewhere = "restore it, or set HDF5_EXTFILE_PREFIX to the folder that has it";
  if (::access(file.c_str(), R_OK) != 0) {
    throw FileError(
        fmt::format("{}cannot be opened: {}; {}", begin, std::generic_category().message(errno), kElsewhere));
  }
  std::error_code ignored;
  // A pipe would be waited for, and a device has no end.
  if (!fs::is_regular_file(file, ignored)) {
    throw FileError(fmt::format("{}is not a regular file; {}", begin, kElsewhere));
  }
  const std::uint64_t there = fs::file_size(file, ignored);
  if (!ignored && (there < offset || there - offset < bytes)) {
    throw FileError(
        fmt::format("{}has {} bytes where {} from byte {} on are needed; restore it, or wait until "
                    "its writer has completed it",
                    begin, there, bytes, offset));
  }
}

}  // namespace

fs::path external_path(const H5File& file, const std::string& name) {
  const char* const prefix = std::getenv("HDF5_EXTFILE_PREFIX");
  // Absolute, because it is opened when it is needed, perhaps in another working directory.
  return fs::absolute(prefix == nullptr ? fs::path(name)
                                        : fs::path(with_origin(prefix, folder_of(file.path()))) / name);
}

std::shared_ptr<const ByteSource> open_external_source(const H5File& file, const DatasetInfo& info,
                                                       FilePool& pool) {
  const std::uint64_t wanted = info.total_bytes();
  std::uint64_t begin = 0;
  std::vector<Run> runs;
  std::vector<fs::path> files;
  for (const ExternalPart& part : external_parts(file, info)) {
    // The last part may be unlimited, and the shape may need less than the parts have room for.
    const std::uint64_t bytes = std::min(wanted - begin, part.bytes);
    if (bytes == 0) continue;
    files.push_back(external_path(file, part.name));
    check_file(info, files.back(), part.offset, bytes);
    runs.push_back({begin, bytes, part.offset, nullptr});
    begin += bytes;
  }
  if (begin < wanted) {
    throw FileError(
        fmt::format("{}:{}: its external files have room for {} bytes, the shape {} needs {}; restore the "
                    "file from a good "
                    "copy",
                    info.file, short_path(info.path), begin, info.shape_text(), wanted));
  }
  // Together, so that a lack of space for copies is found before the first is copied.
  pool.places().prepare(files);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].file = pool.source(files[i]);
    if (!pool.places().staged()) pool.places().read_in_place(files[i]);
  }
  return std::make_shared<ExternalSource>(std::move(runs));
}

}  // namespace h5feed
