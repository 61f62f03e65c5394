// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/peer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "tools/bench/python.hpp"
#include "tools/bench/report.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/measure/statistics.hpp"
#include "tools/program/child_process.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/machine.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/storage/image_choice.hpp"

namespace h5feed::cli {
namespace {

constexpr const char* kLoaderName = "h5feed";

struct PeerMode {
  const char* mode;  // as the script calls it
  const char* name;
};
constexpr PeerMode kPeerModes[] = {{"per_sample", "PyTorch + h5py, per sample"},
                                   {"tuned", "PyTorch + h5py, tuned"}};

using Seconds = std::chrono::duration<double>;

// Time limit of a measuring process in addition to its measuring time: this many times its start-up time.
constexpr double kStartAllowance = 5;
constexpr Seconds kLeastAllowance{2};
// Start-up may take this many times the row's time, or kUsualStarts in total; beyond that, repetitions are
// left out.
constexpr double kStartShare = 2;
constexpr Seconds kUsualStarts{5};

void refuse_what_the_peer_lacks(const BenchSettings& settings) {
  if (settings.normalize) {
    throw OptionError("--peer pytorch compares stored values; leave out --normalize");
  }
  if (!settings.batch_size) throw OptionError("--peer pytorch compares batches; give --batch-size a number");
}

// One loader with one number of workers, and its results.
class PeerRow {
 public:
  PeerRow(std::string loader, std::string mode, std::string order, std::int64_t num_workers)
      : loader_(std::move(loader)), mode_(std::move(mode)), order_(std::move(order)), workers_(num_workers) {}

  const std::string& mode() const noexcept { return mode_; }  // empty: h5feed
  const std::string& name() const noexcept { return loader_; }
  const std::string& order() const noexcept { return order_; }
  std::int64_t num_workers() const noexcept { return workers_; }
  const std::string& error() const noexcept { return error_; }
  double samples_per_s() const { return median(rates_); }
  double spread() const { return relative_spread(rates_); }

  void add(double samples_per_s, std::optional<double> share_of_limit) {
    rates_.push_back(samples_per_s);
    if (share_of_limit) shares_.push_back(*share_of_limit);
  }
  void fail(std::string error) { error_ = std::move(error); }

  double slowest() const { return rates_.empty() ? 0 : *std::min_element(rates_.begin(), rates_.end()); }
  double fastest() const { return rates_.empty() ? 0 : *std::max_element(rates_.begin(), rates_.end()); }

  Json to_json() const {
    const auto figure = [&](double value) { return rates_.empty() ? Json() : Json(value); };
    return {{"loader", loader_},
            {"order", order_},
            {"num_workers", workers_},
            {"samples_per_s", figure(samples_per_s())},
            {"slowest", figure(slowest())},
            {"fastest", figure(fastest())},
            {"share_of_limit", shares_.empty() ? Json() : Json(median(shares_))},
            {"error", error_.empty() ? Json() : Json(error_)},
            {"repetitions", rates_}};
  }

