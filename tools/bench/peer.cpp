// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/peer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "tools/bench/peer_rows.hpp"
#include "tools/bench/peer_scripts.hpp"
#include "tools/bench/python.hpp"
#include "tools/measure/epoch_order.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/program/child_process.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/machine.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/storage/free_space.hpp"

namespace h5feed::cli {
namespace {

constexpr const char* kLoaderName = "h5feed";
constexpr const char* kOrderFile = "order.i64";  // sample numbers of an epoch, in the folder of the scripts

using Seconds = std::chrono::duration<double>;

// Time limit of a measuring process in addition to its measuring time: this many times its start-up time.
constexpr double kStartAllowance = 5;
constexpr Seconds kLeastAllowance{2};
// Start-up may take this many times the row's time, or kUsualStarts in total; beyond that, repetitions are
// left out.
constexpr double kStartShare = 2;
constexpr Seconds kUsualStarts{5};
// Time limit of a process that reads or converts all samples: slower than this is taken for hanging.
constexpr Seconds kLeastReading{120};
constexpr double kSlowestReading = 10e6;  // bytes/s
// Size of a copy in another format, for each byte of the samples and in total.
constexpr double kCopyShare = 1.1;
constexpr std::uint64_t kCopyOverhead = 64 * kMiB;

void refuse_what_the_peers_lack(const BenchSettings& settings) {
  if (settings.loader.on_error != OnError::fail)
    throw OptionError("--peer compares whole files; leave out --on-error");
  if (settings.loader.normalize) throw OptionError("--peer compares stored values; leave out --normalize");
  if (!settings.loader.batch_size) throw OptionError("--peer compares batches; give --batch-size a number");
}

// Copy of the samples that a peer made in its own format.
struct Conversion {
  double seconds = 0;
  std::uint64_t bytes = 0;
  std::string error;
};

class Comparison {
 public:
  Comparison(const PeerRequest& request, const OutputOptions& output)
      : output_(output), settings_(request.settings), cold_(request.cold), folder_(request.scratch) {
    for (const std::string& name : request.peers) {
      peers_.push_back(find_peer(name, request.python, folder_, settings_.loader.shuffle.to_string()));
      start_ = std::max(start_, peers_.back().start);
    }
    const ScopedLogSink quiet(ignore_log);
    const Dataset dataset = open_samples(settings_);
    for (const std::int64_t workers : request.loader_workers) {
      DataLoader(dataset, loader_options(settings_, workers));
    }
    data_ = DatasetAccess::state(dataset)->data.info().path;
    data_bytes_ = DatasetAccess::state(dataset)->data.info().total_bytes();
    if (dataset.has_target()) target_ = DatasetAccess::state(dataset)->target->info().path;
    const std::vector<std::int64_t> order = epoch_order(dataset, loader_options(settings_, 0));
    folder_.write(kOrderFile, {reinterpret_cast<const char*>(order.data()), order.size() * sizeof(order[0])});
    add_rows(request);
    rounds_ = peer_rounds(settings_, start_);
    repetition_ = settings_.time_budget / static_cast<std::int64_t>(settings_.warmup + settings_.runs);
  }

  int run() {
    announce();
    convert();
    if (cold_) {
      require_droppable(settings_.file());
    } else if (std::filesystem::file_size(settings_.file()) <= system_limits().available_bytes / 2) {
      pages_warm_ = load_pages(settings_.file(), settings_.time_budget);
    }
    Progress progress("bench", ProgressUnit::seconds, seconds_in_all());
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
      print(peer_table(rows_).to_text() + '\n' + peer_verdict(rows_));
    }
    return kDone;
  }

 private:
  // Successive rounds run the loaders in the same order, h5feed between the peers, so that drift of the
  // machine affects all.
  void add_rows(const PeerRequest& request) {
    std::vector<std::pair<const Peer*, const PeerWay*>> ways;
    for (const Peer& peer : peers_) {
      for (const PeerWay& way : peer.ways) ways.emplace_back(&peer, &way);
    }
    const std::size_t longest = std::max(request.loader_workers.size(), request.peer_workers.size());
    for (std::size_t i = 0; i < longest; ++i) {
      for (std::size_t k = 0; k < ways.size(); ++k) {
        if (k == ways.size() / 2 && i < request.loader_workers.size()) {
          rows_.emplace_back(nullptr,
                             PeerWay{.name = kLoaderName, .order = settings_.loader.shuffle.to_string()},
                             request.loader_workers[i]);
        }
        if (i < request.peer_workers.size())
          rows_.emplace_back(ways[k].first, *ways[k].second, request.peer_workers[i]);
      }
    }
  }

  // Time that a Python process may take beyond its measuring time: to start, to fork its workers, to deliver
  // the first batch.
  Seconds allowance() const { return std::max(kLeastAllowance, kStartAllowance * start_); }
  Seconds reading_limit() const {
    return kLeastReading + Seconds(static_cast<double>(data_bytes_) / kSlowestReading);
  }

