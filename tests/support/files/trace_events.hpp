// SPDX-License-Identifier: Apache-2.0
// The rules of timelines that Perfetto and Chrome show.
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace h5feed::test {

/// Returns the first event of a timeline that breaks Chrome's trace event format ("Trace Event Format",
/// Google, 2016), and why; "" if there is none. Knows the kinds that h5feed writes: X (slice), C (counter)
/// and M (name of a process or thread). Slices of one thread must lie one after the other or one within the
/// other: Perfetto leaves out those that only overlap.
inline std::string trace_fault(const nlohmann::json& trace) {
  using nlohmann::json;
  using Interval = std::pair<double, double>;
  std::map<std::pair<json, json>, std::vector<std::pair<Interval, json>>> slices;
  for (const json& event : trace.at("traceEvents")) {
    const auto fault = [&](const char* why) { return event.dump() + ": " + why; };
    const auto text = [&](const char* key) { return event.contains(key) && event[key].is_string(); };
    const auto whole = [&](const char* key) { return event.contains(key) && event[key].is_number_integer(); };
    const auto number = [&](const char* key) {
      return event.contains(key) && event[key].is_number() && event[key] >= 0;
    };
    if (!text("name") || !text("ph")) return fault("no name or kind");
    if (!number("ts")) return fault("no time");
    if (!whole("pid")) return fault("no process");
    if (event.contains("args") && !event["args"].is_object()) return fault("arguments that are no object");
    const json& kind = event["ph"];
    if (kind == "C") {
      if (!event.contains("args") || event["args"].empty() ||
          !std::ranges::all_of(event["args"], [](const json& value) { return value.is_number(); }))
        return fault("a counter without numbers");
    } else if (kind == "M") {
      if (event["name"] != "process_name" && event["name"] != "thread_name") return fault("names nothing");
      if (!event.contains("args") || !event["args"].contains("name") || !event["args"]["name"].is_string())
        return fault("has no name to give");
    } else if (kind == "X") {
      if (!whole("tid")) return fault("no thread");
      if (!number("dur")) return fault("no duration");
      const double begin = event["ts"];
      slices[{event["pid"], event["tid"]}].push_back({{begin, begin + event["dur"].get<double>()}, event});
    } else {
      return fault("of an unknown kind");
    }
  }
  constexpr double kRoundingUs = 1e-3;
  for (auto& [thread, of_thread] : slices) {
    std::ranges::sort(of_thread, [](const auto& a, const auto& b) {
      return std::tuple(a.first.first, -a.first.second) < std::tuple(b.first.first, -b.first.second);
    });
    std::vector<Interval> open;
    for (const auto& [interval, event] : of_thread) {
      while (!open.empty() && open.back().second <= interval.first + kRoundingUs) open.pop_back();
      if (!open.empty() && interval.second > open.back().second + kRoundingUs)
        return event.dump() + ": overlaps another slice of its thread";
      open.push_back(interval);
    }
  }
  return "";
}

}  // namespace h5feed::test
