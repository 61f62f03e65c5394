// SPDX-License-Identifier: Apache-2.0
#include "store/index/last_chunks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "h5feed/error.hpp"

namespace h5feed {

std::shared_ptr<const LastChunks> LastChunks::watch(const H5File& file, const DatasetInfo& info,
                                                    const ChunkIndex& index) {
  if (file.is_copy() || info.filters.empty() || index.locations.empty() ||
      info.shape.front() % info.chunk_shape.front() == 0 || info.max_shape.front() == info.shape.front()) {
    return nullptr;
  }
  const std::optional<FileIdentity> opened = find_file_identity(file.place());
  if (!opened) return nullptr;
  const std::uint64_t last = index.locations.size() / index.grid.front();
  const std::uint64_t first = index.locations.size() - last;
  return std::shared_ptr<const LastChunks>(new LastChunks(
      file, info, first,
      {*opened, {index.locations.end() - static_cast<std::ptrdiff_t>(last), index.locations.end()}}));
}

LastChunks::LastChunks(const H5File& file, DatasetInfo info, std::uint64_t first, Listed opened)
    : info_(std::move(info)),
      path_(file.path()),
      place_(file.place()),
      isolation_(file.isolation()),
      first_(first),
      opened_(std::move(opened)),
      listed_(opened_) {}

void LastChunks::check_last(std::uint64_t chunk) const {
  const std::optional<FileIdentity> file = find_file_identity(place_);
  // Of a file that was removed or replaced, the bytes that are open do not change.
  if (!file || file->device != opened_.file.device || file->inode != opened_.file.inode) return;
  Listed now = listed();
  if (*file != now.file) {
    // Without the mutex: an `InterruptCheck` may read the dataset meanwhile.
    now = {*file, places_now()};
    const MutexLock lock(mutex_);
    listed_ = now;
  }
  const ChunkLocation& then = opened_.places[chunk - first_];
  const ChunkLocation& here = now.places[chunk - first_];
  if (then.address != here.address || then.stored_bytes != here.stored_bytes)
    throw may_be_others("rows were appended to it since it was opened");
}

LastChunks::Listed LastChunks::listed() const {
  const MutexLock lock(mutex_);
  return listed_;
}

FileError LastChunks::may_be_others(std::string_view why) const {
  return FileError(
      fmt::format("{}:{}: {}, and the bytes of its last chunks may now be others'; refresh() the dataset and "
                  "make a new loader",
                  path_.string(), short_path(info_.path), why));
}

std::vector<ChunkLocation> LastChunks::places_now() const try {
  const auto file = H5File::open(path_, place_, isolation_);
  const DatasetInfo info = file->describe(info_.path);
  const bool grown = info.chunk_shape == info_.chunk_shape && info.shape.size() == info_.shape.size() &&
                     info.shape.front() >= info_.shape.front() &&
                     std::equal(info.shape.begin() + 1, info.shape.end(), info_.shape.begin() + 1);
  if (!grown) throw may_be_others(fmt::format("its shape is {} now", info.shape_text()));
  const ChunkIndex index = build_chunk_index(*file, info);
  const auto begin = index.locations.begin() + static_cast<std::ptrdiff_t>(first_);
  return {begin, begin + static_cast<std::ptrdiff_t>(opened_.places.size())};
} catch (const IsolationError&) {
  throw;
} catch (const DatasetError& error) {
  throw may_be_others(fmt::format("the file was written to since it was opened ({})", error.what()));
} catch (const DamagedChunkIndex& error) {
  throw may_be_others(fmt::format("the file was written to since it was opened ({})", error.what()));
}

}  // namespace h5feed