  double starts_in_all() const {
    const auto peers =
        std::count_if(rows_.begin(), rows_.end(), [](const auto& row) { return row.peer() != nullptr; });
    return start_.count() * static_cast<double>(rounds_.all) * static_cast<double>(peers);
  }
  double seconds_in_all() const {
    return Seconds(repetition_).count() * static_cast<double>(rounds_.all * rows_.size()) + starts_in_all();
  }

  void announce() const {
    std::string through;
    for (const Peer& peer : peers_) {
      for (const auto& [module, version] : peer.versions.items()) {
        const std::string text = fmt::format("{} {}", module, version.get<std::string>());
        if (module != "python" && through.find(text) == std::string::npos)
          through += (through.empty() ? "" : ", ") + text;
      }
    }
    const std::uint64_t wanted = settings_.warmup + settings_.runs;
    say(fmt::format(
        "measuring {}:{} through h5feed and through {} ({}): {} rows in turn, about {:.3g} s in all, of "
        "which "
        "starting Python takes {:.0f}{}; a process of Python is ended {:.0f} s after its time",
        printable(settings_.file()), printable(data_), printable(through), printable(peers_.front().python),
        rows_.size(), seconds_in_all(), starts_in_all(),
        rounds_.all < wanted
            ? fmt::format("; {} of {} repetitions of a row fit --time-budget", rounds_.all, wanted)
            : "",
        allowance().count()));
  }

  // Lets each peer that has a format of its own copy the samples into it. What fails there fails the rows.
  void convert() {
    for (const Peer& peer : peers_) {
      const auto way =
          std::find_if(peer.ways.begin(), peer.ways.end(), [](const auto& w) { return w.converts; });
      if (way == peer.ways.end()) continue;
      const auto bytes =
          static_cast<std::uint64_t>(kCopyShare * static_cast<double>(data_bytes_)) + kCopyOverhead;
      try {
        require_free_space(folder_.path() / peer.name, one_file(bytes, true));
      } catch (const FileError& error) {
        throw FileError(fmt::format("{}; --scratch names another folder", error.what()));
      }
      say(fmt::format("{} copies the samples into its own format, {}, which is not measured", peer.name,
                      printable((folder_.path() / peer.name).string())));
      const ChildResult child = ask(peer, "convert", settings_for(*way, 0), reading_limit(), [] {});
      const Json answer = json_from(child.output);
      Conversion& made = conversions_[peer.name];
      made.error = problem_of(peer, child, answer, reading_limit());
      if (made.error.empty()) {
        made = {.seconds = answer.at("seconds"), .bytes = answer.at("bytes")};
        say(fmt::format("{}: {} in {:.3g} s", peer.name, format_bytes(made.bytes), made.seconds));
        continue;
      }
      for (PeerRow& row : rows_) {
        if (row.peer() == &peer && row.way().converts) row.fail("converting the samples: " + made.error);
      }
    }
  }

