// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/files/scratch_folder.hpp"
#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/error.hpp"
#include "store/read/mapped_reader.hpp"
#include "store/write/staged_file.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/storage/free_space.hpp"
#include "tools/storage/image_choice.hpp"
#include "tools/storage/storage_model.hpp"
#include "tools/storage/window_plan.hpp"

namespace h5feed::cli {
namespace {

// Shares of the time after which a part of the work has to be over.
constexpr double kSampleEnd = 0.2, kCalibrationEnd = 0.5, kPredictionEnd = 0.7, kEnd = 0.9;

// Says what can be done about an error that has to do with the temporary file.
template <typename Work>
auto on_scratch(const Work& work) {
  try {
    return work();
  } catch (const FileError& error) {
    throw FileError(fmt::format("{}; --scratch names another folder", error.what()));
  }
}

// Those every reader of HDF5 has, and the fast ones of the hdf5plugin package.
std::vector<std::string> usual_filters(std::size_t element_bytes) {
  if (element_bytes == 1) return {"none", "gzip:1", "gzip:4", "lz4", "zstd:1"};
  return {"none", "shuffle+gzip:1", "shuffle+gzip:4", "shuffle+lz4", "shuffle+zstd:1"};
}

class TuneRun {
 public:
  TuneRun(TuneSettings settings, const TimeBudget& budget)
      : budget_(budget),
        settings_(std::move(settings)),
        scratch_(on_scratch([&] { return ScratchFolder(settings_.scratch, "h5feed-tune"); })),
        dataset_(open_dataset(
            {.files = {settings_.file}, .data = settings_.data, .input_layout = settings_.use.layout},
            "tune")),
        progress_("tune", ProgressUnit::seconds, budget.total_s()) {
    on_scratch([&] { StagedFile(scratch_file(), true).probe(kMetadataRoomBytes); });
    refuse_untunable(info());
    data_ = {info().rows(), info().row_bytes()};
    if (!settings_.chunk_rows.empty()) largest_chunk_rows_ = std::ranges::max(settings_.chunk_rows);
    refuse_larger_chunks(most_rows());
    refuse_unreachable_windows();
    if (settings_.filters.empty()) settings_.filters = usual_filters(size_of(info().dtype));
    cold_ = std::filesystem::file_size(settings_.file) > system_limits().available_bytes;
    // One candidate lies there at a time, the largest without filters.
    on_scratch([&] { require_free_space(scratch_file(), one_file(wanted_rows() * data_.row_bytes, false)); });
    refuse_too_little_memory();
    finish_step();
  }

  TuneResult run() {
    read_sample();
    fit_sample();
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
            .left_out = left_out_,
            .seconds = budget_.elapsed_s()};
  }

  std::string plan_line() const {
    return fmt::format(
        "tuning {}:{} ({}, {} decoded) for batches of {}{}, shuffle={}, cache {}, {} workers, on a sample "
        "of at most {}{}; ends within {:.3g} s",
        printable(settings_.file), printable(info().path), info().shape_text(),
        format_bytes(info().total_bytes()), settings_.use.batch_size,
        settings_.use.window.empty() ? "" : fmt::format(" windows of {} rows", settings_.use.window.size()),
        settings_.use.shuffle.to_string(), format_bytes(settings_.use.cache_bytes), settings_.use.num_workers,
        format_bytes(wanted_rows() * data_.row_bytes),
        cold_ ? ", from storage, since the file exceeds memory" : "", budget_.total_s());
  }

 private:
  static constexpr std::uint64_t kSampleBytes = 48 * kMiB;
  static constexpr std::uint64_t kCostBytes = 2 * kMiB;  // of chunks to encode and decode
  // Steps of every run, of about the same length: opening the dataset, the sample, the
  // speed of the filters, serving, starting, a size of chunks, a prediction.
  static constexpr double kLeastSteps = 7;

