// SPDX-License-Identifier: Apache-2.0
// h5feed check: compares what h5feed reads from a file with what libhdf5 reads, and prints digests of the
// values.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/bad_list.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/mapped_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "tools/check/dataset.hpp"
#include "tools/check/entries.hpp"
#include "tools/check/estimate.hpp"
#include "tools/check/report.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::cli {
namespace {

struct CheckArguments {
  std::string file;
  std::vector<std::string> data;
  std::string sample = "100%";
  std::string jobs;
  std::string time_budget;
  std::string bad_list;
  SampleText images;
  OutputOptions output;
};

// Opens a dataset of variable length as images, if it is one of bytes.
void open_images(const ImageOptions& images, CheckEntry& entry) {
  try {
    const Dataset dataset =
        Dataset::open(isolated({.files = {entry.file}, .data = entry.listed.path, .images = images}));
    entry.images = DatasetAccess::state(dataset)->data.reader;
    entry.info = entry.images->info();
    entry.chunks = entry.images->num_chunks();
  } catch (const DatasetError&) {
    // Not bytes: it is not checked, as without --image-size.
  } catch (const Error& error) {
    entry.problem = error.what();
  }
}

// "train.h5", or "train.h5 and 2 files that its links lead into".
std::string files_text(const H5File& file, const std::vector<CheckEntry>& entries) {
  std::set<std::filesystem::path> others;
  for (const CheckEntry& entry : entries) {
    if (entry.file != file.path()) others.insert(entry.file);
  }
  const std::string name = printable(file.path().string());
  if (others.empty()) return name;
  return fmt::format("{} and {} {} that its links lead into", name, format_count(others.size()),
                     others.size() == 1 ? "file" : "files");
}

std::string plan_text(const H5File& file, const std::vector<CheckEntry>& entries,
                      const CheckSettings& settings, const CheckEstimate& estimate) {
  const double seconds =
      estimate.measured ? std::accumulate(estimate.seconds.begin(), estimate.seconds.end(), 0.0) : 0;
  std::uint64_t datasets = 0, chunks = 0, bytes = 0;
  for (const CheckEntry& entry : entries) {
    if (!entry.info) continue;
    ++datasets;
    chunks += entry.chunks;
    bytes += entry.info->total_bytes();
  }
  constexpr double kLong = 3600;
  const bool suggests_less = seconds > kLong && settings.sample == 1 && !settings.deadline;
  return fmt::format(
      "checking {}: {} numeric {}, {} {}, {} decoded{}, by h5feed on {} {} and by libhdf5 on one{}{}",
      files_text(file, entries), datasets, datasets == 1 ? "dataset" : "datasets", format_count(chunks),
      chunks == 1 ? "chunk" : "chunks", format_bytes(bytes),
      settings.sample < 1 ? fmt::format(", {:.3g} % of them", settings.sample * 100) : "", settings.jobs,
      settings.jobs == 1 ? "thread" : "threads",
      seconds >= 1 ? fmt::format("; about {} s", format_count(static_cast<std::uint64_t>(std::ceil(seconds))))
                   : "",
      suggests_less ? "; --sample or --time-budget checks less" : "");
}

// Reports the progress of the check: as a bar on a terminal, and as a line if the predicted time changes.
class Watcher {
 public:
  Watcher(Progress& progress, std::vector<double> seconds)
      : progress_(progress),
        seconds_(std::move(seconds)),
        all_s_(std::max(1e-9, std::accumulate(seconds_.begin(), seconds_.end(), 0.0))),
        forecast_(all_s_) {}

