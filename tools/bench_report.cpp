#include "tools/bench_report.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/byte_units.hpp"
#include "tools/statistics.hpp"

namespace h5feed::cli {
namespace {

constexpr double kAsFast = 0.97;
constexpr double kMuchSpread = 0.25;
constexpr double kWholeEpoch = 0.99;

std::string rate_text(double value) { return format_count(static_cast<std::uint64_t>(std::llround(value))); }
std::string percent_text(double share) { return fmt::format("{:.0f} %", share * 100); }

// Without a share of the limit a row either decoded nothing, or had no limit to be compared with.
bool from_cache(const Json& row) { return row.at("read_amplification").get<double>() == 0; }

std::string limit_text(const Json& row) {
  if (row.at("share_of_limit").is_null()) return from_cache(row) ? "cached" : "-";
  return fmt::format("{} {}", percent_text(row.at("share_of_limit").get<double>()),
                     row.at("limit").get<std::string>());
}

}  // namespace

Table bench_table() {
  return Table({{"num_workers", true, 11},
                {"samples/s", true, 11},
                {"spread", true, 6},
                {"data/s", true, 10},
                {"of limit", true, 12},
                {"cached samples/s", true, 16},
                {"first batch", true, 11},
                {"waiting", true, 7},
                {"cache hits", true, 10},
                {"CPU s/1k", true, 8},
                {"peak memory", true, 11}});
}

std::vector<std::string> bench_cells(const Json& row) {
  const Json& cached = row.at("samples_per_s_cached");
  return {std::to_string(row.at("num_workers").get<std::int64_t>()),
          rate_text(row.at("samples_per_s").get<double>()),
          percent_text(relative_spread(row.at("repetitions").get<std::vector<double>>())),
          format_bytes(static_cast<std::uint64_t>(row.at("bytes_per_s").get<double>())),
          limit_text(row),
          cached.is_null() ? "-" : rate_text(cached.get<double>()),
          fmt::format("{:.1f} ms", row.at("first_batch_ms").get<double>()),
          percent_text(row.at("wait_fraction").get<double>()),
          percent_text(row.at("cache_hit_rate").get<double>()),
          fmt::format("{:.3f}", row.at("cpu_s_per_1k_samples").get<double>()),
          format_bytes(row.at("peak_rss_bytes").get<std::uint64_t>())};
}

const Json& best_row(const Json& rows) {
  const auto rate = [](const Json& row) { return row.at("samples_per_s").get<double>(); };
  const auto workers = [](const Json& row) { return row.at("num_workers").get<std::int64_t>(); };
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

std::string bench_verdict(const Json& rows, const std::string& shuffle) {
  const Json& best = best_row(rows);
  const Json& share = best.at("share_of_limit");
  std::string text =
      fmt::format("best: num_workers={} ({} samples/s{})\n", best.at("num_workers").get<std::int64_t>(),
                  rate_text(best.at("samples_per_s").get<double>()),
                  share.is_null() ? (from_cache(best) ? ", from the cache" : "")
                                  : fmt::format(", {} of the {} limit", percent_text(share.get<double>()),
                                                best.at("limit").get<std::string>()));
  text += fmt::format("put into your code: options.num_workers = {};",
                      best.at("num_workers").get<std::int64_t>());
  if (shuffle != "sequential") text += fmt::format(" options.shuffle = \"{}\";", shuffle);
  return text + '\n';
}

std::string row_warnings(const Json& row) {
  const auto workers = row.at("num_workers").get<std::int64_t>();
  std::string lines;
  const double spread = relative_spread(row.at("repetitions").get<std::vector<double>>());
  if (spread > kMuchSpread) {
    lines += fmt::format(
        "num_workers={}: repetitions differ by {}; a quieter machine or --time-budget 10s says more\n",
        workers, percent_text(spread));
  }
  const double share = row.at("epoch_share").get<double>();
  if (share < kWholeEpoch) {
    lines +=
        fmt::format("num_workers={}: a repetition is {} of an epoch; a longer --time-budget tells of more\n",
                    workers, percent_text(share));
  }
  return lines;
}

}  // namespace h5feed::cli
