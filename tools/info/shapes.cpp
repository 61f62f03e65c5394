// SPDX-License-Identifier: Apache-2.0
#include "tools/info/shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/byte_units.hpp"
#include "base/files/natural_order.hpp"
#include "dataset/geometry.hpp"
#include "tools/info/volumes.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/image_choice.hpp"

namespace h5feed::cli {
namespace {

// A file may have several kinds of samples, but not many.
constexpr std::size_t kMaxReadings = 8;

using Inner = std::vector<std::uint64_t>;

Inner inner_of(const DatasetEntry& entry) {
  return {entry.shape.begin() + (entry.shape.empty() ? 0 : 1), entry.shape.end()};
}

struct Found {
  SampleReading reading;
  std::uint64_t samples = 0;
  std::uint64_t values = 0;  // of a sample; 0: not known
};

std::uint64_t product(const Inner& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::uint64_t{1}, std::multiplies<>());
}

bool is_images(const std::string& type_text, const std::vector<std::uint64_t>& shape) {
  const auto dtype = dtype_from_name(type_text);
  return dtype && looks_like_images(shape, *dtype);
}

bool is_images(const DatasetEntry& entry) { return entry.plain && is_images(entry.type_text, entry.shape); }

bool is_channels(std::uint64_t extent) noexcept { return extent == 1 || extent == 3 || extent == 4; }

// Depth maps or masks of one image by height and width: the first dataset of that shape anywhere in the file.
std::map<std::vector<std::uint64_t>, std::string> maps_in(const std::vector<DatasetEntry>& entries) {
  std::map<std::vector<std::uint64_t>, std::string> maps;
  for (const DatasetEntry& entry : entries) {
    if (entry.numeric && entry.shape.size() == 2) maps.try_emplace(entry.shape, entry.path);
  }
  return maps;
}

// An array that may be N gray images or one image with several channels is the latter if the file has a map
// of its size.
void add_arrays(const std::vector<DatasetEntry>& entries, const Companions& companions,
                std::vector<Found>& found) {
  const auto maps = maps_in(entries);
  for (const DatasetEntry& entry : entries) {
    if (!is_images(entry)) continue;
    const auto& shape = entry.shape;
    const bool planar = shape.size() == 3 && is_channels(shape[0]);
    if (planar || (shape.size() == 3 && is_channels(shape[2]))) {
      const std::uint64_t height = shape[planar ? 1 : 0], width = shape[planar ? 2 : 1];
      const auto beside = maps.find({height, width});
      const std::string map = beside == maps.end() ? "" : beside->second;
      found.push_back({{.what = fmt::format("one image of {}×{} in a file", height, width),
                        .data = entry.path,
                        .target = map,
                        .whole = true,
                        .input_layout = planar ? "NCHW" : "NHWC"},
                       1});
      if (!map.empty()) continue;
    }
    found.push_back({{.what = fmt::format("{} images", format_count(entry.shape.front())),
                      .data = entry.path,
                      .target = companions.labels(entry)},
                     entry.shape.front(),
                     product(inner_of(entry))});
  }
}

// Images from this side on are larger than a network takes at once.
constexpr std::uint64_t kTiledSide = 2048;
constexpr std::uint64_t kTileSide = 512;

// Large images can be read in windows as well.
void add_tiles(const H5File& file, const std::vector<DatasetEntry>& entries, const Companions& companions,
               std::vector<Found>& found) {
  for (const DatasetEntry& entry : entries) {
    if (!is_images(entry)) continue;
    const std::optional<std::uint64_t> side = suggested_tile(file.describe(entry.path));
    if (!side) continue;
    found.push_back({{.what = fmt::format("tiles of {} images", format_count(entry.shape.front())),
                      .data = entry.path,
                      .target = companions.labels(entry),
                      .tile_size = *side},
                     entry.shape.front(),
                     product(inner_of(entry))});
  }
}

void add_ragged(const H5File& file, const std::vector<DatasetEntry>& entries, const Companions& companions,
                std::vector<Found>& found) {
  for (const DatasetEntry& entry : entries) {
    if (entry.type_text != "variable-length" || !file.describe_ragged(entry.path)) continue;
    found.push_back({{.what = fmt::format("{} images of variable length", format_count(entry.shape.front())),
                      .data = entry.path,
                      .target = companions.labels(entry),
                      .note = "--image-size HEIGHTxWIDTH where they differ in size",
                      .image_shapes = companions.table_of_shapes(entry)},
                     entry.shape.front()});
  }
}

void add_volumes(const H5File& file, const std::vector<DatasetEntry>& entries, std::vector<Found>& found) {
  for (const DatasetEntry& entry : entries) {
    if (!entry.numeric || entry.shape.size() < 3) continue;
    if (auto reading = volume_reading(entry, file.describe(entry.path), entries))
      found.push_back({std::move(*reading), 1});
  }
}

// Returns the patterns of a path, "/data/*/image" for "/data/demo_1/image": every name but the last may name
// one of many groups.
std::vector<std::string> patterns_of(const std::string& path) {
  std::vector<std::string> patterns;
  std::size_t begin = 1;
  for (std::size_t end = path.find('/', begin); end != std::string::npos; end = path.find('/', begin)) {
    patterns.push_back(path.substr(0, begin) + "*" + path.substr(end));
    begin = end + 1;
  }
  return patterns;
}

struct Family {
  std::uint64_t members = 0;
  std::uint64_t rows = 0;
  std::string type_text;
  Inner inner;
  std::vector<std::uint64_t> shape;
  bool alike = true;       // same type and shape, apart from rows
  bool same_shape = true;  // same rows too
  bool numeric = true;
};

std::map<std::string, Family> families_of(const std::vector<DatasetEntry>& entries) {
  std::map<std::string, Family> families;
  for (const DatasetEntry& entry : entries) {
    for (const std::string& pattern : patterns_of(entry.path)) {
      Family& family = families[pattern];
      if (family.members++ == 0) {
        family.type_text = entry.type_text;
        family.inner = inner_of(entry);
        family.shape = entry.shape;
      }
      family.rows += entry.shape.empty() ? 1 : entry.shape.front();
      family.numeric = family.numeric && entry.numeric;
      family.same_shape = family.same_shape && entry.shape == family.shape;
      family.alike = family.alike && entry.type_text == family.type_text && inner_of(entry) == family.inner;
    }
  }
  return families;
}

// Returns the pattern with as many names spelled out as needed to exclude neighbours without such a dataset;
// empty if no prefix of the names does that.
std::string narrowed(const std::string& pattern, const std::vector<DatasetEntry>& entries) {
  const std::size_t star = pattern.find('*');
  const std::string before = pattern.substr(0, star), after = pattern.substr(star + 1);
  std::set<std::string> with, all;
  for (const DatasetEntry& entry : entries) {
    if (!entry.path.starts_with(before)) continue;
    const std::string name = entry.path.substr(star, entry.path.find('/', star) - star);
    all.insert(name);
    if (entry.path == before + name + after) with.insert(name);
  }
  if (with.empty() || with == all) return pattern;
  // Sorted: a prefix that first and last have in common is common to all.
  const std::string& first = *with.begin();
  const std::string& last = *with.rbegin();
  const std::string common(first.begin(), std::ranges::mismatch(first, last).in1);
  const bool leaves_out = std::ranges::none_of(
      all, [&](const std::string& name) { return !with.contains(name) && name.starts_with(common); });
  return leaves_out ? before + common + "*" + after : std::string();
}

bool in_groups(const DatasetEntry& entry, const std::map<std::string, Family>& families) {
  return std::ranges::any_of(patterns_of(entry.path), [&](const std::string& pattern) {
    const Family& family = families.at(pattern);
    return family.members > 1 && family.alike;
  });
}

// Adds rows of numbers that are not images, delivered as stored.
void add_rows(const std::vector<DatasetEntry>& entries, const Companions& companions,
              std::vector<Found>& found) {
  const std::map<std::string, Family> families = families_of(entries);
  std::set<std::string> targets;
  for (const Found& other : found) targets.insert(other.reading.target);
  for (const DatasetEntry& entry : entries) {
    const bool rows =
        entry.numeric && entry.shape.size() >= 2 && entry.shape.front() > 0 && entry.shape[1] > 1;
    if (!rows || targets.contains(entry.path) || is_images(entry) || entry.path.ends_with("_shapes") ||
        in_groups(entry, families))
      continue;
    found.push_back({{.what = fmt::format("{} samples of {}", format_count(entry.shape.front()),
                                          fmt::join(inner_of(entry), "×")),
                      .data = entry.path,
                      .target = companions.labels(entry),
                      .input_layout = entry.shape.size() > 2 ? "none" : ""},
                     entry.shape.front(),
                     product(inner_of(entry))});
    targets.insert(found.back().reading.target);
  }
}

void add_groups(const std::vector<DatasetEntry>& entries, std::vector<Found>& found) {
  const std::map<std::string, Family> families = families_of(entries);
  for (const auto& [pattern, family] : families) {
    // Labels and rewards have one dimension.
    if (family.members < 2 || !family.alike || !family.numeric || family.shape.size() < 2) continue;
    // If each group is a sample, it has a scalar in the same group; if it is an episode, a row for every row.
    std::string target;
    bool whole = false;
    const std::string prefix = pattern.substr(0, pattern.find('*') + 1);
    for (const auto& [other, labels] : families) {
      if (other == pattern || labels.members != family.members || !labels.alike || !labels.numeric ||
          !other.starts_with(prefix)) {
        continue;
      }
      const bool scalar = labels.shape.empty() && family.same_shape;
      const bool column = labels.shape.size() == 1 && labels.rows == family.rows;
      if (!scalar && !column) continue;
      if (target.empty() || label_rank(other) < label_rank(target)) {
        target = other;
        whole = scalar;
      }
    }
    const std::string data = narrowed(pattern, entries);
    if (data.empty()) continue;
    if (!target.empty()) target = narrowed(target, entries);
    const std::uint64_t samples = whole ? family.members : family.rows;
    const bool unclear = !whole && family.same_shape && target.empty();
    std::vector<std::uint64_t> shape = family.inner;
    if (whole) shape = family.shape;
    const std::uint64_t values = product(shape);
    shape.insert(shape.begin(), samples);
    found.push_back(
        {{.what = fmt::format("{} groups, {} samples", format_count(family.members), format_count(samples)),
          .data = data,
          .target = target,
          .note = unclear ? "--sample dataset where each dataset is one sample" : "",
          .whole = whole,
          .input_layout = shape.size() < 3 || is_images(family.type_text, shape) ? "" : "none"},
         samples,
         values});
  }
}

}  // namespace

