// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/chunk_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "h5feed/error.hpp"
#include "tools/program/option_text.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::cli {
namespace {

constexpr const char* kChunkForms =
    "auto, samples per chunk, a size such as 4MiB, a shape such as 100x3x218x178, or none for contiguous "
    "storage";

std::vector<std::uint64_t> whole_samples(const DatasetInfo& info, std::uint64_t samples) {
  std::vector<std::uint64_t> chunk = info.shape;
  chunk.front() = samples;
  return chunk;
}

RowShape rows_of(const DatasetInfo& info) {
  return {std::max<std::uint64_t>(1, info.rows()), std::max<std::uint64_t>(1, info.row_bytes())};
}

// Returns the rows per chunk that --chunk auto means.
std::uint64_t automatic_rows(const DatasetInfo& info, const RepackArguments& arguments) {
  const std::uint64_t rows = automatic_chunk_rows(info.rows(), info.row_bytes());
  if (arguments.window.empty()) return rows;
  const RowShape data = rows_of(info);
  const WindowUse use = window_use(arguments);
  const std::optional<std::uint64_t> fitting = window_chunk_rows(data, rows, use);
  if (!fitting) {
    throw OptionError(fmt::format(
        "{}: no chunks are decoded {} times at most by windows of {} rows with --shuffle {} and a "
        "cache of {}; use {}",
        info.place(), kWindowDecodes, use.window.size(), use.shuffle.to_string(),
        format_bytes(use.cache_bytes), window_cure(data, use)));
  }
  return *fitting;
}

}  // namespace

ChunkChoice parse_chunk_choice(const std::string& text) {
  if (text.empty()) return {};
  if (text == "auto") return {.form = ChunkForm::automatic};
  if (text == "none") return {.form = ChunkForm::none};
  const auto digits = [](char c) { return c >= '0' && c <= '9'; };
  if (std::all_of(text.begin(), text.end(), digits)) {
    return {.form = ChunkForm::samples,
            .amount = parse_number("--chunk", text, 1, std::numeric_limits<std::uint32_t>::max())};
  }
  if (std::all_of(text.begin(), text.end(), [&](char c) { return digits(c) || c == 'x'; })) {
    return {.form = ChunkForm::shape, .shape = parse_shape("--chunk", text, kChunkForms)};
  }
  // A fraction without a unit is neither a number of samples nor a plausible size.
  const bool has_unit = text.find_first_of("0123456789.", text.size() - 1) == std::string::npos;
  const std::uint64_t bytes = has_unit && digits(text.front()) ? parse_size("--chunk", text) : 0;
  if (bytes == 0) throw OptionError(fmt::format("--chunk \"{}\": give {}", text, kChunkForms));
  if (bytes >= 4 * kGiB) {
    throw OptionError(fmt::format(
        "--chunk \"{}\" is too large; HDF5 stores chunks below 4 GiB, choose a smaller size", text));
  }
  return {.form = ChunkForm::bytes, .amount = bytes};
}

WindowUse window_use(const RepackArguments& arguments) {
  WindowUse use{.window = parse_window("--window", arguments.window),
                .shuffle = Shuffle(arguments.shuffle.empty() ? "chunk:16" : arguments.shuffle)};
  use.cache_bytes = arguments.cache_bytes.empty() ? default_cache_bytes(system_limits().available_bytes)
                                                  : parse_size("--cache-bytes", arguments.cache_bytes);
  return use;
}

std::vector<std::uint64_t> chunk_shape_of(const DatasetInfo& info, const ChunkChoice& choice,
                                          const RepackArguments& arguments) {
  std::vector<std::uint64_t> chunk;
  switch (choice.form) {
    case ChunkForm::as_source:
      chunk = info.chunk_shape;
      break;
    case ChunkForm::automatic:
      chunk = whole_samples(info, automatic_rows(info, arguments));
      break;
    case ChunkForm::samples:
      chunk = whole_samples(info, choice.amount);
      break;
    case ChunkForm::bytes:
      chunk = whole_samples(
          info, std::max<std::uint64_t>(1, choice.amount / std::max<std::uint64_t>(1, info.row_bytes())));
      break;
    case ChunkForm::shape:
      if (choice.shape.size() != info.shape.size()) {
        throw OptionError(fmt::format("--chunk {}: {} has {} dimensions ({}); give as many extents",
                                      fmt::join(choice.shape, "x"), info.place(), info.shape.size(),
                                      format_shape(info.shape)));
      }
      chunk = choice.shape;
      break;
    case ChunkForm::none:
      return {};
  }
  // A chunk beyond the data would be padding, and libhdf5 refuses chunks beyond a fixed extent.
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    chunk[d] = std::clamp<std::uint64_t>(chunk[d], 1, std::max<std::uint64_t>(1, info.shape[d]));
  }
  std::uint64_t bytes = size_of(info.dtype);
  for (const std::uint64_t extent : chunk) {
    if (bytes > (4 * kGiB - 1) / extent) {
      throw OptionError(
          fmt::format("{}: chunks of {} exceed 4 GiB, the most that HDF5 stores; choose a smaller "
                      "--chunk",
                      info.place(), format_shape(chunk)));
    }
    bytes *= extent;
  }
  return chunk;
}

void refuse_larger_chunks(const ChunkChoice& choice, const std::string& text,
                          const std::vector<RepackJob>& jobs) {
  std::vector<std::uint64_t> wanted = choice.shape;
  if (choice.form == ChunkForm::samples) wanted = {choice.amount};
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    const DatasetInfo* largest = nullptr;
    for (const RepackJob& job : jobs) {
      if (job.chosen && (largest == nullptr || job.info().shape[d] > largest->shape[d]))
        largest = &job.info();
    }
    if (largest == nullptr || largest->shape[d] == 0 || wanted[d] <= largest->shape[d]) continue;
    if (choice.form == ChunkForm::samples) {
      throw OptionError(fmt::format("--chunk {}: {} has {} rows; give smaller chunks", text, largest->place(),
                                    format_count(largest->rows())));
    }
    throw OptionError(fmt::format("--chunk {}: {} is {}; give smaller chunks", text, largest->place(),
                                  format_shape(largest->shape)));
  }
}

std::string window_text(const DatasetInfo& info, std::uint64_t chunk_rows, const RepackArguments& arguments) {
  if (arguments.window.empty()) return {};
  const WindowUse use = window_use(arguments);
  const WindowCost cost = window_cost(rows_of(info), chunk_rows, use);
  return fmt::format("; windows of {} rows with shuffle={} decode each chunk {:.2f} times with {} of cache",
                     use.window.size(), use.shuffle.to_string(), cost.decodes_per_chunk,
                     format_bytes_ceil(cost.needed_bytes));
}

}  // namespace h5feed::cli
