// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/channel_stats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/float_bits.hpp"
#include "base/mutex.hpp"
#include "store/format/chunk_geometry.hpp"
#include "tools/measure/exact_sums.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/storage/chunk_walk.hpp"
#include "tools/storage/recut_plan.hpp"

namespace h5feed::cli {
namespace {

// Sums of one channel. Integers use `sums`, other types `mean` and `deviation`. The range of 64-bit integers
// is rounded to doubles, which keeps their order.
struct Partial {
  std::uint64_t count = 0;
  std::uint64_t non_finite = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  ExactSums sums;
  long double mean = 0;
  long double deviation = 0;  // sum of squared distances from the mean
};

double value_of(F16 value) { return static_cast<double>(to_float(value)); }
double value_of(BF16 value) { return static_cast<double>(to_float(value)); }
template <typename T>
double value_of(T value) {
  return static_cast<double>(value);
}

// Elements of one channel of a box: `runs` runs of `length` elements, `stride` apart.
struct ChannelRuns {
  std::uint64_t runs = 0;
  std::uint64_t length = 0;
  std::uint64_t stride = 0;
};

template <typename T, typename Visit>
void for_each(const T* values, const ChannelRuns& runs, const Visit& visit) {
  for (std::uint64_t run = 0; run < runs.runs; ++run) {
    const T* const begin = values + run * runs.stride;
    for (std::uint64_t i = 0; i < runs.length; ++i) visit(begin[i]);
  }
}

// Sums blocks that cannot overflow: 2^15 squares of 8 bits in 32 bits, 2^30 of 16 bits in 64. Narrow sums
// vectorize better.
template <typename T>
void add_exactly(const T* values, const ChannelRuns& runs, Partial& partial) {
  constexpr bool kByte = sizeof(T) == 1;
  constexpr std::uint64_t kBlock = std::uint64_t{1} << (kByte ? 15U : 30U);
  using Value = std::conditional_t<kByte, std::int16_t, std::int64_t>;
  using Sum = std::conditional_t<kByte, std::int32_t, std::int64_t>;
  using Squares = std::conditional_t<(sizeof(T) <= 2), Sum, UInt128>;
  T low = std::numeric_limits<T>::max(), high = std::numeric_limits<T>::lowest();
  for (std::uint64_t run = 0; run < runs.runs; ++run) {
    for (std::uint64_t first = 0; first < runs.length; first += kBlock) {
      const T* const begin = values + run * runs.stride + first;
      const std::uint64_t count = std::min(kBlock, runs.length - first);
      Sum sum = 0;
      Squares squares = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto value = static_cast<Value>(begin[i]);
        sum += value;
        if constexpr (sizeof(T) <= 2) {
          squares += static_cast<Squares>(value) * value;
        } else {
          const auto size = static_cast<std::uint64_t>(value < 0 ? -value : value);
          squares += size * size;
        }
        low = std::min(low, begin[i]);
        high = std::max(high, begin[i]);
      }
      partial.sums.squares += static_cast<UInt128>(squares);
      partial.sums.sum += sum;
    }
  }
  partial.count = runs.runs * runs.length;
  partial.min = static_cast<double>(low);
  partial.max = static_cast<double>(high);
}

// The same for 64 bits, where two squares may already exceed 128 bits.
template <typename T>
void add_wide(const T* values, const ChannelRuns& runs, Partial& partial) {
  T low = std::numeric_limits<T>::max(), high = std::numeric_limits<T>::lowest();
  ExactSums sums;
  for_each(values, runs, [&](T value) {
    const auto bits = static_cast<std::uint64_t>(value);
    const std::uint64_t size = value < 0 ? 0 - bits : bits;
    sums.sum += value;
    sums.add_squares(static_cast<UInt128>(size) * size);
    low = std::min(low, value);
    high = std::max(high, value);
  });
  partial.sums = sums;
  partial.count = runs.runs * runs.length;
  partial.min = static_cast<double>(low);
  partial.max = static_cast<double>(high);
}

// Computes the mean of the channel's values in this chunk, then the squared distances from it, corrected for
// the rounding error of the mean.
template <typename T>
void add_in_two_passes(const T* values, const ChannelRuns& runs, Partial& partial) {
  long double sum = 0;
  for_each(values, runs, [&](T stored) {
    const double value = value_of(stored);
    if (!std::isfinite(value)) {
      ++partial.non_finite;
      return;
    }
    ++partial.count;
    sum += static_cast<long double>(value);
    partial.min = std::min(partial.min, value);
    partial.max = std::max(partial.max, value);
  });
  if (partial.count == 0) return;
  const auto count = static_cast<long double>(partial.count);
  partial.mean = sum / count;
  long double rest = 0;
  for_each(values, runs, [&](T stored) {
    const double value = value_of(stored);
    if (!std::isfinite(value)) return;
    const long double distance = static_cast<long double>(value) - partial.mean;
    rest += distance;
    partial.deviation += distance * distance;
  });
  partial.deviation -= rest * rest / count;
}

template <typename T>
std::vector<Partial> partials_of(const std::byte* bytes, std::uint64_t channels, const ChannelRuns& runs) {
  const T* const values = reinterpret_cast<const T*>(bytes);
  std::vector<Partial> partials(static_cast<std::size_t>(channels));
  for (std::uint64_t c = 0; c < channels; ++c) {
    Partial& partial = partials[static_cast<std::size_t>(c)];
    if constexpr (std::is_integral_v<T> && sizeof(T) <= 4) {
      add_exactly(values + c * runs.length, runs, partial);
    } else if constexpr (std::is_integral_v<T>) {
      add_wide(values + c * runs.length, runs, partial);
    } else {
      add_in_two_passes(values + c * runs.length, runs, partial);
    }
  }
  return partials;
}

std::vector<Partial> partials_of(DType dtype, const std::byte* bytes, std::uint64_t channels,
                                 const ChannelRuns& runs) {
  switch (dtype) {
    case DType::u8:
      return partials_of<std::uint8_t>(bytes, channels, runs);
    case DType::i8:
      return partials_of<std::int8_t>(bytes, channels, runs);
    case DType::u16:
      return partials_of<std::uint16_t>(bytes, channels, runs);
    case DType::i16:
      return partials_of<std::int16_t>(bytes, channels, runs);
    case DType::u32:
      return partials_of<std::uint32_t>(bytes, channels, runs);
    case DType::i32:
      return partials_of<std::int32_t>(bytes, channels, runs);
    case DType::u64:
      return partials_of<std::uint64_t>(bytes, channels, runs);
    case DType::i64:
      return partials_of<std::int64_t>(bytes, channels, runs);
    case DType::f16:
      return partials_of<F16>(bytes, channels, runs);
    case DType::bf16:
      return partials_of<BF16>(bytes, channels, runs);
    case DType::f32:
      return partials_of<float>(bytes, channels, runs);
    case DType::f64:
      break;
  }
  return partials_of<double>(bytes, channels, runs);
}

void merge(const Partial& from, Partial& into) {
  into.non_finite += from.non_finite;
  into.sums.add(from.sums);
  into.min = std::min(into.min, from.min);
  into.max = std::max(into.max, from.max);
  if (from.count > 0) {
    const auto before = static_cast<long double>(into.count), more = static_cast<long double>(from.count);
    const long double distance = from.mean - into.mean;
    into.mean += distance * more / (before + more);
    into.deviation += from.deviation + distance * distance * before * more / (before + more);
  }
  into.count += from.count;
}

ChannelStats figures(const Partial& partial, bool exact) {
  if (partial.count == 0) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    return {.mean = kNone, .std = kNone, .min = kNone, .max = kNone};
  }
  if (exact) {
    const ExactFigures exactly = figures_of(partial.sums, partial.count);
    return {.mean = exactly.mean, .std = exactly.std, .min = partial.min, .max = partial.max};
  }
  // Equal values have no deviation, whatever the rounding of their sum left.
  if (partial.min == partial.max) {
    return {.mean = partial.min, .std = 0, .min = partial.min, .max = partial.max};
  }
  const long double variance = partial.deviation / static_cast<long double>(partial.count);
  return {.mean = static_cast<double>(partial.mean),
          .std = static_cast<double>(std::sqrt(std::max(0.0L, variance))),
          .min = partial.min,
          .max = partial.max};
}

