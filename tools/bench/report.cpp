// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>

#include "base/byte_units.hpp"
#include "tools/bench/settings.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/measure/statistics.hpp"

namespace h5feed::cli {
namespace {

constexpr double kAsFast = 0.97;
constexpr double kMuchSpread = 0.25;
constexpr double kWholeEpoch = 0.99;

std::string percent_text(double share) { return fmt::format("{:.0f} %", share * 100); }

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
  return fmt::format("auto: {}", row.at("active_workers").get<std::uint64_t>());
}

}  // namespace

std::string rate_text(double value) { return format_count(static_cast<std::uint64_t>(std::llround(value))); }

Table bench_table() {
  return Table({{"num_workers", true, 11},
                {"samples/s", true, 11},
                {"spread", true, 6},
                {"data/s", true, 10},
                {"of limit", true, 16},
                {"cached samples/s", true, 16},
                {"first batch", true, 11},
                {"waiting", true, 7},
                {"cache hits", true, 10},
                {"CPU s/1k", true, 8},
                {"peak memory", true, 11},
                {"pages"}});
}

std::vector<std::string> bench_cells(const Json& row) {
  const Json& cached = row.at("samples_per_s_cached");
  return {workers_cell(row),
          rate_text(row.at("samples_per_s").get<double>()),
          percent_text(relative_spread(row.at("repetitions").get<std::vector<double>>())),
          format_bytes(static_cast<std::uint64_t>(row.at("bytes_per_s").get<double>())),
          limit_text(row),
          cached.is_null() ? "-" : rate_text(cached.get<double>()),
          fmt::format("{:.1f} ms", row.at("first_batch_ms").get<double>()),
          percent_text(row.at("wait_fraction").get<double>()),
          percent_text(row.at("cache_hit_rate").get<double>()),
          fmt::format("{:.3f}", row.at("cpu_s_per_1k_samples").get<double>()),
          format_bytes(row.at("peak_rss_bytes").get<std::uint64_t>()),
          row.at("page_cache").get<std::string>()};
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
    text += fmt::format("best{}: num_workers={} ({} samples/s{})\n",
                        warm.empty() || cold.empty() ? ""
                        : kind == &warm              ? " with warm pages"
                                                     : " with cold pages",
                        workers_text(workers_from(best.at("num_workers"))),
                        rate_text(best.at("samples_per_s").get<double>()), share_sentence(best));
  }
  // A file that was measured cold will be read cold by its epochs.
  const std::int64_t workers = workers_from(best_row(cold.empty() ? warm : cold).at("num_workers"));
  text += fmt::format("put into your code: options.num_workers = {};",
                      workers == kAuto ? "h5feed::kAuto" : workers_text(workers));
  if (shuffle != "sequential") text += fmt::format(" options.shuffle = \"{}\";", shuffle);
  if (cache_policy != "lru")
    text += fmt::format(" options.cache_policy = h5feed::CachePolicy::{};", cache_policy);
  if (on_error != "fail") text += fmt::format(" options.on_error = h5feed::OnError::{};", on_error);
  return text + '\n';
}

std::string row_warnings(const Json& row) {
  const std::string workers = workers_text(workers_from(row.at("num_workers")));
  std::string lines;
  const double spread = relative_spread(row.at("repetitions").get<std::vector<double>>());
  if (spread > kMuchSpread) {
    lines +=
        fmt::format("num_workers={}: repetitions differ by {}; use a quieter machine or --time-budget 10s\n",
                    workers, percent_text(spread));
  }
  const double share = row.at("epoch_share").get<double>();
  if (share < kWholeEpoch) {
    lines +=
        fmt::format("num_workers={}: a repetition is {} of an epoch; a longer --time-budget covers more\n",
                    workers, percent_text(share));
  }
  if (const Json& resident = row.at("resident_share"); !resident.is_null()) {
    const double in_memory = resident.get<double>();
    if (is_cold(row) && in_memory > kColdEnough) {
      lines +=
          fmt::format("num_workers={}: up to {} of the file's pages stayed in memory; it is not all cold\n",
                      workers, percent_text(in_memory));
    } else if (!is_cold(row) && in_memory < 1 - kColdEnough) {
      lines += fmt::format("num_workers={}: {} of the file's pages were in memory; it is not all warm\n",
                           workers, percent_text(in_memory));
    }
  }
  for (const auto& [key, fate] :
       {std::pair("samples_skipped", "left out"), {"samples_replaced", "replaced"}}) {
    const auto bad = row.value(key, std::uint64_t{0});
    if (bad == 0) continue;
    lines += fmt::format("num_workers={}: {} of {} samples could not be read and were {}\n", workers,
                         format_count(bad), format_count(row.at("samples").get<std::uint64_t>()), fate);
  }
  return lines;
}

}  // namespace h5feed::cli
