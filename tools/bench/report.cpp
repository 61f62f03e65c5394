// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/byte_units.hpp"
#include "tools/bench/settings.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/measure/statistics.hpp"

namespace h5feed::cli {
namespace {

constexpr double kAsFast = 0.97;
constexpr double kMuchSpread = 0.25;
constexpr double kWholeEpoch = 0.99;
constexpr double kShortRepetition_s = 0.05;  // start of the loader and single interruptions show
constexpr double kBusyElsewhere = 0.1;

// A row without a share of the limit either decoded nothing, or had no limit to compare with.
bool from_cache(const Json& row) { return row.at("read_amplification").get<double>() == 0; }

std::string limit_text(const Json& row) {
  if (!row.at("share_of_cold_limit").is_null()) {
    return fmt::format("{} {}", percent_text(row.at("share_of_cold_limit").get<double>()),
                       row.at("cold_limit").get<std::string>());
  }
  if (row.at("share_of_limit").is_null()) return from_cache(row) ? "cached" : "-";
  return fmt::format("{} {}", percent_text(row.at("share_of_limit").get<double>()),
                     row.at("limit").get<std::string>());
}

bool is_cold(const Json& row) { return row.at("page_cache") == "cold"; }

// ", 94 % of the decode limit"
std::string share_sentence(const Json& row) {
  const auto of = [](const Json& share, const std::string& limit) {
    return fmt::format(", {} of the {} limit", percent_text(share.get<double>()), limit);
  };
  if (const Json& share = row.at("share_of_cold_limit"); !share.is_null()) {
    return of(share, "cold " + row.at("cold_limit").get<std::string>());
  }
  if (const Json& share = row.at("share_of_limit"); !share.is_null()) {
    return of(share, row.at("limit").get<std::string>());
  }
  return from_cache(row) ? ", from the cache" : "";
}

// "2", or "auto: 2" with the workers that it used at the end.
std::string workers_cell(const Json& row) {
  const std::int64_t workers = workers_from(row.at("num_workers"));
  if (workers != kAuto) return workers_text(workers);
  return fmt::format("auto: {}", count_from(row.at("active_workers")));
}

// Swept options of the loader as lines of code, except those that `bench_verdict` writes itself.
std::string swept_code(const Json& row) {
  std::string code;
  const Json swept = row.value("swept", Json::object());
  for (const auto& [name, value] : swept.items()) {
    if (value.is_number() || value.is_boolean())
      code += fmt::format(" options.{} = {};", name == "echo" ? "echo.factor" : name, value.dump());
  }
  return code;
}

}  // namespace

std::string percent_text(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string percent_change(double ratio) { return fmt::format("{:+.1f} %", (ratio - 1) * 100); }

std::string rate_text(double value) { return format_count(static_cast<std::uint64_t>(std::llround(value))); }

std::string swept_text(const Json& row) {
  std::string text;
  const Json swept = row.value("swept", Json::object());
  for (const auto& [name, value] : swept.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

std::string row_name(const Json& row) {
  std::string name = "num_workers=" + workers_text(workers_from(row.at("num_workers")));
  const std::string swept = swept_text(row);
  return swept.empty() ? name : name + ' ' + swept;
}

Table bench_table(bool swept) {
  std::vector<Column> columns = {
      {"num_workers", true, 11}, {"samples/s", true, 11},   {"spread", true, 6},
      {"data/s", true, 10},      {"of limit", true, 16},    {"cached samples/s", true, 16},
      {"first batch", true, 11}, {"waiting", true, 7},      {"cache hits", true, 10},
      {"CPU s/1k", true, 8},     {"peak memory", true, 11}, {"pages"}};
  if (swept) columns.push_back({"settings"});
  return Table(std::move(columns));
}

std::vector<std::string> bench_cells(const Json& row) {
  const Json& cached = row.at("samples_per_s_cached");
  std::vector<std::string> cells = {
      workers_cell(row),
      rate_text(row.at("samples_per_s").get<double>()),
      percent_text(relative_spread(row.at("repetitions").get<std::vector<double>>())),
      format_bytes(count_from(row.at("bytes_per_s"))),
      limit_text(row),
      cached.is_null() ? "-" : rate_text(cached.get<double>()),
      fmt::format("{:.1f} ms", row.at("first_batch_ms").get<double>()),
      percent_text(row.at("wait_fraction").get<double>()),
      percent_text(row.at("cache_hit_rate").get<double>()),
      fmt::format("{:.3f}", row.at("cpu_s_per_1k_samples").get<double>()),
      format_bytes(count_from(row.at("peak_rss_bytes"))),
      row.at("page_cache").get<std::string>()};
  if (row.contains("swept")) cells.push_back(printable(swept_text(row)));
  return cells;
}

const Json& best_row(const Json& rows) {
  const auto rate = [](const Json& row) { return row.at("samples_per_s").get<double>(); };
  // Auto comes first: it needs no measurement, and adapts to the training.
  const auto workers = [](const Json& row) { return workers_from(row.at("num_workers")); };
  const Json* fastest = &rows.front();
  for (const Json& row : rows) {
    if (rate(row) > rate(*fastest)) fastest = &row;
  }
  const Json* best = fastest;
  for (const Json& row : rows) {
    if (workers(row) < workers(*best) && rate(row) >= kAsFast * rate(*fastest)) best = &row;
  }
  return *best;
}

std::string bench_verdict(const Json& rows, const std::string& shuffle, const std::string& cache_policy,
                          const std::string& on_error) {
  Json warm = Json::array();
  Json cold = Json::array();
  for (const Json& row : rows) (is_cold(row) ? cold : warm).push_back(row);
  std::string text;
  for (const Json* kind : {&warm, &cold}) {
    if (kind->empty()) continue;
    const Json& best = best_row(*kind);
    text += fmt::format("best{}: {} ({} samples/s{})\n",
                        warm.empty() || cold.empty() ? ""
                        : kind == &warm              ? " with warm pages"
                                                     : " with cold pages",
                        printable(row_name(best)), rate_text(best.at("samples_per_s").get<double>()),
                        share_sentence(best));
  }
  // A file that was measured cold will be read cold by its epochs.
  const Json& chosen = best_row(cold.empty() ? warm : cold);
  const std::int64_t workers = workers_from(chosen.at("num_workers"));
  const Json swept = chosen.value("swept", Json::object());
  const auto used = [&](const char* name, const std::string& otherwise) {
    return swept.contains(name) && swept[name].is_string() ? swept[name].get<std::string>() : otherwise;
  };
  const std::string order = used("shuffle", shuffle), policy = used("cache_policy", cache_policy);
  const std::string fault = used("on_error", on_error);
  text += fmt::format("put into your code: options.num_workers = {};",
                      workers == kAuto ? "h5feed::kAuto" : workers_text(workers));
  if (order != "sequential") text += fmt::format(" options.shuffle = \"{}\";", order);
  if (policy != "lru") text += fmt::format(" options.cache_policy = h5feed::CachePolicy::{};", policy);
  if (fault != "fail") text += fmt::format(" options.on_error = h5feed::OnError::{};", fault);
  return text + swept_code(chosen) + '\n';
}

std::optional<std::size_t> cheapest_row(const Json& rows, double samples_per_s) {
  const auto cost = [](const Json& row) {
    // Hundredths of the CPU time decide; beyond that, memory does.
    return std::pair(
        std::llround(std::log(std::max(row.at("cpu_s_per_1k_samples").get<double>(), 1e-9)) * 20),
        count_from(row.at("peak_rss_bytes")));
  };
  std::optional<std::size_t> cheapest;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto repetitions = rows[i].at("repetitions").get<std::vector<double>>();
    if (repetitions.empty() || *std::min_element(repetitions.begin(), repetitions.end()) < samples_per_s)
      continue;
    if (!cheapest || cost(rows[i]) < cost(rows[*cheapest])) cheapest = i;
  }
  return cheapest;
}

std::string target_verdict(const Json& rows, double samples_per_s) {
  const std::string target = rate_text(samples_per_s);
  if (const std::optional<std::size_t> cheapest = cheapest_row(rows, samples_per_s)) {
    const Json& row = rows[*cheapest];
    return fmt::format(
        "cheapest for {} samples/s: {} ({} samples/s; at the target {:.2f} CPU cores and {})\n", target,
        printable(row_name(row)), rate_text(row.at("samples_per_s").get<double>()),
        row.at("cpu_s_per_1k_samples").get<double>() * samples_per_s / 1e3,
        format_bytes(count_from(row.at("peak_rss_bytes"))));
  }
  const Json* fastest = &rows.front();
  for (const Json& row : rows) {
    if (row.at("samples_per_s").get<double>() > fastest->at("samples_per_s").get<double>()) fastest = &row;
  }
  const auto rate = fastest->at("samples_per_s").get<double>();
  return fmt::format(
      "no setting here feeds {} samples/s in every repetition: {} reaches {}, {:.2g} of it; "
      "h5feed tune finds chunks and filters that are faster to read\n",
      target, printable(row_name(*fastest)), rate_text(rate), rate / samples_per_s);
}

std::string busy_warning(const Json& rows) {
  double busiest = 0;
  for (const Json& row : rows) {
    if (const Json busy = row.value("busy_elsewhere", Json()); busy.is_number())
      busiest = std::max(busiest, busy.get<double>());
  }
  if (busiest <= kBusyElsewhere) return {};
  return fmt::format(
      "other processes used up to {} of the machine's CPUs; the rates are lower than on an idle one\n",
      percent_text(busiest));
}

std::string limit_note(const Json& rows) {
  for (const Json& row : rows) {
    if (const Json reason = row.value("no_limit", Json()); reason.is_string())
      return fmt::format("no limit to compare with: {}\n", reason.get<std::string>());
  }
  return {};
}

std::string headroom_note() {
  return "headroom: each row repeats its first batch, so that none tells how fast the file is read; set "
         "headroom in your training, and its verdict names what a perfect loader would give it\n";
}

std::string row_warnings(const Json& row) {
  const std::string name = printable(row_name(row));
  std::string lines;
  const double spread = relative_spread(row.at("repetitions").get<std::vector<double>>());
  if (spread > kMuchSpread) {
    lines += fmt::format("{}: repetitions differ by {}; use a quieter machine or --time-budget 10s\n", name,
                         percent_text(spread));
  }
  if (const double seconds = row.value("repetition_s", kShortRepetition_s); seconds < kShortRepetition_s) {
    lines += fmt::format("{}: repetitions of {:.0f} ms are short; a longer --time-budget is more exact\n",
                         name, seconds * 1e3);
  }
  const double share = row.at("epoch_share").get<double>();
  if (share < kWholeEpoch) {
    lines += fmt::format("{}: a repetition is {} of an epoch; a longer --time-budget covers more\n", name,
                         percent_text(share));
  }
  if (const Json& resident = row.at("resident_share"); !resident.is_null()) {
    const double in_memory = resident.get<double>();
    if (is_cold(row) && in_memory > kColdEnough) {
      lines += fmt::format("{}: up to {} of the file's pages stayed in memory; it is not all cold\n", name,
                           percent_text(in_memory));
    } else if (!is_cold(row) && in_memory < 1 - kColdEnough) {
      lines += fmt::format("{}: {} of the file's pages were in memory; it is not all warm\n", name,
                           percent_text(in_memory));
    }
  }
  for (const auto& [key, fate] :
       {std::pair("samples_skipped", "left out"), {"samples_replaced", "replaced"}}) {
    const auto bad = row.value(key, std::uint64_t{0});
    if (bad == 0) continue;
    lines += fmt::format("{}: {} of {} samples could not be read and were {}\n", name, format_count(bad),
                         format_count(count_from(row.at("samples"))), fate);
  }
  return lines;
}

}  // namespace h5feed::cli