std::optional<std::uint64_t> suggested_tile(const DatasetInfo& info) {
  if (!looks_like_images(info.shape, info.dtype)) return std::nullopt;
  const SampleGeometry geometry = data_geometry(info, InputLayout::automatic);
  const auto height = static_cast<std::uint64_t>(geometry.shape[1]);
  const auto width = static_cast<std::uint64_t>(geometry.shape[2]);
  if (std::min(height, width) < kTiledSide) return std::nullopt;
  if (info.chunk_shape.empty()) return kTileSide;
  const bool planar =
      info.shape.size() == 4 && info.shape[1] == static_cast<std::uint64_t>(geometry.shape[0]);
  const std::size_t y = planar ? 2 : 1;
  const std::uint64_t chunk = std::min(info.chunk_shape[y], info.chunk_shape[y + 1]);
  const bool cut = info.chunk_shape[y] < height && info.chunk_shape[y + 1] < width;
  if (!cut) return kTileSide;
  // Whole chunks, about as large as networks take.
  return std::min(std::max(chunk, kTileSide / chunk * chunk), kTiledSide);
}

std::vector<SampleReading> sample_readings(const H5File& file, const std::vector<DatasetEntry>& entries) {
  const Companions companions(entries);
  std::vector<Found> found;
  add_arrays(entries, companions, found);
  add_tiles(file, entries, companions, found);
  add_volumes(file, entries, found);
  add_ragged(file, entries, companions, found);
  add_groups(entries, found);
  add_rows(entries, companions, found);
  std::ranges::stable_sort(found, std::greater(), [](const Found& candidate) {
    return std::pair(candidate.samples, candidate.values);
  });
  std::vector<SampleReading> readings;
  for (Found& candidate : found) {
    if (readings.size() == kMaxReadings) break;
    SampleReading& reading = readings.emplace_back(std::move(candidate.reading));
    reading.samples = candidate.samples;
    if (!reading.target.empty() || reading.whole || !reading.patch.empty()) continue;
    const auto data = std::ranges::find(entries, reading.data, &DatasetEntry::path);
    if (data != entries.end()) reading.no_target = why_no_labels(*data, entries);
  }
  return readings;
}

