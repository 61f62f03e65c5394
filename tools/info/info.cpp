// SPDX-License-Identifier: Apache-2.0
// h5feed info: prints what a file holds, how it is stored, and whether it can be read at full speed.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/files/storage_kind.hpp"
#include "dataset/geometry.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/index_damage.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/file_pool.hpp"
#include "store/read/reader_factories.hpp"
#include "store/write/attributes.hpp"
#include "tools/info/config.hpp"
#include "tools/info/episodes.hpp"
#include "tools/info/file_lines.hpp"
#include "tools/info/open_lines.hpp"
#include "tools/info/shapes.hpp"
#include "tools/info/sheltered.hpp"
#include "tools/info/sparse.hpp"
#include "tools/info/stats.hpp"
#include "tools/info/volumes.hpp"
#include "tools/measure/decode_speed.hpp"
#include "tools/measure/sample_cost.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/storage/free_space.hpp"
#include "tools/storage/image_choice.hpp"
#include "tools/storage/isolated.hpp"
#include "tools/storage/storage_advice.hpp"

namespace h5feed::cli {
namespace {

struct InfoArguments {
  std::string file;
  std::string data;
  std::string config;  // file to write; empty: none
  StatsArguments stats;
  OutputOptions output;
};

// One dataset and what is known of it.
struct Entry {
  DatasetEntry listed;
  std::optional<DatasetInfo> info;            // set for numeric datasets
  std::shared_ptr<const ChunkReader> reader;  // null if `problem` says why
  std::optional<SampleGeometry> geometry;     // set if the shape determines it
  std::string problem;                        // why not all of it can be read; empty if nothing is known
  std::optional<ReadForecast> forecast;       // set for datasets worth forecasting
};

// Returns the layout that InputLayout::automatic chose; for four dimensions this depends on whether the first
// one holds the channels.
std::string layout_name(const SampleGeometry& geometry, const std::vector<std::uint64_t>& stored) {
  if (stored.size() == 3) return "NHW";
  return stored[1] == static_cast<std::uint64_t>(geometry.shape[0]) ? "NCHW" : "NHWC";
}

// Forecasts the cost of reading, if that is worth the time to read a few chunks: for a set of samples that is
// not small.
std::optional<ReadForecast> forecast_of(const Entry& entry) {
  constexpr std::uint64_t kWorthwhile = kMiB;
  if (!entry.reader || entry.info->shape.size() < 2 || entry.info->total_bytes() < kWorthwhile) return {};
  return read_forecast(*entry.info, decode_seconds_per_byte(*entry.reader, std::chrono::milliseconds(50)));
}

// Returns what is damaged in the chunk index; an empty string if nothing is.
std::string index_damage(const H5File& file, const Entry& entry) {
  // An index that is damaged is not read directly.
  const bool suspect = entry.info->layout == StorageLayout::chunked && !entry.reader->direct();
  return suspect ? chunk_index_damage(file, *entry.info) : std::string();
}

// Throws ChunkError if the chunk that is tried cannot be decoded. Datasets with a forecast are tried by that.
void try_to_read(const Entry& entry) {
  constexpr std::uint64_t kLargestChunk = kMiB;
  if (!entry.forecast && entry.reader->chunk_bytes() <= kLargestChunk) read_a_written_chunk(*entry.reader);
}

Entry look_at(const std::shared_ptr<H5File>& file, DatasetEntry listed) {
  Entry entry{.listed = std::move(listed)};
  entry.problem = entry.listed.problem;
  if (!entry.listed.numeric) return entry;
  try {
    entry.info = file->describe(entry.listed.path);
    entry.reader = open_chunk_reader(file, *entry.info, nullptr,
                                     {.pool = std::make_shared<FilePool>(FilePlaces(), file->isolation())});
    if (looks_like_images(entry.info->shape, entry.info->dtype)) {
      entry.geometry = data_geometry(*entry.info, InputLayout::automatic);
    }
    entry.problem = index_damage(*file, entry);
    if (!entry.problem.empty()) return entry;
    entry.forecast = forecast_of(entry);
    try_to_read(entry);
  } catch (const Error& error) {
    entry.problem = error.what();
  }
  return entry;
}

double ratio(const DatasetInfo& info) {
  return info.stored_bytes > 0
             ? static_cast<double>(info.total_bytes()) / static_cast<double>(info.stored_bytes)
             : 0;
}

std::vector<std::string> table_row(const Entry& entry) {
  std::vector<std::string> cells = {printable(entry.listed.path), shape_text(entry.listed),
                                    printable(entry.listed.type_text)};
  if (!entry.info) {
    cells.resize(9, "-");
    const bool numbers = holds_unreadable_numbers(entry.listed);
    cells.push_back(!entry.problem.empty() ? "cannot be read"
                    : numbers              ? "type cannot be read"
                                           : "not numeric");
    return cells;
  }
  const DatasetInfo& info = *entry.info;
  cells.emplace_back(name_of(info.layout));
  cells.push_back(info.chunk_shape.empty() || !entry.reader
                      ? "-"
                      : fmt::format("{} × ({})", format_count(entry.reader->num_chunks()),
                                    format_shape(info.chunk_shape)));
  cells.push_back(format_filters(info.filters));
  cells.push_back(format_bytes(info.stored_bytes));
  cells.push_back(format_bytes(info.total_bytes()));
  cells.push_back(ratio(info) > 0 ? fmt::format("{:.2f}", ratio(info)) : "-");
  if (!entry.problem.empty()) {
    cells.emplace_back(entry.reader ? "damaged" : "cannot be read");
  } else {
    cells.push_back(entry.reader->direct() ? "direct" : "H5Dread: " + entry.reader->fallback_reason());
  }
  return cells;
}

// Returns one sentence per advice.
std::vector<std::string> advice_of(const Entry& entry) {
  std::vector<std::string> lines;
  if (entry.problem.empty() && holds_unreadable_numbers(entry.listed)) {
    lines.push_back(
        fmt::format("{}: h5feed cannot read its type, {}; store it as f32, f64 or an integer "
                    "of 8, 16, 32 or 64 bits",
                    printable(short_path(entry.listed.path)), printable(entry.listed.type_text)));
  }
  // A dataset that cannot be read cannot be repacked either.
  if (!entry.info || !entry.problem.empty()) return lines;
  // Data to be read in tiles is stored in tiles for a reason.
  const std::optional<std::uint64_t> tile = suggested_tile(*entry.info);
  if (const auto cut = cut_samples(*entry.info); cut && !tile) lines.push_back(cut->line(*entry.info));
  for (const StorageFault& fault : storage_faults(*entry.info, entry.reader.get()))
    lines.push_back(fault.line(*entry.info));
  return lines;
}

Json json_entry(const Entry& entry) {
  Json json = {{"path", entry.listed.path},
               {"shape", entry.listed.problem.empty() ? Json(entry.listed.shape) : Json()},
               {"type", entry.listed.type_text},
               {"numeric", entry.listed.numeric}};
  if (entry.info) {
    const DatasetInfo& info = *entry.info;
    const bool chunked = !info.chunk_shape.empty();
    json["layout"] = name_of(info.layout);
    json["chunk_shape"] = chunked ? Json(info.chunk_shape) : Json();
    json["chunks"] = chunked && entry.reader ? Json(entry.reader->num_chunks()) : Json();
    json["filters"] = format_filters(info.filters);
    json["stored_bytes"] = info.stored_bytes;
    json["logical_bytes"] = info.total_bytes();
    json["ratio"] = ratio(info) > 0 ? Json(ratio(info)) : Json();
    const std::optional<SampleCost> cost = sample_cost(info);
    json["chunks_per_sample"] = cost ? Json(cost->chunks_per_sample) : Json();
    json["decoded_per_wanted_random"] = cost ? Json(cost->decoded_per_wanted_random) : Json();
    json["decoded_per_wanted_epoch"] = cost ? Json(cost->decoded_per_wanted_epoch) : Json();
    json["index"] = chunked ? Json(info.index_kind) : Json();
    json["padding_share"] = padding_share(info);
    json["forecast"] = Json();
    if (entry.forecast) {
      json["forecast"] = {{"random_sample_bytes", entry.forecast->random_bytes},
                          {"random_sample_s", entry.forecast->random_seconds},
                          {"epoch_bytes", entry.forecast->epoch_bytes},
                          {"epoch_s", entry.forecast->epoch_seconds}};
    }
  }
  if (std::vector<std::string> advice = advice_of(entry); entry.info || !advice.empty()) {
    json["advice"] = std::move(advice);
  }
  if (entry.reader && entry.problem.empty()) {
    json["read_path"] = entry.reader->direct() ? "direct" : "fallback";
    json["fallback_reason"] = entry.reader->direct() ? Json() : Json(entry.reader->fallback_reason());
  }
  if (entry.geometry) {
    json["samples"] = {{"count", entry.info->rows()},
                       {"layout", layout_name(*entry.geometry, entry.info->shape)},
                       {"shape", entry.geometry->shape},
                       {"bytes", entry.info->row_bytes()}};
  } else {
    json["samples"] = nullptr;
  }
  if (!entry.problem.empty()) json["problem"] = entry.problem;
  return json;
}

std::string geometry_line(const Entry& entry) {
  const SampleGeometry& geometry = *entry.geometry;
  return fmt::format("{}: {} images of {}×{}×{} {} (stored {}), {} each\n",
                     printable(short_path(entry.listed.path)), format_count(entry.info->rows()),
                     geometry.shape[0], geometry.shape[1], geometry.shape[2], name_of(entry.info->dtype),
                     layout_name(geometry, entry.info->shape), format_bytes(entry.info->row_bytes()));
}

std::vector<Entry> look_at_all(const std::shared_ptr<H5File>& file, const std::string& only) {
  // The table shows why a dataset is read through libhdf5.
  const ScopedLogSink quiet(ignore_log);
  std::vector<Entry> entries;
  // Problems of other objects are irrelevant.
  std::vector<DatasetEntry> datasets =
      only.empty() ? file->list_datasets() : std::vector{file->list_one(file->describe(only).path)};
  for (DatasetEntry& listed : datasets) {
    check_interrupted();
    entries.push_back(look_at(file, std::move(listed)));
  }
  return entries;
}

// Returns the datasets, with those that cannot be read marked.
std::vector<DatasetEntry> listed_of(const std::vector<Entry>& entries) {
  std::vector<DatasetEntry> listed;
  listed.reserve(entries.size());
  for (const Entry& entry : entries) {
    listed.push_back(entry.listed);
    if (entry.problem.empty()) continue;
    // No command can be suggested for it.
    listed.back().problem = entry.problem;
    listed.back().numeric = listed.back().plain = false;
  }
  return listed;
}

int info(const InfoArguments& arguments) {
  check_export_places(arguments.output, arguments.file);
  check_stats_options(arguments.stats);
  auto file = open_isolated(arguments.file);
  if (arguments.stats.write_attributes) {
    // Checks before the long pass whether the file can be written. A disk that fills up during the write
    // would leave it damaged.
    constexpr std::uint64_t kAmpleBytes = kMiB;
    require_free_space(arguments.file,
                       {.bytes = kAmpleBytes,
                        .largest_file_bytes = std::filesystem::file_size(arguments.file) + kAmpleBytes});
    file.reset();
    // The mark of an open writer, which libhdf5 sets and removes, must not stay either.
    run_sheltered(arguments.file, [&] { update_attributes(arguments.file, "/", {}); });
    file = open_isolated(arguments.file);
  }
  std::vector<Entry> entries = look_at_all(file, arguments.data);
  std::vector<StatsResult> stats;
  if (arguments.stats.stats) stats = collect_stats(file, arguments.data, arguments.stats);
  const std::uint64_t file_bytes = std::filesystem::file_size(arguments.file);

  Table table({{"dataset"},
               {"shape"},
               {"type"},
               {"layout"},
               {"chunks"},
               {"filters"},
               {"stored", true},
               {"decoded", true},
               {"ratio", true},
               {"read path"}});
  const StorageKind storage = storage_kind(arguments.file);
  const std::vector<ExternalLink> links = file->list_external_links();
  Json json = {{"file", arguments.file},
               {"file_bytes", file_bytes},
               {"storage", {{"name", storage.name}, {"remote", storage.remote}}},
               {"swmr_writer", file->swmr_writer()},
               {"datasets", Json::array()},
               {"links", links_json(links)}};
  std::string geometry, forecasts, warnings, readings;
  for (const Entry& entry : entries) {
    table.add_row(table_row(entry));
    json["datasets"].push_back(json_entry(entry));
    if (entry.geometry) geometry += geometry_line(entry);
    if (entry.forecast) forecasts += forecast_line(*entry.info, *entry.forecast) + '\n';
    for (const std::string& line : advice_of(entry)) warnings += line + '\n';
    for (const StatsResult& result : stats) {
      if (result.info.path == entry.listed.path) json["datasets"].back()["stats"] = stats_json(result);
    }
  }
  json["reads_as"] = Json::array();
  const std::vector<DatasetEntry> listed = listed_of(entries);
  const auto found_readings = sample_readings(*file, listed);
  const std::optional<OpenReading> episodes = episode_reading(file, listed);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].info || !entries[i].problem.empty()) continue;
    for (const std::string& line : patch_advice(*entries[i].info, found_readings, episodes)) {
      warnings += line + '\n';
      json["datasets"][i]["advice"].push_back(line);
    }
  }
  for (const SampleReading& reading : found_readings) {
    json["reads_as"].push_back(reading_json(reading));
    readings += line_of(reading);
    if (!reading.patch.empty()) readings += lines_that_open(options_of(reading), printable(arguments.file));
  }
  if (episodes) readings += lines_of(*episodes, printable(arguments.file));
  const SparseReadings sparse = sparse_readings(file, listed);
  for (const auto& reading : sparse.readings) readings += lines_of(reading, printable(arguments.file));
  export_results(arguments.output, table, json);
  const std::optional<DatasetOptions> best = best_reading(episodes, sparse.readings, found_readings);
  if (!arguments.config.empty()) write_sample_config(arguments.config, arguments.file, best);
  if (arguments.output.json) {
    print(json_text(json));
  } else {
    std::string text = file_lines(*file, arguments.file, file_bytes, entries.size(), links, storage);
    if (table.rows() > 0) text += '\n' + table.to_text();
    if (!geometry.empty()) text += '\n' + geometry;
    if (!forecasts.empty()) text += '\n' + forecasts;
    if (readings += sparse.problems; !readings.empty()) text += '\n' + readings;
    if (!warnings.empty()) text += '\n' + warnings;
    print(text + stats_text(stats));
  }
  bool readable = true;
  for (const Entry& entry : entries) {
    if (entry.problem.empty()) continue;
    say(entry.problem);
    readable = false;
  }
  if (arguments.stats.write_attributes) {
    // No reader may have the file open while it is written.
    entries.clear();
    file.reset();
    store_stats(arguments.file, stats, arguments.stats.force);
    for (const StatsResult& result : stats) {
      say(fmt::format("{}:{}: wrote the attributes mean, std, min, max", printable(arguments.file),
                      printable(short_path(result.info.path))));
    }
  }
  return readable ? kDone : kFailed;
}

}  // namespace