  // Call in the order of the entries.
  void begin_entry(const CheckEntry& entry, double share) {
    entry_bytes_ = entry.info ? std::max(1.0, static_cast<double>(entry.info->total_bytes()) * share) : 1;
    entry_done_ = 0;
  }
  void advance(std::uint64_t bytes) {
    progress_.advance(static_cast<double>(bytes));
    entry_done_ += static_cast<double>(bytes);
    // The time before the first chunk, such as for reading the chunk index, says nothing about the chunks'
    // speed.
    const double elapsed = seconds_since(start_);
    if (!preparing_s_) preparing_s_ = elapsed;
    const double done = before_s_ + seconds_[entry_] * std::min(1.0, entry_done_ / entry_bytes_);
    const std::optional<double> checking = forecast_.revise(done / all_s_, elapsed - *preparing_s_);
    if (!checking) return;
    progress_.hide();
    const double all = *preparing_s_ + *checking;
    say(fmt::format("about {} s in all from what was measured so far, {} s of them left", whole(all),
                    whole(all - elapsed)));
  }
  void end_entry() { before_s_ += seconds_[entry_++]; }

 private:
  static std::string whole(double seconds) {
    return format_count(static_cast<std::uint64_t>(std::ceil(std::max(0.0, seconds))));
  }

  Progress& progress_;
  const std::vector<double> seconds_;  // estimated seconds of each entry
  const double all_s_;
  TimeForecast forecast_;
  const Clock::time_point start_ = Clock::now();
  std::optional<double> preparing_s_;  // seconds before the first chunk was checked
  std::size_t entry_ = 0;
  double before_s_ = 0, entry_bytes_ = 1, entry_done_ = 0;
};

std::uint64_t rows_of(const CheckEntry& entry) { return entry.info ? entry.info->rows() : 0; }

void check_entry(CheckedFiles& files, const CheckSettings& settings, Watcher& watcher, CheckEntry& entry) {
  if (!entry.info || !entry.problem.empty()) return;
  if (settings.deadline && Clock::now() >= *settings.deadline) return;
  std::shared_ptr<H5File> file;
  std::shared_ptr<const ChunkReader> reader;
  try {
    file = files.open(entry.file);
    const ScopedLogSink quiet(ignore_log);  // the table names the read path
    reader = entry.images ? entry.images : on_grid(open_chunk_reader(file, *entry.info));
  } catch (const Error& error) {
    entry.problem = error.what();
    return;
  }
  if (file->swmr_writer()) {  // Whose last rows may not be complete
    entry.info = reader->info();
    entry.chunks = reader->num_chunks();
  }
  entry.fallback_reason = reader->fallback_reason();
  CheckSettings of_entry = settings;
  of_entry.only_decodes = entry.images != nullptr;
  entry.result =
      check_dataset(*file, *reader, of_entry, [&](std::uint64_t bytes) { watcher.advance(bytes); });
}

CheckSettings make_settings(const CheckArguments& arguments) {
  const SystemLimits limits = system_limits();
  CheckSettings settings{.jobs = parse_jobs(arguments.jobs, limits),
                         .memory_bytes = limits.available_bytes / 4};
  settings.sample = parse_share("--sample", arguments.sample);
  if (!arguments.time_budget.empty()) {
    settings.deadline = Clock::now() + parse_duration("--time-budget", arguments.time_budget);
  }
  return settings;
}

int check(const CheckArguments& arguments) {
  const Clock::time_point start = Clock::now();
  CheckSettings settings = make_settings(arguments);
  check_export_places(arguments.output, arguments.file);
  CheckedFiles files(open_isolated(arguments.file));
  const std::shared_ptr<H5File>& file = files.first();
  std::optional<BadList> bad_list;
  if (!arguments.bad_list.empty()) settings.bad_list = &bad_list.emplace(arguments.bad_list, "bad_list");
  std::vector<CheckEntry> entries = list_entries(files, arguments.data);
  if (!arguments.images.image_size.empty()) {
    const ImageOptions images = parse_images(arguments.images);
    for (CheckEntry& entry : entries) {
      if (!entry.listed.numeric && entry.problem.empty()) open_images(images, entry);
    }
  }
  constexpr std::chrono::seconds kEstimateTime(1);
  const CheckEstimate estimate = estimate_check(files, entries, settings, kEstimateTime);
  say(plan_text(*file, entries, settings, estimate));
  if (file->swmr_writer()) {
    say(
        fmt::format("{0}: a SWMR writer has it open: only the rows that are complete now are checked; if no "
                    "writer runs: h5clear -s --increment=0 {0}",
                    printable(arguments.file)));
  }

  double total_bytes = 0;
  for (const CheckEntry& entry : entries) {
    if (entry.info) total_bytes += static_cast<double>(entry.info->total_bytes()) * settings.sample;
  }
  Progress progress("check", ProgressUnit::bytes, total_bytes);
  Watcher watcher(progress, estimate.seconds);
  Table table = check_table(arguments.file, entries);
  const bool show_table = !arguments.output.json;
  if (show_table) print(table.header_text());
  for (CheckEntry& entry : entries) {
    check_interrupted();
    watcher.begin_entry(entry, settings.sample);
    const std::uint64_t rows = rows_of(entry);
    check_entry(files, settings, watcher, entry);
    watcher.end_entry();
    progress.hide();
    if (rows_of(entry) < rows) {
      say(
          fmt::format("{}:{}: {} of {} rows are checked: the SWMR writer has not completed the chunks of the "
                      "others, or was killed before it did",
                      printable(entry.file.string()), printable(short_path(entry.listed.path)),
                      format_count(rows_of(entry)), format_count(rows)));
    }
    table.add_row(check_cells(arguments.file, entry));
    if (show_table) print(table.row_text(table.rows() - 1));
    for (const std::string& line : finding_lines(entry)) say(line);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const Json json = check_json(arguments.file, entries, settings.sample, seconds);
  export_results(arguments.output, table, json);
  print(show_table ? '\n' + check_verdict(arguments.file, entries, seconds) : json_text(json));
  const bool clean = std::ranges::all_of(entries, &CheckEntry::clean);
  return clean && !reached_nothing(entries) ? kDone : kFailed;
}

constexpr const char* kCheckFooter =
    R"(Every chunk of every numeric dataset is read twice, by h5feed itself and by libhdf5, and compared byte
by byte. Datasets that h5feed reads through libhdf5 anyway are read once. Links into other files are
followed, and what they lead to is checked under the name of its own file. The exit code is 1 if a chunk
differs, an object cannot be read, or time ran out before the first chunk; all other objects are still
checked.

The SHA-256 covers the decoded values of the whole dataset in row-major order and little-endian byte order:
files with the same values have the same digest, whatever their chunks, filters and byte order. With
--sample, or if --time-budget ends the check, there is no digest, and the result is "equal in the sample" or
"partial" (in JSON "partial"), not "equal".

Examples:
  h5feed check train.h5
  h5feed check train.h5 --data images labels --json
  h5feed check huge.h5 --sample 1% --time-budget 60s
  h5feed check train.h5 --bad-list bad.tsv)";

}  // namespace

