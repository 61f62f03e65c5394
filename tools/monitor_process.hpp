// What `monitor` tells about the process that it watches and about the processes that descend from it.
#pragma once

#include <chrono>
#include <optional>

#include "tools/output.hpp"
#include "tools/process_tree.hpp"
#include "tools/table.hpp"
#include "tools/watched_process.hpp"

namespace h5feed::cli {

/// Figures of one process tree over the time in which it is watched. For one thread.
class ProcessUse {
 public:
  /// `process` must outlive this. Of a started command everything counts, of another process what it uses
  /// from now on.
  ProcessUse(const WatchedProcess& process, bool started);

  /// Takes a reading. Returns it as a line of JSON; nothing, and counts none, where all processes have ended.
  std::optional<Json> read();

  /// Takes in what the kernel says of a command that has ended: complete even where it ended between two
  /// readings.
  void finish();

  /// The summary as JSON. `exit_code` is left null for a process that was not started here.
  Json summary(std::optional<int> exit_code) const;
  /// One row of the same figures.
  Table table() const;
  /// The last reading, a row for each, as the table `live_table` has it.
  std::vector<std::string> live_cells() const;
  static Table live_table();

 private:
  using Clock = std::chrono::steady_clock;

  double seconds() const { return std::chrono::duration<double>(last_time_ - start_).count(); }
  std::optional<double> mean_cores() const;
  std::optional<std::uint64_t> since_start(const std::optional<std::uint64_t> TreeUse::*member) const;

  const WatchedProcess& process_;
  const bool started_;
  const Clock::time_point start_ = process_.begun();
  ProcessTree tree_;
  TreeUse before_;  // what had been used when watching began
  TreeUse last_;
  Clock::time_point last_time_ = start_;
  std::optional<double> cores_;  // at work between the last two readings, on average
  std::uint64_t readings_ = 0;
  std::uint64_t peak_rss_bytes_ = 0;
  std::uint64_t most_processes_ = 0;
};

}  // namespace h5feed::cli
