// SPDX-License-Identifier: Apache-2.0
// h5feed tune: finds the chunks and filters that would feed a training run best.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "store/write/staged_file.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/storage/free_space.hpp"
#include "tools/storage/image_choice.hpp"
#include "tools/storage/storage_model.hpp"
#include "tools/tune/report.hpp"
#include "tools/tune/sample.hpp"

namespace h5feed::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Options as typed; empty if not given.
struct TuneArguments {
  std::string file;
  std::string data;
  std::string input_layout = "auto";
  std::string batch_size = "256";
  std::string shuffle = "chunk:16";
  std::string cache_bytes;
  std::string num_workers;
  std::string chunks;
  std::string filters;
  std::string time_budget = "60s";
  std::string scratch;
  OutputOptions output;
};

struct TuneSettings {
  LoaderUse use;
  std::vector<std::uint64_t> chunk_rows;  // empty: to be chosen
  std::vector<std::string> filters;
  std::chrono::nanoseconds budget{};
  std::filesystem::path scratch;
  unsigned cpus = 1;
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
  constexpr std::uint64_t kMostWorkers = 1024;
  const SystemLimits limits = system_limits();
  TuneSettings settings{.cpus = limits.cpus};
  settings.use.batch_size = parse_number("--batch-size", arguments.batch_size, 1, 1U << 24U);
  settings.use.shuffle = Shuffle(arguments.shuffle);
  settings.use.cache_bytes = arguments.cache_bytes.empty()
                                 ? std::min(kGiB, limits.available_bytes / 4)
                                 : parse_size("--cache-bytes", arguments.cache_bytes);
  settings.use.num_workers = limits.cpus;
  if (!arguments.num_workers.empty()) {
    settings.use.num_workers =
        static_cast<std::int64_t>(parse_number("--num-workers", arguments.num_workers, 0, kMostWorkers));
    check_threads("--num-workers", settings.use.num_workers, limits);
  }
  if (!arguments.chunks.empty()) {
    for (const std::string& word : words_of(arguments.chunks)) {
      settings.chunk_rows.push_back(parse_number("--chunks", word, 1, 1U << 30U));
    }
  }
  if (!arguments.filters.empty()) settings.filters = words_of(arguments.filters);
  for (const std::string& filter : settings.filters) parse_filters(filter, 1);
  settings.budget = parse_duration("--time-budget", arguments.time_budget);
  settings.scratch = arguments.scratch.empty() ? std::filesystem::temp_directory_path()
                                               : std::filesystem::path(arguments.scratch);
  return settings;
}

std::filesystem::path scratch_file(const TuneSettings& settings) {
  return settings.scratch / fmt::format("h5feed-tune-{}.h5", ::getpid());
}

// Adds advice to errors that concern the temporary file.
template <typename Work>
auto on_scratch(const Work& work) {
  try {
    return work();
  } catch (const FileError& error) {
    throw FileError(fmt::format("{}; --scratch names another folder", error.what()));
  }
}

// Returns the filters that every HDF5 reader has, and the fast ones of the hdf5plugin package.
std::vector<std::string> usual_filters(std::size_t element_bytes) {
  if (element_bytes == 1) return {"none", "gzip:1", "gzip:4", "lz4", "zstd:1"};
  return {"none", "shuffle+gzip:1", "shuffle+gzip:4", "shuffle+lz4", "shuffle+zstd:1"};
}

class Tune {
 public:
  Tune(const TuneArguments& arguments, TuneSettings settings)
      : start_(Clock::now()),
        arguments_(arguments),
        settings_(std::move(settings)),
        dataset_(open_dataset({.files = {arguments.file},
                               .data = arguments.data,
                               .input_layout = parse_layout("--input-layout", arguments.input_layout)},
                              "tune")),
        progress_("tune", ProgressUnit::seconds, std::chrono::duration<double>(settings_.budget).count()) {
    settings_.use.layout = parse_layout("--input-layout", arguments.input_layout);
    data_ = {info().rows(), info().row_bytes()};
    if (data_.row_bytes > kLargestRow) {
      throw DatasetError(fmt::format("{}:{}: one sample takes {}; tune works with samples of up to {}",
                                     arguments_.file, info().path, format_bytes(data_.row_bytes),
                                     format_bytes(kLargestRow)));
    }
    refuse_larger_chunks(wanted_rows());
    if (settings_.filters.empty()) settings_.filters = usual_filters(size_of(info().dtype));
    cold_ = std::filesystem::file_size(arguments_.file) > system_limits().available_bytes;
  }

