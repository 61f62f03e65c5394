// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/memory_budget.hpp"

#include <fmt/format.h>

#include <string>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "dataset/tiles/foreground_places.hpp"
#include "h5feed/error.hpp"
#include "plan/divide.hpp"
#include "plan/group_order.hpp"

namespace h5feed {
namespace {

// Decoded bytes of an image for each stored one, as JPEGs of photographs have them. How large images really
// are is known only from their headers.
constexpr std::uint64_t kPixelBytes = 16;

// Of each chunk the loader counts the rows that it has delivered. Fewer chunks are nothing beside the
// buffers.
constexpr std::uint64_t kTableBytes = 8;
constexpr std::uint64_t kLeastTable = kMiB;

// With `shard = by_chunk`, the plan of an epoch lists the chunks of the rank: their groups of samples in
// order, where each begins, and each by its number (`GroupOrder`). The plan of the next epoch is there before
// this one ends.
constexpr std::uint64_t kPlannedChunkBytes = 2 * (sizeof(ChunkGroup) + 3 * sizeof(std::uint64_t));

}  // namespace

MemoryBudget::MemoryBudget(const DatasetState& dataset, const DeliveryFormat& format,
                           const ResolvedOptions& options, const MemoryUse& others)
    : others_(others),
      batch_size_(static_cast<std::uint64_t>(options.max_batch_rows)),
      slots_((options.prefetch_batches + (options.num_workers > 0 ? 1 : 0)) * format.outputs +
             format.slots_in_transfer),
      row_bytes_(format.data_row_bytes + format.target_row_bytes + format.staging_row_bytes),
      rows_apart_(options.cache_policy == CachePolicy::clairvoyant),
      shares_cache_(options.cache_policy == CachePolicy::lru) {
  for (std::size_t number = 0; number < dataset.num_fields(); ++number) {
    if (const Field* const field = dataset.field(number))
      count_field(*field, number == kData && options.row_reads);
  }
  if (options.shard == Shard::by_chunk) count_plan(options);
  if (dataset.tiling && dataset.tiling->foreground_places() != nullptr)
    resident_bytes_ += dataset.tiling->foreground_places()->bytes();
  for (const FieldFormat& field : format.fields)
    row_bytes_ += (field.batch_bytes + batch_size_ - 1) / batch_size_;
}

MemoryUse MemoryBudget::use(const ResolvedOptions& options) const {
  const auto decodes = static_cast<std::uint64_t>(options.concurrent_decodes);
  const auto io_depth = static_cast<std::uint64_t>(options.io_depth);
  MemoryUse use{.own_bytes = slot_bytes(batch_size_) + table_bytes_ + reading(decodes, io_depth),
                .budget_bytes = options.memory_budget_bytes,
                .resident_bytes = resident_bytes_};
  if (options.cache_policy == CachePolicy::lru) {
    use.cache_bytes = options.cache_bytes;
    use.decode_bytes = decodes * chunk_bytes_;
  } else {
    use.own_bytes += held_alone(options.cache_bytes, decodes);
  }
  return use;
}

void MemoryBudget::refuse(std::uint64_t budget, std::uint64_t cache_bytes) const {
  std::string parts =
      fmt::format("{} {} × {} B × {} {} ({})", spelled("batch_size"), batch_size_, format_count(row_bytes_),
                  slots_, slots_ == 1 ? "slot" : "slots", format_bytes(slot_bytes(batch_size_)));
  if (resident_bytes_ > 0) parts += fmt::format(" + target {}", format_bytes(resident_bytes_));
  if (table_bytes_ > 0) parts += fmt::format(" + {} ({})", tables_, format_bytes(table_bytes_));
  if (const std::uint64_t taken = others_.own_bytes + (shares_cache_ ? 0 : shared_by_others()); taken > 0)
    parts += fmt::format(" + other loaders of this dataset {}", format_bytes(taken));
  const bool cache_counts = rows_apart_ || cache_bytes >= chunk_bytes_;
  if (cache_counts) parts += fmt::format(" + {} {}", spelled("cache_bytes"), format_bytes(cache_bytes));
  if (rows_apart_ || !cache_counts) {
    parts += fmt::format(" + one decoded chunk {}", format_bytes(chunk_bytes_));
  }
  if (read_bytes_ > 0)
    parts += fmt::format(" + one stored chunk with filter buffers {}", format_bytes(read_bytes_));
  const std::uint64_t others = total(cache_bytes, 1, 0) - slot_bytes(batch_size_);
  const std::uint64_t fitting = budget > others ? (budget - others) / capped_product(row_bytes_, slots_) : 0;
  std::string instead;
  if (fitting > 0) {
    instead = fmt::format("{} ≤ {} or ", spelled("batch_size"), fitting);
  } else if (cache_counts && budget > cacheless() + chunk_bytes_ + kMiB) {
    // The cache alone is too large. Whole MiB, rounded down.
    instead = fmt::format("{} ≤ {}MiB or ", spelled("cache_bytes"), (budget - cacheless()) / kMiB);
  }
  throw OptionError(fmt::format("{} {} cannot hold {}; use {}at least {}", spelled("memory_budget_bytes"),
                                format_bytes(budget), parts, instead,
                                format_bytes_ceil(total(cache_bytes, 1, 0))));
}

void MemoryBudget::count_table(std::uint64_t bytes, std::string_view of_what) {
  if (bytes < kLeastTable) return;
  tables_ += fmt::format("{}{}", tables_.empty() ? "tables of " : " and ", of_what);
  table_bytes_ += bytes;
}

void MemoryBudget::count_plan(const ResolvedOptions& options) {
  const std::uint64_t chunks =
      ceil_div(options.chunks_of_all_ranks, static_cast<std::uint64_t>(options.world_size));
  count_table(capped_product(kPlannedChunkBytes, chunks),
              fmt::format("the order of a rank's {} chunks", format_count(chunks)));
}

void MemoryBudget::count_field(const Field& field, bool row_reads) {
  resident_bytes_ += field.resident.size();
  if (field.is_resident()) return;
  const std::uint64_t chunks = field.reader->num_chunks();
  const DatasetInfo& info = field.reader->info();
  count_table(capped_product(kTableBytes, chunks),
              fmt::format("the {} chunks of {}:{}", format_count(chunks), info.file, short_path(info.path)));
  if (row_reads) return;
  if (field.reader->info().encoded_images)
    image_bytes_ = std::max(image_bytes_, capped_product(kPixelBytes, field.reader->max_stored_bytes()));
  chunk_bytes_ = std::max(chunk_bytes_, field.reader->chunk_bytes());
  // scratch_bytes() is what a read needs in addition to the decoded chunk: stored bytes and filter buffers.
  read_bytes_ = std::max(read_bytes_, field.reader->scratch_bytes());
  if (field.reader->direct()) stored_bytes_ = std::max(stored_bytes_, field.reader->max_stored_bytes());
}

}  // namespace h5feed
