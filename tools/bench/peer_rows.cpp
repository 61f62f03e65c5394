// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/peer_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tools/bench/report.hpp"
#include "tools/bench/settings.hpp"
#include "tools/measure/statistics.hpp"

namespace h5feed::cli {
namespace {

// Returns the fastest row of a mode; null if none delivered.
const PeerRow* best_of(const std::vector<PeerRow>& rows, const std::string& mode) {
  const PeerRow* best = nullptr;
  for (const PeerRow& row : rows) {
    if (row.way().mode != mode || row.samples_per_s() <= 0) continue;
    if (best == nullptr || row.samples_per_s() > best->samples_per_s()) best = &row;
  }
  return best;
}

// Returns the ways of the peers, each once, in the order of their rows.
std::vector<PeerWay> ways_of(const std::vector<PeerRow>& rows) {
  std::vector<PeerWay> ways;
  for (const PeerRow& row : rows) {
    const auto same = [&](const PeerWay& way) { return way.mode == row.way().mode; };
    if (row.peer() != nullptr && std::none_of(ways.begin(), ways.end(), same)) ways.push_back(row.way());
  }
  return ways;
}

std::string full_name(const PeerWay& way) {
  return way.same_order ? way.name + ", the same order" : way.name;
}

double median_of(const std::vector<PeerRate>& rates, std::optional<double> (*figure)(const PeerRate&)) {
  std::vector<double> values;
  for (const PeerRate& rate : rates) {
    if (const std::optional<double> value = figure(rate)) values.push_back(*value);
  }
  return median(std::move(values));
}

double median_after_start(const std::vector<PeerRate>& rates) {
  return median_of(rates, [](const PeerRate& rate) { return rate.after_start; });
}

double median_first_batch(const std::vector<PeerRate>& rates) {
  return median_of(rates, [](const PeerRate& rate) { return std::optional(rate.first_batch_s); });
}

Json unless_zero(double value) { return value > 0 ? Json(value) : Json(); }

}  // namespace

double epoch_rate(double samples, double batch_size, double first_batch_s, double after_start) noexcept {
  return samples / (first_batch_s + std::max(0.0, samples - batch_size) / after_start);
}

PeerRow::PeerRow(const Peer* peer, PeerWay way, std::int64_t num_workers)
    : peer_(peer), way_(std::move(way)), workers_(num_workers) {}

std::vector<double> PeerRow::values() const {
  std::vector<double> values;
  for (const PeerRate& rate : rates_) values.push_back(rate.samples_per_s);
  return values;
}

double PeerRow::samples_per_s() const { return rates_.empty() ? 0 : median(values()); }

Json PeerRow::to_json() const {
  const std::vector<double> all = values();
  const double share = median_of(rates_, [](const PeerRate& rate) { return rate.limit_share; });
  const auto figure = [&](auto value) { return all.empty() ? Json() : Json(value()); };
  return {{"loader", way_.name},
          {"mode", way_.mode.empty() ? Json() : Json(way_.mode)},
          {"order", way_.order},
          {"same_order", way_.same_order},
          {"num_workers", workers_json(workers_)},
          {"samples_per_s", figure([&] { return samples_per_s(); })},
          {"slowest", figure([&] { return *std::min_element(all.begin(), all.end()); })},
          {"fastest", figure([&] { return *std::max_element(all.begin(), all.end()); })},
          {"after_start", unless_zero(median_after_start(rates_))},
          {"first_batch_s", figure([&] { return median_first_batch(rates_); })},
          {"share_of_limit", unless_zero(share)},
          {"error", error_.empty() ? Json() : Json(error_)},
          {"repetitions", all}};
}

std::vector<std::string> PeerRow::cells(const PeerRow* ours) const {
  std::vector<std::string> cells = {way_.name, way_.order + (way_.same_order ? ", the same" : ""),
                                    workers_text(workers_)};
  if (samples_per_s() <= 0) {
    cells.insert(cells.end(), {error_.empty() ? "-" : "failed", "", "", "", "", ""});
    return cells;
  }
  const std::vector<double> all = values();
  for (const double value : {samples_per_s(), *std::min_element(all.begin(), all.end()),
                             *std::max_element(all.begin(), all.end())}) {
    cells.push_back(rate_text(value));
  }
  const double after_start = median_after_start(rates_);
  cells.push_back(after_start > 0 ? rate_text(after_start) : "-");
  cells.push_back(fmt::format("{:.3g} s", median_first_batch(rates_)));
  const bool comparable = peer_ != nullptr && ours != nullptr;
  cells.push_back(comparable ? fmt::format("{:.3g} x", ours->samples_per_s() / samples_per_s()) : "");
  return cells;
}

Table peer_table(const std::vector<PeerRow>& rows) {
  Table table({{"loader", false},
               {"order", false},
               {"num_workers", true},
               {"samples/s", true},
               {"slowest", true},
               {"fastest", true},
               {"after start", true},
               {"first batch", true},
               {"h5feed is", true}});
  const PeerRow* const ours = best_of(rows, "");
  for (const PeerRow& row : rows) table.add_row(row.cells(ours));
  return table;
}

Json ratios_json(const std::vector<PeerRow>& rows) {
  const PeerRow* const ours = best_of(rows, "");
  Json ratios = Json::object();
  for (const PeerWay& way : ways_of(rows)) {
    const PeerRow* const best = best_of(rows, way.mode);
    ratios[way.mode] =
        ours != nullptr && best != nullptr ? Json(ours->samples_per_s() / best->samples_per_s()) : Json();
  }
  return ratios;
}

std::string peer_verdict(const std::vector<PeerRow>& rows) {
  std::string text;
  const PeerRow* const ours = best_of(rows, "");
  for (const PeerWay& way : ways_of(rows)) {
    const PeerRow* const best = best_of(rows, way.mode);
    if (ours == nullptr || best == nullptr) continue;
    const double ratio = ours->samples_per_s() / best->samples_per_s();
    text += fmt::format("h5feed at its best (num_workers={}) is {:.3g} x {} at its best (num_workers={}){}\n",
                        workers_text(ours->num_workers()), ratio, full_name(way),
                        workers_text(best->num_workers()), ratio < 1 ? ": the peer is faster here" : "");
  }
  for (const PeerRow& row : rows) {
    if (!row.error().empty()) {
      text += fmt::format("{}, num_workers={}: {}\n", full_name(row.way()), workers_text(row.num_workers()),
                          printable(row.error()));
    }
  }
  return text;
}

}  // namespace h5feed::cli
