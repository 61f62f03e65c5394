// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/storage_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/byte_units.hpp"
#include "store/filters/filters.hpp"
#include "store/format/chunk_geometry.hpp"
#include "tools/measure/sample_cost.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/h5py_line.hpp"
#include "tools/storage/recut_plan.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::cli {
namespace {

// A smaller dataset is read whole, whatever its storage.
constexpr std::uint64_t kSmallDatasetBytes = kMiB;

std::uint64_t product_of(const std::vector<std::uint64_t>& extents) {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : extents) product *= extent;
  return product;
}

std::uint64_t bytes_of(const std::vector<std::uint64_t>& extents, std::size_t element_bytes) {
  return element_bytes * product_of(extents);
}

// Formats a factor with three digits, which are enough to decide by: "1.99", "17.3", "8,192".
std::string factor_text(double factor) {
  return factor < 99.95 ? fmt::format("{:.3g}", factor)
                        : format_count(static_cast<std::uint64_t>(std::llround(factor)));
}

std::string seconds_text(double seconds) {
  if (seconds <= 0) return {};
  if (seconds < 1e-3) return fmt::format(", about {:.3g} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format(", about {:.3g} ms", seconds * 1e3);
  return fmt::format(", about {:.3g} s", seconds);
}

// `repack` asks for every chunk, also for those that are not written: a second or two for so many.
constexpr std::uint64_t kManyVisits = 1'000'000;

// Returns the chunks of `repack --chunk auto`.
std::vector<std::uint64_t> whole_samples(const DatasetInfo& info) {
  std::vector<std::uint64_t> chunk = info.shape;
  chunk.front() = automatic_chunk_rows(info.rows(), info.row_bytes());
  return chunk;
}

// Returns the filters that `options` of `repack` ask for; by default the dataset's own.
std::vector<FilterSpec> filters_after(const DatasetInfo& info, std::string_view options) {
  constexpr std::string_view kOption = "--filter ";
  const auto at = options.find(kOption);
  if (at == std::string_view::npos) return info.filters;
  const std::string_view filter = options.substr(at + kOption.size());
  return parse_filters(std::string(filter.substr(0, filter.find(' '))), size_of(info.dtype));
}

}  // namespace

double padding_share(const DatasetInfo& info) {
  if (info.chunk_shape.empty() || info.total_bytes() == 0) return 0;
  double cells = 1, used = 1;
  const std::vector<std::uint64_t> grid = chunk_grid(info.shape, info.chunk_shape);
  for (std::size_t d = 0; d < grid.size(); ++d) {
    cells *= static_cast<double>(grid[d]) * static_cast<double>(info.chunk_shape[d]);
    used *= static_cast<double>(info.shape[d]);
  }
  return 1 - used / cells;
}

std::vector<std::uint64_t> h5py_auto_chunk(const std::vector<std::uint64_t>& shape,
                                           std::size_t element_bytes) {
  constexpr double kBase = 16 * 1024, kLeast = 8 * 1024, kMost = 1024 * 1024;
  constexpr std::uint64_t kForEmpty = 1024;
  std::vector<std::uint64_t> chunk = shape;
  for (std::uint64_t& extent : chunk) extent = extent == 0 ? kForEmpty : extent;
  const auto size = [&] {
    double bytes = static_cast<double>(element_bytes);
    for (const std::uint64_t extent : chunk) bytes *= static_cast<double>(extent);
    return bytes;
  };
  const double target = std::clamp(kBase * std::exp2(std::log10(size() / kMost)), kLeast, kMost);
  for (std::size_t turn = 0; !chunk.empty(); ++turn) {
    const double bytes = size();
    const double elements = bytes / static_cast<double>(element_bytes);
    if ((bytes < target || std::abs(bytes - target) / target < 0.5) && bytes < kMost) break;
    if (elements <= 1) break;
    std::uint64_t& extent = chunk[turn % chunk.size()];
    extent = (extent + 1) / 2;
  }
  return chunk;
}

