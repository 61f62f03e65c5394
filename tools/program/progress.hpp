// SPDX-License-Identifier: Apache-2.0
// Progress bar for work that takes longer than a second, on a terminal only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace h5feed::cli {

/// Unit of a bar's amounts.
enum class ProgressUnit : std::uint8_t { bytes, seconds, items };

/// Returns one line of at most `width` columns: label, bar, share, rate and time left, e.g.
/// "pack fashion.h5 [#####.....]  50 %  210 MiB/s  3 s left".
std::string progress_line(std::string_view label, ProgressUnit unit, double done, double total,
                          double elapsed_s, std::size_t width);

/// Draws on stderr while in scope; the destructor wipes the line. Silent if stderr is not a terminal, and
/// during the first second. For one thread at a time.
class Progress {
 public:
  /// `total` is the amount of all work, in `unit`.
  Progress(std::string label, ProgressUnit unit, double total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// Adds to the finished amount; draws at most ten times a second.
  void advance(double amount);

  /// Wipes the bar so that something else can be printed; the next `advance` draws it again.
  void hide();

 private:
  std::string label_;
  ProgressUnit unit_;
  double total_;
  double done_ = 0;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_;
  Clock::time_point next_draw_;
};

}  // namespace h5feed::cli