 private:
  std::string loader_;
  std::string mode_;
  std::string order_;
  std::int64_t workers_;
  std::string error_;
  std::vector<double> rates_;
  std::vector<double> shares_;
};

// Returns the fastest row of a mode; null if none delivered.
const PeerRow* best_of(const std::vector<PeerRow>& rows, const std::string& mode) {
  const PeerRow* best = nullptr;
  for (const PeerRow& row : rows) {
    if (row.mode() != mode || row.samples_per_s() <= 0) continue;
    if (best == nullptr || row.samples_per_s() > best->samples_per_s()) best = &row;
  }
  return best;
}

Table peer_table(const std::vector<PeerRow>& rows) {
  Table table({{"loader", false},
               {"order", false},
               {"num_workers", true},
               {"samples/s", true},
               {"slowest", true},
               {"fastest", true},
               {"h5feed is", true}});
  const PeerRow* const ours = best_of(rows, "");
  for (const PeerRow& row : rows) {
    std::vector<std::string> cells = {row.name(), row.order(), std::to_string(row.num_workers())};
    if (row.samples_per_s() > 0) {
      for (const double value : {row.samples_per_s(), row.slowest(), row.fastest()}) {
        cells.push_back(rate_text(value));
      }
      const bool peer = !row.mode().empty() && ours != nullptr;
      cells.push_back(peer ? fmt::format("{:.3g} x", ours->samples_per_s() / row.samples_per_s()) : "");
    } else {
      cells.insert(cells.end(), {row.error().empty() ? "-" : "failed", "", "", ""});
    }
    table.add_row(std::move(cells));
  }
  return table;
}

Json ratios_json(const std::vector<PeerRow>& rows) {
  const PeerRow* const ours = best_of(rows, "");
  Json ratios = Json::object();
  for (const PeerMode& peer : kPeerModes) {
    const PeerRow* const best = best_of(rows, peer.mode);
    ratios[peer.mode] =
        ours != nullptr && best != nullptr ? Json(ours->samples_per_s() / best->samples_per_s()) : Json();
  }
  return ratios;
}

std::string verdict(const std::vector<PeerRow>& rows) {
  std::string text;
  const PeerRow* const ours = best_of(rows, "");
  for (const PeerMode& peer : kPeerModes) {
    const PeerRow* const best = best_of(rows, peer.mode);
    if (ours == nullptr || best == nullptr) continue;
    const double ratio = ours->samples_per_s() / best->samples_per_s();
    text += fmt::format("h5feed at its best (num_workers={}) is {:.3g} x {} at its best (num_workers={}){}\n",
                        ours->num_workers(), ratio, best->name(), best->num_workers(),
                        ratio < 1 ? ": the peer is faster here" : "");
  }
  for (const PeerRow& row : rows) {
    if (!row.error().empty()) {
      text += fmt::format("{}, num_workers={}: {}\n", row.name(), row.num_workers(), printable(row.error()));
    }
  }
  return text;
}

class Comparison {
 public:
  Comparison(const PeerRequest& request, const OutputOptions& output)
      : output_(output),
        settings_(request.settings),
        python_(find_python(request.python)),
        cold_(request.cold) {
    const ScopedLogSink quiet(ignore_log);
    const Dataset dataset = open_dataset(dataset_options(settings_), "bench");
    for (const std::int64_t workers : request.loader_workers) {
      DataLoader(dataset, loader_options(settings_, workers));
    }
    data_ = DatasetAccess::state(dataset)->data.info().path;
    if (dataset.has_target()) target_ = DatasetAccess::state(dataset)->target->info().path;
    // Successive rounds run the loaders in opposite order, so that drift of the machine affects both.
    const std::size_t longest = std::max(request.loader_workers.size(), request.peer_workers.size());
    for (std::size_t i = 0; i < longest; ++i) {
      if (i < request.peer_workers.size()) add_peer(kPeerModes[0], request.peer_workers[i]);
      if (i < request.loader_workers.size()) {
        rows_.emplace_back(kLoaderName, "", settings_.shuffle, request.loader_workers[i]);
      }
      if (i < request.peer_workers.size()) add_peer(kPeerModes[1], request.peer_workers[i]);
    }
    rounds_ = peer_rounds(settings_, python_.start);
    repetition_ = settings_.time_budget / static_cast<std::int64_t>(settings_.warmup + settings_.runs);
  }

  int run() {
    const double seconds = std::chrono::duration<double>(repetition_).count();
    const auto peers =
        std::count_if(rows_.begin(), rows_.end(), [](const auto& row) { return !row.mode().empty(); });
    const double starts =
        python_.start.count() * static_cast<double>(rounds_.all) * static_cast<double>(peers);
    const double total = seconds * static_cast<double>(rounds_.all * rows_.size()) + starts;
    const std::uint64_t wanted = settings_.warmup + settings_.runs;
    say(fmt::format(
        "measuring {}:{} through h5feed and through PyTorch {} with h5py {} ({}): {} rows in turn, "
        "about {:.3g} s in all, of which starting Python takes {:.0f}{}; a process of Python is ended {:.0f} "
        "s after its time",
        printable(settings_.file), printable(data_), python_.versions.at("torch").get<std::string>(),
        python_.versions.at("h5py").get<std::string>(), printable(python_.program), rows_.size(), total,
        starts,
        rounds_.all < wanted
            ? fmt::format("; {} of {} repetitions of a row fit --time-budget", rounds_.all, wanted)
            : "",
        allowance().count()));
    if (cold_) {
      require_droppable(settings_.file);
    } else if (std::filesystem::file_size(settings_.file) <= system_limits().available_bytes / 2) {
      pages_warm_ = load_pages(settings_.file, settings_.time_budget);
    }
    Progress progress("bench", ProgressUnit::seconds, total);
    for (std::uint64_t round = 0; round < rounds_.all; ++round) {
      for (PeerRow& row : rows_) {
        const int code = measure(row, round + rounds_.counted >= rounds_.all, progress);
        progress.hide();
        if (code != kDone) return code;
      }
      export_results(output_, peer_table(rows_), to_json());
    }
    if (output_.json) {
      print(json_text(to_json()));
    } else {
      print(peer_table(rows_).to_text() + '\n' + verdict(rows_));
    }
    return kDone;
  }

 private:
  // Time that a Python process may take beyond its measuring time: to start, to fork its workers, to deliver
  // the first batch.
  Seconds allowance() const { return std::max(kLeastAllowance, kStartAllowance * python_.start); }

  void add_peer(const PeerMode& peer, std::int64_t workers) {
    const bool windowed = settings_.shuffle.starts_with("chunk:");
    const bool per_sample = std::strcmp(peer.mode, kPeerModes[0].mode) == 0;
    rows_.emplace_back(peer.name, peer.mode, windowed && per_sample ? "full" : settings_.shuffle, workers);
  }

  int measure(PeerRow& row, bool counts, Progress& progress) {
    if (!row.error().empty()) return kDone;
    if (cold_) drop_pages(settings_.file);
    auto last = Clock::now();
    const auto tick = [&] {
      const auto now = Clock::now();
      progress.advance(std::chrono::duration<double>(now - last).count());
      last = now;
    };
    return row.mode().empty() ? measure_loader(row, counts, tick) : measure_peer(row, counts, tick);
  }

