// SPDX-License-Identifier: Apache-2.0
// Inputs of reports for tests: what bench, monitor and a loader write, with chosen figures.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace h5feed::test {

/// Returns a result of `bench` with rows for 0, 1, 2 and auto workers at 40 %, 80 %, … of a limit.
inline nlohmann::ordered_json bench_result(double rate) {
  using Json = nlohmann::ordered_json;
  Json result = {
      {"file", "train.h5"},
      {"machine", {{"cpu", "test"}, {"cores", 2}, {"available_bytes", rate}}},
      {"version", "0.2.0"},
      {"commit", "abc"},
      {"settings",
       {{"batch_size", 256}, {"shuffle", "chunk:16"}, {"cache_policy", "lru"}, {"on_error", "fail"}}},
      {"limits", Json::object()},
      {"rows", Json::array()}};
  double share = 0.4;
  for (const Json& workers : {Json(0), Json(1), Json(2), Json("auto")}) {
    const double reached = rate * share;
    result["rows"].push_back({{"num_workers", workers},
                              {"active_workers", 2},
                              {"batch_size", 256},
                              {"samples_per_s", reached},
                              {"bytes_per_s", reached * 100},
                              {"page_cache", "warm"},
                              {"resident_share", 1.0},
                              {"limit", "decode"},
                              {"limit_bytes_per_s", rate * 100},
                              {"share_of_limit", share},
                              {"cold_limit", nullptr},
                              {"share_of_cold_limit", nullptr},
                              {"epoch_share", 1.0},
                              {"repetition_s", 1.0},
                              {"busy_elsewhere", 0.0},
                              {"first_batch_ms", 3.5},
                              {"wait_fraction", 1 - share},
                              {"cache_hit_rate", share / 3},
                              {"samples", 1000},
                              {"read_amplification", 1 + share},
                              {"cpu_s_per_1k_samples", share / 7},
                              {"peak_rss_bytes", 123456789},
                              {"repetitions", {reached * 0.9, reached, reached * 1.1}}});
    share += 0.13;
  }
  return result;
}

/// Returns the lines of a record of `monitor`: `readings` of the machine, a loader and `gpus` GPUs a second,
/// and the summary.
inline std::string monitor_lines(std::size_t readings, std::size_t gpus) {
  using Json = nlohmann::ordered_json;
  std::string lines;
  for (std::size_t i = 0; i < readings; ++i) {
    const double time = 1.7e9 + static_cast<double>(i), share = static_cast<double>(i % 97) / 97;
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
      lines += Json({{"time", time},
                     {"gpu", gpu},
                     {"pci_id", "0000:01:00.0"},
                     {"busy", 1 - share},
                     {"memory_used_bytes", 1e9}})
                   .dump() +
               '\n';
    }
    lines += Json({{"time", time},
                   {"process", {{"rss_bytes", 1e8 + share}}},
                   {"machine", {{"cpu_busy", share / 2}, {"disk_read_bytes_per_s", 1e6 * share}}},
                   {"loader", {{"wait", share / 4}, {"samples_per_s", 1000 * share}}}})
                 .dump() +
             '\n';
  }
  return lines +
         Json({{"summary", Json::array()},
               {"process", {{"exit_code", 0}, {"cpu_cores", 1.5}}},
               {"epochs",
                {{{"pid", 7},
                  {"loader", 0},
                  {"epoch", 0},
                  {"begin_s", 0.0},
                  {"end_s", 4.0},
                  {"finished", true},
                  {"samples", 400.0},
                  {"wait_share", 0.25},
                  {"bottleneck", "read"},
                  {"advice", Json::array()}}}},
               {"verdict", "the GPU starved"},
               {"findings",
                {{{"finding", "starved_gpu"},
                  {"what", "the training waited 25 % of the time"},
                  {"try", {"more workers"}},
                  {"from_s", 1.0},
                  {"to_s", 2.0},
                  {"gpu", nullptr}}}}})
             .dump() +
         '\n';
}

/// Returns the line that a loader writes at the end of an epoch.
inline std::string epoch_line(int epoch, double seconds) {
  return fmt::format(
      "{{\"epoch\": {}, \"rank\": 0, \"finished\": true, \"headroom\": false, \"samples\": 4000, "
      "\"batches\": 16, "
      "\"seconds\": {}, \"samples_per_s\": {}, \"wait_share\": 0.5, \"bottleneck\": \"decode\", "
      "\"wait_read_s\": {}, "
      "\"wait_decode_s\": {}, \"wait_gather_s\": 0, \"wait_transform_s\": 0, \"wait_transfer_s\": 0, "
      "\"wait_free_slot_s\": 0, \"wait_other_s\": 0, \"num_workers\": 2, \"usable_cpus\": 2, \"advice\": "
      "[\"a faster "
      "filter\"]}}\n",
      epoch, seconds, 4000 / seconds, seconds * 0.125, seconds * 0.375);
}

}  // namespace h5feed::test
