// SPDX-License-Identifier: Apache-2.0
// Where h5feed's warnings go.
#pragma once

#include <functional>
#include <string_view>

#include "h5feed/export.hpp"

namespace h5feed {

enum class LogLevel { info, warning };

/// Receives one line without a newline. May be called from any thread, one call at a time; must not
/// call back into h5feed.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the sink of the whole process; an empty function restores the default, which writes
/// warnings, and nothing else, to stderr. Thread-safe.
H5FEED_EXPORT void set_log_sink(LogSink sink);

/// Sends one line to the sink. Thread-safe.
H5FEED_EXPORT void log(LogLevel level, std::string_view line);

/// Logs a line, unless `log_once` gave the same line to the present sink before. Thread-safe.
H5FEED_EXPORT void log_once(LogLevel level, std::string_view line);

}  // namespace h5feed
