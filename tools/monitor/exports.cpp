// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/exports.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <string_view>
#include <utility>

namespace h5feed::cli {
namespace {

// A line of Prometheus' text may not hold these characters in a label.
std::string escaped_label(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Prometheus asks for base units.
double in_base_unit(double value, Unit unit) { return unit == Unit::mhz ? value * 1e6 : value; }

std::string heading(const char* prefix, const char* metric, const char* text) {
  return fmt::format("# HELP h5feed_{0}{1} {2}\n# TYPE h5feed_{0}{1} gauge\n", prefix, metric, text);
}

// The events of a trace, in order.
class TraceEvents {
 public:
  explicit TraceEvents(const Record& record) : start_us_(static_cast<double>(record.start_ns) * 1e-3) {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    name("process_name", 0, "h5feed monitor");
  }

  void name(const char* kind, std::int64_t thread, const std::string& what) {
    add({{"name", kind}, {"ph", "M"}, {"ts", 0}, {"pid", pid_}, {"tid", thread}, {"args", {{"name", what}}}});
  }
  void counter(const std::string& what, double time_s, double value) {
    add({{"name", what}, {"ph", "C"}, {"ts", us(time_s)}, {"pid", pid_}, {"args", {{"value", value}}}});
  }
  void slice(const std::string& what, std::int64_t thread, double from_s, double to_s, Json arguments) {
    add({{"name", what},
         {"cat", "h5feed"},
         {"ph", "X"},
         {"ts", us(from_s)},
         {"dur", (to_s - from_s) * 1e6},
         {"pid", pid_},
         {"tid", thread},
         {"args", std::move(arguments)}});
  }
  std::string finish() && { return std::move(text_) + "\n]}\n"; }

 private:
  double us(double time_s) const { return start_us_ + time_s * 1e6; }
  void add(const Json& event) {
    if (!std::exchange(first_, false)) text_ += ",\n";
    text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  const double start_us_;
  const int pid_ = ::getpid();
  std::string text_;
  bool first_ = true;
};

}  // namespace

Json scalars(const Record& record, const Point& point) {
  Json json = {{"time", record.started_s + point.time_s}, {"seconds", point.time_s}};
  for (std::size_t i = 0; i < point.gpus.size(); ++i) {
    for (const auto& quantity : gpu_quantities()) {
      if (const auto& value = point.gpus[i].*quantity.value)
        json[fmt::format("gpu{}/{}", record.gpus[i].index, quantity.key)] = *value;
    }
  }
  for (const auto& quantity : host_quantities()) {
    if (const auto& value = point.*quantity.value) json[quantity.key] = *value;
  }
  return json;
}

std::string prometheus_text(const Record& record, const Point& point) {
  std::string text;
  for (const auto& quantity : gpu_quantities()) {
    std::string lines;
    for (std::size_t i = 0; i < point.gpus.size(); ++i) {
      const auto& value = point.gpus[i].*quantity.value;
      if (!value) continue;
      const GpuFacts& gpu = record.gpus[i];
      lines += fmt::format("h5feed_gpu_{}{{gpu=\"{}\",name=\"{}\",pci_id=\"{}\"}} {}\n", quantity.metric,
                           gpu.index, escaped_label(gpu.name), escaped_label(gpu.pci_id),
                           in_base_unit(*value, quantity.unit));
    }
    if (!lines.empty()) text += heading("gpu_", quantity.metric, quantity.text) + lines;
  }
  for (const auto& quantity : host_quantities()) {
    if (const auto& value = point.*quantity.value)
      text += heading("", quantity.metric, quantity.text) +
              fmt::format("h5feed_{} {}\n", quantity.metric, in_base_unit(*value, quantity.unit));
  }
  return text;
}

std::string trace_text(const Record& record, const Diagnosis& diagnosis) {
  TraceEvents events(record);
  std::int64_t thread = 0;
  for (const Point& point : record.points) {
    const Json values = scalars(record, point);
    for (const auto& [key, value] : values.items()) {
      if (key != "time" && key != "seconds") events.counter(key, point.time_s, value.get<double>());
    }
  }
  // Each finding has a row of its own: Perfetto leaves out a slice that begins within another and outlasts
  // it.
  for (const Finding& finding : diagnosis.findings) {
    events.name("thread_name", ++thread, "finding");
    events.slice(finding.name, thread, finding.from_s, finding.to_s,
                 {{"what", finding.what}, {"try", finding.advice}});
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> threads;
  for (const LoaderEpoch& epoch : record.epochs) {
    const auto [place, added] = threads.emplace(std::pair(epoch.pid, epoch.loader), thread + 1);
    if (added)
      events.name("thread_name", ++thread, fmt::format("loader {} of process {}", epoch.loader, epoch.pid));
    events.slice(
        fmt::format("epoch {}", epoch.epoch), place->second, epoch.begin_s, epoch.end_s,
        {{"samples", epoch.samples}, {"wait_share", epoch.wait_share}, {"bottleneck", epoch.bottleneck}});
  }
  return std::move(events).finish();
}

}  // namespace h5feed::cli