DatasetStats totals_of(const std::vector<Partial>& totals, bool exact) {
  DatasetStats stats;
  for (const Partial& total : totals) {
    stats.channels.push_back(figures(total, exact));
    stats.non_finite += total.non_finite;
    stats.values = std::max(stats.values, total.count + total.non_finite);
  }
  return stats;
}

std::vector<double> each(const DatasetStats& stats, double ChannelStats::*figure) {
  std::vector<double> values;
  for (const ChannelStats& channel : stats.channels) values.push_back(channel.*figure);
  return values;
}

// One chunk in flight.
struct Item {
  std::uint64_t chunk = 0;
  std::uint64_t first_channel = 0;
  std::uint64_t bytes = 0;
  std::vector<Partial> partials;
};

struct StatsBuffers {
  ByteBuffer chunk;
  ByteBuffer clipped;
  ReadScratch scratch;
};

Item stats_of_chunk(const ChunkReader& reader, std::optional<std::size_t> dimension, std::uint64_t chunk,
                    StatsBuffers& buffers) {
  const DatasetInfo& info = reader.info();
  const std::size_t element_bytes = size_of(info.dtype);
  Item item{.chunk = chunk};
  buffers.chunk.resize_discard(static_cast<std::size_t>(reader.chunk_bytes()));
  reader.read_chunk(chunk, buffers.chunk.span().first(static_cast<std::size_t>(reader.chunk_bytes())),
                    buffers.scratch);
  const ChunkBox box = box_of_chunk(chunk, reader.chunk_shape(), info.shape);
  item.bytes = elements_of(box) * element_bytes;
  const std::byte* values = buffers.chunk.data();
  if (box.count != reader.chunk_shape()) {
    buffers.clipped.resize_discard(static_cast<std::size_t>(item.bytes));
    copy_box({box.count, reader.chunk_shape(), box.count, element_bytes}, values, buffers.clipped.data());
    values = buffers.clipped.data();
  }
  std::uint64_t channels = 1;
  ChannelRuns runs{.runs = 1, .length = elements_of(box), .stride = 0};
  if (dimension) {
    channels = box.count[*dimension];
    item.first_channel = box.start[*dimension];
    for (std::size_t d = 0; d < *dimension; ++d) runs.runs *= box.count[d];
    runs.length = elements_of(box) / runs.runs / channels;
    runs.stride = runs.length * channels;
  }
  item.partials = partials_of(info.dtype, values, channels, runs);
  return item;
}

}  // namespace

