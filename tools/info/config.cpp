// SPDX-License-Identifier: Apache-2.0
#include "tools/info/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "base/byte_units.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/options_json.hpp"

namespace h5feed::cli {

DatasetOptions options_of(const SampleReading& reading, const std::string& file) {
  DatasetOptions dataset{.files = {file}, .data = reading.data, .target = reading.target};
  if (reading.whole) dataset.sample = SampleUnit::dataset;
  if (!reading.input_layout.empty())
    dataset.input_layout = parse_layout("--input-layout", reading.input_layout);
  dataset.images.shapes = reading.image_shapes;
  if (reading.tile_size > 0)
    dataset.tiles = TileOptions{.size = TileExtent(static_cast<std::int64_t>(reading.tile_size))};
  if (!reading.patch.empty()) {
    dataset.tiles = parse_tiles({.size = fmt::format("{}", fmt::join(reading.patch, "x")), .per_image = "8"});
  }
  return dataset;
}

FoundSamples samples_to_open(const std::string& file, const std::vector<FoundSamples>& found,
                             const std::vector<SampleReading>& readings) {
  if (!found.empty()) return found.front();
  if (readings.empty()) {
    throw DatasetError(fmt::format(
        "{}: no dataset can be read as samples, so there is no configuration to write", printable(file)));
  }
  const auto patches = std::ranges::find_if(readings, [](const SampleReading& reading) {
    return !reading.patch.empty() && !reading.looks_like_images;
  });
  const SampleReading& reading = patches == readings.end() ? readings.front() : *patches;
  return {reading.what, options_of(reading, file)};
}

void write_sample_config(const std::filesystem::path& config, const FoundSamples& samples) {
  constexpr std::uint64_t kMostBatchBytes = 64 * kMiB;
  constexpr std::uint64_t kUsualBatch = 256;
  const ScopedLogSink quiet(ignore_log);
  const Dataset opened = Dataset::open(samples.options);
  const std::uint64_t bytes = std::max<std::uint64_t>(1, DatasetAccess::state(opened)->sample_bytes());
  DataLoaderOptions loader{.batch_size = static_cast<std::int64_t>(
                               std::clamp<std::uint64_t>(kMostBatchBytes / bytes, 1, kUsualBatch)),
                           .shuffle = "chunk:16"};
  try {
    const DataLoader checked(opened, loader);
  } catch (const OptionError&) {
    loader.shuffle = "full";  // the data has fewer chunks
  }
  loader.num_workers = kAuto;
  write_config(config, samples.options, loader);
  say(fmt::format("{}: opens {}", printable(config.string()), samples.what));
}

}  // namespace h5feed::cli