void add_check(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* const command =
      app.add_subcommand("check", "Compare what h5feed reads with what libhdf5 reads; print digests");
  command->add_option("FILE", arguments->file, "HDF5 file")->required();
  command->add_option("--data", arguments->data, "Check only these datasets")->type_name("PATH");
  command
      ->add_option("--sample", arguments->sample, "Share of the chunks to compare, spread over the dataset")
      ->type_name("SHARE%")
      ->capture_default_str();
  command->add_option("--jobs", arguments->jobs, "Threads; default: the usable cores")->type_name("N");
  command
      ->add_option("--time-budget", arguments->time_budget,
                   "Start no chunk after this time; reading a chunk index comes on top; default: no limit")
      ->type_name("TIME");
  command
      ->add_option("--bad-list", arguments->bad_list,
                   "Append the chunks that cannot be read to FILE, as a loader with on_error does")
      ->type_name("FILE");
  command
      ->add_option("--image-size", arguments->images.image_size,
                   "Also decode encoded images, scaled to this size: pixels, or HEIGHTxWIDTH")
      ->type_name("N");
  add_output_options(*command, arguments->output);
  command->footer(kCheckFooter);
  command->callback([arguments, &action] { action = [arguments] { return check(*arguments); }; });
}

}  // namespace h5feed::cli
