// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rows.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/terminal_text.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "tools/bench/compare.hpp"
#include "tools/bench/pages.hpp"
#include "tools/bench/report.hpp"
#include "tools/program/child_process.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/machine.hpp"
#include "tools/program/memory_error.hpp"
#include "tools/program/run_bounds.hpp"

namespace h5feed::cli {
namespace {

// One combination of the values of all sweeps.
struct Variant {
  BenchSettings settings;
  Json swept = Json::object();  // value by name
};

std::vector<Variant> variants_of(const RowsRequest& request) {
  std::vector<Variant> variants = {{.settings = request.settings}};
  for (const Sweep& sweep : request.sweeps) {
    std::vector<Variant> wider;
    for (const Variant& variant : variants) {
      for (const std::string& value : sweep.values) {
        Variant& next = wider.emplace_back(variant);
        set_by_name(next.settings, "--sweep", sweep.name, value);
        const Json settings = to_json(next.settings);
        const Json typed = settings.value(sweep.name, Json());
        // A default does not stand among the settings, and a struct is shorter as typed.
        next.swept[sweep.name] = typed.is_primitive() && !typed.is_null()
                                     ? typed
                                     : value_from_text("--sweep." + sweep.name, value);
      }
    }
    variants = std::move(wider);
  }
  return variants;
}

// Finds errors before the first row, and says what will be read.
std::string plan_text(const RowsRequest& request, const std::vector<Variant>& variants,
                      const std::vector<bool>& pages) {
  const ScopedLogSink quiet(ignore_log);  // the rows say it
  const BenchSettings& settings = request.settings;
  std::string shape, stored, path, target, file = settings.file();
  std::chrono::duration<double> opening{};
  for (const Variant& variant : variants) {
    const auto start = Clock::now();
    const Dataset dataset = name_where_memory_ends(settings.file(), settings.dataset.data,
                                                   [&] { return open_samples(variant.settings); });
    opening = std::max(opening, std::chrono::duration<double>(Clock::now() - start));
    check_interrupted();
    const DatasetInfo& data = DatasetAccess::state(dataset)->data.info();
    path = data.path;
    if (settings.mixture) file = data.file;  // and how many sets more
    shape = data.shape_text();
    stored = format_bytes(data.stored_bytes);
    if (dataset.has_target()) target = DatasetAccess::state(dataset)->target->info().path;
    name_where_memory_ends(settings.file(), path, [&] {
      for (const std::int64_t num_workers : request.num_workers) {
        DataLoader(dataset, loader_options(variant.settings, num_workers));
      }
    });
  }
  const std::chrono::duration<double> budget = settings.time_budget;
  const std::size_t rows = request.num_workers.size() * pages.size() * variants.size();
  return fmt::format(
      "measuring {}:{} ({}, {} stored){}: {} {} of about {:.3g} s, {:.3g} s in all; each pass starts with an "
      "empty cache and reads {}{}",
      printable(file), printable(path), shape, stored, target.empty() ? "" : " with " + printable(target),
      rows, rows == 1 ? "row" : "rows", budget.count(), budget.count() * static_cast<double>(rows),
      pages_text(pages),
      opening.count() > 1
          ? fmt::format("; opening the file took {:.1f} s, which each row adds", opening.count())
          : "");
}

// The result so far: what was measured, and its table.
class Results {
 public:
  Results(const RowsRequest& request, const std::vector<bool>& pages, const OutputOptions& output)
      : output_(output),
        table_(bench_table(!request.sweeps.empty())),
        json_{{"file", request.settings.file()},
              {"machine", machine_json()},
              {"version", H5FEED_VERSION},
              {"commit", H5FEED_COMMIT},
              {"settings", to_json(request.settings)},
              {"limits", Json::object()},
              {"rows", Json::array()}} {
    json_["settings"]["page_cache"] = pages.size() > 1 ? "both" : pages.front() ? "cold" : "warm";
    if (!output_.json) print(table_.header_text());
  }

  bool empty() const { return table_.rows() == 0; }
  Json& json() { return json_; }

  void add(Json answer, const Json& swept, bool more_threads) {
    Json& row = answer.at("row");
    if (!swept.empty()) row["swept"] = swept;
    for (const auto& [key, value] : answer.at("resolved").items()) {
      if (!swept.contains(key)) json_["settings"][key] = value;
    }
    for (const auto& [key, value] : answer.at("limits").items()) {
      // Warm rows have no cold limits, and cold rows have only those.
      if (more_threads && (!value.is_null() || !json_["limits"].contains(key))) json_["limits"][key] = value;
    }
    json_["rows"].push_back(row);
    table_.add_row(bench_cells(row));
    warnings_ += row_warnings(row);
    if (!output_.json) print(table_.row_text(table_.rows() - 1));
    write_exports();
  }

  void write_exports() const { export_results(output_, table_, json_); }
  const std::string& warnings() const { return warnings_; }

 private:
  const OutputOptions& output_;
  Table table_;
  Json json_;
  std::string warnings_;
};

// Tells whether the rows have appended to an epoch_log what they measured. Make it before the first loader
// opens the file. Removes it if it was created and got no line.
class EpochLogGrowth {
 public:
  explicit EpochLogGrowth(std::filesystem::path file)
      : file_(std::move(file)), existed_(exists()), before_(bytes()) {}
  EpochLogGrowth(const EpochLogGrowth&) = delete;
  EpochLogGrowth& operator=(const EpochLogGrowth&) = delete;
  ~EpochLogGrowth() {
    std::error_code error;
    if (!existed_ && std::filesystem::is_regular_file(file_, error) && bytes() == 0)
      std::filesystem::remove(file_, error);
  }

