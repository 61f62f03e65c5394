// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/loader_lines.hpp"

#include <algorithm>
#include <utility>

#include "tools/program/output.hpp"

namespace h5feed::cli {
namespace {

// A loader that has said nothing for so long has ended, or its training stands still.
constexpr double kSilent = 60;
constexpr std::size_t kMostEpochs = 10'000;

}  // namespace

LoaderLines::LoaderLines(std::filesystem::path path, double started_s)
    : path_(std::move(path)), started_s_(started_s) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(path_, missing);
  if (!missing) place_ = static_cast<std::streamoff>(bytes);
}

void LoaderLines::read(Point& point) {
  std::ifstream in(path_);
  in.seekg(place_);
  for (std::string line; std::getline(in, line) && !in.eof();) {  // a loader may be writing the last line
    place_ += static_cast<std::streamoff>(line.size()) + 1;
    take(line);
  }
  double counted = 0, wait = 0, wait_read = 0, samples_per_s = 0;
  for (auto& [key, loader] : loaders_) {
    if (!loader.counts) continue;
    ++counted;
    wait += loader.wait;
    wait_read += loader.wait_read;
    samples_per_s += loader.samples_per_s;
    loader.counts = !loader.epoch.finished && point.time_s - loader.last_s < kSilent;
  }
  if (counted == 0) return;
  point.loader_wait = wait / counted;
  point.loader_wait_read = wait_read / counted;
  point.loader_samples_per_s = samples_per_s;
}

void LoaderLines::take(const std::string& line) {
  const Json json = json_from(line);
  if (!json.is_object()) return;
  const auto number = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : 0;
  };
  if (number("time") <= 0) return;
  LoaderEpoch epoch{.pid = static_cast<std::int64_t>(number("pid")),
                    .loader = static_cast<std::int64_t>(number("loader")),
                    .epoch = static_cast<std::int64_t>(number("epoch")),
                    .end_s = number("time") - started_s_,
                    .finished = json.value("finished", Json()) == true,
                    .samples = number("samples"),
                    .wait_share = number("wait_share")};
  const double seconds = number("seconds");
  epoch.begin_s = epoch.end_s - seconds;
  if (const auto cause = json.find("bottleneck"); cause != json.end() && cause->is_string())
    epoch.bottleneck = cause->get<std::string>();
  if (const auto clauses = json.find("advice"); clauses != json.end() && clauses->is_array()) {
    for (const auto& clause : *clauses) {
      if (clause.is_string()) epoch.advice.push_back(clause.get<std::string>());
    }
  }
  double waited_s = 0;
  // The wait for a free slot is the training's own work on the GPU.
  for (const char* const stage : {"wait_read_s", "wait_decode_s", "wait_gather_s", "wait_transform_s",
                                  "wait_transfer_s", "wait_other_s"})
    waited_s += number(stage);

  Progress& loader = loaders_[{epoch.pid, epoch.loader}];
  const bool same = loader.epoch.epoch == epoch.epoch && !loader.epoch.finished && seconds >= loader.seconds;
  const Progress before = same ? loader : Progress();
  const double elapsed = seconds - before.seconds;
  if (elapsed > 0) {
    loader.wait = std::clamp((waited_s - before.waited_s) / elapsed, 0.0, 1.0);
    loader.wait_read = std::clamp((number("wait_read_s") - before.waited_for_read_s) / elapsed, 0.0, 1.0);
    loader.samples_per_s = std::max(0.0, epoch.samples - before.samples) / elapsed;
    loader.counts = true;
  }
  loader.seconds = seconds;
  loader.waited_s = waited_s;
  loader.waited_for_read_s = number("wait_read_s");
  loader.samples = epoch.samples;
  loader.last_s = epoch.end_s;
  loader.epoch = std::move(epoch);
  keep(loader.epoch);
}

void LoaderLines::keep(const LoaderEpoch& epoch) {
  const auto known = std::find_if(epochs_.rbegin(), epochs_.rend(), [&](const LoaderEpoch& each) {
    return each.pid == epoch.pid && each.loader == epoch.loader;
  });
  // A line of the same epoch continues it, unless the epoch was begun again.
  if (known != epochs_.rend() && known->epoch == epoch.epoch && !known->finished &&
      epoch.begin_s <= known->end_s) {
    const double begin_s = known->begin_s;
    *known = epoch;
    known->begin_s = begin_s;
    return;
  }
  epochs_.push_back(epoch);
  if (epochs_.size() > kMostEpochs) epochs_.erase(epochs_.begin(), epochs_.begin() + kMostEpochs / 2);
}

}  // namespace h5feed::cli
