// SPDX-License-Identifier: Apache-2.0
#include "flow/verdict/stats_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "base/files/append_file.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

std::filesystem::path stats_path() {
  const char* const path = std::getenv(kStatsFileVariable);
  return path != nullptr ? path : "";
}

}  // namespace

StatsFile::StatsFile() : StatsFile(stats_path()) {}

StatsFile::StatsFile(const std::filesystem::path& path) {
  if (path.empty()) return;
  try {
    refuse_other_than_json(path, kStatsFileVariable);
    file_ = open_to_append(path, kStatsFileVariable);
  } catch (const OptionError& error) {
    log_once(LogLevel::warning, error.what());
  }
}

void StatsFile::append(const Verdict& verdict, std::uint64_t now_ns) {
  constexpr double kShort = 0.1;
  if (!file_.valid() || (verdict.finished && verdict.seconds < kShort && !due(now_ns))) return;
  last_ns_ = now_ns;
  const double time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string epoch = verdict.to_json();
  append_line(file_.get(),
              fmt::format("{{\"time\": {:.3f}, \"pid\": {}, {}", time, ::getpid(), epoch.substr(1)));
}

}  // namespace h5feed
