// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/alternate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/terminal_text.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "tools/bench/report.hpp"
#include "tools/measure/statistics.hpp"
#include "tools/program/child_process.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/machine.hpp"
#include "tools/program/progress.hpp"

namespace h5feed::cli {
namespace {

using Seconds = std::chrono::duration<double>;

// Fewer pairs than this cannot reach the error probability.
constexpr std::size_t kLeastPairs = 10;
constexpr std::size_t kMostPairs = 500;
// Pairs that the time is divided among; many short ones are robust against single disturbances.
constexpr double kWantedPairs = 40;
constexpr Seconds kShortestTurn{0.2}, kLongestTurn{3};
// A narrower interval than this decides all differences that matter.
constexpr double kNarrow = 0.01;
constexpr std::size_t kPairsBeforeNarrow = 20;
// Below what the kernel counts.
constexpr double kLeastCpu_s = 1e-6;
// Two tests share the error probability.
constexpr double kAlphaEach = kAlternateAlpha / 2;
// Time limit of one turn in addition to its measuring time.
constexpr std::chrono::seconds kTurnAllowance{120};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t from = 0; from < text.size();) {
    const auto to = std::min(text.find(' ', from), text.size());
    if (to > from) words.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return words;
}

Json estimate_json(const RatioEstimate& estimate) {
  return {{"ratio", estimate.ratio},
          {"low", estimate.low},
          {"high", std::isfinite(estimate.high) ? Json(estimate.high) : Json()},
          {"p", estimate.p},
          {"significant", estimate.p < kAlphaEach}};
}

// "(99.5 % interval -7.1 % to -3.2 %, p = 0.0001, 40 pairs)"
std::string facts_text(const RatioEstimate& estimate, double alpha) {
  return fmt::format("({:g} % interval {} to {}, p = {:.2g}, {} pairs)", (1 - alpha) * 100,
                     percent_change(estimate.low), percent_change(estimate.high), estimate.p, estimate.count);
}

const BenchField* field_named(const std::string& name) {
  for (const auto* fields : {&dataset_fields(), &loader_fields()}) {
    const auto found = std::ranges::find(*fields, name, &BenchField::key);
    if (found != fields->end()) return &*found;
  }
  return nullptr;
}

// Measurements of one side.
struct Series {
  AlternateSide side;
  bool knows_rate_only = false;
  std::string version, commit;
  std::vector<double> rates;
  std::vector<double> cpu;  // CPU seconds per 1,000 samples
  std::uint64_t peak_rss_bytes = 0;
};

class Alternation {
 public:
  Alternation(const AlternateRequest& request, const OutputOptions& output)
      : request_(request), output_(output), budget_(request.settings.time_budget) {
    for (std::size_t i = 0; i < series_.size(); ++i) series_[i].side = parse_side(request.sides[i], request);
  }

  int run() {
    say(fmt::format("measuring {} in turn with {} for {:.3g} s", printable(series_[0].side.text),
                    printable(series_[1].side.text), budget_.count()));
    const Clock::time_point start = Clock::now();
    Progress progress("bench", ProgressUnit::seconds, budget_.count());
    if (const int code = warm_up(); code != kDone) return code;
    double shown_s = 0;
    while (series_[0].rates.size() < kMostPairs) {
      const std::size_t pairs = series_[0].rates.size();
      if (seconds_since(start) >= budget_.count() && pairs >= kLeastPairs) break;
      if (pairs >= kPairsBeforeNarrow && pairs % 5 == 0 && is_narrow(estimate())) break;
      // A B, then B A: a drift of the machine favours neither.
      for (const std::size_t i : {pairs % 2, 1 - pairs % 2}) {
        if (const int code = measure(series_[i], true); code != kDone) return code;
      }
      progress.advance(seconds_since(start) - shown_s);
      shown_s = seconds_since(start);
    }
    progress.hide();
    return report();
  }

 private:
  RatioEstimate estimate() const { return paired_ratio(series_[0].rates, series_[1].rates, kAlphaEach); }
  RatioEstimate cpu_estimate() const { return paired_ratio(series_[0].cpu, series_[1].cpu, kAlphaEach); }
  static bool is_narrow(const RatioEstimate& estimate) { return estimate.high - estimate.low < kNarrow; }

