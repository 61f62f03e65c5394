// SPDX-License-Identifier: Apache-2.0
#include "flow/verdict/epoch_log.hpp"

#include <fmt/format.h>

#include "base/files/append_file.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

FileDescriptor open_log(const std::filesystem::path& path) {
  if (path.empty()) return {};
  refuse_other_than_json(path, "epoch_log");
  return open_to_append(path, "epoch_log");
}

}  // namespace

EpochLog::EpochLog(const std::filesystem::path& path) : path_(path), file_(open_log(path)) {}

void EpochLog::begin(std::uint64_t epoch, const LoaderStats& stats) {
  const MutexLock lock(mutex_);
  running_ = true;
  epoch_ = epoch;
  before_ = stats;
}

Verdict EpochLog::judge(const LoaderStats& stats, const VerdictFacts& facts) const {
  Verdict verdict = make_verdict(difference(stats, before_), facts);
  verdict.epoch = epoch_;
  return verdict;
}

void EpochLog::end(const LoaderStats& stats, const VerdictFacts& facts) {
  Verdict verdict;
  {
    const MutexLock lock(mutex_);
    if (!running_) return;
    verdict = judge(stats, facts);
    verdict.finished = true;
    last_ = verdict;
    running_ = false;
  }
  log(LogLevel::info, fmt::format("epoch {}: {}", verdict.epoch, verdict.to_string()));
  if (file_.valid() && !append_line(file_.get(), verdict.to_json())) {
    log_once(LogLevel::warning,
             fmt::format("epoch_log {}: cannot append to it; the run goes on without it", path_.string()));
  }
}

std::optional<Verdict> EpochLog::verdict(const LoaderStats& stats, const VerdictFacts& facts) const {
  const MutexLock lock(mutex_);
  return running_ ? judge(stats, facts) : last_;
}

}  // namespace h5feed
