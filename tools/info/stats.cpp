// SPDX-License-Identifier: Apache-2.0
#include "tools/info/stats.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/mapped_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "store/write/attributes.hpp"
#include "tools/info/sheltered.hpp"
#include "tools/measure/decode_speed.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/run_bounds.hpp"

namespace h5feed::cli {
namespace {

// Returns the stored dimension that counts the channels; empty if all values are one channel.
std::optional<std::size_t> channel_dimension(const DatasetInfo& info, InputLayout layout) {
  const SampleGeometry geometry = data_geometry(info, layout);
  if (geometry.channels <= 1) return std::nullopt;
  return geometry.channels_last ? info.shape.size() - 1 : 1;
}

std::vector<DatasetInfo> chosen(const H5File& file, const std::string& only) {
  std::vector<DatasetInfo> infos;
  if (!only.empty()) {
    infos.push_back(file.describe(only));
    return infos;
  }
  const std::vector<DatasetEntry> entries = file.list_datasets();
  for (const DatasetEntry& entry : entries) {
    const auto dtype = entry.numeric ? dtype_from_name(entry.type_text) : std::nullopt;
    if (dtype && looks_like_images(entry.shape, *dtype)) infos.push_back(file.describe(entry.path));
  }
  if (infos.empty()) {
    throw DatasetError(no_images_text(file, entries) + ". Name one with --data");
  }
  return infos;
}

std::string plan_line(const ChunkReader& reader, unsigned jobs) {
  const DatasetInfo& info = reader.info();
  const double each = decode_seconds_per_byte(reader, std::chrono::milliseconds(50));
  const double seconds = each * static_cast<double>(info.total_bytes()) / jobs;
  return fmt::format("reading all of {}, {} decoded, on {} {}{}", printable(short_path(info.path)),
                     format_bytes(info.total_bytes()), jobs, jobs == 1 ? "thread" : "threads",
                     seconds >= 1 ? fmt::format("; about {:.0f} s", std::ceil(seconds)) : "");
}

// "-" where a channel has no finite value.
std::string figure_text(double figure) { return std::isnan(figure) ? "-" : fmt::format("{:.9g}", figure); }

// Figures with these names may have another meaning: who wrote them needs them as they are.
void refuse_differing(const std::string& file, const StatsResult& result) {
  const auto name = differing_attribute(file, result.info.path, stats_attributes(result.stats));
  if (!name) return;
  throw FileError(
      fmt::format("{}:{}: its attribute {} is there already and differs from what --write-attributes would "
                  "store; nothing was written; rename the attribute, or replace it with --force",
                  file, result.info.path, *name));
}

}  // namespace

std::vector<StatsResult> collect_stats(const std::shared_ptr<H5File>& file, const std::string& only,
                                       const StatsArguments& arguments) {
  const SystemLimits limits = system_limits();
  StatsSettings settings{.jobs = parse_jobs(arguments.jobs, limits),
                         .memory_bytes = limits.available_bytes / 4};
  const InputLayout layout = parse_layout("--input-layout", arguments.input_layout);
  std::vector<StatsResult> results;
  for (DatasetInfo& info : chosen(*file, only)) {
    const std::optional<std::size_t> dimension = channel_dimension(info, layout);
    const ScopedLogSink quiet(ignore_log);
    const auto reader = on_grid(open_chunk_reader(file, info));
    say(plan_line(*reader, settings.jobs));
    Progress progress(fmt::format("stats {}", printable(short_path(info.path))), ProgressUnit::bytes,
                      static_cast<double>(info.total_bytes()));
    DatasetStats stats = channel_stats(*reader, dimension, settings, [&](std::uint64_t bytes) {
      progress.advance(static_cast<double>(bytes));
    });
    results.push_back({std::move(info), std::move(stats)});
  }
  file->check_unchanged();
  return results;
}

std::string stats_text(const std::vector<StatsResult>& results) {
  std::string text;
  for (const StatsResult& result : results) {
    const DatasetStats& stats = result.stats;
    text += fmt::format("\n{}: {} values in each of {} {}\n", printable(short_path(result.info.path)),
                        format_count(stats.values), stats.channels.size(),
                        stats.channels.size() == 1 ? "channel" : "channels");
    Table table({{"channel", true}, {"mean", true}, {"std", true}, {"min", true}, {"max", true}});
    for (std::size_t c = 0; c < stats.channels.size(); ++c) {
      const ChannelStats& channel = stats.channels[c];
      table.add_row({std::to_string(c), figure_text(channel.mean), figure_text(channel.std),
                     figure_text(channel.min), figure_text(channel.max)});
    }
    text += table.to_text();
    if (stats.non_finite > 0) {
      text += fmt::format("{} values are NaN or infinite and are ignored\n", format_count(stats.non_finite));
    }
    if (const std::size_t unscaled = normalize_stats(stats, result.info.dtype).unscaled; unscaled > 0) {
      text += fmt::format("{} {} one value only, or no finite one: std 1 below leaves {} unscaled\n",
                          format_count(unscaled), unscaled == 1 ? "channel has" : "channels have",
                          unscaled == 1 ? "it" : "them");
    }
    text += fmt::format("put into your code:\n{}\n", normalize_lines(stats, result.info.dtype));
  }
  return text;
}

Json stats_json(const StatsResult& result) {
  Json json = {{"values", result.stats.values}, {"non_finite", result.stats.non_finite}};
  for (const NamedAttribute& figure : stats_attributes(result.stats)) {
    json[figure.name] = std::get<std::vector<double>>(figure.value);
  }
  const NormalizeStats normalize = normalize_stats(result.stats, result.info.dtype);
  json["normalize"] = {{"scale", normalize.scale}, {"mean", normalize.mean}, {"std", normalize.std}};
  json["code"] = normalize_lines(result.stats, result.info.dtype);
  return json;
}

void check_stats_options(const StatsArguments& arguments) {
  if (arguments.write_attributes && !arguments.stats)
    throw OptionError("--write-attributes stores what --stats finds; add --stats");
  if (arguments.force && !arguments.write_attributes)
    throw OptionError("--force is for --write-attributes; leave it out");
  if (!arguments.jobs.empty() && !arguments.stats)
    throw OptionError("--jobs counts the threads of --stats; add --stats, or leave it out");
  parse_layout("--input-layout", arguments.input_layout);
}

void store_stats(const std::string& file, const std::vector<StatsResult>& results, bool force) {
  run_sheltered(file, [&] {
    for (const StatsResult& result : results) {
      if (!force) refuse_differing(file, result);
    }
    for (const StatsResult& result : results)
      update_attributes(file, result.info.path, stats_attributes(result.stats));
  });
}

}  // namespace h5feed::cli