  int measure_loader(PeerRow& row, bool counts, const std::function<void()>& tick) {
    BenchSettings once = settings_;
    once.runs = 1;
    once.warmup = 0;
    once.time_budget = repetition_;
    std::vector<std::string> arguments = to_arguments({once, row.num_workers(), !first_, cold_});
    arguments.insert(arguments.begin(), kBenchRowCommand);
    const ChildResult child = run_self(arguments, tick);
    first_ = false;
    if (child.signal != 0) {
      throw Error(fmt::format("the row num_workers={} of h5feed was ended by signal {} ({})",
                              row.num_workers(), child.signal, ::strsignal(child.signal)));
    }
    if (child.exit_code != kDone) return child.exit_code;
    const Json answer = Json::parse(child.output);
    for (const auto& [key, value] : answer.at("resolved").items()) resolved_[key] = value;
    const Json& share = answer.at("row").at("share_of_limit");
    if (counts) {
      row.add(answer.at("row").at("samples_per_s").get<double>(),
              share.is_null() ? std::nullopt : std::optional(share.get<double>()));
    }
    return kDone;
  }

  int measure_peer(PeerRow& row, bool counts, const std::function<void()>& tick) {
    const Json ask = {{"mode", row.mode()},
                      {"order", row.order()},
                      {"num_workers", row.num_workers()},
                      {"batch_size", *settings_.batch_size},
                      {"seconds", std::chrono::duration<double>(repetition_).count()},
                      {"seed", settings_.seed}};
    const auto limit = std::chrono::duration_cast<std::chrono::nanoseconds>(repetition_ + allowance());
    const ChildResult child = run_program(
        python_.program, {"-c", kPytorchPeerScript, ask.dump(), settings_.file, data_, target_}, limit, tick);
    const Json answer = Json::parse(child.output, nullptr, false);
    if (child.timed_out) {
      row.fail(
          fmt::format("{} did not end within {:.3g} s, {:.3g} s to start included, and was killed; a longer "
                      "--time-budget gives it more",
                      python_.program, Seconds(limit).count(), allowance().count()));
    } else if (child.exit_code != 0 || child.signal != 0 || !answer.is_object()) {
      row.fail(fmt::format("{} ended without a result ({})", python_.program,
                           child.signal != 0 ? fmt::format("signal {}", child.signal)
                                             : fmt::format("exit code {}", child.exit_code)));
    } else if (answer.contains("error")) {
      row.fail(answer.at("error").get<std::string>());
    } else if (counts) {
      row.add(answer.at("samples").get<double>() / answer.at("seconds").get<double>(), std::nullopt);
    }
    return kDone;
  }

  Json to_json() const {
    Json settings = cli::to_json(settings_);
    settings.erase("file");
    for (const auto& [key, value] : resolved_.items()) settings[key] = value;
    settings["page_cache"] = cold_ ? "cold" : pages_warm_ ? "warm" : "as found";
    Json json = {{"file", settings_.file},  {"machine", machine_json()}, {"version", H5FEED_VERSION},
                 {"commit", H5FEED_COMMIT}, {"settings", settings},      {"peer", python_.versions}};
    json["rows"] = Json::array();
    for (const PeerRow& row : rows_) json["rows"].push_back(row.to_json());
    json["ratios"] = ratios_json(rows_);
    return json;
  }

  const OutputOptions& output_;
  const BenchSettings settings_;
  const Python python_;
  const bool cold_;  // the file's pages are dropped before each repetition
  std::string data_;
  std::string target_;
  std::vector<PeerRow> rows_;
  PeerRounds rounds_;
  std::chrono::nanoseconds repetition_{};
  Json resolved_ = Json::object();
  bool pages_warm_ = false;
  bool first_ = true;
};

}  // namespace

PeerRounds peer_rounds(const BenchSettings& settings, std::chrono::duration<double> start) {
  const std::uint64_t wanted = settings.warmup + settings.runs;
  const Seconds for_starts = std::max(kUsualStarts, kStartShare * Seconds(settings.time_budget));
  const double fit = std::floor(for_starts / start);
  const std::uint64_t all = fit >= static_cast<double>(wanted)
                                ? wanted
                                : std::max<std::uint64_t>(1, static_cast<std::uint64_t>(fit));
  return {.all = all, .counted = std::min(all, settings.runs)};
}

int bench_against_pytorch(const PeerRequest& request, const OutputOptions& output) {
  refuse_what_the_peer_lacks(request.settings);
  // Memory of a Python process with PyTorch and h5py.
  constexpr std::uint64_t kWorkerBytes = 256 * kMiB;
  for (const std::int64_t workers : request.loader_workers) check_threads("--num-workers", workers);
  for (const std::int64_t workers : request.peer_workers)
    check_processes("--num-workers", workers, kWorkerBytes);
  check_export_places(output, request.settings.file);
  return Comparison(request, output).run();
}

}  // namespace h5feed::cli
