// SPDX-License-Identifier: Apache-2.0
// Use of the machine: processor, memory, page cache, disks and network, from /proc and /sys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "tools/monitor/record.hpp"
#include "tools/program/output.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {

/// Reads the use of the machine. For one thread.
class MachineUse {
 public:
  /// `root` replaces "/" in the paths below /proc and /sys, for tests.
  explicit MachineUse(std::filesystem::path root = "/") : root_(std::move(root)) {}

  /// Sets the members of `point` that concern the machine. Those that are rates or shares of time stay unset
  /// in the first call; later they are means since the call before, `point.time_s` telling the time. What
  /// cannot be read stays unset. Takes less than a millisecond.
  void read(Point& point);

  /// Returns the memory of the machine in bytes; 0 if the kernel does not tell.
  double memory_bytes() const noexcept { return memory_bytes_; }
  /// Returns the disk that had work for the longest time so far; empty if none had.
  std::string busiest_disk() const;

 private:
  /// Counters of one disk.
  struct Disk {
    double read_bytes = 0, written_bytes = 0, busy_s = 0;
  };
  /// Counters of one network link.
  struct Link {
    double received_bytes = 0, sent_bytes = 0;
    double bytes_per_s = 0;  // its speed; 0 if not known
  };
  struct Counters {
    double cpu_busy = 0, cpu_all = 0;
    std::map<std::string, Disk> disks;
    std::map<std::string, Link> links;
    std::optional<double> io_stalled_s;
  };

  void read_memory(Point& point);
  void read_processor(Counters& now) const;
  bool is_disk(const std::string& name);
  void read_disks(Counters& now);
  void read_links(Counters& now) const;
  void read_pressure(Counters& now) const;
  void set_rates(Point& point, const Counters& now, double elapsed_s);

  const std::filesystem::path root_;
  double memory_bytes_ = 0;
  double last_s_ = 0;
  std::optional<Counters> last_;
  std::map<std::string, bool> is_disk_;   // by name in /proc/diskstats
  std::map<std::string, double> busy_s_;  // by disk, while it was watched
};

/// Returns the members of a point that do not belong to a GPU as an object for each group:
/// {"machine": {"cpu_busy": 0.4, …}, "loader": {…}}. Groups and values that are not known are left out.
Json host_json(const Point& point);
/// Returns an empty table for the machine's figures as they arrive.
Table machine_table();
/// Returns a point as a row of `machine_table`.
std::vector<std::string> machine_cells(const Point& point);

}  // namespace h5feed::cli
