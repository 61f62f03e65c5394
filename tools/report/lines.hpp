// SPDX-License-Identifier: Apache-2.0
// Lines of JSON that `monitor` and loaders write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/report/input.hpp"

namespace h5feed::cli {

/// Collects the lines of one file. For one thread.
class LineReader {
 public:
  /// Takes one line without its end. `whole` is false if the file ends within it.
  void take(std::string_view line, bool whole);

  /// Moves what was read into `input`. Returns false if no line was one of `monitor` or of a loader.
  bool finish(Input& input);

 private:
  enum class LineKind : std::uint8_t { unknown, host, gpu, scalars, summary, loader };

  static LineKind kind_of(const Json& json);
  void take_monitor(LineKind kind, const Json& json);
  void take_loader(const Json& json);
  void add(const std::string& name, double time_s, double value) {
    monitor_.series[name].emplace_back(time_s, value);
  }
  void add_notes(Input& input) const;
  void finish_monitor(Input& input);

  MonitorFacts monitor_;
  std::vector<EpochFacts> epochs_;
  /// The last line of each loader that publishes a running epoch again and again: its place in `epochs_`.
  std::map<std::string, std::size_t> running_;
  std::size_t monitor_lines_ = 0, loader_lines_ = 0, unknown_lines_ = 0, broken_lines_ = 0, deep_lines_ = 0;
  bool cut_ = false;  // the last line is not whole
};

}  // namespace h5feed::cli
