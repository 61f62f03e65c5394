// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/free_space.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "base/byte_units.hpp"
#include "base/files/folder_of.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "tools/storage/parallel_write.hpp"

namespace h5feed::cli {
namespace {

constexpr std::uint64_t kMaximum = std::numeric_limits<std::uint64_t>::max();

// Returns the folder that the file is written to, which is that of its target if the path is a link.
std::filesystem::path real_folder_of(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::weakly_canonical(file, error);
  return folder_of(error ? file : target);
}

std::string needed_text(std::uint64_t bytes, bool estimated) {
  return fmt::format("{}{}", estimated ? "about " : "",
                     bytes == kMaximum ? std::string("more than 16 EiB") : format_bytes(bytes));
}

}  // namespace

std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) noexcept {
  return a > kMaximum - b ? kMaximum : a + b;
}

void add_to(SpaceNeed& sum, const SpaceNeed& need) noexcept {
  sum.bytes = saturating_sum(sum.bytes, need.bytes);
  sum.largest_file_bytes = saturating_sum(sum.largest_file_bytes, need.largest_file_bytes);
  sum.estimated = sum.estimated || need.estimated;
}

std::optional<std::uint64_t> free_bytes_for(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(real_folder_of(file), error);
  return error ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

void require_free_space(const std::filesystem::path& file, const SpaceNeed& need) {
  const std::optional<std::uint64_t> free = free_bytes_for(file);
  if (free && need.bytes > *free) {
    throw FileError(fmt::format("{}: {} are needed there, {} are free; free some or write elsewhere",
                                file.string(), needed_text(need.bytes, need.estimated), format_bytes(*free)));
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && need.largest_file_bytes > limit.rlim_cur) {
    throw FileError(fmt::format(
        "{}: {} are needed, and this process may write files of {} (ulimit -f); raise "
        "that limit or write less",
        file.string(), needed_text(need.largest_file_bytes, need.estimated), format_bytes(limit.rlim_cur)));
  }
}

double measure_stored_share(const NewDataset& dataset, std::span<const std::byte> rows) {
  if (dataset.filters.empty()) return 1;
  const std::size_t element_bytes = size_of(dataset.dtype);
  const std::size_t bytes =
      std::min(rows.size(), static_cast<std::size_t>(kMiB)) / element_bytes * element_bytes;
  const FilterPipeline filters(dataset.filters, bytes, element_bytes);
  return static_cast<double>(filters.encode(rows.first(bytes)).size()) / static_cast<double>(bytes);
}

std::uint64_t stored_bytes_of(const NewDataset& dataset, double stored_share) {
  double rows = static_cast<double>(dataset.shape.front());
  if (!dataset.chunk_shape.empty()) {
    // The last chunk is stored in full.
    const std::uint64_t chunk_rows = dataset.chunk_shape.front();
    const std::uint64_t chunks = (dataset.shape.front() - 1) / chunk_rows + 1;
    rows = static_cast<double>(chunks) * static_cast<double>(chunk_rows);
  }
  double bytes = rows * static_cast<double>(row_bytes(dataset)) * stored_share;
  if (!dataset.chunk_shape.empty()) {
    // Each chunk has an entry in the version 1 B-tree: size, filter mask, one offset per dimension and one
    // for the element, and an address (HDF5 File Format Specification, III.A.1); nodes are not quite full.
    const double entry_bytes = 16 + 8 * static_cast<double>(dataset.shape.size() + 1);
    bytes += 1.2 * entry_bytes * rows / static_cast<double>(dataset.chunk_shape.front());
  }
  return bytes < static_cast<double>(kMaximum) ? static_cast<std::uint64_t>(bytes) : kMaximum;
}

}  // namespace h5feed::cli