std::optional<ReadForecast> read_forecast(const DatasetInfo& info, double seconds_per_byte) {
  if (info.shape.empty() || info.total_bytes() == 0) return std::nullopt;
  ReadForecast forecast{.random_bytes = static_cast<double>(info.row_bytes()),
                        .epoch_bytes = static_cast<double>(info.total_bytes())};
  if (const std::optional<SampleCost> cost = sample_cost(info)) {
    forecast.random_bytes *= cost->decoded_per_wanted_random;
    forecast.epoch_bytes *= cost->decoded_per_wanted_epoch;
  }
  forecast.random_seconds = forecast.random_bytes * seconds_per_byte;
  forecast.epoch_seconds = forecast.epoch_bytes * seconds_per_byte;
  return forecast;
}

std::string forecast_line(const DatasetInfo& info, const ReadForecast& forecast) {
  const std::optional<SampleCost> cost = sample_cost(info);
  const std::uint64_t chunks = cost ? cost->chunks_per_sample : 0;
  const std::string where =
      chunks == 0 ? "of contiguous data"
                  : fmt::format("in {} {}", format_count(chunks), chunks == 1 ? "chunk" : "chunks");
  const auto bytes = [](double value) { return format_bytes(static_cast<std::uint64_t>(value)); };
  std::string line = fmt::format("{}: a random sample reads {} {}{}; an epoch in chunk order {}{}",
                                 printable(short_path(info.path)), bytes(forecast.random_bytes), where,
                                 seconds_text(forecast.random_seconds), bytes(forecast.epoch_bytes),
                                 seconds_text(forecast.epoch_seconds));
  return forecast.epoch_seconds > 0 ? line + " of one core" : line;
}

std::string StorageFault::line(const DatasetInfo& info) const {
  return fmt::format("{}: {}; {}{}{}", printable(short_path(info.path)), what, cure,
                     command.empty() ? "" : ": ", command);
}

StorageCure storage_cure(const DatasetInfo& info, std::string text, std::string_view options,
                         const std::vector<std::uint64_t>& chunk, std::uint64_t available_bytes) {
  const std::uint64_t chunks =
      info.chunk_shape.empty() ? 0 : product_of(chunk_grid(info.shape, info.chunk_shape));
  const std::uint64_t tables = chunk_table_bytes(chunks, product_of(chunk_grid(info.shape, chunk)));
  const std::uint64_t needed = memory_for_chunk_tables(tables);
  // What is available changes until the command runs.
  const std::uint64_t ample = available_bytes - available_bytes / 4;
  const auto anew = [&] {
    return h5py_line(info.path, "values", chunk, filters_after(info, options)) + "  # h5py";
  };
  if (info.layout == StorageLayout::chunked && info.stored_bytes == 0 && chunks > kManyVisits)
    return {"nothing is written to it yet: write it with other chunks", anew()};
  if (needed > ample) {
    return {fmt::format("repack would need {} of memory for the places of its {} chunks: write it anew with "
                        "larger ones",
                        format_bytes(needed), format_count(chunks)),
            anew()};
  }
  std::string command = repack_command(info, options);
  if (!holds_chunk_tables(default_repack_memory(ample), tables))
    command += fmt::format(" --memory {}MiB", (needed + kMiB - 1) / kMiB);
  return {std::move(text), std::move(command)};
}

std::optional<StorageFault> cut_samples(const DatasetInfo& info) {
  const std::optional<SampleCost> cost = sample_cost(info);
  if (!cost || cost->chunks_per_sample == 1) return std::nullopt;
  StorageCure cure =
      storage_cure(info, "write it once with whole samples in a chunk", "--chunk auto", whole_samples(info));
  return StorageFault{
      .mistake = StorageMistake::cut_samples,
      .what = fmt::format(
          "each sample spans {} chunks of {}: a random sample decodes {} bytes per byte wanted, whole "
          "epochs in chunk order {} with a cache of at least {}",
          format_count(cost->chunks_per_sample), format_bytes(cost->chunk_bytes),
          factor_text(cost->decoded_per_wanted_random), factor_text(cost->decoded_per_wanted_epoch),
          format_bytes(cost->chunks_per_sample * cost->chunk_bytes)),
      .cure = std::move(cure.text),
      .command = std::move(cure.command)};
}

