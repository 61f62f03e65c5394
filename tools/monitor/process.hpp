// SPDX-License-Identifier: Apache-2.0
// Resource use of the process that `monitor` watches and of its descendants.
#pragma once

#include <chrono>
#include <optional>

#include "base/clock.hpp"
#include "tools/monitor/record.hpp"
#include "tools/program/output.hpp"
#include "tools/program/process_tree.hpp"
#include "tools/program/table.hpp"
#include "tools/program/watched_process.hpp"

namespace h5feed::cli {

/// Resource use of one process tree while it is watched. For one thread.
class ProcessUse {
 public:
  /// Borrows `process`, which must outlive this object. For a started command all use counts, for another
  /// process only its use from now on.
  ProcessUse(const WatchedProcess& process, bool started);

  /// Takes a reading and returns it as JSON; returns nothing, and does not count a reading, if all processes
  /// have ended.
  std::optional<Json> read();

  /// Returns whether a process of the tree is alive.
  bool alive() { return tree_.read().processes > 0; }
  /// Sends a signal to all processes of the tree; ignores errors.
  void send(int signal) {
    tree_.read();
    tree_.send(signal);
  }

  /// Sets the members of `point` that concern the process to the last reading.
  void put_into(Point& point) const;

  /// Adds the kernel's totals of a started command that has ended, so that use between two readings is
  /// counted too.
  void finish();

  /// Returns the summary as JSON. `exit_code` is null for a process that was not started here.
  Json summary(std::optional<int> exit_code) const;
  /// Returns the summary as a table of one row.
  Table table() const;
  /// Returns the last reading as a row of `live_table`.
  std::vector<std::string> live_cells() const;
  /// Returns an empty table for readings as they arrive.
  static Table live_table();

 private:
  double seconds() const { return std::chrono::duration<double>(last_time_ - start_).count(); }
  std::optional<double> mean_cores() const;
  std::optional<std::uint64_t> since_start(const std::optional<std::uint64_t> TreeUse::*member) const;

  const WatchedProcess& process_;
  const bool started_;
  const Clock::time_point start_ = process_.begun();
  ProcessTree tree_;
  TreeUse before_;  // use before watching began
  TreeUse last_;
  Clock::time_point last_time_ = start_;
  std::optional<double> cores_;                   // mean number of busy cores between the last two readings
  std::optional<double> read_rate_, write_rate_;  // bytes per second between the last two readings
  std::uint64_t readings_ = 0;
  std::uint64_t peak_rss_bytes_ = 0;
  std::uint64_t most_processes_ = 0;
};

}  // namespace h5feed::cli
