// SPDX-License-Identifier: Apache-2.0
#include "store/read/file_pool.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/hdf5/virtual_sources.hpp"
#include "store/read/joined_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "store/read/unfetched_chunk_reader.hpp"

namespace h5feed {
namespace {

// With more open files, the cost of opening no longer matters.
constexpr std::size_t kMostFiles = 16'384;
constexpr std::size_t kFewestFiles = 16;
// libhdf5 keeps up to 4 MiB of metadata for each reader.
constexpr std::size_t kMostReaders = 32;

std::size_t half_of_the_descriptors() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMostFiles;
  return std::clamp(static_cast<std::size_t>(limit.rlim_cur / 2), kFewestFiles, kMostFiles);
}

using Files = OpenPool<const ByteSource>;
using Readers = OpenPool<const ChunkReader>;

// The pools of the process: its datasets share what it may have open. Never destroyed, since datasets in
// static storage are closed while the process exits. A fork finds them whole.
struct ProcessPools {
  std::shared_ptr<Files> files = std::make_shared<Files>(kFewestFiles);
  std::shared_ptr<Readers> readers = std::make_shared<Readers>(kMostReaders);
};

ProcessPools& process_pools() {
  static ProcessPools* const pools = new ProcessPools;
  return *pools;
}

void before_fork() {
  process_pools().readers->hold();
  process_pools().files->hold();
}

void after_fork() {
  process_pools().files->release();
  process_pools().readers->release();
}

[[maybe_unused]] const int fork_handlers = pthread_atfork(before_fork, after_fork, after_fork);

// Opens a file of `pool`, and if the process has too many open, again without half of the pool's.
std::shared_ptr<const ByteSource> open_in(Files& pool, const std::filesystem::path& path,
                                          const FileIdentity& identity) {
  try {
    return open_file_source(path, identity);
  } catch (const NoDescriptorError&) {
    if (!pool.close_half()) throw;
  }
  return open_file_source(path, identity);
}

class PooledSource final : public ByteSource {
 public:
  PooledSource(const std::shared_ptr<Files>& pool, const std::filesystem::path& path,
               const FileIdentity& identity)
      : size_(identity.bytes),
        slot_(pool, [&pool = *pool, path, identity] { return open_in(pool, path, identity); }) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override { slot_.get()->read(offset, out); }
  void read_scattered(std::uint64_t offset, std::span<const std::span<std::byte>> outs) const override {
    slot_.get()->read_scattered(offset, outs);
  }
  void will_need(std::uint64_t offset, std::uint64_t bytes) const noexcept override try {
    slot_.get()->will_need(offset, bytes);
  } catch (const std::exception&) {
    // The following read reports the error.
  }
  bool resident(std::uint64_t offset) const noexcept override try {
    return slot_.get()->resident(offset);
  } catch (const std::exception&) {
    return false;
  }
  std::uint64_t size() const noexcept override { return size_; }

 private:
  const std::uint64_t size_;
  const Files::Slot slot_;
};

// Reads through libhdf5 from a file that may have been closed and reopened in between.
class ReopenedReader final : public UnfetchedChunkReader {
 public:
  ReopenedReader(std::shared_ptr<Readers> pool, const ChunkReader& opened, std::filesystem::path path,
                 std::filesystem::path place, std::shared_ptr<ReaderProcess> isolation)
      : UnfetchedChunkReader(opened.info(), opened.chunk_shape()),
        scratch_bytes_(opened.scratch_bytes()),
        reason_(opened.fallback_reason()),
        slot_(std::move(pool),
              [this, path = std::move(path), place = std::move(place), isolation = std::move(isolation)] {
                return reopen(path, place, isolation);
              }) {
    max_stored_bytes_ = opened.max_stored_bytes();
  }

  std::uint64_t scratch_bytes() const noexcept override { return scratch_bytes_; }
  bool direct() const noexcept override { return false; }
  std::string fallback_reason() const override { return reason_; }
  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    return slot_.get()->read_chunk(chunk, out, scratch);
  }

