// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/machine_use.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/program/process_tree.hpp"

namespace h5feed::cli {
namespace {

// Devices whose work other devices do, or which are memory.
constexpr std::array<std::string_view, 7> kNoDisks = {"loop", "ram", "zram", "dm-", "md", "sr", "fd"};
// Links whose traffic stays on the machine, or passes through another link.
constexpr std::array<std::string_view, 5> kNoLinks = {"docker", "br-", "veth", "virbr", "tun"};

bool begins_with_any(std::string_view name, const auto& prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

void MachineUse::read(Point& point) {
  read_memory(point);
  Counters now;
  read_processor(now);
  read_disks(now);
  read_links(now);
  read_pressure(now);
  if (last_ && point.time_s > last_s_) set_rates(point, now, point.time_s - last_s_);
  last_ = std::move(now);
  last_s_ = point.time_s;
}

std::string MachineUse::busiest_disk() const {
  const auto most = std::ranges::max_element(busy_s_, {}, [](const auto& disk) { return disk.second; });
  return most != busy_s_.end() && most->second > 0 ? most->first : "";
}

void MachineUse::read_memory(Point& point) {
  const std::string text = read_proc_text(root_ / "proc/meminfo");
  double available = -1, cached = 0, buffers = 0, shared = 0, all = 0;
  const std::pair<std::string_view, double*> wanted[] = {{"MemTotal:", &all},
                                                         {"MemAvailable:", &available},
                                                         {"Buffers:", &buffers},
                                                         {"Cached:", &cached},
                                                         {"Shmem:", &shared}};
  for (std::string_view rest = text; !rest.empty();) {
    Words line(next_line(rest));
    const std::string_view key = line.next();
    const auto* const found = std::ranges::find(wanted, key, &std::pair<std::string_view, double*>::first);
    if (found == std::end(wanted)) continue;
    if (const auto kib = line.number<double>()) *found->second = *kib * 1024;
  }
  if (all <= 0) return;
  memory_bytes_ = all;
  if (available >= 0) point.memory_used_bytes = memory_bytes_ - available;
  // The kernel counts shared memory among the cached pages.
  point.page_cache_bytes = std::max(0.0, cached + buffers - shared);
}

void MachineUse::read_processor(Counters& now) const {
  constexpr std::size_t kFirstLine = 256;  // the others tell of single CPUs and interrupts
  const std::string text = read_proc_text(root_ / "proc/stat", kFirstLine);
  Words words(text);
  if (words.next() != "cpu") return;
  double all = 0, idle = 0;
  for (int i = 0; i < 8; ++i) {  // user, nice, system, idle, iowait, irq, softirq, steal
    const auto ticks = words.number<double>();
    if (!ticks) return;
    all += *ticks;
    if (i == 3 || i == 4) idle += *ticks;
  }
  now.cpu_all = all;
  now.cpu_busy = all - idle;
}

bool MachineUse::is_disk(const std::string& name) {
  const auto known = is_disk_.find(name);
  if (known != is_disk_.end()) return known->second;
  std::error_code ignored;
  const bool disk = !begins_with_any(name, kNoDisks) &&
                    std::filesystem::exists(root_ / "sys/block" / name, ignored);  // else a partition
  return is_disk_.emplace(name, disk).first->second;
}

void MachineUse::read_disks(Counters& now) {
  constexpr double kSectorBytes = 512;  // proc_diskstats(5), whatever the sectors of the disk
  const std::string text = read_proc_text(root_ / "proc/diskstats");
  for (std::string_view rest = text; !rest.empty();) {
    Words line(next_line(rest));
    line.skip(2);  // major, minor
    const std::string name(line.next());
    std::array<double, 10> counts = {};
    bool whole = true;
    for (double& count : counts) {
      const auto number = line.number<double>();
      whole = whole && number;
      count = number.value_or(0);
    }
    if (!whole || !is_disk(name)) continue;
    now.disks[name] = {.read_bytes = counts[2] * kSectorBytes,
                       .written_bytes = counts[6] * kSectorBytes,
                       .busy_s = counts[9] * 1e-3};
  }
}

void MachineUse::read_links(Counters& now) const {
  const std::string text = read_proc_text(root_ / "proc/net/dev");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = next_line(rest);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;  // a heading
    const std::string name(Words(line.substr(0, colon)).next());
    if (name == "lo" || begins_with_any(name, kNoLinks)) continue;
    Words counts(line.substr(colon + 1));
    const auto received = counts.number<double>();
    counts.skip(7);
    const auto sent = counts.number<double>();
    if (!received || !sent) continue;
    Link link{.received_bytes = *received, .sent_bytes = *sent};
    const std::string speed = read_proc_text(root_ / "sys/class/net" / name / "speed");
    const double mbit_per_s = Words(speed).number<double>().value_or(0);
    if (mbit_per_s > 0) link.bytes_per_s = mbit_per_s * 1e6 / 8;
    now.links[name] = link;
  }
}

void MachineUse::read_pressure(Counters& now) const {
  constexpr std::string_view kTotal = "total=";
  const std::string text = read_proc_text(root_ / "proc/pressure/io");
  const auto at = text.find(kTotal);  // of the first line, "some"
  if (at == std::string::npos) return;
  if (const auto total = Words(std::string_view(text).substr(at + kTotal.size())).number<double>())
    now.io_stalled_s = *total * 1e-6;
}

void MachineUse::set_rates(Point& point, const Counters& now, double elapsed_s) {
  const auto rate = [&](double after, double before) { return std::max(0.0, after - before) / elapsed_s; };
  if (now.cpu_all > last_->cpu_all)
    point.cpu_busy = std::clamp((now.cpu_busy - last_->cpu_busy) / (now.cpu_all - last_->cpu_all), 0.0, 1.0);
  double read = 0, written = 0, busy = 0;
  for (const auto& [name, disk] : now.disks) {
    const auto before = last_->disks.find(name);
    if (before == last_->disks.end()) continue;
    read += rate(disk.read_bytes, before->second.read_bytes);
    written += rate(disk.written_bytes, before->second.written_bytes);
    busy = std::max(busy, std::min(1.0, rate(disk.busy_s, before->second.busy_s)));
    busy_s_[name] += std::max(0.0, disk.busy_s - before->second.busy_s);
  }
  if (!now.disks.empty()) {
    point.disk_read_bytes_per_s = read;
    point.disk_written_bytes_per_s = written;
    point.disk_busy = busy;
  }
  double received = 0, sent = 0;
  for (const auto& [name, link] : now.links) {
    const auto before = last_->links.find(name);
    if (before == last_->links.end()) continue;
    const double in = rate(link.received_bytes, before->second.received_bytes);
    const double out = rate(link.sent_bytes, before->second.sent_bytes);
    received += in;
    sent += out;
    if (link.bytes_per_s > 0)
      point.net_busy =
          std::max(point.net_busy.value_or(0), std::min(1.0, std::max(in, out) / link.bytes_per_s));
  }
  if (!now.links.empty()) {
    point.net_received_bytes_per_s = received;
    point.net_sent_bytes_per_s = sent;
  }
  if (now.io_stalled_s && last_->io_stalled_s)
    point.io_stalled = std::min(1.0, rate(*now.io_stalled_s, *last_->io_stalled_s));
}

Json host_json(const Point& point) {
  Json json = Json::object();
  for (const auto& quantity : host_quantities()) {
    const std::string_view key = quantity.key;
    const auto slash = key.find('/');
    const std::string group(key.substr(0, slash));
    // The process has figures of its own in the lines.
    if (group == "process" || !(point.*quantity.value)) continue;
    json[group][std::string(key.substr(slash + 1))] = *(point.*quantity.value);
  }
  return json;
}

Table machine_table() {
  return Table({{"processor", true},
                {"memory", true, 9},
                {"page cache", true},
                {"disks read/s", true},
                {"written/s", true, 9},
                {"busiest", true},
                {"net in/s", true, 9},
                {"out/s", true, 9}});
}

std::vector<std::string> machine_cells(const Point& point) {
  const auto text = [](const std::optional<double>& value, Unit unit) {
    return value ? value_text(*value, unit) : "n/a";
  };
  return {text(point.cpu_busy, Unit::share),
          text(point.memory_used_bytes, Unit::bytes),
          text(point.page_cache_bytes, Unit::bytes),
          text(point.disk_read_bytes_per_s, Unit::bytes),
          text(point.disk_written_bytes_per_s, Unit::bytes),
          text(point.disk_busy, Unit::share),
          text(point.net_received_bytes_per_s, Unit::bytes),
          text(point.net_sent_bytes_per_s, Unit::bytes)};
}

}  // namespace h5feed::cli
