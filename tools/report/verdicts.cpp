// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "h5feed/error.hpp"
#include "h5feed/verdict.hpp"
#include "tools/bench/alternate.hpp"
#include "tools/bench/compare.hpp"
#include "tools/bench/report.hpp"
#include "tools/report/facts.hpp"
#include "tools/report/html.hpp"

namespace h5feed::cli {
namespace {

constexpr std::size_t kMostFindings = 20, kMostAdvice = 6, kMostLines = 40, kMostLoaders = 4;
constexpr std::size_t kLongestText = 500;

void add_lines(std::vector<VerdictLine>& lines, const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line) && lines.size() < kMostLines;)
    lines.push_back({.text = shortened(line, kLongestText)});
}

std::string setting_in(const Json& result, const char* key, const char* otherwise) {
  const std::string text = text_in(result.value("settings", Json::object()), key);
  return text.empty() ? otherwise : text;
}

bool has_plain_rows(const Json& result) {
  const Json rows = result.value("rows", Json::array());
  return std::ranges::all_of(
             rows, [](const Json& row) { return row.contains("repetitions") && !row.contains("loader"); }) &&
         !rows.empty();
}

RatioEstimate estimate_in(const Json& json, const Json& result) {
  return {.count = static_cast<std::size_t>(std::clamp(number_in(result, "pairs").value_or(0), 0.0, 1e6)),
          .ratio = number_in(json, "ratio").value_or(1),
          .low = number_in(json, "low").value_or(0),
          .high = number_in(json, "high").value_or(std::numeric_limits<double>::infinity()),
          .p = number_in(json, "p").value_or(1)};
}

// The sentences that `bench` prints below its table.
std::string bench_text(const Json& result) {
  if (result.contains("sides")) {
    const double alpha =
        std::clamp(1 - number_in(result, "confidence").value_or(1 - kAlternateAlpha / 2), 0.0, 1.0);
    return ratio_verdict(estimate_in(result.value("rate", Json()), result), alpha) +
           cpu_verdict(estimate_in(result.value("cpu", Json()), result), alpha);
  }
  if (!has_plain_rows(result)) return {};
  const Json& rows = result.at("rows");
  std::string text =
      bench_verdict(rows, setting_in(result, "shuffle", "sequential"),
                    setting_in(result, "cache_policy", "lru"), setting_in(result, "on_error", "fail"));
  if (const auto target = number_in(result.value("target_rate", Json()), "samples_per_s"))
    text += target_verdict(rows, *target);
  for (const Json& row : rows) text += row_warnings(row);
  return text + busy_warning(rows);
}

InputVerdict verdict_of_bench(const Input& input, const Input* first) {
  InputVerdict verdict;
  try {
    add_lines(verdict.lines, bench_text(input.bench));
    if (first != nullptr && first != &input && has_plain_rows(first->bench) && has_plain_rows(input.bench)) {
      Json comparison = compare_results(first->bench, input.bench);
      comparison["changes"] = Json::array();  // the page has a table of them
      add_lines(verdict.lines, comparison_text(comparison, first->label));
    }
  } catch (const Json::exception&) {
    verdict.lines.push_back({.text = "Some members of a result of bench are missing or of another type."});
  }
  return verdict;
}

std::vector<std::string> clauses_of(const Json& json, const char* key) {
  std::vector<std::string> clauses;
  for (const Json& clause : json.value(key, Json::array())) {
    if (clause.is_string() && clauses.size() < kMostAdvice)
      clauses.push_back(shortened(clause.get<std::string>(), kLongestText));
  }
  return clauses;
}

InputVerdict verdict_of_monitor(const Json& summary) {
  InputVerdict verdict;
  if (!summary.is_object()) return verdict;
  if (const std::string text = text_in(summary, "verdict"); !text.empty())
    verdict.lines.push_back({.text = shortened(text, kLongestText)});
  for (const Json& finding : summary.value("findings", Json::array())) {
    if (!finding.is_object() || verdict.findings.size() == kMostFindings) continue;
    std::string text = fmt::format("{}: {}", text_in(finding, "finding"), text_in(finding, "what"));
    const auto from = number_in(finding, "from_s"), to = number_in(finding, "to_s");
    if (from && to) text += fmt::format(" (from {} s to {} s)", shown_number(*from), shown_number(*to));
    verdict.findings.push_back({.text = shortened(text, kLongestText), .advice = clauses_of(finding, "try")});
  }
  return verdict;
}

Verdict::Cause cause_of(const std::string& name) {
  for (const auto cause : {Verdict::Cause::read, Verdict::Cause::decode, Verdict::Cause::gather,
                           Verdict::Cause::transform, Verdict::Cause::transfer, Verdict::Cause::other}) {
    if (name == name_of(cause)) return cause;
  }
  return Verdict::Cause::consumer;
}

// Returns the library's own sentence on an epoch.
std::string sentence_on(const EpochFacts& epoch) {
  const auto& waits = *epoch.waits;
  Verdict verdict;
  verdict.headroom = epoch.headroom;
  verdict.samples = static_cast<std::uint64_t>(std::clamp(epoch.samples, 0.0, 1e18));
  verdict.seconds = epoch.seconds;
  verdict.waits = {.read = waits[0],
                   .decode = waits[1],
                   .gather = waits[2],
                   .transform = waits[3],
                   .transfer = waits[4],
                   .free_slot = waits[5],
                   .other = waits[6]};
  verdict.bottleneck = cause_of(epoch.bottleneck);
  return verdict.to_string();
}

// The last epoch of each loader; the first ones are slower for reasons of their own.
InputVerdict verdict_of_loader(const std::vector<EpochFacts>& epochs) {
  std::map<std::string, const EpochFacts*> last;
  for (const EpochFacts& epoch : epochs) {
    const EpochFacts*& known = last[epoch.loader];
    if (known == nullptr || epoch.finished || !known->finished) known = &epoch;
  }
  InputVerdict verdict;
  for (const auto& [loader, epoch] : last) {
    if (verdict.lines.size() == kMostLoaders || !epoch->waits) break;
    VerdictLine line{.text = fmt::format("{}epoch {}{}: {}", last.size() > 1 ? loader + ", " : "",
                                         exact_number(epoch->number),
                                         epoch->finished ? "" : " (not finished)", sentence_on(*epoch))};
    for (const std::string& clause : epoch->advice) {
      if (line.advice.size() < kMostAdvice) line.advice.push_back(shortened(clause, kLongestText));
    }
    verdict.lines.push_back(std::move(line));
  }
  if (last.size() > kMostLoaders)
    verdict.lines.push_back({.text = fmt::format("{} more loaders", last.size() - kMostLoaders)});
  return verdict;
}

}  // namespace

InputVerdict verdict_of(const Input& input, const Input* first) {
  switch (input.kind) {
    case Input::Kind::bench:
      return verdict_of_bench(input, first);
    case Input::Kind::monitor:
      return verdict_of_monitor(input.monitor.summary);
    case Input::Kind::loader:
      return verdict_of_loader(input.epochs);
  }
  return {};
}

}  // namespace h5feed::cli
