// SPDX-License-Identifier: Apache-2.0
// One run of `h5feed monitor`: watches until the command or process ends, or a signal comes.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/scratch_folder.hpp"
#include "tools/monitor/findings.hpp"
#include "tools/monitor/gpus.hpp"
#include "tools/monitor/line_file.hpp"
#include "tools/monitor/metrics_server.hpp"
#include "tools/monitor/process.hpp"
#include "tools/monitor/recorder.hpp"
#include "tools/program/output.hpp"
#include "tools/program/watched_process.hpp"

namespace h5feed::cli {

/// Options of `monitor`, as typed; empty: not given.
struct MonitorArguments {
  std::string interval = "1";
  std::string output, scalars, trace, listen;
  std::string pid;
  std::vector<std::string> gpus;
  std::vector<std::string> command;
  bool json = false;
  /// Not an option: for commands of the program that watch COMMAND themselves. Prints nothing, lets COMMAND
  /// write to stderr alone, and ends it after `time_limit`, or when a signal comes.
  struct Trial {
    std::chrono::nanoseconds time_limit{};
  };
  std::optional<Trial> trial = {};
};

/// The file to which loaders of the watched processes publish their figures.
class StatsPlace {
 public:
  /// Takes the file that the environment of this process, or of the process `watched`, names. If none does
  /// and `offer` is set, names one in a temporary folder in the environment of processes started from now on;
  /// without a place for it loaders publish nothing.
  StatsPlace(std::optional<pid_t> watched, bool offer);

  /// Returns the file; empty if there is none.
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::optional<ScratchFolder> folder_;
  std::filesystem::path path_;
};

/// A run. For one thread.
class MonitorRun {
 public:
  /// Checks the options and the places of all outputs, then starts the command. Throws OptionError,
  /// FileError, Error. Borrows `arguments`.
  explicit MonitorRun(const MonitorArguments& arguments);

  /// Watches, writes the outputs and returns the exit code: that of the command, if there is one.
  int go();

  /// These are known after `go()`.
  const Record& record() const { return recorder_->record(); }
  const Diagnosis& diagnosis() const { return *diagnosis_; }
  /// Returns whether the command of a trial was ended because its time was over.
  bool cut_short() const noexcept { return ended_at_.has_value() && interrupted_by_ == 0; }
  /// Returns the signal that came during a trial; 0 if none did.
  int interrupted_by() const noexcept { return interrupted_by_; }

 private:
  bool has_command() const noexcept { return !arguments_.command.empty(); }
  bool prints_live() const noexcept { return !arguments_.json && !has_command(); }
  bool trial_is_over() const;
  bool is_over();
  void end_command();
  void check_places() const;
  void find_gpus();
  int watch();
  void greet();
  void take_gpus();
  void take_point();
  void write(const Json& json);
  void print_line(const std::string& line);
  void print_live(Table live, std::vector<std::string> cells);
  void finish();
  void finish_trace(const Diagnosis& diagnosis);

  const MonitorArguments& arguments_;
  const std::chrono::milliseconds interval_;
  std::optional<GpuWatch> gpus_;
  std::optional<LineFile> lines_, scalars_;
  std::optional<MetricsServer> server_;
  std::optional<StatsPlace> stats_;
  std::optional<WatchedProcess> process_;
  std::optional<ProcessUse> use_;
  std::optional<Recorder> recorder_;
  std::optional<Diagnosis> diagnosis_;
  Clock::time_point start_;
  std::optional<Clock::time_point> ended_at_;  // when the command was told to end
  int interrupted_by_ = 0;
  bool unprinted_ = false;
  bool headed_ = false;
  bool greeted_ = false;
  bool trace_failed_ = false;
};

}  // namespace h5feed::cli