  std::filesystem::path scratch_file() const { return scratch_.path() / "candidate.h5"; }
  const ChunkReader& reader() const { return *DatasetAccess::state(dataset_)->data.reader; }
  const DatasetInfo& info() const { return reader().info(); }
  // Of the largest sample.
  std::uint64_t most_rows() const {
    return std::clamp<std::uint64_t>(kSampleBytes / data_.row_bytes, 1, data_.rows);
  }
  // In a short time a smaller one.
  std::uint64_t wanted_rows() const {
    constexpr double kAmpleTime = 10;
    const double share = std::min(1.0, budget_.total_s() / kAmpleTime);
    const auto rows = static_cast<std::uint64_t>(static_cast<double>(most_rows()) * share);
    return std::clamp<std::uint64_t>(rows, largest_chunk_rows_, most_rows());
  }
  void refuse_larger_chunks(std::uint64_t sample_rows) const {
    if (largest_chunk_rows_ <= sample_rows) return;
    throw OptionError(fmt::format("--chunks {}: the sample has {} rows; give smaller chunks",
                                  largest_chunk_rows_, sample_rows));
  }
  std::vector<std::uint64_t> chunk_rows_for(const RowShape& data) const {
    constexpr std::size_t kSizes = 6;
    if (!settings_.chunk_rows.empty()) return settings_.chunk_rows;
    std::vector<std::uint64_t> sizes = chunk_rows_to_try(data, kSizes);
    if (settings_.use.window.empty()) return sizes;
    // Windows tell how large chunks may be.
    std::erase_if(sizes, [&](std::uint64_t rows) { return !fits_windows(data_, rows, window_use()); });
    if (sizes.empty()) sizes.push_back(*window_chunk_rows(data_, data.rows, window_use()));
    return sizes;
  }
  WindowUse window_use() const {
    const LoaderUse& use = settings_.use;
    return {use.window, use.shuffle, use.batch_size, use.cache_bytes};
  }
  void refuse_unreachable_windows() const {
    if (settings_.use.window.empty() || !settings_.chunk_rows.empty()) return;
    if (window_chunk_rows(data_, most_rows(), window_use())) return;
    throw OptionError(fmt::format(
        "--window: no chunks of {} are decoded {} times at most with shuffle={} and a cache of {}; use {}",
        printable(info().path), kWindowDecodes, settings_.use.shuffle.to_string(),
        format_bytes(settings_.use.cache_bytes), window_cure(data_, window_use())));
  }
  // Refuses, before anything is announced, what does not suffice for a loader of the smallest chunks.
  void refuse_too_little_memory() const {
    DatasetInfo rows = info();
    rows.shape.front() = most_rows();
    const std::uint64_t smallest = std::ranges::min(chunk_rows_for({most_rows(), data_.row_bytes}));
    on_scratch([&] { CandidateFile(rows, smallest, scratch_file()).check(settings_.use); });
  }
  // Stores the sample in a candidate's way.
  CandidateFile stored(const Candidate& candidate) const {
    return on_scratch([&] { return CandidateFile(sample_, candidate, scratch_file()); });
  }
  // To be called after each of the steps without which there is no result.
  void finish_step() {
    check_interrupted();
    advance();
    ++steps_;
    budget_.require_left(std::min(1.0, steps_ / kLeastSteps));
  }
  void advance() {
    const double now = budget_.elapsed_s();
    progress_.advance(now - shown_);
    shown_ = now;
  }

  void read_sample() {
    const auto on_its_grid = on_grid(DatasetAccess::state(dataset_)->data.reader);
    sample_ = sample_rows(*on_its_grid, wanted_rows(), budget_.part(kSampleEnd));
    finish_step();
    refuse_larger_chunks(sample_.rows());
  }

