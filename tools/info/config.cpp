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

void write_sample_config(const std::filesystem::path& config, const std::string& file,
                         const std::vector<SampleReading>& readings) {
  if (readings.empty()) {
    throw DatasetError(fmt::format(
        "{}: no dataset can be read as samples, so there is no configuration to write", printable(file)));
  }
  const SampleReading& reading = readings.front();
  DatasetOptions dataset{.files = {file}, .data = reading.data, .target = reading.target};
  if (reading.whole) dataset.sample = SampleUnit::dataset;
  if (!reading.input_layout.empty())
    dataset.input_layout = parse_layout("--input-layout", reading.input_layout);
  dataset.images.shapes = reading.image_shapes;
  if (reading.tile_size > 0)
    dataset.tiles = TileOptions{.size = TileExtent(static_cast<std::int64_t>(reading.tile_size))};
  if (!reading.patch.empty())
    dataset.tiles = parse_tiles({.size = fmt::format("{}", fmt::join(reading.patch, "x"))});
  DataLoaderOptions loader{.batch_size = 256, .shuffle = "chunk:16"};
  try {
    const ScopedLogSink quiet(ignore_log);
    const DataLoader checked(Dataset::open(isolated(dataset)), loader);
  } catch (const OptionError&) {
    loader.shuffle = "full";  // the data has fewer chunks
  }
  loader.num_workers = kAuto;
  write_config(config, dataset, loader);
}

}  // namespace h5feed::cli
