#include "store/chunk_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "base/mutex.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/chunk_geometry.hpp"
#include "store/chunk_readers.hpp"
#include "store/external_files.hpp"
#include "store/file_pool.hpp"
#include "store/joined_reader.hpp"

namespace h5feed {
namespace {

// Bytes in memory: compact data is part of the metadata, and is read once.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(ByteBuffer bytes) : bytes_(std::move(bytes)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  std::uint64_t size() const noexcept override { return bytes_.size(); }

 private:
  ByteBuffer bytes_;
};

// An error's text without the file and dataset it begins with, to stand within another.
std::string_view without_place(std::string_view text, const DatasetInfo& info) {
  for (const std::string& place :
       {fmt::format("{}:{}: ", info.file, short_path(info.path)), fmt::format("{}: ", info.file)}) {
    if (text.starts_with(place)) text.remove_prefix(place.size());
  }
  return text;
}

// "filter 32026 blosc2 is not built in" for the first filter that some stored chunk needs and h5feed
// lacks. Throws DatasetError where libhdf5 lacks it too, and where its parameters are damaged: libhdf5 would
// read out of bounds.
std::string missing_filter(const DatasetInfo& info, const ChunkIndex* index) {
  std::uint32_t used = index == nullptr ? ~std::uint32_t{0} : 0;
  if (index != nullptr) {
    for (const ChunkLocation& location : index->locations) {
      if (location.allocated()) used |= ~location.filter_mask;
    }
  }
  for (std::size_t i = 0; i < info.filters.size() && i < 32; ++i) {
    const FilterSpec& filter = info.filters[i];
    if ((used >> i & 1U) == 0) continue;
    if (const std::string damage = contradiction(filter, info); !damage.empty()) {
      throw DatasetError(fmt::format("{}:{}: filter {} ({}) {}; restore the file from a good copy", info.file,
                                     short_path(info.path), filter.id, filter.name, damage));
    }
    if (FilterPipeline::supports(filter)) continue;
    const std::string reason = unsupported_reason(filter);
    if (!libhdf5_has_filter(filter.id)) {
      throw DatasetError(
          fmt::format("{}:{}: filter {} ({}) {} and libhdf5 finds no plugin for it; install the "
                      "plugin and set HDF5_PLUGIN_PATH, or write the dataset once with gzip",
                      info.file, short_path(info.path), filter.id,
                      filter.name.empty() ? "unknown" : filter.name, reason));
    }
    return fmt::format("filter {}{}{} {}", filter.id, filter.name.empty() ? "" : " ", filter.name, reason);
  }
  return {};
}

std::shared_ptr<const ChunkReader> open_chunked(std::shared_ptr<H5File> file, DatasetInfo info,
                                                std::shared_ptr<const ByteSource> source,
                                                const ReaderSettings& settings) {
  std::optional<ChunkIndex> index;
  std::string reason;
  try {
    index = build_chunk_index(*file, info);
  } catch (const DamagedChunkIndex&) {
    throw;  // libhdf5 would give fill values for the chunks that it does not find
  } catch (const FileError& error) {
    reason = without_place(error.what(), info);
  }
  if (const std::string missing = missing_filter(info, index ? &*index : nullptr); !missing.empty()) {
    reason = missing;
  }
  if (!reason.empty()) return open_fallback(std::move(file), std::move(info), reason, settings);
  return make_direct_reader(std::move(info), std::move(*index), std::move(source));
}

// libhdf5 1.10 reads on beyond the object header, or into the next object.
void check_stored_bytes(const DatasetInfo& info) {
  if (info.total_bytes() <= info.stored_bytes) return;
  throw FileError(fmt::format(
      "{}:{}: {} bytes are stored, the shape {} needs {}; restore the file from a good copy", info.file,
      short_path(info.path), info.stored_bytes, info.shape_text(), info.total_bytes()));
}

std::shared_ptr<const ChunkReader> open_contiguous(std::shared_ptr<H5File> file, DatasetInfo info,
                                                   std::shared_ptr<const ByteSource> source,
                                                   const ReaderSettings& settings) {
  const std::optional<std::uint64_t> begin = file->contiguous_offset(info);
  const std::uint64_t file_bytes = file->bytes()->size();
  if (begin) check_stored_bytes(info);
  if (begin && (*begin > file_bytes || info.total_bytes() > file_bytes - *begin)) {
    return open_fallback(std::move(file), std::move(info), "its bytes lie outside the file", settings);
  }
  return make_flat_reader(std::move(info), begin, std::move(source));
}

std::shared_ptr<const ChunkReader> open_compact(const H5File& file, DatasetInfo info) {
  check_stored_bytes(info);
  ByteBuffer bytes(info.total_bytes());
  file.read_rows(info, 0, info.rows(), bytes.span());
  info.byte_swapped = false;  // H5Dread delivered host order
  return make_flat_reader(std::move(info), 0, std::make_shared<MemorySource>(std::move(bytes)));
}

std::shared_ptr<const ChunkReader> open_layout(std::shared_ptr<H5File> file, DatasetInfo info,
                                               std::shared_ptr<const ByteSource> source,
                                               const ReaderSettings& settings) {
  switch (info.layout) {
    case StorageLayout::chunked:
      return open_chunked(std::move(file), std::move(info), std::move(source), settings);
    case StorageLayout::contiguous:
      return open_contiguous(std::move(file), std::move(info), std::move(source), settings);
    case StorageLayout::compact:
      return open_compact(*file, std::move(info));
    case StorageLayout::external:
      check_external_files(*file, info);
      return open_fallback(std::move(file), std::move(info), "its bytes are in external files", settings);
    case StorageLayout::virtual_dataset:
      break;
  }
  if (settings.pool) return open_virtual(file, info, settings);
  // libhdf5 would give fill values for a source that is missing or too short.
  ReaderSettings with_pool = settings;
  with_pool.pool = std::make_shared<FilePool>();
  with_pool.log_fallback = false;
  open_virtual(file, info, with_pool);
  return open_fallback(std::move(file), std::move(info), "it is a virtual dataset", settings);
}

std::uint64_t product(const std::vector<std::uint64_t>& extents) noexcept {
  std::uint64_t result = 1;
  for (const std::uint64_t extent : extents) result *= extent;
  return result;
}

std::vector<std::uint64_t> row_grid(const std::vector<std::uint64_t>& shape,
                                    const std::vector<std::uint64_t>& chunk_shape, const RowLayout& rows) {
  std::vector<std::uint64_t> grid = chunk_grid(shape, chunk_shape);
  if (!grid.empty()) grid.front() = rows.num_chunks();
  return grid;
}

// Reads chunk after chunk into one array. Shared by the threads of read_all.
class WholeRead {
 public:
  WholeRead(const ChunkReader& reader, std::span<std::byte> out) : reader_(reader), out_(out) {}