std::vector<StorageFault> storage_faults(const DatasetInfo& info, const ChunkReader* reader) {
  constexpr double kWorthwhilePadding = 0.2, kWorthwhileRatio = 1.1;
  constexpr std::uint64_t kSmallChunk = 64 * kKiB, kLargeChunk = 16 * kMiB, kManyChunks = 1'000;
  std::vector<StorageFault> faults;
  if (info.total_bytes() < kSmallDatasetBytes) return faults;
  const auto add = [&](StorageMistake mistake, std::string what, std::string cure, std::string_view options) {
    const bool recuts = options.find("--chunk") != std::string_view::npos;
    StorageCure found = options.empty() ? StorageCure{std::move(cure), {}}
                                        : storage_cure(info, std::move(cure), options,
                                                       recuts ? whole_samples(info) : info.chunk_shape);
    faults.push_back({mistake, std::move(what), std::move(found.text), std::move(found.command)});
  };
  if (reader != nullptr && !reader->direct()) {
    add(StorageMistake::fallback,
        fmt::format("libhdf5 has to read it, one thread at a time ({})", reader->fallback_reason()),
        "rewrite it", "--chunk auto --filter gzip:4");
  }
  if (info.chunk_shape.empty()) return faults;
  const std::optional<SampleCost> cost = sample_cost(info);
  const std::uint64_t chunk_bytes = bytes_of(info.chunk_shape, size_of(info.dtype));
  const bool split = cost && cost->chunks_per_sample > 1;
  if (split && info.chunk_shape == h5py_auto_chunk(info.shape, size_of(info.dtype))) {
    add(StorageMistake::unset_chunks, "h5py chose these chunks by itself",
        "give create_dataset(chunks=...) when writing, as compression or maxshape alone cuts samples into "
        "pieces",
        "");
  }
  for (std::size_t d = 0; d < info.shape.size(); ++d) {
    if (info.chunk_shape[d] <= info.shape[d]) continue;
    add(StorageMistake::wide_chunks,
        fmt::format("its chunks ({}) exceed its shape ({}), and what is outside is stored and decoded "
                    "needlessly",
                    format_shape(info.chunk_shape), format_shape(info.shape)),
        "limit the chunks to the shape", "--chunk auto");
    break;
  }
  if (faults.empty() && !split && padding_share(info) >= kWorthwhilePadding) {
    add(StorageMistake::padding,
        fmt::format("{:.0f} % of its chunks' cells are outside the data", 100 * padding_share(info)),
        "choose chunks that divide the shape", "--chunk auto");
  }
  const std::uint64_t rows_per_chunk = info.chunk_shape.front();
  if (!split && rows_per_chunk == 1 && chunk_bytes < kSmallChunk && info.rows() >= kManyChunks) {
    add(StorageMistake::one_row_chunks,
        fmt::format("one sample of {} in each of {} chunks, so that every sample costs a read and an index "
                    "entry",
                    format_bytes(chunk_bytes), format_count(info.rows())),
        "put more in a chunk", "--chunk auto");
  }
  if (!info.filters.empty() && rows_per_chunk >= info.rows() && chunk_bytes > kLargeChunk) {
    add(StorageMistake::one_chunk,
        fmt::format("all of it is one compressed chunk of {}, which any sample decodes whole and one thread "
                    "alone",
                    format_bytes(chunk_bytes)),
        "cut it", "--chunk auto");
  } else if (!split && chunk_bytes > kLargeChunk) {
    add(StorageMistake::large_chunks,
        fmt::format("chunks of {} make random order and many workers need much memory",
                    format_bytes(chunk_bytes)),
        "smaller ones", "--chunk auto");
  }
  const double ratio = info.stored_bytes > 0
                           ? static_cast<double>(info.total_bytes()) / static_cast<double>(info.stored_bytes)
                           : 0;
  const bool compressed = std::any_of(info.filters.begin(), info.filters.end(),
                                      [](const FilterSpec& filter) { return compresses(filter.id); });
  if (compressed && ratio > 0 && ratio < kWorthwhileRatio && padding_share(info) < 0.01) {
    add(StorageMistake::useless_filter,
        fmt::format("{} saves {:.1f} % of the space and costs decoding", format_filters(info.filters),
                    100 * std::max(0.0, 1 - 1 / ratio)),
        "store it plain", "--filter none");
  }
  return faults;
}

}  // namespace h5feed::cli