  enum class Outcome { grown, disk_full, no_epoch };
  /// Returns `grown` also for what is no regular file.
  Outcome outcome() const {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file_, error)) return Outcome::grown;
    constexpr std::uintmax_t kLongestLine = 4096;
    const std::filesystem::space_info space = std::filesystem::space(file_, error);
    if (!error && space.available < kLongestLine) return Outcome::disk_full;
    rlimit limit = {};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes() + kLongestLine > limit.rlim_cur)
      return Outcome::disk_full;
    return bytes() == before_ ? Outcome::no_epoch : Outcome::grown;
  }

  /// Returns a line that says what the log lacks, and why; empty if nothing.
  std::string note(Outcome outcome) const {
    if (outcome == Outcome::grown) return {};
    return fmt::format("{} {}\n", printable(file_.string()),
                       outcome == Outcome::no_epoch
                           ? "got no line: no epoch was measured to its end; give a longer --time-budget"
                       : bytes() == before_
                           ? "got no line: no space is left there, or ulimit -f allows none"
                           : "may lack lines: no space is left there, or ulimit -f allows none");
  }

 private:
  bool exists() const {
    std::error_code error;
    return std::filesystem::exists(file_, error);
  }
  std::uintmax_t bytes() const {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(file_, error);
    return error ? 0 : bytes;
  }

  const std::filesystem::path file_;
  const bool existed_;
  const std::uintmax_t before_;
};

}  // namespace

Sweep parse_sweep(const std::string& option, const std::string& text) {
  auto [name, values] = name_and_value(option, text);
  Sweep sweep{.name = name};
  for (std::size_t from = 0; from <= values.size();) {
    const auto to = std::min(values.find(',', from), values.size());
    sweep.values.push_back(values.substr(from, to - from));
    if (sweep.values.back().empty())
      throw OptionError(
          fmt::format("{} \"{}\": give values, such as batch_size=64,256", option, abridged(text)));
    from = to + 1;
  }
  if (name == "num_workers")
    throw OptionError(option + ": num_workers has an option of its own, --num-workers");
  return sweep;
}

RowOutcome measure_row(const RowRequest& request, Progress& progress) {
  std::vector<std::string> arguments = to_arguments(request);
  arguments.insert(arguments.begin(), kBenchRowCommand);
  auto last = Clock::now();
  const ChildResult child = run_self(arguments, [&] {
    const auto now = Clock::now();
    progress.advance(std::chrono::duration<double>(now - last).count());
    last = now;
  });
  if (child.signal != 0) {
    throw Error(
        fmt::format("the row num_workers={} was ended by signal {} ({}); a lower --memory-budget-bytes helps "
                    "where memory ran out",
                    workers_text(request.num_workers), child.signal, ::strsignal(child.signal)));
  }
  if (child.exit_code != kDone) return {child.exit_code, {}};
  return {kDone, json_from(child.output)};
}

int bench_rows(const RowsRequest& request, const OutputOptions& output) {
  const BenchSettings& settings = request.settings;
  for (const std::int64_t num_workers : request.num_workers) check_threads("--num-workers", num_workers);
  check_export_places(output, settings.file());
  const Json earlier = request.compare_file.empty() ? Json() : read_result(request.compare_file);
  const std::vector<Variant> variants = variants_of(request);
  const std::vector<bool> pages = choose_pages(settings, request.cold, request.warm);
  const EpochLogGrowth epoch_log(settings.loader.epoch_log);
  say(plan_text(request, variants, pages));

  Results results(request, pages, output);
  const double budget_s = std::chrono::duration<double>(settings.time_budget).count();
  Progress progress(
      "bench", ProgressUnit::seconds,
      budget_s * static_cast<double>(request.num_workers.size() * pages.size() * variants.size()));
  for (const bool cold : pages) {
    std::int64_t most_threads = 0;
    for (const Variant& variant : variants) {
      for (const std::int64_t num_workers : request.num_workers) {
        const RowRequest row{.settings = variant.settings,
                             .num_workers = num_workers,
                             .quiet = !results.empty(),
                             .cold = cold,
                             .rate_only = request.rate_only || variant.settings.loader.headroom};
        RowOutcome outcome = measure_row(row, progress);
        progress.hide();
        if (outcome.exit_code != kDone) return outcome.exit_code;
        results.add(std::move(outcome.answer), variant.swept, decoding_threads(num_workers) > most_threads);
        most_threads = std::max(most_threads, decoding_threads(num_workers));
      }
    }
  }
  Json& json = results.json();
  std::string text = '\n' + results.warnings() + busy_warning(json["rows"]) + limit_note(json["rows"]);
  const Json& used = json["settings"];
  const EpochLogGrowth::Outcome logged = epoch_log.outcome();
  const std::string note = epoch_log.note(logged);
  text += note;
  text += settings.loader.headroom
              ? headroom_note()
              : bench_verdict(json["rows"], used["shuffle"].get<std::string>(),
                              used["cache_policy"].get<std::string>(), used["on_error"].get<std::string>());
  if (request.target_rate) {
    const std::optional<std::size_t> cheapest = cheapest_row(json["rows"], *request.target_rate);
    json["target_rate"] = {{"samples_per_s", *request.target_rate},
                           {"row", cheapest ? Json(*cheapest) : Json()}};
    text += target_verdict(json["rows"], *request.target_rate);
  }
  if (!earlier.is_null()) {
    json["comparison"] = compare_results(earlier, json);
    text += comparison_text(json["comparison"], request.compare_file);
  }
  results.write_exports();
  print(output.json ? json_text(json) : text);
  if (output.json && logged == EpochLogGrowth::Outcome::disk_full)
    say(std::string_view(note).substr(0, note.find('\n')));
  return logged == EpochLogGrowth::Outcome::disk_full ? kFailed : kDone;
}

}  // namespace h5feed::cli
