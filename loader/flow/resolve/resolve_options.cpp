// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/resolve_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "dataset/foreground_places.hpp"
#include "flow/resolve/cache_layout.hpp"
#include "flow/resolve/row_read_choice.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

constexpr std::int64_t kDefaultPrefetchFactor = 2;
constexpr std::int64_t kDefaultIoDepth = 2;
constexpr std::int64_t kMaxIoDepth = 1024;
constexpr std::int64_t kMaxPrefetchFactor = 1024;

void check_echo(const Echo& echo) {
  if (echo.factor < 1 || echo.factor > kMaxEchoFactor) {
    throw OptionError(fmt::format("echo.factor must be 1 to {}; got {}", kMaxEchoFactor, echo.factor));
  }
}

void check_workers(const DataLoaderOptions& options) {
  if (options.num_workers < 0 || options.num_workers > kMaxWorkers) {
    throw OptionError(
        fmt::format("{} must be 0 to {}; got {}", spelled("num_workers"), kMaxWorkers, options.num_workers));
  }
  if (options.num_workers == 0) {
    if (options.prefetch_factor) {
      throw OptionError(
          "prefetch_factor needs workers that prefetch; set num_workers > 0, or leave it unset");
    }
    if (options.prefetch_bytes) {
      throw OptionError("prefetch_bytes needs workers that prefetch; set num_workers > 0, or leave it unset");
    }
    if (options.io_depth) {
      throw OptionError("io_depth needs workers to read ahead of; set num_workers > 0, or leave it unset");
    }
    if (options.timeout) {
      throw OptionError("timeout needs workers to wait for; set num_workers > 0, or leave it unset");
    }
  }
  if (options.prefetch_factor &&
      (*options.prefetch_factor < 1 || *options.prefetch_factor > kMaxPrefetchFactor)) {
    throw OptionError(
        fmt::format("prefetch_factor must be 1 to {}; got {}", kMaxPrefetchFactor, *options.prefetch_factor));
  }
  if (options.io_depth && (*options.io_depth < 0 || *options.io_depth > kMaxIoDepth)) {
    throw OptionError(fmt::format("io_depth must be 0 to {}; got {}", kMaxIoDepth, *options.io_depth));
  }
  if (options.timeout && options.timeout->count() <= 0) {
    throw OptionError(fmt::format("timeout must be positive; got {} ms", options.timeout->count()));
  }
}

void check_faults(const DataLoaderOptions& options) {
  if (!(options.max_bad_share >= 0 && options.max_bad_share <= 1)) {
    throw OptionError(
        fmt::format("{} must be 0 to 1; got {}", spelled("max_bad_share"), options.max_bad_share));
  }
  if (options.on_error == OnError::fail && !options.bad_list.empty()) {
    throw OptionError(fmt::format("{} needs a loader that goes on after a fault; set {}, or leave it unset",
                                  spelled("bad_list"), spelled("on_error", "skip or replace")));
  }
  if (options.on_error == OnError::skip && !options.batch_size && !options.batch_sampler) {
    throw OptionError(fmt::format("{} leaves samples out of batches, and without {} there are none; use {}",
                                  spelled("on_error", "skip"), spelled("batch_size"),
                                  spelled("on_error", "replace")));
  }
}

// Exceeds any memory; sums of a few of them do not overflow.
constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 60;

// Returns a · b, at most `kTooMuch`.
std::uint64_t product(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kTooMuch : std::min(result, kTooMuch);
}

