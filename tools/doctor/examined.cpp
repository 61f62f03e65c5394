// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/examined.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "flow/resolve/resolve.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "tools/info/config.hpp"
#include "tools/info/shapes.hpp"
#include "tools/program/memory_error.hpp"
#include "tools/program/options_json.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/image_choice.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::cli {
namespace {

// Whether the settings leave open which dataset holds the samples.
bool names_no_samples(const BenchSettings& settings) {
  Json given = options_json(settings.dataset);
  for (const char* const key : {"files", "target", "stage_dir", "images"}) given.erase(key);
  return given.empty() && settings.dataset.files.size() == 1 &&
         std::filesystem::is_regular_file(settings.file());
}

// Sets the dataset to the one to begin with; returns the options that name the next one.
std::string choose_samples(BenchSettings& settings) {
  const std::vector<SampleReading> readings = [&] {
    const auto file = open_isolated(settings.file());
    return sample_readings(*file, file->list_datasets());
  }();
  if (readings.empty()) return {};
  DatasetOptions chosen = options_of(first_reading(readings));
  chosen.files = settings.dataset.files;
  if (!settings.dataset.target.empty()) chosen.target = settings.dataset.target;
  chosen.stage_dir = settings.dataset.stage_dir;
  ImageOptions& images = settings.dataset.images;
  if (images.shapes.empty()) images.shapes = chosen.images.shapes;
  chosen.images = images;
  settings.dataset = std::move(chosen);
  const auto other = std::ranges::find_if(readings, [&](const SampleReading& reading) {
    return is_plain(reading) && reading.data != settings.dataset.data;
  });
  return other != readings.end() ? option_text(*other) : std::string();
}

std::int64_t workers_of(const std::string& typed, const BenchSettings& settings, bool configured) {
  if (typed.empty()) return configured ? settings.loader.num_workers : kAuto;
  const std::vector<std::int64_t> workers = parse_workers("--num-workers", typed);
  if (workers.size() != 1)
    throw OptionError("--num-workers " + typed + ": give one number, or auto; bench compares several");
  return workers.front();
}

// Opens without a log: its lines are among the findings.
Dataset open_quietly(const DatasetOptions& options) {
  const ScopedLogSink quiet(ignore_log);
  return open_dataset(options, "doctor");
}

}  // namespace

BenchSettings settings_to_examine(const TypedSettings& typed) {
  BenchSettings settings = typed.applied_to({.loader = {}});
  if (settings.mixture) {
    throw OptionError(fmt::format(
        "doctor examines one set of samples, and {} describes a mixture; examine each: h5feed doctor {}",
        printable(typed.config), shell_word(settings.file())));
  }
  if (settings.dataset.files.empty())
    throw OptionError("doctor: no file; give FILE, or dataset.files in --config");
  settings.loader.device = {};  // this program delivers to the CPU alone, which feeds a GPU as well
  return settings;
}

Examined examine(BenchSettings settings, const TypedSettings& typed, const std::string& num_workers,
                 const SystemLimits& limits) {
  const bool configured = !typed.config.empty();
  const std::string others =
      !configured && names_no_samples(settings) ? choose_samples(settings) : std::string();
  const std::int64_t workers = workers_of(num_workers, settings, configured);
  check_threads("--num-workers", workers, limits);
  return name_where_memory_ends(settings.file(), settings.dataset.data, [&] {
    Dataset dataset = open_quietly(settings.dataset);
    const bool supposed = !configured && num_workers.empty() && options_json(settings.loader).empty();
    if (!configured) {
      // Settings on the command line override the usual ones.
      BenchSettings usual{.dataset = settings.dataset, .loader = starting_options(dataset)};
      settings.loader = typed.applied_to(std::move(usual)).loader;
    }
    if (!settings.loader.seed) settings.loader.seed = 0;
    const ScopedLogSink quiet(ignore_log);
    ResolvedOptions options = resolve(loader_options(settings, workers), *DatasetAccess::state(dataset),
                                      nullptr, limits, MemoryClaim::foreseen)
                                  .options;
    return Examined{
        .settings = std::move(settings),
        .num_workers = workers,
        .typed = num_workers.empty() ? typed.words() : typed.words() + " --num-workers " + num_workers,
        .supposed = supposed,
        .others = others,
        .dataset = dataset,
        .options = options};
  });
}

}  // namespace h5feed::cli
