// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/tuned.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/files/scratch_folder.hpp"

#include "h5feed/error.hpp"
#include "tools/bench/report.hpp"
#include "tools/measure/time_budget.hpp"
#include "tools/program/output.hpp"
#include "tools/tune/run.hpp"

namespace h5feed::cli {
namespace {

bool are_rows_of_one_dataset(const DatasetState& dataset) {
  return !dataset.tiling && !dataset.sparse && !dataset.episodes && !dataset.mixture &&
         dataset.data.reader->parts().empty() && dataset.options.stage_dir.empty();
}

LoaderUse use_of(const Examined& examined, unsigned cpus) {
  const ResolvedOptions& options = examined.options;
  LoaderUse use{.batch_size = static_cast<std::uint64_t>(options.batch_size),
                .shuffle = options.shuffle,
                .cache_bytes = options.cache_bytes,
                .num_workers = std::max<std::int64_t>(1, examined.num_workers),
                .layout = examined.settings.dataset.input_layout};
  if (examined.num_workers == kAuto) use.num_workers = cpus;
  // Chunks of another size are many enough for windows.
  if (examined.supposed) use.shuffle = Shuffle("chunk:16");
  return use;
}

}  // namespace

std::optional<std::string> tuned_command(const Examined& examined, unsigned cpus,
                                         std::chrono::nanoseconds duration) {
  if (!are_rows_of_one_dataset(examined.state())) return std::nullopt;
  const TuneSettings settings{.file = examined.settings.file(),
                              .data = examined.state().data.info().path,
                              .use = use_of(examined, cpus),
                              .scratch = temporary_place(),
                              .cpus = cpus};
  const ScopedLogSink quiet(ignore_log);
  try {
    const TuneResult result = run_tune(settings, TimeBudget(duration), [](const std::string&) {});
    const std::int64_t cores = std::min<std::int64_t>(settings.use.num_workers, settings.cpus);
    return fmt::format("{}  # {} samples/s on {} idle core{}, as tune predicts",
                       tune_json(result)["recommended"]["command"].get<std::string>(),
                       rate_text(recommended(result.trials).samples_per_s()), cores, cores == 1 ? "" : "s");
  } catch (const Error&) {
    return std::nullopt;  // the time is too short, the samples are too large, or there is no room for the
                          // file
  }
}

}  // namespace h5feed::cli
