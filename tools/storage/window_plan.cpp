// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/window_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/byte_units.hpp"
#include "dataset/episodes/anchors.hpp"
#include "flow/resolve/advice.hpp"
#include "flow/resolve/chunks_in_play.hpp"
#include "h5feed/error.hpp"
#include "plan/divide.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

// Longer recordings have groups of the same size.
constexpr std::uint64_t kMostRows = 1'000'000;

AnchorGroups groups_of(std::uint64_t rows, std::uint64_t chunk_rows, const FieldWindow& window) {
  const std::array episodes = {Episode{.rows = rows}};
  const std::array ends = {rows};
  const EpisodeOptions options{.missing_before = -1, .missing_after = -1};
  const Anchors anchors(episodes, options, std::array{window});
  return group_anchors(anchors, RowLayout(rows, chunk_rows), ends, least_group_rows(window, chunk_rows),
                       window);
}

}  // namespace

std::vector<std::int64_t> parse_window(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> offsets;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    offsets.push_back(parse_integer(option, text.substr(from, to - from)));
    if (offsets.size() > 1 && offsets.back() <= offsets[offsets.size() - 2]) {
      throw OptionError(fmt::format("{} \"{}\": offsets must ascend, each once, such as -2,-1,0,1", option,
                                    printable(std::string(text))));
    }
    from = to + 1;
  }
  return offsets;
}

WindowCost window_cost(const RowShape& data, std::uint64_t chunk_rows, const WindowUse& use) {
  const FieldWindow window{use.window};
  const std::uint64_t rows = std::min(data.rows, kMostRows);
  const std::uint64_t chunks = (data.rows - 1) / chunk_rows + 1;
  const std::uint64_t chunk_bytes = chunk_rows * data.row_bytes;
  const double parts = chunks_per_window(use.window, static_cast<double>(chunk_rows));
  ChunkPattern pattern{
      .chunks = chunks,
      .rows_per_chunk = static_cast<std::uint64_t>(std::ceil(static_cast<double>(chunk_rows) * parts)),
      .chunk_bytes = chunk_bytes,
      .shuffle = use.shuffle,
      .batch_size = static_cast<std::uint64_t>(std::ceil(static_cast<double>(use.batch_size) * parts)),
      .cache_bytes = use.cache_bytes};
  double of_groups = 1;
  std::uint64_t in_play = chunks;
  if (use.shuffle.kind() == Shuffle::Kind::chunk) {
    const AnchorGroups groups = groups_of(rows, chunk_rows, window);
    of_groups = static_cast<double>(groups.chunk_visits) / static_cast<double>(groups.chunks_in_use);
    const std::uint64_t in_groups = std::min(chunks, use.shuffle.window_chunks() * groups.chunks);
    pattern.shuffle = Shuffle(fmt::format("chunk:{}", in_groups));
    // Batches in preparation may need as many of the next groups.
    in_play = std::min(chunks, 2 * in_groups);
  } else if (use.shuffle.kind() == Shuffle::Kind::sequential) {
    // The batch that is delivered and the one that is prepared.
    in_play =
        std::min(chunks, chunks_along_window(window, chunk_rows) + ceil_div(2 * use.batch_size, chunk_rows));
  }
  return {.decodes_per_chunk = of_groups * lru_decodes_per_chunk(pattern),
          .needed_bytes = in_play * chunk_bytes};
}

bool fits_windows(const RowShape& data, std::uint64_t chunk_rows, const WindowUse& use) {
  const WindowCost cost = window_cost(data, chunk_rows, use);
  return cost.decodes_per_chunk <= kWindowDecodes && cost.needed_bytes <= use.cache_bytes;
}

std::optional<std::uint64_t> window_chunk_rows(const RowShape& data, std::uint64_t most,
                                               const WindowUse& use) {
  std::vector<std::uint64_t> sizes = round_numbers(std::max<std::uint64_t>(1, most));
  std::ranges::reverse(sizes);
  const auto found =
      std::ranges::find_if(sizes, [&](std::uint64_t rows) { return fits_windows(data, rows, use); });
  return found == sizes.end() ? std::nullopt : std::optional(*found);
}

std::string window_cure(const RowShape& data, const WindowUse& use) {
  const std::string cache =
      fmt::format("a cache of {}", format_bytes_ceil(window_cost(data, 1, use).needed_bytes));
  if (use.shuffle.kind() != Shuffle::Kind::chunk) return cache;
  for (std::uint64_t k = use.shuffle.window_chunks(); k-- > 1;) {
    WindowUse fewer = use;
    fewer.shuffle = Shuffle(fmt::format("chunk:{}", k));
    if (window_chunk_rows(data, data.rows, fewer)) return fmt::format("--shuffle chunk:{}, or {}", k, cache);
  }
  return cache;
}

}  // namespace h5feed::cli