  TuneResult run() {
    // Only one candidate is stored there at a time; the largest is without filters.
    on_scratch([&] {
      require_free_space(scratch_file(settings_), one_file(wanted_rows() * data_.row_bytes, false));
    });
    read_sample();
    make_trials();
    calibrate();
    predict_all();
    measure_all();
    rank(trials_);
    return {.info = info(),
            .use = settings_.use,
            .cold = cold_,
            .sample_rows = sample_.rows(),
            .trials = std::move(trials_),
            .seconds = seconds()};
  }

  std::string plan_line() const {
    return fmt::format(
        "tuning {}:{} ({}, {} decoded) for batches of {}, shuffle={}, cache {}, {} workers, on a sample "
        "of about {}{}; at most {:.0f} s",
        printable(arguments_.file), printable(info().path), info().shape_text(),
        format_bytes(info().total_bytes()), settings_.use.batch_size, settings_.use.shuffle.to_string(),
        format_bytes(settings_.use.cache_bytes), settings_.use.num_workers,
        format_bytes(wanted_rows() * data_.row_bytes),
        cold_ ? ", from storage, since the file exceeds memory" : "",
        std::chrono::duration<double>(settings_.budget).count());
  }

 private:
  static constexpr std::uint64_t kLargestRow = 64 * kMiB;
  static constexpr std::uint64_t kSampleBytes = 48 * kMiB;
  static constexpr std::uint64_t kCostBytes = 2 * kMiB;  // bytes of chunks to encode and decode

