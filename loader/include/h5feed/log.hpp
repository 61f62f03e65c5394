// SPDX-License-Identifier: Apache-2.0
// Log messages of h5feed and the sink that receives them.
#pragma once

#include <functional>
#include <string_view>

#include "h5feed/export.hpp"

namespace h5feed {

/// Severity of a log line.
enum class LogLevel { info, warning };

/// Receives one line without a newline. Called from any thread, one call at a time. Must not call h5feed.
/// Exceptions from it are ignored, so that a log that cannot be written does not end a training.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the sink of the whole process. An empty function restores the default, which writes only
/// warnings, to stderr. Thread-safe.
H5FEED_EXPORT void set_log_sink(LogSink sink);

/// Sends one line to the sink. Thread-safe.
H5FEED_EXPORT void log(LogLevel level, std::string_view line);

/// Sends one line to the sink, unless `log_once` already sent the same line to the current sink. Thread-safe.
H5FEED_EXPORT void log_once(LogLevel level, std::string_view line);

}  // namespace h5feed
