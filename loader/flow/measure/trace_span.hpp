// SPDX-License-Identifier: Apache-2.0
// Reports the begin and end of a stage to a trace sink.
#pragma once

#include <cstdint>

#include "h5feed/trace.hpp"

namespace h5feed {

/// Reports one stage of one batch to a trace sink: its begin on construction, its end on destruction. Borrows
/// `sink`; if it is null, both cost a null check.
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