  int measure(PeerRow& row, bool counts, Progress& progress) {
    if (!row.error().empty()) return kDone;
    if (cold_) drop_pages(settings_.file());
    auto last = Clock::now();
    const auto tick = [&] {
      const auto now = Clock::now();
      progress.advance(std::chrono::duration<double>(now - last).count());
      last = now;
    };
    return row.peer() == nullptr ? measure_loader(row, counts, tick) : measure_peer(row, counts, tick);
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
                              workers_text(row.num_workers()), child.signal, ::strsignal(child.signal)));
    }
    if (child.exit_code != kDone) return child.exit_code;
    const Json answer = json_from(child.output);
    for (const auto& [key, value] : answer.at("resolved").items()) resolved_[key] = value;
    if (!counts) return kDone;
    const Json& result = answer.at("row");
    PeerRate rate{.samples_per_s = result.at("samples_per_s"),
                  .first_batch_s = result.at("first_batch_ms").get<double>() / 1e3};
    if (const Json& after_start = result.at("samples_per_s_after_start"); !after_start.is_null()) {
      rate.after_start = after_start.get<double>();
      rate.samples_per_s = epoch_rate(answer.at("resolved").at("samples").get<double>(),
                                      static_cast<double>(*settings_.loader.batch_size), rate.first_batch_s,
                                      *rate.after_start);
    }
    if (const Json& share = result.at("share_of_limit"); !share.is_null())
      rate.limit_share = share.get<double>();
    row.add(rate);
    return kDone;
  }

  Json settings_for(const PeerWay& way, std::int64_t num_workers) const {
    return {{"mode", way.mode},
            {"order", settings_.loader.shuffle.to_string()},
            {"num_workers", num_workers},
            {"batch_size", *settings_.loader.batch_size},
            {"seconds", Seconds(repetition_).count()},
            {"seed", *settings_.loader.seed},
            {"numbers", kOrderFile}};
  }

  ChildResult ask(const Peer& peer, const char* what, Json settings, Seconds limit,
                  const std::function<void()>& tick) const {
    settings["folder"] = peer.name;
    return run_program(peer.python, {peer.script, what, settings.dump(), settings_.file(), data_, target_},
                       std::chrono::duration_cast<std::chrono::nanoseconds>(limit), tick);
  }

  // Returns why a process of a peer has no result; empty if it has one.
  std::string problem_of(const Peer& peer, const ChildResult& child, const Json& answer,
                         Seconds limit) const {
    if (child.timed_out) {
      return fmt::format(
          "{} did not end within {:.3g} s, {:.3g} s to start included, and was killed; a longer "
          "--time-budget gives it more",
          peer.python, limit.count(), allowance().count());
    }
    if (child.exit_code != 0 || child.signal != 0 || !answer.is_object()) {
      return fmt::format("{} ended without a result ({})", peer.python,
                         child.signal != 0 ? fmt::format("signal {}", child.signal)
                                           : fmt::format("exit code {}", child.exit_code));
    }
    return answer.contains("error") ? answer.at("error").get<std::string>() : "";
  }

  int measure_peer(PeerRow& row, bool counts, const std::function<void()>& tick) {
    Seconds limit = Seconds(repetition_) + allowance();
    if (row.way().slow_start) limit += reading_limit();
    const ChildResult child =
        ask(*row.peer(), "measure", settings_for(row.way(), row.num_workers()), limit, tick);
    const Json answer = json_from(child.output);
    const std::string problem = problem_of(*row.peer(), child, answer, limit);
    if (!problem.empty()) {
      row.fail(problem);
    } else if (counts) {
      PeerRate rate{.samples_per_s = answer.at("samples_per_s"), .first_batch_s = answer.at("first_batch_s")};
      if (!answer.at("after_start").is_null()) rate.after_start = answer.at("after_start").get<double>();
      row.add(rate);
    }
    return kDone;
  }

  Json to_json() const {
    Json settings = cli::to_json(settings_);
    for (const auto& [key, value] : resolved_.items()) settings[key] = value;
    settings["page_cache"] = cold_ ? "cold" : pages_warm_ ? "warm" : "as found";
    Json json = {{"file", settings_.file()},
                 {"machine", machine_json()},
                 {"version", H5FEED_VERSION},
                 {"commit", H5FEED_COMMIT},
                 {"settings", settings}};
    for (const Peer& peer : peers_) {
      for (const auto& [module, version] : peer.versions.items()) json["peer"][module] = version;
    }
    json["conversions"] = Json::object();
    for (const auto& [peer, made] : conversions_) {
      if (made.error.empty()) json["conversions"][peer] = {{"seconds", made.seconds}, {"bytes", made.bytes}};
    }
    json["rows"] = Json::array();
    for (const PeerRow& row : rows_) json["rows"].push_back(row.to_json());
    json["ratios"] = ratios_json(rows_);
    return json;
  }

  const OutputOptions& output_;
  const BenchSettings settings_;
  const bool cold_;  // the file's pages are dropped before each repetition
  const PeerFolder folder_;
  std::vector<Peer> peers_;
  Seconds start_{};  // the longest start-up time of the peers
  std::string data_;
  std::string target_;
  std::uint64_t data_bytes_ = 0;
  std::vector<PeerRow> rows_;
  std::map<std::string, Conversion> conversions_;
  PeerRounds rounds_;
  std::chrono::nanoseconds repetition_{};
  Json resolved_ = Json::object();
  bool pages_warm_ = false;
  bool first_ = true;
};

}  // namespace

std::vector<std::string> parse_peers(const std::string& text) {
  const std::vector<std::string> known = peer_names();
  std::vector<std::string> peers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw OptionError(
          fmt::format("--peer \"{}\" is not known; it takes {}", printable(name), fmt::join(known, ", ")));
    }
    if (std::find(peers.begin(), peers.end(), name) == peers.end()) peers.push_back(name);
    begin = end + 1;
  }
  return peers;
}

PeerRounds peer_rounds(const BenchSettings& settings, std::chrono::duration<double> start) {
  const std::uint64_t wanted = settings.warmup + settings.runs;
  const Seconds for_starts = std::max(kUsualStarts, kStartShare * Seconds(settings.time_budget));
  const double fit = std::floor(for_starts / start);
  const std::uint64_t all = fit >= static_cast<double>(wanted)
                                ? wanted
                                : std::max<std::uint64_t>(1, static_cast<std::uint64_t>(fit));
  return {.all = all, .counted = std::min(all, settings.runs)};
}

int bench_against_peers(const PeerRequest& request, const OutputOptions& output) {
  refuse_what_the_peers_lack(request.settings);
  // Memory of a Python process with PyTorch and h5py.
  constexpr std::uint64_t kWorkerBytes = 256 * kMiB;
  for (const std::int64_t workers : request.loader_workers) check_threads("--num-workers", workers);
  for (const std::int64_t workers : request.peer_workers)
    check_processes("--num-workers", workers, kWorkerBytes);
  check_export_places(output, request.settings.file());
  return Comparison(request, output).run();
}

}  // namespace h5feed::cli
