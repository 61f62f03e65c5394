// SPDX-License-Identifier: Apache-2.0
#include "gpu/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>
#include <utility>

namespace h5feed::bench {
namespace {

bool has_value(const OrderedJson& row) { return row.contains("value") && row["value"].is_number(); }

const OrderedJson* find_row(const OrderedJson& result, std::string_view name) {
  if (!result.is_object() || !result.contains("rows")) return nullptr;
  for (const OrderedJson& row : result["rows"]) {
    if (row["name"] == name) return &row;
  }
  return nullptr;
}

bool is_waiting(const OrderedJson* row) { return row == nullptr || row->value("waiting", false); }

bool same_run(const OrderedJson& result, const RunFacts& facts) {
  return result.is_object() && result.value("commit", "") == facts.value("commit", "?") &&
         result.value("device", "") == facts.value("device", "?");
}

// Formats a value with its unit: "55.1 GB/s", "0.98 ms", "4.02 times".
std::string figure(double value, const std::string& unit) {
  struct Scale {
    double factor;
    const char* prefix;
  };
  static constexpr Scale kScales[] = {{1e12, "T"}, {1e9, "G"},  {1e6, "M"}, {1e3, "k"},
                                      {1, ""},     {1e-3, "m"}, {1e-6, "µ"}};
  const bool scaled = unit == "B/s" || unit == "B" || unit == "s";
  if (!scaled || value == 0) return fmt::format("{:.4g} {}", value, unit);
  for (const Scale& scale : kScales) {
    const bool fits = std::fabs(value) >= scale.factor || &scale == &kScales[6];
    // Seconds have no larger prefixes, bytes no fractions.
    if (!fits || (unit == "s" && scale.factor > 1) || (unit != "s" && scale.factor < 1)) continue;
    return fmt::format("{:.4g} {}{}", value / scale.factor, scale.prefix, unit);
  }
  return fmt::format("{:.4g} {}", value, unit);
}

std::string bound_text(const Target& target) {
  if (target.at_least && target.bound == 0) return "for comparison";
  const bool share = std::string_view(target.quality) == "ratio";
  return fmt::format("{} {}", target.at_least ? "at least" : "at most",
                     share ? fmt::format("{:g} %", target.bound * 100) : fmt::format("{:g}", target.bound));
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> kTargets = {
      {"h2d_idle", "copies to the GPU, batches of 16 MiB, loader idle, of a bare pinned loop", "ratio", true,
       0.95},
      {"h2d_loaded", "the same while all workers decode", "ratio", true, 0.80},
      {"normalize_plain", "normalize, of device-to-device copy bandwidth", "ratio", true, 0.85},
      {"normalize_augmented", "normalize with flip, crop and NHWC to NCHW, of the same", "ratio", true, 0.75},
      {"gather_augmented", "the same of samples that stay on the GPU, in random order", "ratio", true, 0.75},
      {"normalize_vs_eager", "normalize against LibTorch's eager operators, float32, times as fast", "value",
       true, 3.5, true},
      {"normalize_vs_eager_f16", "the same, float16, times as fast", "value", true, 3.0, true},
      {"overlap_worst", "epoch, of the longer of loading and computing alone", "ratio", false, 1.05},
      {"epoch_cached", "epoch of samples that stay on the GPU, of computing alone", "ratio", false, 1.01},
      {"stall_resnet50", "data stall of a ResNet-50 step", "ratio", false, 0.02, true},
      {"exposed_copy", "copy time that the step does not hide", "ratio", false, 0.02, true},
      {"gpu_use_naive", "GPU use of naive ResNet-50 training", "ratio", true, 0, true},
      {"gpu_use_h5feed", "GPU use of ResNet-50 training with h5feed", "ratio", true, 0.99, true},
      {"u8_vs_f32_h2d", "uint8 against float32 over PCIe, times less copy time", "value", true, 3},
      {"threads_16", "decoding with 16 workers, of what 16 threads can decode (the worst of gzip, lz4, zstd)",
       "ratio", true, 0.90},
      {"epoch_vs_memory", "ResNet-18 epoch, of the same loop over batches on the GPU", "ratio", false, 1.02,
       true},
      {"soak", "wrong samples in 100,000 batches with an adversarial consumer", "value", false, 0},
      {"soak_device_growth", "growth of GPU memory in the last four fifths of them", "ratio", false, 0.01},
      {"soak_host_growth", "growth of host memory, likewise", "ratio", false, 0.01}};
  return kTargets;
}

OrderedJson row_without_value(const std::string& name, const std::string& why) {
  return {{"name", name},       {"value", nullptr}, {"unit", ""},
          {"ceiling", nullptr}, {"ratio", nullptr}, {"repetitions", OrderedJson::array()},
          {"not_run", why}};
}

OrderedJson merged(const OrderedJson& result, const RunFacts& facts, const OrderedJson& tests,
                   const OrderedJson& rows, const std::string& reason) {
  OrderedJson all = facts;
  const bool goes_on = same_run(result, facts);
  all["tests"] = goes_on && result.contains("tests") ? result["tests"] : OrderedJson::object();
  if (!tests.is_null()) all["tests"].update(tests);
  all["rows"] = goes_on ? result["rows"] : OrderedJson::array();
  for (const OrderedJson& row : rows) {
    auto& known = all["rows"];
    const auto same =
        std::find_if(known.begin(), known.end(), [&](const auto& one) { return one["name"] == row["name"]; });
    if (same == known.end()) {
      known.push_back(row);
    } else if (has_value(row) || !has_value(*same)) {
      *same = row;
    }
  }
  for (const Target& target : targets()) {
    if (find_row(all, target.name) != nullptr) continue;
    all["rows"].push_back(row_without_value(target.name, reason));
    all["rows"].back()["waiting"] = true;
  }
  for (OrderedJson& row : all["rows"]) {
    if (is_waiting(&row)) row["not_run"] = reason;
  }
  return all;
}

std::vector<std::string> missing(const OrderedJson& result, const std::vector<std::string>& benchmarks) {
  std::vector<std::string> untried, tried;
  for (const std::string& benchmark : benchmarks) {
    bool lacks = false, waits = true;
    std::istringstream names(benchmark);
    for (std::string name; std::getline(names, name, ',');) {
      const OrderedJson* const row = find_row(result, name);
      if (row == nullptr || !has_value(*row)) lacks = true;
      if (!is_waiting(row)) waits = false;
    }
    if (lacks) (waits ? untried : tried).push_back(benchmark);
  }
  untried.insert(untried.end(), tried.begin(), tried.end());
  return untried;
}

std::vector<std::string> rows_of(bool with_torch) {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    if (target.with_torch == with_torch) names.emplace_back(target.name);
  }
  return names;
}

std::string table_text(const OrderedJson& result) {
  std::string text =
      fmt::format("commit {}, {}, driver {}, CUDA {}\n", result.value("commit", ""),
                  result.value("device", ""), result.value("driver", ""), result.value("cuda", ""));
  for (const auto& [name, outcome] : result["tests"].items()) {
    text += fmt::format("{:<30} {}\n", name, outcome.get<std::string>());
  }
  for (const OrderedJson& row : result["rows"]) {
    const std::string name = row["name"];
    if (!has_value(row)) {
      text += fmt::format("{:<30} not run: {}\n", name, row.value("not_run", ""));
      continue;
    }
    const std::string unit = row["unit"];
    text += fmt::format("{:<30} {:>22} {:>22}  ratio {:.4f}\n", name, figure(row["value"], unit),
                        figure(row["ceiling"], unit), row["ratio"].get<double>());
  }
  return text;
}

std::string markdown(const OrderedJson& result) {
  std::string text;
  if (result.is_object()) {
    text += fmt::format(
        "{}, driver {}, CUDA {}, commit {}. Command: `{}`. Value and ceiling are medians of the same "
        "run.\n\n",
        result.value("device", ""), result.value("driver", ""), result.value("cuda", ""),
        result.value("commit", "").substr(0, 12), result.value("command", ""));
  }
  text += "| what | wanted | measured | value | ceiling |\n| --- | --- | ---: | ---: | ---: |\n";
  for (const Target& target : targets()) {
    const OrderedJson* const row = find_row(result, target.name);
    const std::string start = fmt::format("| {} | {} |", target.what, bound_text(target));
    if (row == nullptr || !has_value(*row)) {
      text += start + " not yet measured | | |\n";
      continue;
    }
    const double quality = (*row)[target.quality];
    const bool reached = target.at_least ? quality >= target.bound : quality <= target.bound;
    const bool share = std::string_view(target.quality) == "ratio";
    const std::string unit = (*row)["unit"];
    text += fmt::format("{} {}{} | {} | {} |\n", start,
                        share ? fmt::format("{:.1f} %", quality * 100) : fmt::format("{:.2f}", quality),
                        reached ? "" : " (missed)", figure((*row)["value"], unit),
                        figure((*row)["ceiling"], unit));
  }
  return text;
}

}  // namespace h5feed::bench
