// SPDX-License-Identifier: Apache-2.0
// A record in the forms of other tools: numbers for training loggers, Prometheus' text, a timeline.
#pragma once

#include <string>

#include "tools/monitor/findings.hpp"
#include "tools/monitor/record.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Returns a point as one flat object of numbers, which loggers of trainings take as it is: "time" (seconds
/// since 1970), "seconds" (since the record began), "gpu0/busy", "machine/cpu_busy", "process/rss_bytes",
/// "loader/wait", … Unknown values are left out.
Json scalars(const Record& record, const Point& point);

/// Returns a point in the text format of Prometheus (version 0.0.4), one gauge for each known quantity.
std::string prometheus_text(const Record& record, const Point& point);

/// Returns the record as a JSON object of Chrome's trace event format ("Trace Event Format", Google, 2016),
/// which Perfetto shows: a counter for each known quantity, and slices for the epochs of loaders and for
/// findings. Times are those of the monotonic clock, as in the timelines of loaders (`trace_path`).
std::string trace_text(const Record& record, const Diagnosis& diagnosis);

}  // namespace h5feed::cli
