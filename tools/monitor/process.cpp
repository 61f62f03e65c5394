// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/process.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "tools/gpu/gpu_text.hpp"

namespace h5feed::cli {
namespace {

template <typename T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string cores_text(const std::optional<double>& cores) {
  return cores ? fmt::format("{:.2f}", *cores) : "n/a";
}

}  // namespace

ProcessUse::ProcessUse(const WatchedProcess& process, bool started)
    : process_(process), started_(started), tree_(process.pid(), process.started()) {
  if (!started_) before_ = tree_.read();
  last_ = before_;
}

std::optional<Json> ProcessUse::read() {
  const Clock::time_point now = Clock::now();
  const TreeUse use = tree_.read();
  if (use.processes == 0) return std::nullopt;
  const double elapsed = std::chrono::duration<double>(now - last_time_).count();
  // The first reading of a process that was already running has nothing to compare with.
  if (elapsed > 0 && (readings_ > 0 || started_)) {
    cores_ = (use.cpu_s - last_.cpu_s) / elapsed;
    const auto rate = [&](const std::optional<std::uint64_t>& after,
                          const std::optional<std::uint64_t>& before) {
      // The kernel may count less after a process has ended.
      return after
                 ? std::optional(static_cast<double>(*after - std::min(*after, before.value_or(0))) / elapsed)
                 : std::nullopt;
    };
    read_rate_ = rate(use.read_bytes, last_.read_bytes);
    write_rate_ = rate(use.written_bytes, last_.written_bytes);
  }
  last_ = use;
  last_time_ = now;
  ++readings_;
  peak_rss_bytes_ = std::max(peak_rss_bytes_, use.rss_bytes);
  most_processes_ = std::max(most_processes_, use.processes);
  return Json{{"pid", process_.pid()},
              {"processes", use.processes},
              {"cpu_cores", json_or_null(cores_)},
              {"cpu_s", use.cpu_s - before_.cpu_s},
              {"rss_bytes", use.rss_bytes},
              {"read_bytes", json_or_null(since_start(&TreeUse::read_bytes))},
              {"written_bytes", json_or_null(since_start(&TreeUse::written_bytes))}};
}

void ProcessUse::put_into(Point& point) const {
  point.process_cores = cores_;
  point.process_rss_bytes = static_cast<double>(last_.rss_bytes);
  point.processes = static_cast<double>(last_.processes);
  point.process_read_bytes_per_s = read_rate_;
  point.process_written_bytes_per_s = write_rate_;
}

void ProcessUse::finish() {
  last_time_ = Clock::now();
  const std::optional<LifetimeUse>& lifetime = process_.lifetime();
  if (!lifetime) return;
  // Readings include processes that nobody waited for, the kernel's totals include those that came and went
  // between readings.
  last_.cpu_s = std::max(last_.cpu_s, lifetime->cpu_s);
  last_.read_bytes = std::max(last_.read_bytes.value_or(0), lifetime->read_bytes);
  last_.written_bytes = std::max(last_.written_bytes.value_or(0), lifetime->written_bytes);
  peak_rss_bytes_ = std::max(peak_rss_bytes_, lifetime->largest_rss_bytes);
  most_processes_ = std::max<std::uint64_t>(most_processes_, 1);
}

std::optional<double> ProcessUse::mean_cores() const {
  if (seconds() <= 0) return std::nullopt;
  return (last_.cpu_s - before_.cpu_s) / seconds();
}

std::optional<std::uint64_t> ProcessUse::since_start(
    const std::optional<std::uint64_t> TreeUse::*member) const {
  const std::optional<std::uint64_t>& now = last_.*member;
  if (!now) return std::nullopt;
  return *now - std::min(*now, (before_.*member).value_or(0));
}

Json ProcessUse::summary(std::optional<int> exit_code) const {
  return {{"pid", process_.pid()},
          {"exit_code", started_ ? json_or_null(exit_code) : Json()},
          {"seconds", seconds()},
          {"readings", readings_},
          {"most_processes", most_processes_},
          {"cpu_cores", json_or_null(mean_cores())},
          {"cpu_s", last_.cpu_s - before_.cpu_s},
          {"peak_rss_bytes", peak_rss_bytes_ > 0 ? Json(peak_rss_bytes_) : Json()},
          {"read_bytes", json_or_null(since_start(&TreeUse::read_bytes))},
          {"written_bytes", json_or_null(since_start(&TreeUse::written_bytes))}};
}

Table ProcessUse::table() const {
  Table table({{"process", true},
               {"time", true},
               {"readings", true},
               {"most processes", true},
               {"cores busy", true},
               {"CPU time", true},
               {"peak memory", true},
               {"read", true},
               {"written", true}});
  table.add_row({std::to_string(process_.pid()), fmt::format("{:.1f} s", seconds()),
                 std::to_string(readings_), std::to_string(most_processes_), cores_text(mean_cores()),
                 fmt::format("{:.1f} s", last_.cpu_s - before_.cpu_s),
                 peak_rss_bytes_ > 0 ? format_bytes(peak_rss_bytes_) : "-",
                 bytes_text(since_start(&TreeUse::read_bytes)),
                 bytes_text(since_start(&TreeUse::written_bytes))});
  return table;
}

Table ProcessUse::live_table() {
  return Table({{"processes", true},
                {"cores busy", true},
                {"CPU time", true, 9},
                {"memory", true, 9},
                {"read", true, 9},
                {"written", true, 9}});
}

std::vector<std::string> ProcessUse::live_cells() const {
  return {std::to_string(last_.processes),
          cores_text(cores_),
          fmt::format("{:.1f} s", last_.cpu_s - before_.cpu_s),
          format_bytes(last_.rss_bytes),
          bytes_text(since_start(&TreeUse::read_bytes)),
          bytes_text(since_start(&TreeUse::written_bytes))};
}

}  // namespace h5feed::cli