  // Cuts the sample to what can be stored, encoded and decoded in time, as a few KiB of it show.
  void fit_sample() {
    constexpr double kStorageSecondsPerByte = 5e-9;  // of storage that is slow to make files durable
    constexpr double kFiles = 8, kPasses = 3;
    double seconds_per_byte = kFiles * kStorageSecondsPerByte;
    for (const std::string& filter : settings_.filters) {
      const FilterSpeed speed = filter_speed(sample_, filter);
      decode_s_per_byte_[filter] = speed.decode_s_per_byte;
      // Chunks of all sizes together are about twice as large as the sample.
      seconds_per_byte += 2 * (speed.encode_s_per_byte + kPasses * speed.decode_s_per_byte);
    }
    const double bytes = (kCalibrationEnd - kSampleEnd) * budget_.total_s() / seconds_per_byte;
    const auto rows = static_cast<std::uint64_t>(bytes / static_cast<double>(data_.row_bytes));
    if (rows < sample_.rows()) {
      sample_.info.shape.front() = std::clamp<std::uint64_t>(rows, largest_chunk_rows_, sample_.rows());
    }
    const double least_s =
        seconds_per_byte * static_cast<double>(sample_.rows()) * static_cast<double>(data_.row_bytes);
    if (least_s > (kEnd - kSampleEnd) * budget_.total_s())
      budget_.refuse(least_s / (kCalibrationEnd - kSampleEnd));
    finish_step();
    // The sample's cache holds as large a share of it as the whole one's of the dataset.
    sample_data_ = {sample_.rows(), data_.row_bytes};
    sample_use_ = settings_.use;
    const double share = static_cast<double>(sample_.rows()) / static_cast<double>(data_.rows);
    sample_use_.cache_bytes =
        static_cast<std::uint64_t>(static_cast<double>(settings_.use.cache_bytes) * share);
    if (settings_.use.shuffle.kind() != Shuffle::Kind::full) {
      // Within windows what counts is how many chunks are held, and both have chunks of one size.
      sample_use_.cache_bytes = settings_.use.cache_bytes;
    }
  }

  void make_trials() {
    for (const std::uint64_t chunk_rows : chunk_rows_for(sample_data_)) {
      for (const std::string& filter : settings_.filters) {
        trials_.push_back({.candidate = {chunk_rows, filter}});
      }
    }
  }

  // Measures the time to start a loader, to serve a sample and to bring a chunk into memory, from chunks of
  // small, middle and large size, plain and coded.
  void calibrate() {
    machine_.cpus = settings_.cpus;
    const bool plain = std::ranges::find(settings_.filters, "none") != settings_.filters.end();
    {
      const CandidateFile file = stored({trials_.back().candidate.chunk_rows, "none"});
      // Before anything is measured: whether the loader takes the largest chunks, too.
      file.check(sample_use_);
      machine_.serve_s = 1 / file.measure_cached(calibration_use(), calibration_slot());
      finish_step();
    }
    {
      const CandidateFile file = stored({trials_.front().candidate.chunk_rows, "none"});
      machine_.start_s = file.measure_start(calibration_use(), calibration_slot());
      finish_step();
    }
    if (plain) machine_.plain = beside_decoding("none");
    if (const std::string filter = fastest_decoded(); !filter.empty())
      machine_.coded = beside_decoding(filter);
    finish_step();
  }

  // Returns the fastest filter other than "none", empty if there is none: with it, the cost other than
  // decoding shows best.
  std::string fastest_decoded() const {
    const std::string* fastest = nullptr;
    for (const std::string& filter : settings_.filters) {
      if (filter == "none") continue;
      if (fastest == nullptr || decode_s_per_byte_.at(filter) < decode_s_per_byte_.at(*fastest))
        fastest = &filter;
    }
    return fastest == nullptr ? std::string() : *fastest;
  }

  // So that each chunk is read once.
  LoaderUse calibration_use() const {
    LoaderUse use = settings_.use;
    use.cache_bytes = 2 * sample_.rows() * data_.row_bytes;
    return use;
  }
  std::chrono::nanoseconds calibration_slot() const { return budget_.slice(0.015); }