  // Loads files and programs into memory, and finds the length of a turn.
  int warm_up() {
    double longest_s = 0;
    for (Series& series : series_) {
      const ChildResult help = run_program(series.side.program, {"bench", "--help"}, kTurnAllowance, [] {});
      if (help.exit_code != kDone || help.signal != 0) {
        throw Error(
            fmt::format("--alternate: {} cannot be run; give the path of an h5feed program, or settings "
                        "such as num_workers=2",
                        printable(series.side.program)));
      }
      series.knows_rate_only = help.output.find("--rate-only") != std::string::npos;
      const Clock::time_point start = Clock::now();
      if (const int code = measure(series, false); code != kDone) return code;
      longest_s = std::max(longest_s, seconds_since(start) - turn_.count());
    }
    turn_ = std::clamp(budget_ / (2 * kWantedPairs) - Seconds(longest_s), kShortestTurn, kLongestTurn);
    return kDone;
  }

  int measure(Series& series, bool counts) const {
    std::vector<std::string> words = {"bench"};
    words.insert(words.end(), request_.arguments.begin(), request_.arguments.end());
    words.insert(words.end(), series.side.arguments.begin(), series.side.arguments.end());
    for (const char* word : {"--json", "--runs", "1", "--warmup", "0"}) words.emplace_back(word);
    words.push_back(fmt::format("--time-budget={:.4f}s", turn_.count()));
    if (series.knows_rate_only) words.emplace_back("--rate-only");
    const auto limit = kTurnAllowance + std::chrono::duration_cast<std::chrono::seconds>(turn_);
    ChildResult child = run_program(
        series.side.program, words, limit, [] {}, true);
    // Once more, to show the message.
    if (child.exit_code != kDone) child = run_program(series.side.program, words, limit, [] {});
    if (child.exit_code != kDone && child.signal == 0 && !child.timed_out) return child.exit_code;
    const Json json = json_from(child.output);
    if (!json.is_object() || !json.contains("rows") || json["rows"].empty()) {
      throw Error(fmt::format("--alternate: {} printed no result of bench; see its message above",
                              printable(series.side.program)));
    }
    const Json& row = json["rows"][0];
    series.version = json.value("version", "");
    series.commit = json.value("commit", "");
    if (!counts) return kDone;
    series.rates.push_back(row.at("samples_per_s").get<double>());
    series.cpu.push_back(std::max(row.at("cpu_s_per_1k_samples").get<double>(), kLeastCpu_s));
    series.peak_rss_bytes = std::max(series.peak_rss_bytes, row.at("peak_rss_bytes").get<std::uint64_t>());
    return kDone;
  }

  int report() const {
    const RatioEstimate rate = estimate(), cpu = cpu_estimate();
    const double most = request_.max_loss.value_or(std::numeric_limits<double>::infinity());
    const bool slower = rate.p < kAlphaEach && rate.ratio < 1 - most;
    const bool dearer = cpu.p < kAlphaEach && cpu.ratio > 1 + most;
    const bool lost = slower || dearer;
    Json json = {{"file", request_.settings.file()},
                 {"machine", machine_json()},
                 {"version", H5FEED_VERSION},
                 {"commit", H5FEED_COMMIT},
                 {"settings", to_json(request_.settings)},
                 {"sides", Json::array()}};
    Table table({{"side"},
                 {"samples/s", true},
                 {"spread", true},
                 {"CPU s/1k", true},
                 {"peak memory", true},
                 {"program"}});
    for (std::size_t i = 0; i < series_.size(); ++i) {
      const Series& series = series_[i];
      json["sides"].push_back({{"text", series.side.text},
                               {"program", series.side.program},
                               {"version", series.version},
                               {"commit", series.commit},
                               {"samples_per_s", median(series.rates)},
                               {"peak_rss_bytes", series.peak_rss_bytes},
                               {"repetitions", series.rates},
                               {"cpu_s_per_1k_samples", series.cpu}});
      table.add_row({fmt::format("{}: {}", i == 0 ? 'A' : 'B', printable(series.side.text)),
                     rate_text(median(series.rates)), percent_text(relative_spread(series.rates)),
                     fmt::format("{:.4f}", median(series.cpu)), format_bytes(series.peak_rss_bytes),
                     fmt::format("{} {}", series.version, series.commit)});
    }
    json["rate"] = estimate_json(rate);
    json["cpu"] = estimate_json(cpu);
    json["confidence"] = 1 - kAlphaEach;
    json["pairs"] = rate.count;
    json["seconds_per_turn"] = turn_.count();
    json["significant"] = rate.p < kAlphaEach || cpu.p < kAlphaEach;
    json["max_loss"] = request_.max_loss ? Json(*request_.max_loss) : Json();
    json["lost"] = lost;
    export_results(output_, table, json);
    if (output_.json) {
      print(json_text(json));
    } else {
      print(table.to_text() + '\n' + ratio_verdict(rate, kAlphaEach) + cpu_verdict(cpu, kAlphaEach));
      if (lost) print(fmt::format("the loss exceeds --max-loss {}\n", percent_text(*request_.max_loss)));
    }
    return lost ? kFailed : kDone;
  }

