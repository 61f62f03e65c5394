// SPDX-License-Identifier: Apache-2.0
#include "store/read/written_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "h5feed/log.hpp"
#include "store/filters/filters.hpp"
#include "store/format/chunk_geometry.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kMostKeptBytes = 64 * kMiB;

// Stored bytes of chunks, by their addresses.
using KeptBytes = std::map<std::uint64_t, std::vector<std::byte>>;

// The bytes of a file, some of which are as they were when they were read into memory.
class PartlyKeptSource final : public ByteSource {
 public:
  PartlyKeptSource(KeptBytes kept, std::shared_ptr<const ByteSource> file)
      : kept_(std::move(kept)), file_(std::move(file)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (const std::byte* const kept = find(offset, out.size())) {
      std::memcpy(out.data(), kept, out.size());
    } else {
      file_->read(offset, out);
    }
  }
  void read_scattered(std::uint64_t offset, std::span<const std::span<std::byte>> outs) const override {
    if (!outs.empty() && find(offset, outs.front().size()) != nullptr) {
      ByteSource::read_scattered(offset, outs);
    } else {
      file_->read_scattered(offset, outs);
    }
  }
  void will_need(std::uint64_t offset, std::uint64_t bytes) const noexcept override {
    if (find(offset, bytes) == nullptr) file_->will_need(offset, bytes);
  }
  bool resident(std::uint64_t offset) const noexcept override {
    return find(offset, 1) != nullptr || file_->resident(offset);
  }
  std::uint64_t size() const noexcept override { return file_->size(); }

 private:
  const std::byte* find(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    auto after = kept_.upper_bound(offset);
    if (after == kept_.begin()) return nullptr;
    const auto& [address, stored] = *--after;
    const std::uint64_t skipped = offset - address;
    if (skipped > stored.size() || bytes > stored.size() - skipped) return nullptr;
    return stored.data() + skipped;
  }

  const KeptBytes kept_;
  const std::shared_ptr<const ByteSource> file_;
};

// The chunks that hold the same rows, of which an index has one run after the other.
std::span<const ChunkLocation> run_of(const ChunkIndex& index, std::uint64_t run) {
  const std::uint64_t runs = index.grid.front();
  const std::uint64_t chunks = index.locations.size() / runs;
  return std::span(index.locations).subspan(run * chunks, chunks);
}

bool complete(std::span<const ChunkLocation> run) {
  return std::ranges::all_of(run, &ChunkLocation::allocated);
}

// Returns the number of runs up to the first of which a chunk is missing.
std::uint64_t complete_runs(const ChunkIndex& index) {
  std::uint64_t run = 0;
  while (run < index.grid.front() && complete(run_of(index, run))) ++run;
  return run;
}

// Returns whether chunks behind `run` are in the file: the writer, which appends, has then done with it.
bool followed(const ChunkIndex& index, std::uint64_t run) {
  for (std::uint64_t later = run + 1; later < index.grid.front(); ++later) {
    if (std::ranges::any_of(run_of(index, later), &ChunkLocation::allocated)) return true;
  }
  return false;
}

std::uint64_t bytes_of(std::span<const ChunkLocation> run) {
  std::uint64_t bytes = 0;
  for (const ChunkLocation& location : run) bytes += location.stored_bytes;
  return bytes;
}

KeptBytes read_run(std::span<const ChunkLocation> run, const ByteSource& source) {
  KeptBytes kept;
  for (const ChunkLocation& location : run) {
    std::vector<std::byte>& bytes = kept[location.address];
    bytes.resize(static_cast<std::size_t>(location.stored_bytes));
    source.read(location.address, bytes);
  }
  return kept;
}