  // At one size at least; at the others while there is time.
  MachineCosts::PerChunk beside_decoding(const std::string& filter) {
    const double threads =
        std::clamp<double>(static_cast<double>(settings_.use.num_workers), 1, settings_.cpus);
    const auto chunk_work = [&](std::uint64_t chunk_rows) {
      const Candidate candidate{chunk_rows, filter};
      const CandidateFile file = stored(candidate);
      const double rate = file.measure(calibration_use(), calibration_slot(), cold_);
      const double decode_s = filter == "none" ? 0 : measure_costs(sample_, candidate, cost_bytes()).decode_s;
      advance();
      const double served_s = machine_.serve_s + machine_.start_s / static_cast<double>(sample_.rows());
      return std::max(0.0, (1 / rate - served_s) * static_cast<double>(chunk_rows) * threads - decode_s);
    };
    std::map<std::uint64_t, double> work;
    for (const std::uint64_t rows : calibrated_rows()) {
      if (!work.empty() && Clock::now() >= budget_.part(kCalibrationEnd)) break;
      if (!work.contains(rows)) work[rows] = chunk_work(rows);
      check_interrupted();
    }
    MachineCosts::PerChunk costs;
    for (const auto& [rows, seconds] : work)
      costs.points.push_back({static_cast<double>(rows * data_.row_bytes), seconds});
    return costs;
  }

  // The largest size, the smallest and one in the middle.
  std::vector<std::uint64_t> calibrated_rows() const {
    std::set<std::uint64_t> all;
    for (const Trial& trial : trials_) all.insert(trial.candidate.chunk_rows);
    return {*all.rbegin(), *all.begin(),
            *std::next(all.begin(), static_cast<std::ptrdiff_t>(all.size() / 2))};
  }

  // So that all predictions together do not take longer than a sample that fits the time.
  std::uint64_t cost_bytes() const {
    return std::min(kCostBytes, std::max<std::uint64_t>(1, sample_.rows() * data_.row_bytes / 8));
  }

  // Candidates whose turn does not come are left out; the first one never is.
  void predict_all() {
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (i > 0 && Clock::now() >= budget_.part(kPredictionEnd)) {
        left_out_ = trials_.size() - i;
        trials_.resize(i);
        break;
      }
      Trial& trial = trials_[i];
      // When time is short, less is looked at; never nothing.
      const std::uint64_t bytes = Clock::now() < budget_.part(kCalibrationEnd) ? cost_bytes() : 1;
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

  // The most promising first, for as long as there is time; encoding the sample is part of it.
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
      if (slowness_ * (encoding + epochs) > budget_.left_s(kEnd)) continue;
      const Clock::time_point begin = Clock::now();
      const CandidateFile file = stored(trial.candidate);
      const double slot = std::max(0.0, budget_.left_s(kEnd) / static_cast<double>(trials_.size() - i) / 2);
      trial.sample_measured =
          file.measure(sample_use_, std::chrono::nanoseconds(static_cast<std::int64_t>(slot * 1e9)), cold_);
      // Other programs, and what the figures leave out: the next ones are expected to take as long.
      const double took = seconds_since(begin) - slot, foreseen = std::max(1e-6, encoding + epochs);
      slowness_ = std::max(slowness_, 1.5 * took / foreseen);
      advance();
    }
    for (Trial& trial : trials_) {
      if (trial.sample_measured == 0) correct(trial, trials_);
    }
  }

  const UnfinishedOutput unfinished_;  // outlives the candidates' files
  const TimeBudget budget_;
  TuneSettings settings_;
  const ScratchFolder scratch_;
  Dataset dataset_;
  Progress progress_;
  double shown_ = 0;
  double steps_ = 0;
  double slowness_ = 1.5;  // measured time relative to the predicted work
  RowShape data_;
  bool cold_ = false;
  std::uint64_t largest_chunk_rows_ = 1;  // of those that the user asked for
  RowSample sample_;
  RowShape sample_data_;
  LoaderUse sample_use_;
  std::map<std::string, double> decode_s_per_byte_;  // by filter
  MachineCosts machine_;
  std::vector<Trial> trials_;
  std::size_t left_out_ = 0;
};

}  // namespace

TuneResult run_tune(TuneSettings settings, const TimeBudget& budget,
                    const std::function<void(const std::string&)>& announce) {
  TuneRun run(std::move(settings), budget);
  announce(run.plan_line());
  return run.run();
}

}  // namespace h5feed::cli