bool is_plain(const SampleReading& reading) {
  return reading.data.find('*') == std::string::npos && !reading.whole && reading.tile_size == 0 &&
         reading.patch.empty();
}

const SampleReading& first_reading(const std::vector<SampleReading>& readings) {
  const auto plain = std::ranges::find_if(readings, is_plain);
  const bool large = plain != readings.end() && 2 * plain->samples >= readings.front().samples;
  return large ? *plain : readings.front();
}

std::string line_of(const SampleReading& reading) {
  return fmt::format("{}: {}{}{}\n", reading.what, option_text(reading),
                     reading.note.empty() ? "" : fmt::format(" (and {})", reading.note),
                     reading.no_target.empty() ? "" : fmt::format("; no target: {}", reading.no_target));
}

std::string option_text(const SampleReading& reading) {
  std::string text = "--data " + shell_word(reading.data);
  if (!reading.target.empty()) text += " --target " + shell_word(reading.target);
  if (reading.whole) text += " --sample dataset";
  if (!reading.image_shapes.empty()) text += " --image-shapes " + shell_word(reading.image_shapes);
  if (!reading.input_layout.empty()) text += " --input-layout " + reading.input_layout;
  if (reading.tile_size > 0) text += fmt::format(" --tile-size {}", reading.tile_size);
  if (!reading.patch.empty())
    text +=
        fmt::format(" --tile-size {} --tile-per-image {}", fmt::join(reading.patch, "x"), kPatchesPerVolume);
  return text;
}

Json reading_json(const SampleReading& reading) {
  Json json = {{"what", reading.what},
               {"data", reading.data},
               {"target", reading.target.empty() ? Json() : Json(reading.target)},
               {"note", reading.note.empty() ? Json() : Json(reading.note)}};
  if (!reading.no_target.empty()) json["no_target"] = reading.no_target;
  if (reading.whole) json["sample"] = "dataset";
  if (!reading.image_shapes.empty()) json["image_shapes"] = reading.image_shapes;
  if (!reading.input_layout.empty()) json["input_layout"] = reading.input_layout;
  if (reading.tile_size > 0) json["tile_size"] = reading.tile_size;
  if (!reading.patch.empty()) json["tile_size"] = reading.patch;
  return json;
}

}  // namespace h5feed::cli
