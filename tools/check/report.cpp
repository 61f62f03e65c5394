// SPDX-License-Identifier: Apache-2.0
#include "tools/check/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/byte_units.hpp"
#include "store/hdf5/dataset_names.hpp"

namespace h5feed::cli {
namespace {

constexpr std::string_view kEqualInSample = "equal in the sample";
constexpr std::size_t kWidestResult = 26;  // "libhdf5 only, not compared"

// Returns "/images", or "part.h5:/images" of another file than `file`, the one that was named.
std::string name_of(const std::string& file, const CheckEntry& entry, const std::string& path) {
  return printable(entry.file == file ? path : entry.file.string() + ':' + path);
}

std::string chunks_text(const CheckResult& result) {
  return result.visited == result.chunks
             ? format_count(result.chunks)
             : fmt::format("{} of {}", format_count(result.visited), format_count(result.chunks));
}

// "2 differ, 1 corrupt"
std::string failures_text(const CheckResult& result) {
  std::string text;
  if (result.differing > 0) text = fmt::format("{} differ", format_count(result.differing));
  if (result.corrupt > 0) {
    text += fmt::format("{}{} corrupt", text.empty() ? "" : ", ", format_count(result.corrupt));
  }
  return text;
}

std::string result_text(const CheckEntry& entry) {
  if (!entry.problem.empty()) return "cannot be read";
  if (!entry.info) return "not checked: " + printable(entry.listed.type_text);
  if (!entry.result) return "not reached";
  if (!entry.result->clean()) return failures_text(*entry.result);
  if (!entry.result->not_compared.empty()) return "h5feed only, not compared";
  if (!entry.fallback_reason.empty()) return "libhdf5 only, not compared";
  if (entry.result->sampled()) return std::string(kEqualInSample);
  return entry.result->visited < entry.result->chunks ? "partial" : "equal";
}

// Returns whether both sides agree in the chunks that were compared, and these are not all. A dataset that
// only one side can read is not compared at all, as in the counts.
bool is_partial(const CheckEntry& entry) {
  return entry.clean() && entry.result && entry.fallback_reason.empty() &&
         entry.result->not_compared.empty() && entry.result->visited < entry.result->chunks;
}

std::string path_text(const CheckEntry& entry) {
  if (!entry.result) return "-";
  if (!entry.fallback_reason.empty()) return "H5Dread: " + entry.fallback_reason;
  return entry.result->not_compared.empty() ? "direct" : "direct; " + entry.result->not_compared;
}

std::uint64_t compared_chunks(const CheckEntry& entry) {
  const bool both = entry.result && entry.fallback_reason.empty() && entry.result->not_compared.empty();
  return both ? entry.result->visited : 0;
}

// Number of entries by result.
struct Counts {
  std::uint64_t equal = 0, sampled = 0, partial = 0, library_only = 0, own_only = 0, failed = 0,
                not_checked = 0, not_reached = 0;
  std::uint64_t chunks = 0, read = 0, compared = 0;