DatasetStats channel_stats(const ChunkReader& reader, std::optional<std::size_t> channel_dimension,
                           const StatsSettings& settings, const std::function<void(std::uint64_t)>& advance) {
  require_grid(reader);
  const DatasetInfo& info = reader.info();
  const std::uint64_t channels = channel_dimension ? info.shape[*channel_dimension] : 1;
  std::vector<Partial> totals(static_cast<std::size_t>(channels));
  tbb::enumerable_thread_specific<StatsBuffers> buffers;
  const std::uint64_t each = 3 * reader.chunk_bytes() + reader.scratch_bytes();
  const std::uint64_t fit = settings.memory_bytes / std::max<std::uint64_t>(1, each);
  const auto jobs = static_cast<int>(std::clamp<std::uint64_t>(fit, 1, settings.jobs));
  std::uint64_t next = 0;
  const std::uint64_t chunks = info.total_bytes() == 0 ? 0 : reader.num_chunks();
  const auto take = [&](tbb::flow_control& control) -> std::uint64_t {
    check_interrupted();
    if (next == chunks) control.stop();
    return next == chunks ? 0 : next++;
  };
  const auto work = [&](std::uint64_t chunk) {
    return stats_of_chunk(reader, channel_dimension, chunk, buffers.local());
  };
  // In chunk order: the rounding of a merge must not depend on which chunk is finished first.
  const auto account = [&](const Item& item) {
    for (std::size_t c = 0; c < item.partials.size(); ++c) {
      merge(item.partials[c], totals[static_cast<std::size_t>(item.first_channel) + c]);
    }
    advance(item.bytes);
  };
  tbb::task_arena arena(jobs);
  arena.execute([&] {
    using tbb::filter_mode;
    tbb::parallel_pipeline(2 * static_cast<std::size_t>(jobs),
                           tbb::make_filter<void, std::uint64_t>(filter_mode::serial_in_order, take) &
                               tbb::make_filter<std::uint64_t, Item>(filter_mode::parallel, work) &
                               tbb::make_filter<Item, void>(filter_mode::serial_in_order, account));
  });
  return totals_of(totals, is_integer(info.dtype));
}

