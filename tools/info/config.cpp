// SPDX-License-Identifier: Apache-2.0
#include "tools/info/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/options_json.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::cli {

DatasetOptions options_of(const SampleReading& reading) {
  DatasetOptions options{.data = reading.data, .target = reading.target};
  if (reading.whole) options.sample = SampleUnit::dataset;
  if (!reading.input_layout.empty())
    options.input_layout = parse_layout("--input-layout", reading.input_layout);
  options.images.shapes = reading.image_shapes;
  if (reading.tile_size > 0)
    options.tiles = TileOptions{.size = TileExtent(static_cast<std::int64_t>(reading.tile_size))};
  if (!reading.patch.empty()) {
    options.tiles = parse_tiles({.size = fmt::format("{}", fmt::join(reading.patch, "x"))});
    options.tiles->per_image = kPatchesPerVolume;
  }
  return options;
}

std::optional<DatasetOptions> best_reading(const std::optional<OpenReading>& episodes,
                                           const std::vector<OpenReading>& sparse,
                                           const std::vector<SampleReading>& readings) {
  if (episodes && episodes->certain) return episodes->options;
  if (!sparse.empty()) return sparse.front().options;
  if (!readings.empty()) return options_of(first_reading(readings));
  return std::nullopt;
}

DataLoaderOptions starting_options(const Dataset& dataset) {
  DataLoaderOptions loader{.batch_size = 256, .shuffle = "chunk:16"};
  try {
    const ScopedLogSink quiet(ignore_log);
    const DataLoader checked(dataset, loader);
  } catch (const OptionError&) {
    loader.shuffle = "full";  // the data has fewer chunks
  }
  loader.num_workers = kAuto;
  return loader;
}

void write_sample_config(const std::filesystem::path& config, const std::string& file,
                         std::optional<DatasetOptions> dataset) {
  if (!dataset) {
    throw DatasetError(fmt::format(
        "{}: no dataset can be read as samples, so there is no configuration to write", printable(file)));
  }
  dataset->files = {file};
  const Dataset opened = [&] {
    const ScopedLogSink quiet(ignore_log);
    return Dataset::open(isolated(*dataset));
  }();
  write_config(config, *dataset, starting_options(opened));
}

}  // namespace h5feed::cli
