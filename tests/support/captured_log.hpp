// SPDX-License-Identifier: Apache-2.0
// Captures h5feed's log lines instead of printing them.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/log.hpp"

namespace h5feed::test {

/// Replaces the process's log sink for its lifetime and keeps every line; the destructor restores the
/// default. Thread-safe.
class CapturedLog {
 public:
  CapturedLog() {
    set_log_sink([this](LogLevel level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
      if (level == LogLevel::warning) warnings_.emplace_back(line);
    });
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  ~CapturedLog() { set_log_sink({}); }

  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::vector<std::string> warnings() const {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_, warnings_;
};

}  // namespace h5feed::test