  void run() noexcept {
    try {
      ReadScratch scratch;
      ByteBuffer decoded;
      while (!failed_.load(std::memory_order_relaxed)) {
        const std::uint64_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= reader_.num_chunks()) return;
        read_one(chunk, scratch, decoded);
      }
    } catch (...) {
      const MutexLock lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_ = true;
    }
  }

  void rethrow() {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void read_one(std::uint64_t chunk, ReadScratch& scratch, ByteBuffer& decoded) {
    const DatasetInfo& info = reader_.info();
    const std::size_t element_bytes = size_of(info.dtype);
    const std::vector<std::uint64_t> coordinates = chunk_coordinates(chunk, reader_.grid());
    std::vector<std::uint64_t> extent(coordinates.size());
    std::uint64_t first_element = 0;
    std::uint64_t skipped_bytes = 0;  // of the chunk
    if (!coordinates.empty()) {
      const RowLayout::Rows rows = reader_.rows().rows_of(coordinates.front());
      extent.front() = rows.count();
      first_element = rows.first;
      skipped_bytes = reader_.rows().place_in_chunk(rows.first) * element_bytes;
    }
    for (std::size_t d = 1; d < extent.size(); ++d) {
      const std::uint64_t begin = coordinates[d] * reader_.chunk_shape()[d];
      extent[d] = std::min(reader_.chunk_shape()[d], info.shape[d] - begin);
      first_element = first_element * info.shape[d] + begin;
      skipped_bytes *= reader_.chunk_shape()[d];
    }
    std::byte* const target = out_.data() + first_element * element_bytes;
    const bool whole_rows = std::equal(extent.begin() + (extent.empty() ? 0 : 1), extent.end(),
                                       info.shape.begin() + (extent.empty() ? 0 : 1), info.shape.end());
    if (whole_rows && extent == reader_.chunk_shape() && skipped_bytes == 0) {
      reader_.read_chunk(chunk, {target, reader_.chunk_bytes()}, scratch);
      return;
    }
    decoded.resize_discard(reader_.chunk_bytes());
    reader_.read_chunk(chunk, decoded.span(), scratch);
    copy_box({extent, reader_.chunk_shape(), info.shape, element_bytes}, decoded.data() + skipped_bytes,
             target);
  }

  const ChunkReader& reader_;
  const std::span<std::byte> out_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  std::exception_ptr error_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<const ChunkReader> ChunkReader::open(std::shared_ptr<H5File> file, DatasetInfo info,
                                                     std::shared_ptr<const ByteSource> source,
                                                     const ReaderSettings& settings) {
  auto reader =
      open_layout(file, std::move(info), source == nullptr ? file->bytes() : std::move(source), settings);
  // What was learned of the file since it was opened belongs together.
  file->check_unchanged();
  return reader;
}

ChunkReader::ChunkReader(DatasetInfo info, std::vector<std::uint64_t> chunk_shape)
    : ChunkReader(info, chunk_shape, RowLayout(info.rows(), chunk_shape.empty() ? 1 : chunk_shape.front())) {}

ChunkReader::ChunkReader(DatasetInfo info, std::vector<std::uint64_t> chunk_shape, RowLayout rows)
    : info_(std::move(info)),
      chunk_shape_(std::move(chunk_shape)),
      grid_(row_grid(info_.shape, chunk_shape_, rows)),
      rows_(std::move(rows)),
      num_chunks_(product(grid_)),
      chunk_bytes_(product(chunk_shape_) * size_of(info_.dtype)),
      max_stored_bytes_(chunk_bytes_) {}

std::vector<JoinedPart> ChunkReader::parts() const { return {}; }

std::string ChunkReader::describe_chunk(std::uint64_t chunk) const {
  return describe_chunk_of(info_, chunk_shape_, grid_, chunk);
}

std::shared_ptr<const ChunkReader> open_fallback(std::shared_ptr<H5File> file, DatasetInfo info,
                                                 const std::string& reason, const ReaderSettings& settings) {
  if (settings.log_fallback) {
    log(LogLevel::warning, fmt::format("{}:{}: reading through libhdf5's lock, one chunk at a time ({})",
                                       info.file, short_path(info.path), reason));
  }
  return make_fallback_reader(std::move(info), std::move(file), reason);
}

std::span<std::byte> chunk_target(const ChunkReader& reader, std::uint64_t chunk, std::span<std::byte> out) {
  if (chunk >= reader.num_chunks() || out.size() < reader.chunk_bytes()) {
    throw std::invalid_argument("ChunkReader::read_chunk: no such chunk, or out is too small");
  }
  return out.first(reader.chunk_bytes());
}

void check_rows(const ChunkReader& reader, std::uint64_t first, std::uint64_t count,
                std::span<const std::span<std::byte>> outs) {
  std::uint64_t out_bytes = 0;
  for (const std::span<std::byte> out : outs) out_bytes += out.size();
  const std::uint64_t rows_per_chunk = reader.chunk_shape().empty() ? 1 : reader.chunk_shape().front();
  const std::uint64_t rows = reader.info().rows();
  if (first > rows || count > rows - first || first % rows_per_chunk + count > rows_per_chunk ||
      out_bytes != count * reader.info().row_bytes()) {
    throw std::invalid_argument("ChunkReader::read_rows: rows beyond a chunk, or out is of another size");
  }
}

void rethrow_for_chunk(const ChunkReader& reader, std::uint64_t chunk) {
  try {
    throw;
  } catch (const FilterError& error) {
    throw ChunkError(fmt::format("{} is corrupt: {}; restore the file from a good copy",
                                 reader.describe_chunk(chunk), error.what()));
  } catch (const FileError& error) {
    throw FileError(fmt::format("{} cannot be read: {}", reader.describe_chunk(chunk),
                                without_place(error.what(), reader.info())));
  }
}

std::uint64_t now_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

ByteBuffer read_all(const ChunkReader& reader, unsigned threads) {
  ByteBuffer out(reader.info().total_bytes());
  WholeRead read(reader, out.span());
  {
    std::vector<std::jthread> helpers;
    const std::uint64_t wanted = std::min<std::uint64_t>(threads, reader.num_chunks());
    for (std::uint64_t i = 1; i < wanted; ++i) helpers.emplace_back([&read] { read.run(); });
    read.run();
  }
  read.rethrow();
  return out;
}

}  // namespace h5feed