// All parts of the memory budget, in bytes.
class Budget {
 public:
  Budget(const DatasetState& dataset, const DeliveryFormat& format, const ResolvedOptions& options,
         const MemoryUse& others)
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
    if (dataset.tiling && dataset.tiling->foreground_places() != nullptr)
      resident_bytes_ += dataset.tiling->foreground_places()->bytes();
    for (const FieldFormat& field : format.fields)
      row_bytes_ += (field.batch_bytes + batch_size_ - 1) / batch_size_;
  }

  // Returns the memory needed with `decodes` concurrent decodes and `io_depth` chunks read ahead. Decoded
  // chunks are entries of the cache, so they count only beyond its capacity; a cache of rows is separate from
  // them.
  std::uint64_t total(std::uint64_t cache_bytes, std::uint64_t decodes, std::uint64_t io_depth) const {
    return fixed() + held(cache_bytes, decodes) + reading(decodes, io_depth);
  }

  // Returns the memory of decoded chunks that are not part of the cache.
  std::uint64_t decoding(std::uint64_t decodes) const { return rows_apart_ ? decodes * chunk_bytes_ : 0; }

  // Returns the memory of stored chunks and filter buffers, in addition to decoded chunks.
  std::uint64_t reading(std::uint64_t decodes, std::uint64_t io_depth) const {
    return decodes * read_bytes_ + io_depth * stored_bytes_;
  }

  std::uint64_t fixed() const { return resident_bytes_ + others_.own_bytes + slot_bytes(batch_size_); }

  // Returns the memory that a loader with these options takes.
  MemoryUse use(const ResolvedOptions& options) const {
    const auto decodes = static_cast<std::uint64_t>(options.concurrent_decodes);
    const auto io_depth = static_cast<std::uint64_t>(options.io_depth);
    MemoryUse use{.own_bytes = slot_bytes(batch_size_) + reading(decodes, io_depth),
                  .budget_bytes = options.memory_budget_bytes};
    if (options.cache_policy == CachePolicy::lru) {
      use.cache_bytes = options.cache_bytes;
      use.decode_bytes = decodes * chunk_bytes_;
    } else {
      use.own_bytes += held_alone(options.cache_bytes, decodes);
    }
    return use;
  }

  [[noreturn]] void refuse(std::uint64_t budget, std::uint64_t cache_bytes) const {
    std::string parts =
        fmt::format("{} {} × {} B × {} {} ({})", spelled("batch_size"), batch_size_, format_count(row_bytes_),
                    slots_, slots_ == 1 ? "slot" : "slots", format_bytes(slot_bytes(batch_size_)));
    if (resident_bytes_ > 0) parts += fmt::format(" + target {}", format_bytes(resident_bytes_));
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
    const std::uint64_t fitting = budget > others ? (budget - others) / product(row_bytes_, slots_) : 0;
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

 private:
  std::uint64_t slot_bytes(std::uint64_t batch_size) const {
    return product(product(batch_size, row_bytes_), slots_);
  }

  // Returns the memory needed in addition to the cache, with one chunk being decoded.
  std::uint64_t cacheless() const {
    return fixed() + decoding(1) + reading(1, 0) + (shares_cache_ ? 0 : shared_by_others());
  }

  // Returns the memory of cache and decoded chunks of this loader if it shares no cache.
  std::uint64_t held_alone(std::uint64_t cache_bytes, std::uint64_t decodes) const {
    return rows_apart_ ? cache_bytes + decoding(decodes) : std::max(cache_bytes, decodes * chunk_bytes_);
  }

  std::uint64_t shared_by_others() const { return std::max(others_.cache_bytes, others_.decode_bytes); }

  // Returns the memory of caches and decoded chunks of all loaders of the dataset.
  std::uint64_t held(std::uint64_t cache_bytes, std::uint64_t decodes) const {
    if (!shares_cache_) return held_alone(cache_bytes, decodes) + shared_by_others();
    return std::max(std::max(cache_bytes, others_.cache_bytes),
                    decodes * chunk_bytes_ + others_.decode_bytes);
  }

  void count_field(const Field& field, bool row_reads) {
    resident_bytes_ += field.resident.size();
    if (field.is_resident() || row_reads) return;
    chunk_bytes_ = std::max(chunk_bytes_, field.reader->chunk_bytes());
    // scratch_bytes() is what a read needs in addition to the decoded chunk: stored bytes and filter buffers.
    read_bytes_ = std::max(read_bytes_, field.reader->scratch_bytes());
    if (field.reader->direct()) stored_bytes_ = std::max(stored_bytes_, field.reader->max_stored_bytes());
  }

  MemoryUse others_;
  std::uint64_t batch_size_;
  std::uint64_t slots_;
  std::uint64_t row_bytes_;
  bool rows_apart_;    // clairvoyant: the row cache is separate from decoded chunks
  bool shares_cache_;  // lru: loaders share one cache
  std::uint64_t resident_bytes_ = 0;
  std::uint64_t chunk_bytes_ = 0;   // largest decoded chunk
  std::uint64_t read_bytes_ = 0;    // largest need of one read in addition to the chunk
  std::uint64_t stored_bytes_ = 0;  // largest stored chunk
};

