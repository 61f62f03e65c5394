// SPDX-License-Identifier: Apache-2.0
// Charts of the epochs that loaders delivered.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "tools/report/charts.hpp"
#include "tools/report/html.hpp"

namespace h5feed::cli {
namespace {

// Loaders whose stages have a chart of their own.
constexpr std::size_t kMostStacks = 4;

// The epochs of one loader, in the order of its lines.
struct LoaderRun {
  std::string name;
  std::vector<const EpochFacts*> epochs;

  bool has_waits() const {
    return std::ranges::all_of(epochs, [](const EpochFacts* epoch) { return epoch->waits.has_value(); });
  }
};

// Returns the loaders of an input, or its processes where each makes many loaders in turn, as `bench` does.
std::vector<LoaderRun> runs_of(const Input& input) {
  constexpr std::size_t kMostLoaders = 4;
  const auto grouped_by = [&](std::string EpochFacts::*name) {
    std::vector<LoaderRun> runs;
    for (const EpochFacts& epoch : input.epochs) {
      auto run = std::ranges::find(runs, epoch.*name, &LoaderRun::name);
      if (run == runs.end()) run = runs.insert(run, {.name = epoch.*name, .epochs = {}});
      run->epochs.push_back(&epoch);
    }
    return runs;
  };
  std::vector<LoaderRun> loaders = grouped_by(&EpochFacts::loader);
  const bool known = std::ranges::none_of(input.epochs, &std::string::empty, &EpochFacts::process);
  return loaders.size() > kMostLoaders && known ? grouped_by(&EpochFacts::process) : loaders;
}

std::vector<LoaderRun> runs_of(const std::vector<Input>& inputs) {
  std::vector<LoaderRun> all;
  for (const Input& input : inputs) {
    std::vector<LoaderRun> runs = runs_of(input);
    for (LoaderRun& run : runs) {
      run.name = line_name(inputs, input, runs.size() > 1 ? run.name : "");
      all.push_back(std::move(run));
    }
  }
  return all;
}

// Where the epochs of all loaders lie in a chart: at their number, or, where a file holds several runs, at
// their place in the file. Neighbours are joined if there are too many.
class EpochAxis {
 public:
  EpochAxis(const std::vector<LoaderRun>& runs, std::size_t most) {
    std::set<double> numbers;
    std::size_t longest = 0;
    for (const LoaderRun& run : runs) {
      longest = std::max(longest, run.epochs.size());
      for (std::size_t i = 0; i < run.epochs.size(); ++i) {
        numbers.insert(run.epochs[i]->number);
        numbered_ = numbered_ && (i == 0 || run.epochs[i - 1]->number < run.epochs[i]->number);
      }
    }
    if (!numbered_) {
      numbers.clear();
      for (std::size_t i = 0; i < longest; ++i) numbers.insert(static_cast<double>(i));
    }
    numbers_.assign(numbers.begin(), numbers.end());
    joined_ = std::max<std::size_t>(1, (numbers_.size() + most - 1) / most);
  }

  std::string name() const { return numbered_ ? "epoch" : "epoch, in the order of the file"; }
  std::string note() const { return joined_ > 1 ? fmt::format(" Means of {} epochs.", joined_) : ""; }
  std::vector<std::string> labels() const {
    std::vector<std::string> labels;
    for (std::size_t i = 0; i < numbers_.size(); i += joined_) {
      const double last = numbers_[std::min(i + joined_, numbers_.size()) - 1];
      labels.push_back(joined_ == 1 ? exact_number(numbers_[i])
                                    : exact_number(numbers_[i]) + "–" + exact_number(last));
    }
    return labels;
  }
  // Returns the mean of a value of the epochs of a run at each position.
  std::vector<std::optional<double>> values(const LoaderRun& run,
                                            const std::function<double(const EpochFacts&)>& value) const {
    const std::size_t count = (numbers_.size() + joined_ - 1) / joined_;
    std::vector<double> sums(count, 0);
    std::vector<std::size_t> counts(count, 0);
    for (std::size_t i = 0; i < run.epochs.size(); ++i) {
      const double number = numbered_ ? run.epochs[i]->number : static_cast<double>(i);
      const auto at =
          static_cast<std::size_t>(std::ranges::lower_bound(numbers_, number) - numbers_.begin()) / joined_;
      sums[at] += value(*run.epochs[i]);
      ++counts[at];
    }
    std::vector<std::optional<double>> means(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (counts[i] > 0) means[i] = sums[i] / static_cast<double>(counts[i]);
    }
    return means;
  }