  const ChunkReader& reader() const { return *dataset_.state()->data.reader; }
  const DatasetInfo& info() const { return reader().info(); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  Clock::time_point part(double share) const {
    return start_ + std::chrono::duration_cast<Clock::duration>(settings_.budget * share);
  }
  std::uint64_t wanted_rows() const {
    return std::clamp<std::uint64_t>(kSampleBytes / data_.row_bytes, 1, data_.rows);
  }
  void refuse_larger_chunks(std::uint64_t sample_rows) const {
    for (const std::uint64_t chunk_rows : settings_.chunk_rows) {
      if (chunk_rows <= sample_rows) continue;
      throw OptionError(
          fmt::format("--chunks {}: the sample has {} rows; give smaller chunks", chunk_rows, sample_rows));
    }
  }
  // Stores the sample as the candidate says.
  CandidateFile stored(const Candidate& candidate) const {
    return on_scratch([&] { return CandidateFile(sample_, candidate, scratch_file(settings_)); });
  }
  void advance() {
    const double now = seconds();
    progress_.advance(now - shown_);
    shown_ = now;
  }

  void read_sample() {
    sample_ = sample_rows(reader(), wanted_rows(), part(0.2));
    advance();
    // The sample's cache holds the same share of the sample as the full cache of the dataset.
    sample_data_ = {sample_.rows(), data_.row_bytes};
    sample_use_ = settings_.use;
    const double share = static_cast<double>(sample_.rows()) / static_cast<double>(data_.rows);
    sample_use_.cache_bytes =
        static_cast<std::uint64_t>(static_cast<double>(settings_.use.cache_bytes) * share);
    if (settings_.use.shuffle.kind() != Shuffle::Kind::full) {
      // Within windows, the number of chunks held is what counts, and both have chunks of the same size.
      sample_use_.cache_bytes = settings_.use.cache_bytes;
    }
  }

  void make_trials() {
    constexpr std::size_t kSizes = 6;
    std::vector<std::uint64_t> rows = settings_.chunk_rows;
    if (rows.empty()) rows = chunk_rows_to_try(sample_data_, kSizes);
    refuse_larger_chunks(sample_.rows());
    for (const std::uint64_t chunk_rows : rows) {
      for (const std::string& filter : settings_.filters) {
        trials_.push_back({.candidate = {chunk_rows, filter}});
      }
    }
  }

  // Measures the time to start a loader, to serve a sample and to load a chunk, for small, middle and large
  // chunks, with and without filters.
  void calibrate() {
    machine_.cpus = settings_.cpus;
    const bool plain =
        std::find(settings_.filters.begin(), settings_.filters.end(), "none") != settings_.filters.end();
    const std::uint64_t large = trials_.back().candidate.chunk_rows;
    {
      const CandidateFile file = stored({large, "none"});
      machine_.serve_s = 1 / file.measure_cached(calibration_use(), calibration_slot());
      advance();
    }
    {
      const CandidateFile file = stored({trials_.front().candidate.chunk_rows, "none"});
      machine_.start_s = file.measure_start(calibration_use());
      advance();
    }
    if (plain) machine_.plain = beside_decoding("none");
    if (const std::string filter = fastest_decoded(); !filter.empty())
      machine_.coded = beside_decoding(filter);
  }

  // Returns the filter, other than "none", that decodes fastest; empty if there is none. It shows costs other
  // than decoding best.
  std::string fastest_decoded() const {
    std::string fastest;
    double least_s = 0;
    for (const std::string& filter : settings_.filters) {
      if (filter == "none") continue;
      const double decode_s =
          measure_costs(sample_, {trials_.back().candidate.chunk_rows, filter}, kCostBytes).decode_s;
      if (!fastest.empty() && decode_s >= least_s) continue;
      fastest = filter;
      least_s = decode_s;
    }
    return fastest;
  }

  // Uses settings with which each chunk is read once.
  LoaderUse calibration_use() const {
    LoaderUse use = settings_.use;
    use.cache_bytes = 2 * sample_.rows() * data_.row_bytes;
    return use;
  }
  std::chrono::nanoseconds calibration_slot() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(settings_.budget * 0.015);
  }

  MachineCosts::PerChunk beside_decoding(const std::string& filter) {
    const double threads =
        std::clamp<double>(static_cast<double>(settings_.use.num_workers), 1, settings_.cpus);
    const auto chunk_work = [&](std::uint64_t chunk_rows) {
      const Candidate candidate{chunk_rows, filter};
      const CandidateFile file = stored(candidate);
      const double rate = file.measure(calibration_use(), calibration_slot(), cold_);
      const double decode_s = filter == "none" ? 0 : measure_costs(sample_, candidate, kCostBytes).decode_s;
      advance();
      const double served_s = machine_.serve_s + machine_.start_s / static_cast<double>(sample_.rows());
      return std::max(0.0, (1 / rate - served_s) * static_cast<double>(chunk_rows) * threads - decode_s);
    };
    MachineCosts::PerChunk costs;
    for (const std::uint64_t rows : calibrated_rows())
      costs.points.push_back({static_cast<double>(rows * data_.row_bytes), chunk_work(rows)});
    return costs;
  }

  // Returns the smallest size, one in the middle and the largest.
  std::set<std::uint64_t> calibrated_rows() const {
    std::set<std::uint64_t> all;
    for (const Trial& trial : trials_) all.insert(trial.candidate.chunk_rows);
    return {*all.begin(), *std::next(all.begin(), static_cast<std::ptrdiff_t>(all.size() / 2)),
            *all.rbegin()};
  }

  void predict_all() {
    for (Trial& trial : trials_) {
      // If time is short, measures less, but never nothing.
      const std::uint64_t bytes = Clock::now() < part(0.4) ? kCostBytes : 1;
      trial.costs = measure_costs(sample_, trial.candidate, bytes);
      trial.predicted = predict(data_, trial.candidate, trial.costs, settings_.use, machine_);
      trial.sample_predicted =
          predict(sample_data_, trial.candidate, trial.costs, sample_use_, machine_).samples_per_s;
      const double chunks = static_cast<double>(data_.rows) / static_cast<double>(trial.candidate.chunk_rows);
      trial.size_bytes = static_cast<double>(info().total_bytes()) * trial.costs.stored_share;
      trial.write_seconds = chunks * trial.costs.encode_s / settings_.cpus;
      advance();
    }
  }