void add_info(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<InfoArguments>();
  CLI::App* const command = app.add_subcommand("info", "Show the datasets of a file and how they are stored");
  command->add_option("FILE", arguments->file, "HDF5 file")->required();
  command->add_option("--data", arguments->data, "Show only this dataset")->type_name("PATH");
  command->add_flag("--stats", arguments->stats.stats,
                    "Read all values; print mean, std, min and max of each channel, and C++ lines to paste");
  command->add_flag("--write-attributes", arguments->stats.write_attributes,
                    "With --stats: store the statistics as attributes of the dataset; changes FILE in place");
  command->add_flag("--force", arguments->stats.force,
                    "With --write-attributes: replace attributes of these names that have other values");
  command
      ->add_option("--input-layout", arguments->stats.input_layout,
                   "With --stats, dimensions: auto, NCHW, NHWC, NHW, NCDHW, NDHWC, NDHW or none")
      ->type_name("LAYOUT")
      ->capture_default_str();
  command->add_option("--jobs", arguments->stats.jobs, "Threads for --stats; default: the usable cores")
      ->type_name("N");
  command
      ->add_option("--write-config", arguments->config,
                   "Write the options that read these samples, for bench --config and Python")
      ->type_name("JSON");
  add_output_options(*command, arguments->output);
  command->footer(
      R"(The read path is direct if h5feed reads and decodes chunks itself, on many threads; it is H5Dread, with the
reason, if libhdf5 has to do it, one thread at a time. Damaged objects are named and do not hide the others;
the exit code is then 1, or 0 if --data names an intact dataset. Chunk indexes are read whole, and at most a
few chunks of each dataset are tried: check reads them all.

Examples:
  h5feed info train.h5
  h5feed train.h5
  h5feed info train.h5 --stats --write-attributes
  h5feed info train.h5 --write-config train.json
  h5feed info train.h5 --data images --json)");
  command->callback([arguments, &action] { action = [arguments] { return info(*arguments); }; });
}

}  // namespace h5feed::cli