 private:
  std::shared_ptr<const ChunkReader> reopen(const std::filesystem::path& path,
                                            const std::filesystem::path& place,
                                            const std::shared_ptr<ReaderProcess>& isolation) const {
    auto file = H5File::open(path, place, isolation);
    const DatasetInfo now = file->describe(info_.path);
    if (now.dtype != info_.dtype || now.shape != info_.shape || now.chunk_shape != info_.chunk_shape) {
      throw FileError(fmt::format("{}:{} is {} now, it was {} when it was opened; open it again", info_.file,
                                  short_path(info_.path), now.shape_text(), info_.shape_text()));
    }
    return make_fallback_reader(info_, std::move(file), reason_);
  }

  const std::uint64_t scratch_bytes_;
  const std::string reason_;
  const Readers::Slot slot_;
};

}  // namespace

FilePool::FilePool(FilePlaces places, std::shared_ptr<ReaderProcess> isolation)
    : places_(std::move(places)),
      isolation_(std::move(isolation)),
      files_(process_pools().files),
      readers_(process_pools().readers) {
  files_->limit(half_of_the_descriptors());
}

FilePool::FilePool(std::size_t most_files, std::size_t most_readers)
    : files_(std::make_shared<Files>(most_files)), readers_(std::make_shared<Readers>(most_readers)) {}

std::shared_ptr<H5File> FilePool::open(const std::filesystem::path& path) {
  auto file = H5File::open(path, places_.place_of(path), isolation_);
  if (!file->is_copy()) places_.read_in_place(path);
  if (file->swmr_writer()) {
    log_once(LogLevel::info,
             fmt::format("{0}: a SWMR writer has it open; the rows that are complete now are read, and later "
                         "ones after refresh(); if no writer runs: h5clear -s --increment=0 {0}",
                         path.string()));
  }
  return file;
}

std::shared_ptr<H5File> FilePool::open_linked(const std::filesystem::path& path) {
  // Beside a writer, what libhdf5 has read of the file is soon outdated.
  if (linked_ && linked_->path() == path && !linked_->swmr_writer() && linked_->unchanged()) return linked_;
  linked_ = nullptr;
  places_.prepare({&path, 1});
  return linked_ = open(path);
}

PlacedObject FilePool::follow_links(std::shared_ptr<H5File> file, const std::string& path) {
  constexpr int kMostLinked = 16;
  const std::string begin = fmt::format("{}: \"{}\"", file->path().string(), path);
  PlacedObject object{std::move(file), path};
  for (int files = 0;; ++files) {
    const PathEnd end = object.file->end_of(object.path);
    if (end.other_file.empty()) {
      if (files == 0 || end.found) return object;
      throw DatasetError(fmt::format("{} is a link to {}:{}, which is not there; restore it", begin,
                                     object.file->path().string(), object.path));
    }
    const std::string link = fmt::format("{} leads into another file, {}, ", begin, end.other_file);
    if (files == kMostLinked) {
      throw DatasetError(
          fmt::format("{}after {} others; name the dataset in its own file, or replace the links "
                      "if they lead in a circle",
                      link, kMostLinked));
    }
    const std::filesystem::path other =
        find_named_file(object.file->path(), end.other_file, "HDF5_EXT_PREFIX");
    if (other.empty()) {
      throw FileError(link +
                      "which is missing; put it next to the file that has the link, or set "
                      "HDF5_EXT_PREFIX to its folder");
    }
    try {
      object = {open_linked(other), end.other_path};
    } catch (const IsolationError&) {
      throw;
    } catch (const FileError& error) {
      throw FileError(link + "which cannot be opened: " + error.what());
    }
  }
}

std::shared_ptr<const ByteSource> FilePool::source(const std::filesystem::path& path) {
  std::weak_ptr<const ByteSource>& known = sources_[path.string()];
  if (auto there = known.lock()) return there;
  const std::filesystem::path& place = places_.place_of(path);
  auto source = std::make_shared<const PooledSource>(files_, place, file_identity(place));
  known = source;
  return source;
}

std::shared_ptr<const ChunkReader> FilePool::reader(const std::shared_ptr<H5File>& file, DatasetInfo info,
                                                    const ReaderSettings& settings) {
  auto reader = open_chunk_reader(file, std::move(info), source(file->path()), settings);
  if (reader->direct() || !reader->parts().empty()) return reader;
  const bool finds_sources = reader->info().layout == StorageLayout::virtual_dataset;
  const std::filesystem::path& place = finds_sources ? file->path() : file->place();
  return std::make_shared<const ReopenedReader>(readers_, *reader, file->path(), place, isolation_);
}

}  // namespace h5feed