  explicit Counts(const std::vector<CheckEntry>& entries) {
    for (const CheckEntry& entry : entries) {
      if (!entry.clean()) {
        ++failed;
      } else if (!entry.info) {
        ++not_checked;
      } else if (!entry.result) {
        ++not_reached;
      } else if (!entry.result->not_compared.empty()) {
        ++own_only;
      } else if (!entry.fallback_reason.empty()) {
        ++library_only;
      } else {
        const bool whole = entry.result->visited == entry.result->chunks;
        ++(entry.result->sampled() ? sampled : whole ? equal : partial);
      }
      if (entry.problem.empty()) chunks += entry.chunks;
      if (!entry.result) continue;
      read += entry.result->visited;
      compared += compared_chunks(entry);
    }
  }
};

}  // namespace

bool reached_nothing(const std::vector<CheckEntry>& entries) {
  const Counts counts(entries);
  return counts.failed == 0 && counts.chunks > 0 && counts.read == 0;
}

Table check_table(const std::string& file, const std::vector<CheckEntry>& entries) {
  std::size_t path = 0, shape = 0, type = 0, result = kWidestResult;
  for (const CheckEntry& entry : entries) {
    path = std::max(path, display_width(name_of(file, entry, short_path(entry.listed.path))));
    shape = std::max(shape, display_width(shape_text(entry.listed)));
    type = std::max(type, display_width(printable(entry.listed.type_text)));
    if (!entry.info) result = std::max(result, display_width(result_text(entry)));
  }
  return Table({{"dataset", false, path},
                {"shape", false, shape},
                {"type", false, type},
                {"chunks", true, 12},
                {"result", false, result},
                {"SHA-256 of the values", false, 64},
                {"read path"}});
}

std::vector<std::string> check_cells(const std::string& file, const CheckEntry& entry) {
  const std::optional<CheckResult>& result = entry.result;
  return {name_of(file, entry, entry.listed.path),
          shape_text(entry.listed),
          printable(entry.listed.type_text),
          result ? chunks_text(*result) : "-",
          result_text(entry),
          result && !result->sha256.empty() ? result->sha256 : "-",
          path_text(entry)};
}

std::vector<std::string> finding_lines(const CheckEntry& entry) {
  if (!entry.problem.empty()) return {entry.problem};
  if (!entry.result || entry.result->clean()) return {};
  const CheckResult& result = *entry.result;
  std::vector<std::string> lines = result.findings;
  lines.push_back(fmt::format("{}:{}: {} of {} {} chunks{}", printable(entry.file.string()),
                              printable(short_path(entry.listed.path)), failures_text(result),
                              format_count(result.visited), compared_chunks(entry) > 0 ? "compared" : "read",
                              result.differing + result.corrupt > lines.size()
                                  ? fmt::format("; the first {} are named above", lines.size())
                                  : ""));
  return lines;
}

std::string check_verdict(const std::string& file, const std::vector<CheckEntry>& entries, double seconds) {
  const Counts counts(entries);
  std::string text;
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_count(count), what);
  };
  add(counts.equal, "equal");
  add(counts.sampled, kEqualInSample.data());
  add(counts.partial, "partial");
  add(counts.failed, "failed");
  add(counts.library_only, "read by libhdf5 only");
  add(counts.own_only, "read by h5feed only");
  add(counts.not_checked, "not checked");
  add(counts.not_reached, "not reached in time");
  std::string proven;
  if (reached_nothing(entries)) {
    proven = "; partial, time ran out before the first chunk, give a longer --time-budget";
  } else if (counts.read < counts.chunks) {
    const auto percent = [&](std::uint64_t part) {
      return static_cast<double>(part) / static_cast<double>(counts.chunks) * 100;
    };
    proven = counts.compared > 0
                 ? fmt::format("; this proves {:.3g} % of the chunks, and the whole has no digest",
                               percent(counts.compared))
                 : fmt::format(
                       "; {:.3g} % of the chunks were read, the others are unchecked, and the whole has "
                       "no digest",
                       percent(counts.read));
  }
  return fmt::format("{}: {}; {} of {} chunks compared in {:.1f} s{}\n", printable(file),
                     text.empty() ? "no datasets" : "datasets: " + text, format_count(counts.compared),
                     format_count(counts.chunks), seconds, proven);
}

Json check_json(const std::string& file, const std::vector<CheckEntry>& entries, double sample,
                double seconds) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const Counts counts(entries);
  Json json = {{"file", file},
               {"sample", sample},
               {"seconds", seconds},
               {"chunks_compared", counts.compared},
               {"datasets_equal", counts.equal},
               {"datasets_partial", counts.sampled + counts.partial},
               {"datasets_failed", counts.failed},
               {"datasets_libhdf5_only", counts.library_only},
               {"datasets_h5feed_only", counts.own_only},
               {"datasets_not_checked", counts.not_checked},
               {"datasets_not_reached", counts.not_reached},
               {"datasets", Json::array()}};
  for (const CheckEntry& entry : entries) {
    Json dataset = {{"file", entry.file.string()},
                    {"path", entry.listed.path},
                    {"shape", entry.listed.problem.empty() ? Json(entry.listed.shape) : Json()},
                    {"type", entry.listed.type_text},
                    // Programs are not told "equal" where a part was not compared, since it may differ.
                    {"result", is_partial(entry) ? "partial" : result_text(entry)},
                    {"read_path", Json()},
                    {"fallback_reason", or_null(entry.fallback_reason)},
                    {"problem", or_null(entry.problem)}};
    const CheckResult result = entry.result.value_or(CheckResult{});
    if (entry.result) dataset["read_path"] = entry.fallback_reason.empty() ? "direct" : "fallback";
    dataset["chunks"] = entry.chunks;
    dataset["chunks_read"] = result.visited;
    dataset["chunks_compared"] = compared_chunks(entry);
    dataset["share_compared"] =
        entry.chunks > 0
            ? Json(static_cast<double>(compared_chunks(entry)) / static_cast<double>(entry.chunks))
            : Json();
    dataset["not_compared"] =
        entry.fallback_reason.empty() ? or_null(result.not_compared) : Json("only libhdf5 can read it");
    dataset["chunks_differing"] = result.differing;
    dataset["chunks_corrupt"] = result.corrupt;
    dataset["sha256"] = or_null(result.sha256);
    dataset["no_sha256"] = or_null(result.no_sha256);
    dataset["findings"] = result.findings;
    json["datasets"].push_back(std::move(dataset));
  }
  return json;
}

}  // namespace h5feed::cli
