// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/resolve_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "flow/resolve/cache_layout.hpp"
#include "flow/resolve/host_share.hpp"
#include "flow/resolve/memory_budget.hpp"
#include "flow/resolve/row_read_choice.hpp"
#include "flow/resolve/sparse_format.hpp"
#include "flow/resolve/tuning_bounds.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

constexpr std::int64_t kDefaultIoDepth = 2;  // per worker
constexpr std::int64_t kTunedIoDepth = 4;    // the same of the most workers of self-tuning
constexpr std::int64_t kMaxIoDepth = 1024;
constexpr std::int64_t kMaxPrefetchFactor = 1024;

void check_echo(const Echo& echo, bool headroom) {
  if (echo.factor < 1 || echo.factor > kMaxEchoFactor) {
    throw OptionError(fmt::format("echo.factor must be 1 to {}; got {}", kMaxEchoFactor, echo.factor));
  }
  if (headroom && echo.factor > 1)
    throw OptionError("headroom repeats one batch by itself; leave echo.factor at 1, or headroom unset");
}

void check_workers(const DataLoaderOptions& options) {
  if (options.num_workers != kAuto && (options.num_workers < 0 || options.num_workers > kMaxWorkers)) {
    throw OptionError(fmt::format("{} must be 0 to {}, or auto (-1); got {}", spelled("num_workers"),
                                  kMaxWorkers, options.num_workers));
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

std::uint64_t budget_bytes(const DataLoaderOptions& options, const SystemLimits& limits,
                           const ResolvedOptions& resolved, const MemoryUse& others) {
  const std::uint64_t available = memory_share(limits, resolved.local_world_size);
  return std::max(options.memory_budget_bytes.value_or(default_budget_bytes(available)), others.budget_bytes);
}

void resolve_memory(const DataLoaderOptions& options, const SystemLimits& limits, const MemoryUse& others,
                    const MemoryBudget& budget, ResolvedOptions& resolved) {
  const std::uint64_t available = memory_share(limits, resolved.local_world_size);
  const std::uint64_t memory = budget_bytes(options, limits, resolved, others);
  resolved.memory_budget_bytes = memory;
  const bool shares_cache = resolved.cache_policy == CachePolicy::lru;
  say_which_holds("memory_budget_bytes", options.memory_budget_bytes, others.budget_bytes, "one budget");
  if (shares_cache) say_which_holds("cache_bytes", options.cache_bytes, others.cache_bytes, "one cache");
  const auto workers = static_cast<std::uint64_t>(std::max<std::int64_t>(1, resolved.num_workers));
  std::uint64_t io_depth = 0;
  if (resolved.num_workers > 0) {
    const std::int64_t per_worker = resolved.self_tuning ? kTunedIoDepth : kDefaultIoDepth;
    io_depth = static_cast<std::uint64_t>(options.io_depth.value_or(per_worker * resolved.num_workers));
  }
  if (options.cache_bytes) {
    resolved.cache_bytes = *options.cache_bytes;
  } else {
    const bool joins = shares_cache && others.cache_bytes > 0;
    const std::uint64_t wanted = joins ? others.cache_bytes : default_cache_bytes(available);
    const std::uint64_t rest = budget.fixed() + budget.decoding(workers) + budget.reading(workers, 0);
    const std::uint64_t left = budget.for_cache(memory > rest ? memory - rest : 0);
    // Reading ahead takes at most a quarter of the memory left for the cache.
    while (io_depth > 0 && budget.reading(0, io_depth) > left / 4) --io_depth;
    resolved.cache_bytes = std::min(wanted, left - budget.reading(0, io_depth));
  }
  if (shares_cache) resolved.cache_bytes = std::max(resolved.cache_bytes, others.cache_bytes);
  std::uint64_t decodes = workers;
  const auto too_much = [&] {
    const std::uint64_t total = budget.total(resolved.cache_bytes, decodes, io_depth);
    if (total > memory) return true;
    return total > budget.total(resolved.cache_bytes, 1, 0) && memory - total < budget.for_images();
  };
  while (io_depth > 0 && too_much()) --io_depth;
  while (decodes > 0 && too_much()) --decodes;
  if (decodes == 0) budget.refuse(memory, resolved.cache_bytes);
  resolved.io_depth = static_cast<std::int64_t>(io_depth);
  resolved.concurrent_decodes = static_cast<std::int64_t>(decodes);
  // A worker that may not decode would only wait for one that does.
  if (resolved.self_tuning)
    resolved.num_workers = std::min(resolved.num_workers, resolved.concurrent_decodes);
}

void limit_prefetch(std::uint64_t prefetch_bytes, const DeliveryFormat& format, ResolvedOptions& resolved) {
  const std::uint64_t each = batch_bytes(format, resolved);
  const std::uint64_t fitting = prefetch_bytes / each;
  if (fitting == 0) {
    const std::uint64_t rows = static_cast<std::uint64_t>(resolved.max_batch_rows) * format.outputs;
    throw OptionError(fmt::format("prefetch_bytes {} holds no batch of {} × {} B; use at least {}",
                                  format_bytes(prefetch_bytes), resolved.max_batch_rows,
                                  format_count(each / rows), format_bytes_ceil(each)));
  }
  resolved.prefetch_batches = std::min(resolved.prefetch_batches, fitting);
}

bool resolve_row_reads(const DataLoaderOptions& options, const DatasetState& dataset,
                       const ResolvedOptions& resolved) {
  switch (options.row_reads) {
    case RowReads::never:
      return false;
    case RowReads::always:
      if (!has_rows_apart(dataset)) {
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

FieldFormat field_format(const NamedField& field, std::uint64_t max_batch_rows, bool may_repeat) {
  FieldFormat format{.dtype = field.dtype(), .stacked = field.options.collate == Collate::stack};
  const std::size_t value_bytes = size_of(format.dtype);
  if (field.rows) {
    const SampleGeometry& geometry = field.rows->geometry;
    format.row_bytes = capped_product(capped_product(geometry.channels, geometry.pixels),
                                      value_bytes * field.rows->belonging.per_sample());
    format.batch_bytes = capped_product(max_batch_rows, format.row_bytes);
    return format;
  }
  const RaggedField& rows = *field.ragged;
  format.row_bytes = capped_product(rows.element_values(), value_bytes);
  // Several tiles belong to one row.
  const std::uint64_t elements =
      field.options.collate == Collate::ragged && field.belonging.one_each() && !may_repeat
          ? rows.most_elements(max_batch_rows)
          : capped_product(max_batch_rows, rows.longest());
  format.batch_bytes = capped_product(elements, format.row_bytes);
  return format;
}

}  // namespace

bool may_repeat_in_batch(const DataLoaderOptions& options) noexcept {
  return options.sampler || options.batch_sampler || options.on_error == OnError::replace ||
         (options.uneven == Uneven::pad && options.world_size > 1);
}

std::uint64_t batch_bytes(const DeliveryFormat& format, const ResolvedOptions& resolved) {
  const std::uint64_t rows = static_cast<std::uint64_t>(resolved.max_batch_rows) * format.outputs;
  std::uint64_t bytes = capped_product(rows, format.data_row_bytes + format.target_row_bytes);
  for (const FieldFormat& field : format.fields) bytes += capped_product(field.batch_bytes, format.outputs);
  return bytes;
}

std::uint64_t default_cache_bytes(std::uint64_t available_bytes) noexcept {
  return std::min(kGiB, available_bytes / 4);
}

std::uint64_t default_budget_bytes(std::uint64_t available_bytes) noexcept { return available_bytes / 2; }

DeliveryFormat delivery_format(const DataLoaderOptions& options, const DatasetState& dataset,
                               const Conversion& on_host, std::uint64_t max_batch_rows) {
  DeliveryFormat format;
  const auto elements = [](const Field& field) {
    return field.geometry.channels * field.geometry.pixels * field.belonging.per_sample();
  };
  format.data_dtype = on_host.to;
  format.data_row_bytes = on_host.sample_bytes();
  if (dataset.delivers_csr()) set_sparse_format(format, *dataset.sparse, options, max_batch_rows);
  if (dataset.target) {
    const DType stored = dataset.target->info().dtype;
    format.target_dtype = options.target_dtype.value_or(is_integer(stored) ? DType::i64 : stored);
    const bool narrow = format.target_dtype == DType::f16 || format.target_dtype == DType::bf16;
    if (narrow && format.target_dtype != stored) {
      throw OptionError(
          fmt::format("targets of type {} are not converted to 16-bit floating-point numbers; set {}",
                      name_of(stored), spelled("target_dtype", "f32")));
    }
    format.target_row_bytes = elements(*dataset.target) * size_of(format.target_dtype);
  } else if (options.target_dtype) {
    throw OptionError("target_dtype needs a target; name one when opening the dataset, or leave it unset");
  }
  for (const NamedField& field : dataset.fields)
    format.fields.push_back(field_format(field, max_batch_rows, may_repeat_in_batch(options)));
  for (const std::size_t number : dataset.fields_with_valid()) {
    const std::size_t rows = dataset.field(number)->belonging.per_sample();
    format.fields.push_back({.row_bytes = rows, .batch_bytes = capped_product(max_batch_rows, rows)});
  }
  for (std::size_t number = 0; number < dataset.num_fields(); ++number) {
    const Field* const field = dataset.field(number);
    if (field == nullptr || field->is_resident() || field->map.rows_contiguous()) continue;
    format.staging_row_bytes += field->sample_bytes();
  }
  return format;
}

Resolution resolve_options(const DataLoaderOptions& options, const DatasetState& dataset,
                           const ResolvedOptions& order, const DeliveryFormat& format,
                           const SystemLimits& limits, const MemoryUse& others) {
  check_workers(options);
  check_host_share(options);
  check_echo(options.echo, options.headroom);
  check_faults(options);

  ResolvedOptions resolved = order;
  resolved.local_world_size = local_processes(options.local_world_size);
  resolved.num_workers = options.num_workers;
  if (options.num_workers == kAuto) {
    bound_self_tuning(options, dataset, format, limits, budget_bytes(options, limits, resolved, others),
                      resolved);
  } else if (options.num_workers > 0) {
    resolved.prefetch_batches = static_cast<std::uint64_t>(
        options.num_workers * options.prefetch_factor.value_or(kDefaultPrefetchFactor));
  }
  if (options.prefetch_bytes) limit_prefetch(*options.prefetch_bytes, format, resolved);
  resolved.echo_factor = options.echo.factor;
  resolved.drop_last = options.drop_last;
  resolved.timeout = options.timeout;
  resolved.in_order = options.in_order;
  resolved.provenance = options.provenance;
  resolved.cache_policy = options.cache_policy;
  // Rows may bypass the cache depending on its size, which depends on the memory for chunks: so memory is
  // resolved first.
  const MemoryBudget budget(dataset, format, resolved, others);
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
  if (dataset.episodes && resolved.cache_policy == CachePolicy::clairvoyant) {
    throw OptionError(spelled("cache_policy", "clairvoyant") +
                      " counts on one use of a row in each epoch, and the samples of episodes share rows or "
                      "draw them; use " +
                      spelled("cache_policy", "lru"));
  }
  if (dataset.mixture && resolved.cache_policy == CachePolicy::clairvoyant) {
    throw OptionError(
        spelled("cache_policy", "clairvoyant") +
        " expects each sample once per epoch, and a mixture repeats the samples of a set; use " +
        spelled("cache_policy", "lru"));
  }
  resolved.row_reads = resolve_row_reads(options, dataset, resolved);
  return {resolved, budget.use(resolved)};
}

}  // namespace h5feed
