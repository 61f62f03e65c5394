// SPDX-License-Identifier: Apache-2.0
// h5feed tune: finds the chunks and filters that would feed a training run best.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files/scratch_folder.hpp"
#include "base/system_limits.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "store/filters/filters.hpp"
#include "tools/measure/time_budget.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/memory_error.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/storage/window_plan.hpp"
#include "tools/tune/report.hpp"
#include "tools/tune/run.hpp"

namespace h5feed::cli {
namespace {

// Options as typed; empty if not given.
struct TuneArguments {
  std::string file;
  std::string data;
  std::string input_layout = "auto";
  std::string batch_size = "256";
  std::string shuffle = "chunk:16";
  std::string window;
  std::string cache_bytes;
  std::string memory_budget_bytes;
  std::string num_workers;
  std::string chunks;
  std::string filters;
  std::string time_budget = "60s";
  std::string scratch;
  OutputOptions output;
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ',') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

TuneSettings make_settings(const TuneArguments& arguments) {
  const SystemLimits limits = system_limits();
  TuneSettings settings{.file = arguments.file, .data = arguments.data, .cpus = limits.cpus};
  settings.use.layout = parse_layout("--input-layout", arguments.input_layout);
  settings.use.batch_size = parse_number("--batch-size", arguments.batch_size, 1, 1U << 24U);
  settings.use.shuffle = Shuffle(arguments.shuffle);
  if (!arguments.window.empty()) settings.use.window = parse_window("--window", arguments.window);
  settings.use.cache_bytes = arguments.cache_bytes.empty()
                                 ? default_cache_bytes(limits.available_bytes)
                                 : parse_size("--cache-bytes", arguments.cache_bytes);
  if (!arguments.memory_budget_bytes.empty()) {
    settings.use.memory_budget_bytes = parse_size("--memory-budget-bytes", arguments.memory_budget_bytes);
  }
  settings.use.num_workers = limits.cpus;
  if (!arguments.num_workers.empty()) {
    settings.use.num_workers = parse_count("--num-workers", arguments.num_workers);
    check_threads("--num-workers", settings.use.num_workers, limits);
  }
  if (!arguments.chunks.empty()) {
    for (const std::string& word : words_of(arguments.chunks)) {
      settings.chunk_rows.push_back(parse_number("--chunks", word, 1, 1U << 30U));
    }
  }
  if (!arguments.filters.empty()) settings.filters = words_of(arguments.filters);
  for (const std::string& filter : settings.filters) parse_filters(filter, 1);
  settings.scratch = arguments.scratch.empty() ? temporary_place() : std::filesystem::path(arguments.scratch);
  return settings;
}

int tune(const TuneArguments& arguments) {
  const TimeBudget budget(parse_duration("--time-budget", arguments.time_budget));
  const TuneSettings settings = make_settings(arguments);
  check_export_places(arguments.output, arguments.file);
  const ScopedLogSink quiet(ignore_log);
  const TuneResult result =
      name_where_memory_ends(settings.file, settings.data, [&] { return run_tune(settings, budget, say); });
  const Table table = tune_table(result);
  const Json json = tune_json(result);
  export_results(arguments.output, table, json);
  print(arguments.output.json ? json_text(json) : table.to_text() + '\n' + tune_verdict(result));
  return kDone;
}

constexpr const char* kTuneFooter =
    R"(A sample of the data, spread over the dataset, is stored with the chunks and filters of each candidate in a
temporary file, and read through the loader with the given batch size, order, cache and workers. Predictions are
based on the time to decode a few chunks, to serve a sample and to load a chunk on this machine; each prediction
is made before its candidate is measured, and corrected by earlier measurements. "samples/s" is the prediction
for the whole dataset, corrected by the measurement of the sample. A "-" was not measured: time ran out before it.
Rows are sorted by samples/s; "Pareto" marks those that no other row beats in both speed and size. Recommended
is the smallest of those within 5 % of the fastest. "write" is the time to encode the whole dataset on all
cores. Rates are based on the loader's CPU time, on as many cores as it has workers, so that other programs do
not disturb them; if the file exceeds memory it is read from storage, and elapsed time is used.
Below 10 s of --time-budget the sample is smaller, so that large chunks are not tried. A time that is too short to
predict anything is refused.

Examples:
  h5feed tune train.h5
  h5feed tune train.h5 --shuffle full --cache-bytes 2GiB --num-workers 4
  h5feed tune train.h5 --chunks 10,100,1000 --filters none,gzip:1,lz4 --time-budget 2m
  h5feed tune era5.h5 --data fields --input-layout NCHW --window -2,-1,0,1 --shuffle chunk:2
  h5feed tune huge.h5 --data train/images --time-budget 20s --json)";

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App* const command =
      app.add_subcommand("tune", "Find the chunks and filters that feed a training run best");
  command->add_option("FILE", arguments->file, "HDF5 file")->required();
  const auto add = [&](const char* name, std::string& value, const char* help, const char* form) {
    CLI::Option* const option = command->add_option(name, value, help)->type_name(form);
    if (!value.empty()) option->capture_default_str();
  };
  add("--data", arguments->data, "Dataset; default: the only one that looks like images", "PATH");
  add("--input-layout", arguments->input_layout, "auto, NCHW, NHWC, NHW, NCDHW, NDHWC, NDHW or none",
      "LAYOUT");
  add("--batch-size", arguments->batch_size, "Samples per batch", "N");
  add("--shuffle", arguments->shuffle, "sequential, chunk:K or full", "ORDER");
  add("--window", arguments->window,
      "Rows of a sample, as offsets such as -2,-1,0,1; tries chunks that are decoded 1.2 times at most",
      "N,N,...");
  add("--cache-bytes", arguments->cache_bytes, "Chunk cache; default: the loader's", "SIZE");
  add("--memory-budget-bytes", arguments->memory_budget_bytes,
      "Memory limit of the loader; default: half of what is available", "SIZE");
  add("--num-workers", arguments->num_workers, "Threads that read and decode; default: the usable cores",
      "N");
  add("--chunks", arguments->chunks, "Samples per chunk to try; default: six sizes from 16 KiB to 8 MiB",
      "N,N,...");
  add("--filters", arguments->filters, "Filters to try, in the syntax of repack; default: five common ones",
      "F,F,...");
  add("--time-budget", arguments->time_budget, "Time limit for everything", "TIME");
  add("--scratch", arguments->scratch, "Folder for the temporary file; default: the system's", "DIR");
  add_output_options(*command, arguments->output);
  command->footer(kTuneFooter);
  command->callback([arguments, &action] { action = [arguments] { return tune(*arguments); }; });
}

}  // namespace h5feed::cli