  // Measures candidates, the most promising first, while there is time; the time includes encoding the
  // sample.
  void measure_all() {
    rank(trials_);
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      check_interrupted();
      Trial& trial = trials_[i];
      correct(trial, trials_);
      const double encoding = static_cast<double>(sample_.rows()) /
                              static_cast<double>(trial.candidate.chunk_rows) * trial.costs.encode_s /
                              settings_.cpus;
      const double epochs = 3 * static_cast<double>(sample_.rows()) / trial.sample_predicted;
      const double left = std::chrono::duration<double>(part(0.9) - Clock::now()).count();
      if (slowness_ * (encoding + epochs) > left) continue;
      const Clock::time_point begin = Clock::now();
      const CandidateFile file = stored(trial.candidate);
      const double rest = std::chrono::duration<double>(part(0.9) - Clock::now()).count();
      const double slot = std::max(0.0, rest / static_cast<double>(trials_.size() - i) / 2);
      trial.sample_measured =
          file.measure(sample_use_, std::chrono::nanoseconds(static_cast<std::int64_t>(slot * 1e9)), cold_);
      // The ratio of elapsed to predicted time covers other programs and unmodelled costs; the next
      // candidates are expected to have the same ratio.
      const double took = std::chrono::duration<double>(Clock::now() - begin).count() - slot;
      slowness_ = std::max(slowness_, 1.5 * took / (encoding + epochs));
      advance();
    }
    for (Trial& trial : trials_) {
      if (trial.sample_measured == 0) correct(trial, trials_);
    }
  }

  const Clock::time_point start_;
  const TuneArguments& arguments_;
  TuneSettings settings_;
  Dataset dataset_;
  Progress progress_;
  double shown_ = 0;
  double slowness_ = 1.5;  // expected ratio of elapsed time to predicted work, with a margin
  RowShape data_;
  bool cold_ = false;
  RowSample sample_;
  RowShape sample_data_;
  LoaderUse sample_use_;
  MachineCosts machine_;
  std::vector<Trial> trials_;
};

int tune(const TuneArguments& arguments) {
  TuneSettings settings = make_settings(arguments);
  check_export_places(arguments.output, arguments.file);
  on_scratch([&] { StagedFile(scratch_file(settings), true).probe(kMetadataRoomBytes); });
  const UnfinishedOutput unfinished;  // outlives the candidates' files
  const ScopedLogSink quiet(ignore_log);
  Tune work(arguments, std::move(settings));
  say(work.plan_line());
  const TuneResult result = work.run();
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
for the whole dataset, corrected by the measurement of the sample. A "-" was not measured: the time was over.
Rows are sorted by samples/s; "Pareto" marks those that no other row beats in both speed and size. Recommended
is the smallest of those within 5 % of the fastest. "write" is the time to encode the whole dataset on all
cores. Rates are based on the loader's CPU time, on as many cores as it has workers, so that other programs do
not disturb them; if the file exceeds memory it is read from storage, and elapsed time is used.

Examples:
  h5feed tune train.h5
  h5feed tune train.h5 --shuffle full --cache-bytes 2GiB --num-workers 4
  h5feed tune train.h5 --chunks 10,100,1000 --filters none,gzip:1,lz4 --time-budget 2m
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
  add("--input-layout", arguments->input_layout, "auto, NCHW, NHWC, NHW or none", "LAYOUT");
  add("--batch-size", arguments->batch_size, "Samples per batch", "N");
  add("--shuffle", arguments->shuffle, "sequential, chunk:K or full", "ORDER");
  add("--cache-bytes", arguments->cache_bytes, "Chunk cache; default: the loader's", "SIZE");
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