struct ByteStats::Sums {
  std::uint64_t row_bytes = 1;
  std::uint64_t runs_per_row = 1;
  std::uint64_t run_bytes = 1;
  std::uint64_t channels = 1;
  mutable Mutex mutex;
  std::vector<Partial> totals H5FEED_GUARDED_BY(mutex);
};

ByteStats::ByteStats(const std::vector<std::uint64_t>& row_shape,
                     std::optional<std::size_t> channel_dimension)
    : sums_(std::make_shared<Sums>()) {
  const std::size_t dimension = channel_dimension.value_or(0);
  for (std::size_t d = 0; d < row_shape.size(); ++d) {
    sums_->row_bytes *= row_shape[d];
    if (channel_dimension && d < dimension) sums_->runs_per_row *= row_shape[d];
    if (!channel_dimension || d > dimension) sums_->run_bytes *= row_shape[d];
  }
  if (channel_dimension) sums_->channels = row_shape[dimension];
  const MutexLock lock(sums_->mutex);
  sums_->totals.resize(static_cast<std::size_t>(sums_->channels));
}

void ByteStats::add(std::span<const std::byte> rows) {
  const std::uint64_t count = rows.size() / sums_->row_bytes;
  const ChannelRuns runs{.runs = count * sums_->runs_per_row,
                         .length = sums_->run_bytes,
                         .stride = sums_->run_bytes * sums_->channels};
  const std::vector<Partial> partials = partials_of(DType::u8, rows.data(), sums_->channels, runs);
  const MutexLock lock(sums_->mutex);
  for (std::size_t c = 0; c < partials.size(); ++c) merge(partials[c], sums_->totals[c]);
}

DatasetStats ByteStats::finish() const {
  const MutexLock lock(sums_->mutex);
  return totals_of(sums_->totals, true);
}

std::vector<NamedAttribute> stats_attributes(const DatasetStats& stats) {
  return {{"mean", each(stats, &ChannelStats::mean)},
          {"std", each(stats, &ChannelStats::std)},
          {"min", each(stats, &ChannelStats::min)},
          {"max", each(stats, &ChannelStats::max)}};
}

double default_scale(DType dtype) noexcept { return dtype == DType::u8 ? 1.0 / 255 : 1.0; }

NormalizeStats normalize_stats(const DatasetStats& stats, DType dtype) {
  NormalizeStats result{.scale = default_scale(dtype)};
  for (const ChannelStats& channel : stats.channels) {
    const bool finite = std::isfinite(channel.mean);
    const bool scaled = finite && channel.std > 0;
    result.mean.push_back(finite ? channel.mean * result.scale : 0);
    result.std.push_back(scaled ? channel.std * result.scale : 1);
    if (!scaled) ++result.unscaled;
  }
  return result;
}

std::string normalize_lines(const DatasetStats& stats, DType dtype) {
  const NormalizeStats normalize = normalize_stats(stats, dtype);
  return fmt::format(
      "options.normalize = {{.scale = {},\n                     .mean = {{{:.9g}}},\n"
      "                     .std = {{{:.9g}}}}};",
      dtype == DType::u8 ? "1.0 / 255" : "1.0", fmt::join(normalize.mean, ", "),
      fmt::join(normalize.std, ", "));
}

}  // namespace h5feed::cli