// Warns a loader that set a value other than that of another loader: the largest applies to all loaders of a
// dataset.
void say_which_holds(std::string_view option, std::optional<std::uint64_t> given, std::uint64_t others,
                     std::string_view shared) {
  if (!given || *given == others || others == 0) return;
  log_once(LogLevel::warning,
           fmt::format(
               "{} {}: another loader or TorchDataset of this dataset uses {}; they share {}, so the larger "
               "value applies; set the same value in both, or open the file again",
               spelled(option), format_bytes(*given), format_bytes(others), shared));
}

void resolve_memory(const DataLoaderOptions& options, const SystemLimits& limits, const MemoryUse& others,
                    const Budget& budget, ResolvedOptions& resolved) {
  const std::uint64_t memory =
      std::max(options.memory_budget_bytes.value_or(limits.available_bytes / 2), others.budget_bytes);
  resolved.memory_budget_bytes = memory;
  const bool shares_cache = resolved.cache_policy == CachePolicy::lru;
  say_which_holds("memory_budget_bytes", options.memory_budget_bytes, others.budget_bytes, "one budget");
  if (shares_cache) say_which_holds("cache_bytes", options.cache_bytes, others.cache_bytes, "one cache");
  const auto workers = static_cast<std::uint64_t>(std::max<std::int64_t>(1, resolved.num_workers));
  std::uint64_t io_depth = 0;
  if (options.num_workers > 0) {
    io_depth = static_cast<std::uint64_t>(options.io_depth.value_or(kDefaultIoDepth * options.num_workers));
  }
  if (options.cache_bytes) {
    resolved.cache_bytes = *options.cache_bytes;
  } else {
    const bool joins = shares_cache && others.cache_bytes > 0;
    const std::uint64_t wanted = joins ? others.cache_bytes : default_cache_bytes(limits);
    const std::uint64_t rest = budget.fixed() + budget.decoding(workers) + budget.reading(workers, 0);
    const std::uint64_t left = memory > rest ? memory - rest : 0;
    // Reading ahead takes at most a quarter of the memory left for the cache.
    while (io_depth > 0 && budget.reading(0, io_depth) > left / 4) --io_depth;
    resolved.cache_bytes = std::min(wanted, left - budget.reading(0, io_depth));
  }
  if (shares_cache) resolved.cache_bytes = std::max(resolved.cache_bytes, others.cache_bytes);
  std::uint64_t decodes = workers;
  const auto too_much = [&] { return budget.total(resolved.cache_bytes, decodes, io_depth) > memory; };
  while (io_depth > 0 && too_much()) --io_depth;
  while (decodes > 0 && too_much()) --decodes;
  if (decodes == 0) budget.refuse(memory, resolved.cache_bytes);
  resolved.io_depth = static_cast<std::int64_t>(io_depth);
  resolved.concurrent_decodes = static_cast<std::int64_t>(decodes);
}

void limit_prefetch(std::uint64_t prefetch_bytes, const DeliveryFormat& format, ResolvedOptions& resolved) {
  const std::uint64_t rows = static_cast<std::uint64_t>(resolved.max_batch_rows) * format.outputs;
  std::uint64_t batch_bytes = product(rows, format.data_row_bytes + format.target_row_bytes);
  for (const FieldFormat& field : format.fields) batch_bytes += product(field.batch_bytes, format.outputs);
  const std::uint64_t fitting = prefetch_bytes / batch_bytes;
  if (fitting == 0) {
    throw OptionError(fmt::format("prefetch_bytes {} holds no batch of {} × {} B; use at least {}",
                                  format_bytes(prefetch_bytes), resolved.max_batch_rows,
                                  format_count(batch_bytes / rows), format_bytes_ceil(batch_bytes)));
  }
  resolved.prefetch_batches = std::min(resolved.prefetch_batches, fitting);
}

bool resolve_row_reads(const DataLoaderOptions& options, const DatasetState& dataset,
                       const ResolvedOptions& resolved) {
  switch (options.row_reads) {
    case RowReads::never:
      return false;
    case RowReads::always:
      if (!dataset.data.reader->rows_readable()) {
        throw OptionError(
            fmt::format("row_reads = always needs uncompressed rows in one piece; {}:{} has none; use "
                        "automatic",
                        dataset.file, dataset.data.info().path));
      }
      if (options.cache_policy == CachePolicy::clairvoyant) {
        throw OptionError(
            "cache_policy = clairvoyant keeps rows of decoded chunks, row_reads = always reads rows past the "
            "cache; use one of the two");
      }
      return true;
    case RowReads::automatic:
      break;
  }
  return rows_cheaper_than_chunks(dataset, resolved);
}

