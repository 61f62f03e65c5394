// SPDX-License-Identifier: Apache-2.0
// Tells a trace sink when a stage begins and ends.
#pragma once

#include <cstdint>

#include "h5feed/trace.hpp"

namespace h5feed {

/// One stage of one batch, for the object's lifetime. Costs a test for null without a sink.
class TraceSpan {
 public:
  TraceSpan(TraceSink* sink, Stage stage, std::uint64_t batch) noexcept
      : sink_(sink), stage_(stage), batch_(batch) {
    if (sink_ != nullptr) sink_->begin(stage_, batch_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (sink_ != nullptr) sink_->end(stage_, batch_);
  }

 private:
  TraceSink* sink_;
  Stage stage_;
  std::uint64_t batch_;
};

}  // namespace h5feed