// Returns whether the kept bytes of a run decode, as they do not where a checksum was written only in part.
// Chunks that are large once decoded, or that h5feed cannot decode, are not tried.
bool decodes(const DatasetInfo& info, std::span<const ChunkLocation> run, const KeptBytes& kept) {
  std::uint64_t bytes = size_of(info.dtype);
  for (const std::uint64_t extent : info.chunk_shape) bytes *= extent;
  if (bytes > kMostKeptBytes || !std::ranges::all_of(info.filters, FilterPipeline::supports)) return true;
  ByteBuffer chunk(static_cast<std::size_t>(bytes));
  DecodeScratch scratch;
  try {
    const FilterPipeline pipeline(info.filters, chunk.size(), size_of(info.dtype));
    for (const ChunkLocation& location : run) {
      if (!pipeline.skips_all(location.filter_mask))
        pipeline.decode(kept.at(location.address), location.filter_mask, chunk.span(), scratch);
    }
    return true;
  } catch (const FilterError&) {
    return false;
  }
}

bool same(std::span<const ChunkLocation> a, std::span<const ChunkLocation> b) {
  return std::ranges::equal(a, b, [](const ChunkLocation& one, const ChunkLocation& other) {
    return one.address == other.address && one.stored_bytes == other.stored_bytes &&
           one.filter_mask == other.filter_mask;
  });
}

void shorten(DatasetInfo& info, ChunkIndex& index, std::uint64_t runs) {
  info.shape.front() = std::min(info.shape.front(), runs * info.chunk_shape.front());
  const std::uint64_t chunks = index.locations.size() / index.grid.front();
  index.grid.front() = runs;
  index.locations.resize(runs * chunks);
}

}  // namespace

WrittenRows written_rows(const H5File& file, DatasetInfo& info, std::shared_ptr<const ByteSource> source) {
  constexpr int kAttempts = 20;
  constexpr std::chrono::microseconds kFirstPause(1);  // Doubled: half a second in all
  const std::uint64_t rows = info.rows();
  // Chunks that the extents cut get filters as soon as they are complete.
  if (info.unfiltered_edge_chunks) info.shape.front() -= info.shape.front() % info.chunk_shape.front();
  WrittenRows written{.index = build_chunk_index(file, info), .source = source};
  if (info.shape.front() == 0 || written.index.locations.empty()) return written;
  std::uint64_t runs = 0;
  bool settled = false;
  std::uint64_t last_bytes = 0;
  // A chunk that is followed by another has its last place in an index that is read after the other was seen.
  for (int i = 0; i < kAttempts && !settled; ++i) {
    const ChunkIndex before = std::exchange(written.index, {});
    runs = complete_runs(before);
    const bool may_change = runs > 0 && !info.filters.empty() && !followed(before, runs - 1);
    std::span<const ChunkLocation> last;
    if (may_change) last = run_of(before, runs - 1);
    if ((last_bytes = bytes_of(last)) > kMostKeptBytes) last = {};
    KeptBytes kept = read_run(last, *source);
    written.index = build_chunk_index(file, info);
    // Where a part cannot be read now, the chunks that are listed were followed by others before.
    if (const std::uint64_t listed = complete_runs(written.index); listed < runs) {
      runs = listed;
      break;
    }
    if (!may_change) break;
    if (last_bytes > kMostKeptBytes) {
      --runs;
      break;
    }
    // Twice the same bytes, with a walk over the index in between: no write was going on, unless the writer
    // was stopped or killed in the middle of one.
    settled = same(last, run_of(written.index, runs - 1)) && read_run(last, *source) == kept &&
              decodes(info, last, kept);
    if (settled) {
      written.source = std::make_shared<const PartlyKeptSource>(std::move(kept), source);
    } else if (i + 1 < kAttempts) {
      std::this_thread::sleep_for(kFirstPause * (1 << i));
    } else {
      --runs;
    }
  }
  shorten(info, written.index, runs);
  if (info.rows() < rows) {
    log_once(
        LogLevel::warning,
        fmt::format("{}:{}: {} of {} rows are read: a SWMR writer has the file and has not completed the "
                    "chunks of the others; they come with refresh(), unless it was killed",
                    info.file, short_path(info.path), format_count(info.rows()), format_count(rows)));
  }
  return written;
}

}  // namespace h5feed
