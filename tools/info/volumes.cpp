// SPDX-License-Identifier: Apache-2.0
#include "tools/info/volumes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "base/byte_units.hpp"
#include "dataset/geometry.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/storage_advice.hpp"

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
    if (!other.numeric || other.shape != wanted || other.path == entry.path) continue;
    const auto dtype = dtype_from_name(other.type_text);
    if (!dtype || !is_integer(*dtype)) continue;
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
bool is_label_name(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(std::array{"label", "mask", "seg", "annotation"},
                             [&](const char* word) { return name.find(word) != std::string::npos; });
}

// Returns the mean number of chunks of `chunk` elements that `size` of `extent` elements touch at a random
// place.
double chunks_touched(std::uint64_t extent, std::uint64_t size, std::uint64_t chunk) {
  constexpr std::uint64_t kMostPlaces = 65'536;
  std::uint64_t touched = 0;
  // The number repeats from chunk to chunk.
  const std::uint64_t places = std::min({extent - size + 1, chunk, kMostPlaces});
  for (std::uint64_t from = 0; from < places; ++from) touched += (from + size - 1) / chunk - from / chunk + 1;
  return static_cast<double>(touched) / static_cast<double>(places);
}

// Returns how many elements a patch decodes at a random place, relative to its own.
double decoded_per_wanted(Extents shape, Extents chunk, const VolumeShape& volumes, Extents patch) {
  const std::size_t depth = volumes.depth;
  double ratio = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d >= depth && d < depth + patch.size()) {
      const std::uint64_t size = patch[d - depth];
      ratio *= chunks_touched(shape[d], size, chunk[d]) * static_cast<double>(std::min(chunk[d], shape[d])) /
               static_cast<double>(size);
    } else if (d == 0 && !volumes.whole) {
      ratio *= static_cast<double>(chunk[0]);  // other volumes
    }
  }
  return ratio;
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
  const bool labels = is_integer(info.dtype) && is_label_name(entry.path) && !reading.target.empty();
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

std::vector<std::string> patch_advice(const DatasetInfo& info, const std::vector<SampleReading>& readings,
                                      const std::optional<OpenReading>& episodes) {
  constexpr double kWorthSaying = 1.5;
  const auto patches = std::ranges::find_if(readings, [&](const SampleReading& reading) {
    return reading.data == info.path && !reading.patch.empty();
  });
  const bool series = episodes && episodes->certain && episodes->options.data == info.path;
  const std::optional<VolumeShape> volumes = volumes_in(info.shape);
  if (patches == readings.end() || series || !volumes || looks_like_images(info.shape, info.dtype)) return {};
  const SampleReading& reading = *patches;
  const std::size_t depth = volumes->depth;
  // Half a patch on each side; volumes and channels each in chunks of their own.
  std::vector<std::uint64_t> better(info.shape.size(), 1);
  for (std::size_t axis = 0; axis < reading.patch.size(); ++axis)
    better[depth + axis] = std::max<std::uint64_t>(1, reading.patch[axis] / 2);
  const bool channels = info.shape.size() > depth + 3;
  if (channels) better.back() = info.shape.back();
  // Without chunks, a volume or a channel is read at a time.
  std::vector<std::uint64_t> chunk = info.chunk_shape;
  if (chunk.empty()) {
    chunk = info.shape;
    if (!volumes->whole || depth > 0) chunk.front() = 1;
    if (volumes->whole && depth == 0) return {};  // read by slices
  }
  const double now = decoded_per_wanted(info.shape, chunk, *volumes, reading.patch);
  const double then = decoded_per_wanted(info.shape, better, *volumes, reading.patch);
  if (now < kWorthSaying * then) return {};
  const StorageCure cure = storage_cure(info, "", fmt::format("--chunk {}", fmt::join(better, "x")), better);
  return {fmt::format(
      "{}: a patch of {} at a random place decodes {:.3g} times its own voxels {}, and {:.2g} times with "
      "chunks of {}{}: {}",
      printable(short_path(info.path)), fmt::join(reading.patch, "×"), now,
      info.chunk_shape.empty() ? "without chunks" : fmt::format("with chunks of {}", fmt::join(chunk, "×")),
      then, fmt::join(better, "×"), cure.text.empty() ? "" : "; " + cure.text, cure.command)};
}

}  // namespace h5feed::cli