  const AlternateRequest& request_;
  const OutputOptions& output_;
  const Seconds budget_;
  Seconds turn_ = kShortestTurn;
  std::array<Series, 2> series_;
};

}  // namespace

AlternateSide parse_side(const std::string& text, const AlternateRequest& request) {
  AlternateSide side{.text = text, .program = std::filesystem::read_symlink("/proc/self/exe")};
  BenchSettings settings = request.settings;
  std::string num_workers = request.num_workers;
  bool has_program = false;
  for (const std::string& word : words_of(text)) {
    if (word.find('=') == std::string::npos) {
      if (has_program) {
        throw OptionError(fmt::format("--alternate \"{}\": give one program, and settings as NAME=VALUE",
                                      abridged(printable(text))));
      }
      has_program = true;
      side.program = word;
      continue;
    }
    const auto [name, value] = name_and_value("--alternate", word);
    if (name == "num_workers") {
      parse_workers("--alternate num_workers", value);
      num_workers = value;
      continue;
    }
    set_by_name(settings, "--alternate", name, value);
    const BenchField* const field = field_named(name);
    if (field != nullptr && !field->type.empty() && !field->repeats) {
      side.arguments.push_back(fmt::format("{}={}", field->option, value));
    } else {
      side.arguments.push_back("--set=" + word);
    }
  }
  if (words_of(text).empty()) {
    throw OptionError("--alternate \"\": give a program, or settings such as num_workers=2");
  }
  side.arguments.push_back("--num-workers=" + num_workers);
  return side;
}

std::string ratio_verdict(const RatioEstimate& estimate, double alpha) {
  const std::string by = fmt::format("{:.1f} % {}", std::abs(estimate.ratio - 1) * 100,
                                     estimate.ratio < 1 ? "slower" : "faster");
  if (!std::isfinite(estimate.high)) {
    return fmt::format("B is {} than A; {} pairs are too few for a test, use a longer --time-budget\n", by,
                       estimate.count);
  }
  const std::string facts = facts_text(estimate, alpha);
  if (estimate.p < alpha) return fmt::format("B is {} than A {}: significant\n", by, facts);
  return fmt::format(
      "no significant difference of samples/s: B measured {} than A {}; a longer --time-budget shows smaller "
      "differences\n",
      by, facts);
}

std::string cpu_verdict(const RatioEstimate& estimate, double alpha) {
  if (!std::isfinite(estimate.high)) return {};
  const std::string by =
      fmt::format("{:.1f} % {}", std::abs(estimate.ratio - 1) * 100, estimate.ratio < 1 ? "less" : "more");
  return fmt::format("CPU time per sample: B takes {} than A {}: {}significant\n", by,
                     facts_text(estimate, alpha), estimate.p < alpha ? "" : "not ");
}

int bench_alternate(const AlternateRequest& request, const OutputOptions& output) {
  check_export_places(output, request.settings.file());
  return Alternation(request, output).run();
}

}  // namespace h5feed::cli
