// SPDX-License-Identifier: Apache-2.0
// One random run: a dataset, and one or two trainings on it at the same time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/mutex.hpp"

namespace h5feed::test {

/// What a run is doing, for messages. Thread-safe.
class Story {
 public:
  void add(const std::string& line) {
    const MutexLock lock(mutex_);
    text_ += line + "\n";
  }
  std::string text() const {
    const MutexLock lock(mutex_);
    return text_;
  }

 private:
  mutable Mutex mutex_;
  std::string text_ H5FEED_GUARDED_BY(mutex_);
};

/// Does the run of a seed with files in `folder`, an empty one. Throws Mismatch, and what should not have
/// been thrown.
void random_run(std::uint64_t seed, const std::filesystem::path& folder, Story& story);

}  // namespace h5feed::test