 private:
  bool numbered_ = true;
  std::vector<double> numbers_;
  std::size_t joined_ = 1;
};

Chart lines_chart(const std::vector<LoaderRun>& runs, const EpochAxis& axis, std::string title,
                  std::string note, double EpochFacts::*value, Unit unit) {
  Chart chart{.title = std::move(title),
              .note = std::move(note) + axis.note(),
              .x_name = axis.name(),
              .labels = axis.labels()};
  for (const LoaderRun& run : runs) {
    chart.series.push_back(
        {.name = run.name,
         .style = chart.series.size(),
         .values = axis.values(run, [&](const EpochFacts& epoch) { return epoch.*value; })});
  }
  chart.scale = scale_of(unit, 0);
  return chart;
}

// The seconds of the epochs of one loader, by what they were spent for.
Chart stages_chart(const LoaderRun& run, std::size_t most) {
  const EpochAxis axis({run}, most);
  Chart chart{.kind = Chart::Kind::stack,
              .title = "Where the time went: " + run.name,
              .note = "Seconds of the training thread: its own work, and what it waited for." + axis.note(),
              .x_name = axis.name(),
              .labels = axis.labels()};
  const auto own = [](const EpochFacts& epoch) {
    return std::max(0.0, epoch.seconds - std::accumulate(epoch.waits->begin(), epoch.waits->end(), 0.0));
  };
  chart.series.push_back({.name = "own work of the training", .style = 0, .values = axis.values(run, own)});
  for (std::size_t i = 0; i < kEpochWaits.size(); ++i) {
    const auto wait = [i](const EpochFacts& epoch) { return (*epoch.waits)[i]; };
    if (std::ranges::none_of(run.epochs, [&](const EpochFacts* epoch) { return wait(*epoch) > 0; })) continue;
    chart.series.push_back({.name = kEpochWaits[i].text, .style = i + 1, .values = axis.values(run, wait)});
  }
  double longest = 0;
  for (const EpochFacts* epoch : run.epochs) longest = std::max(longest, epoch->seconds);
  chart.scale = time_scale(longest);
  return chart;
}

}  // namespace

std::vector<Chart> loader_charts(const std::vector<Input>& inputs, std::size_t points) {
  constexpr std::size_t kMostEpochs = 40;
  const std::size_t most = std::clamp<std::size_t>(points / 2, 4, kMostEpochs);
  const std::vector<LoaderRun> runs = runs_of(inputs);
  if (runs.empty()) return {};
  const EpochAxis axis(runs, most);
  std::vector<Chart> charts;
  std::size_t left_out = 0;
  for (const LoaderRun& run : runs) {
    if (!run.has_waits()) continue;
    if (charts.size() < kMostStacks) {
      charts.push_back(stages_chart(run, most));
    } else {
      ++left_out;
    }
  }
  if (left_out > 0) charts.back().note += fmt::format(" More loaders without such a chart: {}.", left_out);
  charts.push_back(lines_chart(runs, axis, "Samples per second, by epoch", "As the training took them.",
                               &EpochFacts::samples_per_s, Unit::samples_per_s));
  charts.push_back(lines_chart(runs, axis, "Waiting, by epoch",
                               "Share of the time that the training waited for a batch.",
                               &EpochFacts::wait_share, Unit::share));
  return charts;
}

}  // namespace h5feed::cli