FieldFormat field_format(const NamedField& field, std::uint64_t max_batch_rows) {
  FieldFormat format{.dtype = field.dtype()};
  const std::size_t value_bytes = size_of(format.dtype);
  if (field.rows) {
    const SampleGeometry& geometry = field.rows->geometry;
    format.row_bytes = product(product(geometry.channels, geometry.pixels), value_bytes);
    format.batch_bytes = product(max_batch_rows, format.row_bytes);
    return format;
  }
  const RaggedField& rows = *field.ragged;
  format.row_bytes = product(rows.element_values(), value_bytes);
  // A batch may contain a row several times: with a sampler, or for several tiles.
  const std::uint64_t elements =
      field.options.collate == Collate::ragged && field.samples_per_row == 1 && max_batch_rows <= rows.rows()
          ? rows.most_elements(max_batch_rows)
          : product(max_batch_rows, rows.longest());
  format.batch_bytes = product(elements, format.row_bytes);
  return format;
}

}  // namespace

std::uint64_t default_cache_bytes(const SystemLimits& limits) noexcept {
  return std::min(kGiB, limits.available_bytes / 4);
}

DeliveryFormat delivery_format(const DataLoaderOptions& options, const DatasetState& dataset,
                               const Conversion& on_host, std::uint64_t max_batch_rows) {
  DeliveryFormat format;
  const auto elements = [](const Field& field) { return field.geometry.channels * field.geometry.pixels; };
  format.data_dtype = on_host.to;
  format.data_row_bytes = on_host.row_bytes();
  if (dataset.target) {
    const DType stored = dataset.target->info().dtype;
    format.target_dtype = options.target_dtype.value_or(is_integer(stored) ? DType::i64 : stored);
    format.target_row_bytes = elements(*dataset.target) * size_of(format.target_dtype);
  } else if (options.target_dtype) {
    throw OptionError("target_dtype needs a target; name one when opening the dataset, or leave it unset");
  }
  for (const NamedField& field : dataset.fields) format.fields.push_back(field_format(field, max_batch_rows));
  for (std::size_t number = 0; number < dataset.num_fields(); ++number) {
    const Field* const field = dataset.field(number);
    if (field == nullptr || field->is_resident() || field->map.rows_contiguous()) continue;
    format.staging_row_bytes += field->map.row_bytes();
  }
  return format;
}

Resolution resolve_options(const DataLoaderOptions& options, const DatasetState& dataset,
                           const ResolvedOptions& order, const DeliveryFormat& format,
                           const SystemLimits& limits, const MemoryUse& others) {
  check_workers(options);
  check_echo(options.echo);
  check_faults(options);

  ResolvedOptions resolved = order;
  resolved.num_workers = options.num_workers;
  if (options.num_workers > 0) {
    resolved.prefetch_batches = static_cast<std::uint64_t>(
        options.num_workers * options.prefetch_factor.value_or(kDefaultPrefetchFactor));
    if (options.prefetch_bytes) limit_prefetch(*options.prefetch_bytes, format, resolved);
  }
  resolved.echo_factor = options.echo.factor;
  resolved.drop_last = options.drop_last;
  resolved.timeout = options.timeout;
  resolved.in_order = options.in_order;
  resolved.provenance = options.provenance;
  resolved.cache_policy = options.cache_policy;
  // Rows may bypass the cache depending on its size, which depends on the memory for chunks: so memory is
  // resolved first.
  const Budget budget(dataset, format, resolved, others);
  resolve_memory(options, limits, others, budget, resolved);
  if (cached_data_bytes(dataset, resolved) <= resolved.cache_bytes) resolved.cache_policy = CachePolicy::lru;
  if (resolved.sampled && resolved.cache_policy == CachePolicy::clairvoyant) {
    throw OptionError(spelled("cache_policy", "clairvoyant") +
                      " needs to know when each sample is due, which is not known for samplers or "
                      "unordered subsets; use a shuffle, or " +
                      spelled("cache_policy", "lru"));
  }
  if (dataset.tiling && resolved.cache_policy == CachePolicy::clairvoyant) {
    throw OptionError(spelled("cache_policy", "clairvoyant") +
                      " keeps the samples of a chunk apart, and tiles share their chunks; use " +
                      spelled("cache_policy", "lru"));
  }
  resolved.row_reads = resolve_row_reads(options, dataset, resolved);
  return {resolved, budget.use(resolved)};
}

}  // namespace h5feed
