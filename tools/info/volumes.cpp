// SPDX-License-Identifier: Apache-2.0
#include "tools/info/volumes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "base/byte_units.hpp"

namespace h5feed::cli {
namespace {

constexpr std::uint64_t kLeastExtent = 32;
constexpr std::uint64_t kMostChannels = 4;
constexpr std::uint64_t kPatchSide = 64;
constexpr std::uint64_t kLargestSide = 128;

using Extents = std::span<const std::uint64_t>;

bool all_large(Extents extents) {
  return std::ranges::all_of(extents, [](std::uint64_t extent) { return extent >= kLeastExtent; });
}

// A way to see volumes in a shape.
struct VolumeShape {
  std::string layout;     // for --input-layout
  std::size_t depth = 0;  // dimension of the depth
  bool whole = false;     // the dataset is one volume
};

std::optional<VolumeShape> volumes_in(Extents shape) {
  const auto channels = [&](std::size_t d) { return shape[d] >= 1 && shape[d] <= kMostChannels; };
  if (shape.size() == 3 && all_large(shape)) return VolumeShape{"NDHW", 0, true};
  if (shape.size() == 4) {
    if (channels(0) && all_large(shape.subspan(1))) return VolumeShape{"NCDHW", 1, true};
    if (channels(3) && all_large(shape.first(3))) return VolumeShape{"NDHWC", 0, true};
    if (all_large(shape.subspan(1))) return VolumeShape{"NDHW", 1, false};
  }
  if (shape.size() == 5) {
    if (channels(1) && all_large(shape.subspan(2))) return VolumeShape{"NCDHW", 2, false};
    if (channels(4) && all_large(shape.subspan(1, 3))) return VolumeShape{"NDHWC", 1, false};
  }
  return std::nullopt;
}

// Returns an integer dataset with the extents of the volumes; empty if there is none, or more than one.
std::string labels_of(const DatasetEntry& entry, const VolumeShape& volumes,
                      const std::vector<DatasetEntry>& entries) {
  std::vector<std::uint64_t> wanted(entry.shape.begin() + static_cast<std::ptrdiff_t>(volumes.depth),
                                    entry.shape.begin() + static_cast<std::ptrdiff_t>(volumes.depth) + 3);
  if (!volumes.whole) wanted.insert(wanted.begin(), entry.shape.front());
  std::string found;
  for (const DatasetEntry& other : entries) {
    const auto dtype = other.numeric ? dtype_from_name(other.type_text) : std::nullopt;
    if (other.path == entry.path || other.shape != wanted || !dtype || !is_integer(*dtype)) continue;
    if (!found.empty()) return {};
    found = other.path;
  }
  return found;
}

bool cut_everywhere(const DatasetInfo& info, std::size_t depth) {
  if (info.chunk_shape.empty()) return false;
  for (std::size_t d = depth; d < depth + 3; ++d) {
    if (info.chunk_shape[d] == 1 || info.chunk_shape[d] >= info.shape[d]) return false;
  }
  return true;
}

// Returns whether a dataset of integers is named as labels are.
bool named_as_labels(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(std::array{"label", "mask", "seg", "annotation"},
                             [&](const char* word) { return name.find(word) != std::string::npos; });
}

}  // namespace

std::optional<SampleReading> volume_reading(const DatasetEntry& entry, const DatasetInfo& info,
                                            const std::vector<DatasetEntry>& entries) {
  const std::optional<VolumeShape> volumes = volumes_in(info.shape);
  if (!volumes) return std::nullopt;
  SampleReading reading{.data = entry.path, .target = labels_of(entry, *volumes, entries)};
  const bool certain = info.shape.size() > 3 || cut_everywhere(info, volumes->depth) ||
                       (!reading.target.empty() && !is_integer(info.dtype));
  // Labels of volumes are not data.
  const bool labels = is_integer(info.dtype) && named_as_labels(entry.path) && !reading.target.empty();
  if (!certain || labels) return std::nullopt;
  const Extents extents = std::span(info.shape).subspan(volumes->depth, 3);
  reading.what = fmt::format("patches of {} of {}",
                             volumes->whole ? "one volume" : format_count(info.rows()) + " volumes",
                             fmt::join(extents, "×"));
  reading.whole = volumes->whole;
  reading.input_layout = volumes->layout;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::uint64_t side = kPatchSide;
    if (!info.chunk_shape.empty()) {
      // Whole chunks, about as large as networks take.
      const std::uint64_t chunk = info.chunk_shape[volumes->depth + axis];
      side = std::min(std::max(chunk, kPatchSide / chunk * chunk), kLargestSide);
    }
    reading.patch.push_back(std::min(side, extents[axis]));
  }
  return reading;
}

}  // namespace h5feed::cli
