// SPDX-License-Identifier: Apache-2.0
// The verdicts on the epochs of a loader, and their log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/files/file_descriptor.hpp"
#include "base/mutex.hpp"
#include "flow/verdict/epoch_verdict.hpp"
#include "h5feed/stats.hpp"
#include "h5feed/verdict.hpp"

namespace h5feed {

/// Remembers what was counted before the running epoch, and the verdict on the last one. `begin`, `abandon`
/// and `end` are for one thread; `verdict` is thread-safe.
class EpochLog {
 public:
  /// Appends a line of JSON for each epoch to the file `path`, unless it is empty. Throws OptionError if it
  /// cannot be written.
  explicit EpochLog(const std::filesystem::path& path);

  /// Starts epoch `epoch`; `stats` were counted before it.
  void begin(std::uint64_t epoch, const LoaderStats& stats) H5FEED_EXCLUDES(mutex_);
  /// Ends the running epoch: logs its verdict as a line of text, and appends it to the file. If the file
  /// cannot be written, logs a warning once. Does nothing if none is running. Throws std::bad_alloc.
  void end(const LoaderStats& stats, const VerdictFacts& facts) H5FEED_EXCLUDES(mutex_);
  /// Returns the verdict on the running epoch so far, or on the last one.
  std::optional<Verdict> verdict(const LoaderStats& stats, const VerdictFacts& facts) const
      H5FEED_EXCLUDES(mutex_);

 private:
  Verdict judge(const LoaderStats& stats, const VerdictFacts& facts) const H5FEED_REQUIRES(mutex_);

  const std::filesystem::path path_;
  const FileDescriptor file_;
  mutable Mutex mutex_;
  bool running_ H5FEED_GUARDED_BY(mutex_) = false;
  std::uint64_t epoch_ H5FEED_GUARDED_BY(mutex_) = 0;
  LoaderStats before_ H5FEED_GUARDED_BY(mutex_);
  std::optional<Verdict> last_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed
