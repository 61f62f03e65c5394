// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/recut_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/format/chunk_geometry.hpp"

namespace h5feed::cli {
namespace {

// Larger windows gain nothing: there is enough work for every thread.
constexpr std::uint64_t kAmpleWindowBytes = 32 * kMiB;

// Share of the memory (1/4) for what is not counted: libhdf5's metadata, the allocator's gaps.
constexpr std::uint64_t kUncountedShare = 4;

std::uint64_t chunk_bytes(const std::vector<std::uint64_t>& chunk, std::size_t element_bytes) {
  std::uint64_t bytes = element_bytes;
  for (const std::uint64_t extent : chunk) bytes *= extent;
  return bytes;
}

// Returns the rows of a window that fills `bands` rows of target chunks; its last source chunks may extend
// further.
std::uint64_t window_rows(const RecutShapes& shapes, std::uint64_t region_rows, std::uint64_t bands) {
  const std::uint64_t source = shapes.source_chunk.front(), target = shapes.target_chunk.front();
  return std::min(region_rows, bands * target + source - std::gcd(source, target));
}

// Returns the rows that pass from one window to the next, temporarily in separate memory.
std::uint64_t carried_rows(const RecutShapes& shapes) {
  const std::uint64_t source = shapes.source_chunk.front(), target = shapes.target_chunk.front();
  return source % target == 0 || target % source == 0 ? 0 : std::min(source, target);
}

std::uint64_t row_bytes(const RecutShapes& shapes, const std::vector<std::uint64_t>& region) {
  std::uint64_t bytes = shapes.element_bytes;
  for (std::size_t d = 1; d < region.size(); ++d) bytes *= std::min(region[d], shapes.shape[d]);
  return bytes;
}

std::uint64_t window_bytes(const RecutShapes& shapes, const std::vector<std::uint64_t>& region) {
  const std::uint64_t rows = std::min(region.front(), shapes.shape.front());
  const std::uint64_t window = window_rows(shapes, rows, 1);
  return (window + (window < rows ? carried_rows(shapes) : 0)) * row_bytes(shapes, region);
}

// Returns the mean number of times that each source chunk is needed if regions of `extent` cut dimension `d`.
double visits_along(const RecutShapes& shapes, std::size_t d, std::uint64_t extent) {
  const std::uint64_t whole = shapes.shape[d], chunk = shapes.source_chunk[d];
  if (extent >= whole) return 1;
  std::uint64_t visits = 0;
  for (std::uint64_t begin = 0; begin < whole; begin += extent) {
    const std::uint64_t end = std::min(whole, begin + extent);
    visits += (end + chunk - 1) / chunk - begin / chunk;
  }
  const std::uint64_t chunks = (whole + chunk - 1) / chunk;
  return static_cast<double>(visits) / static_cast<double>(chunks);
}

double visits_of(const RecutShapes& shapes, const std::vector<std::uint64_t>& region) {
  double visits = 1;
  for (std::size_t d = 0; d < region.size(); ++d) visits *= visits_along(shapes, d, region[d]);
  return visits;
}

// Returns about half of the region's extent along `d`; empty if it is one target chunk already. Cuts that
// both grids share cost nothing, so they are preferred.
std::optional<std::uint64_t> halved(const RecutShapes& shapes, const std::vector<std::uint64_t>& region,
                                    std::size_t d) {
  const std::uint64_t target = shapes.target_chunk[d], source = shapes.source_chunk[d];
  std::uint64_t extent = std::min(region[d], shapes.shape[d]);
  if (d == 0) extent = window_rows(shapes, extent, 1);
  const std::uint64_t chunks = (extent + target - 1) / target;
  if (chunks <= 1) return std::nullopt;
  const std::uint64_t half = chunks / 2 * target;
  const std::uint64_t shared = target / std::gcd(source, target) * source;
  return half >= shared ? half / shared * shared : half;
}

// Returns the region with the fewest visits whose window fits; empty if not even one target chunk fits.
std::optional<std::vector<std::uint64_t>> fitting_region(const RecutShapes& shapes, std::uint64_t bytes) {
  std::vector<std::uint64_t> region = shapes.shape;
  while (window_bytes(shapes, region) > bytes) {
    std::optional<std::vector<std::uint64_t>> best;
    double best_visits = 0;
    for (std::size_t d = region.size(); d-- > 0;) {
      const auto extent = halved(shapes, region, d);
      if (!extent) continue;
      std::vector<std::uint64_t> smaller = region;
      smaller[d] = *extent;
      const double visits = visits_of(shapes, smaller);
      if (best && visits >= best_visits) continue;
      best = std::move(smaller);
      best_visits = visits;
    }
    if (!best) return std::nullopt;
    region = std::move(*best);
  }
  return region;
}

std::optional<RecutPlan> plan_with(const RecutShapes& shapes, const RecutLimits& limits, unsigned jobs,
                                   std::size_t encoders, std::size_t windows) {
  const std::uint64_t usable = limits.memory_bytes - limits.memory_bytes / kUncountedShare;
  const std::uint64_t buffers = jobs * limits.decode_bytes + encoders * limits.encode_bytes;
  if (limits.held_bytes + buffers >= usable) return std::nullopt;
  const std::uint64_t each = (usable - limits.held_bytes - buffers) / windows;
  const auto region = fitting_region(shapes, each);
  if (!region) return std::nullopt;
  RecutPlan plan{.region = *region, .windows = windows, .encoders = encoders, .jobs = jobs};
  plan.visits = visits_of(shapes, *region);
  const std::uint64_t rows = std::min(region->front(), shapes.shape.front());
  const std::uint64_t bytes_per_row = row_bytes(shapes, *region);
  const std::uint64_t ample = std::min(each, kAmpleWindowBytes);
  while (window_rows(shapes, rows, plan.bands_per_step) < rows &&
         (window_rows(shapes, rows, 2 * plan.bands_per_step) + carried_rows(shapes)) * bytes_per_row <=
             ample) {
    plan.bands_per_step *= 2;
  }
  plan.window_bytes = (window_rows(shapes, rows, plan.bands_per_step) + carried_rows(shapes)) * bytes_per_row;
  plan.memory_bytes = limits.held_bytes + windows * plan.window_bytes + buffers;
  return plan;
}

std::vector<std::uint64_t> strides_of(std::span<const std::uint64_t> counts) {
  std::vector<std::uint64_t> strides(counts.size(), 1);
  for (std::size_t d = counts.size(); d-- > 1;) strides[d - 1] = strides[d] * counts[d];
  return strides;
}

}  // namespace

RecutPlan plan_recut(const RecutShapes& shapes, const RecutLimits& limits, const std::string& dataset) {
  std::optional<RecutPlan> best;
  // Fewer threads leave more memory for the window; saving visits is worth more than threads.
  for (unsigned jobs = limits.jobs; jobs >= 1; jobs /= 2) {
    for (const std::size_t windows : {2U, 1U}) {
      auto plan = plan_with(shapes, limits, jobs, jobs > 1 ? 2 * std::size_t{jobs} : 1, windows);
      if (plan && (!best || plan->visits < 0.5 * best->visits)) best = std::move(plan);
    }
  }
  if (best) return *best;
  const std::uint64_t target = chunk_bytes(shapes.target_chunk, shapes.element_bytes);
  const std::uint64_t least = limits.held_bytes + limits.decode_bytes + limits.encode_bytes + target + kMiB;
  throw OptionError(fmt::format(
      "--memory {} cannot hold one source chunk ({}) and one target chunk ({}) of {}{}; give at least {}",
      format_bytes(limits.memory_bytes), format_bytes(chunk_bytes(shapes.source_chunk, shapes.element_bytes)),
      format_bytes(target), dataset,
      limits.held_bytes < kMiB
          ? ""
          : fmt::format(" in addition to the positions of all chunks ({})", format_bytes(limits.held_bytes)),
      format_bytes_ceil(least + least / (kUncountedShare - 1) + 1)));
}

std::uint64_t elements_of(const ChunkBox& box) noexcept {
  return std::accumulate(box.count.begin(), box.count.end(), std::uint64_t{1}, std::multiplies<>());
}

std::vector<ChunkBox> regions_of(const RecutShapes& shapes, const RecutPlan& plan) {
  const auto grid = chunk_grid(shapes.shape, plan.region);
  const std::uint64_t count =
      std::accumulate(grid.begin(), grid.end(), std::uint64_t{1}, std::multiplies<>());
  std::vector<ChunkBox> regions;
  for (std::uint64_t i = 0; i < count; ++i) regions.push_back(box_of_chunk(i, plan.region, shapes.shape));
  return regions;
}

ChunkBox box_of_chunk(std::uint64_t chunk, std::span<const std::uint64_t> chunk_shape,
                      std::span<const std::uint64_t> shape) {
  ChunkBox box;
  box.start = chunk_coordinates(chunk, chunk_grid(shape, chunk_shape));
  box.count.resize(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    box.start[d] *= chunk_shape[d];
    box.count[d] = std::min(chunk_shape[d], shape[d] - box.start[d]);
  }
  return box;
}

ChunkBox intersection(const ChunkBox& a, const ChunkBox& b) {
  ChunkBox box;
  for (std::size_t d = 0; d < a.start.size(); ++d) {
    const std::uint64_t begin = std::max(a.start[d], b.start[d]);
    const std::uint64_t end = std::min(a.start[d] + a.count[d], b.start[d] + b.count[d]);
    box.start.push_back(begin);
    box.count.push_back(end > begin ? end - begin : 0);
  }
  return box;
}

std::vector<std::uint64_t> chunks_touching(const ChunkBox& box, std::span<const std::uint64_t> chunk_shape,
                                           std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> chunks;
  if (elements_of(box) == 0) return chunks;
  const auto strides = strides_of(chunk_grid(shape, chunk_shape));
  std::vector<std::uint64_t> first, counts;
  std::uint64_t total = 1;
  for (std::size_t d = 0; d < box.start.size(); ++d) {
    first.push_back(box.start[d] / chunk_shape[d]);
    counts.push_back((box.start[d] + box.count[d] - 1) / chunk_shape[d] - first[d] + 1);
    total *= counts[d];
  }
  chunks.reserve(total);
  for (std::uint64_t i = 0; i < total; ++i) {
    const auto place = chunk_coordinates(i, counts);
    std::uint64_t chunk = 0;
    for (std::size_t d = 0; d < place.size(); ++d) chunk += (first[d] + place[d]) * strides[d];
    chunks.push_back(chunk);
  }
  return chunks;
}

std::uint64_t offset_within(const ChunkBox& outer, const ChunkBox& inner) noexcept {
  std::uint64_t offset = 0;
  for (std::size_t d = 0; d < outer.start.size(); ++d) {
    offset = offset * outer.count[d] + (inner.start[d] - outer.start[d]);
  }
  return offset;
}

}  // namespace h5feed::cli
