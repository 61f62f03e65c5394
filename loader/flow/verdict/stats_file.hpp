// SPDX-License-Identifier: Apache-2.0
// Publishes the progress of a loader's epochs to a program that watches the process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/files/file_descriptor.hpp"
#include "h5feed/verdict.hpp"

namespace h5feed {

/// Environment variable that names the file to which each loader appends lines; `h5feed monitor` sets it.
inline constexpr const char* kStatsFileVariable = "H5FEED_STATS_FILE";

/// Appends lines of JSON to a file: the verdict on the running epoch about each second and at the end of
/// epochs, with "time" (seconds since 1970) and "pid". Several loaders and processes may append to one
/// file. For one thread.
class StatsFile {
 public:
  /// Takes the path from the environment; publishes nothing if the variable is unset or empty. If the file
  /// cannot be written, logs a warning once and publishes nothing.
  StatsFile();
  /// Publishes to `path`, unless it is empty.
  explicit StatsFile(const std::filesystem::path& path);

  /// Returns whether a line is due at `now_ns` of the monotonic clock: the last one is a second old or more.
  /// Takes no time worth mentioning; always false if nothing is published.
  bool due(std::uint64_t now_ns) const noexcept {
    return file_.valid() && (last_ns_ == 0 || now_ns >= last_ns_ + kInterval);
  }
  /// Appends a line at `now_ns` of the monotonic clock. A finished epoch of less than a tenth of a second is
  /// left out unless a line is due, so that short epochs cannot flood the file. Ignores a file that cannot be
  /// written any more.
  void append(const Verdict& verdict, std::uint64_t now_ns);
  /// Returns whether anything is published.
  bool publishes() const noexcept { return file_.valid(); }

 private:
  static constexpr std::uint64_t kInterval = 1'000'000'000;

  FileDescriptor file_;
  std::uint64_t last_ns_ = 0;
};

}  // namespace h5feed
