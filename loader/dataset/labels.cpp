// SPDX-License-Identifier: Apache-2.0
#include "h5feed/labels.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "base/system_limits.hpp"
#include "base/with_type.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/error.hpp"
#include "plan/mixture.hpp"
#include "plan/sample_subset.hpp"
#include "store/read/read_all.hpp"

namespace h5feed {
namespace {

std::string name_of_field(std::string_view field) {
  return field.empty() ? "the target" : fmt::format("field \"{}\"", field);
}

// Returns the field of the labels; `name` empty: the target.
const Field& label_field(const DatasetState& dataset, std::string_view name) {
  const Field* found = nullptr;
  if (name.empty()) {
    if (!dataset.target) {
      throw OptionError(
          fmt::format("{}: the dataset has no target to take the labels from; open it with "
                      "target, or name a field",
                      dataset.file));
    }
    found = &*dataset.target;
  } else {
    for (std::size_t i = 0; i < dataset.fields.size(); ++i) {
      if (dataset.fields[i].options.name == name) found = dataset.field(kFirstNamed + i);
    }
    if (found == nullptr) {
      throw OptionError(
          fmt::format("{}: there is no field \"{}\" of one number per sample; name one of "
                      "DatasetOptions::fields, or none for the target",
                      dataset.file, name));
    }
  }
  const DatasetInfo& info = found->info();
  if (!is_integer(info.dtype) || info.row_elements() != 1 || found->map.tiled()) {
    throw OptionError(fmt::format("{}:{} is {}; labels must be one integer per sample; name another field",
                                  info.file, short_path(info.path), info.shape_text()));
  }
  return *found;
}

// The labels of all rows of a field.
class Labels {
 public:
  Labels(const DatasetState& dataset, std::string_view name)
      : field_(label_field(dataset, name)), what_(name_of_field(name)) {
    if (!field_.is_resident()) read_ = read_all(*field_.reader, system_limits().cpus);
  }

  std::int64_t of(std::uint64_t sample) const {
    const ByteBuffer& rows = field_.is_resident() ? field_.resident : read_;
    return with_type_of(field_.info().dtype, [&]<typename T>(T) -> std::int64_t {
      T value;
      std::memcpy(&value, rows.data() + field_.row_of(sample) * sizeof value, sizeof value);
      if constexpr (std::is_integral_v<T>) {
        if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
      }
      throw OptionError(
          fmt::format("{}:{}: the label of sample {} does not fit int64; name another field than {}",
                      field_.info().file, short_path(field_.info().path), sample, what_));
    });
  }

 private:
  const Field& field_;
  const std::string what_;
  ByteBuffer read_;
};

// Calls `visit(sample)` with the number of each sample that takes part, in the order of the dataset.
template <typename Visit>
void for_each_sample(const Dataset& dataset, const Visit& visit) {
  const SampleSubset* const chosen = DatasetAccess::chosen(dataset).get();
  const auto size = static_cast<std::uint64_t>(dataset.size());
  for (std::uint64_t place = 0; place < size; ++place) visit(chosen ? chosen->given(place) : place);
}

}  // namespace

std::vector<LabelShare> label_share(const Dataset& dataset, std::string_view field) {
  const DatasetState& state = *DatasetAccess::state(dataset);
  const Labels labels(state, field);
  // How often an epoch delivers a sample of each set, divided by the samples of the epoch.
  std::vector<double> rates = {1 / static_cast<double>(dataset.size())};
  if (state.mixture) {
    const auto& sets = state.mixture->sets();
    const std::vector<std::uint64_t> draws = state.mixture->draws();
    rates.clear();
    for (std::size_t i = 0; i < sets.size(); ++i) {
      rates.push_back(static_cast<double>(draws[i]) / static_cast<double>(sets[i].size()) /
                      static_cast<double>(state.mixture->size()));
    }
  }
  std::map<std::int64_t, LabelShare> classes;
  for_each_sample(dataset, [&](std::uint64_t sample) {
    const std::int64_t label = labels.of(sample);
    LabelShare& share = classes[label];
    share.label = label;
    ++share.samples;
    share.share += rates[static_cast<std::size_t>(set_of(state, static_cast<std::int64_t>(sample)))];
  });
  std::vector<LabelShare> shares;
  for (const auto& [label, share] : classes) shares.push_back(share);
  return shares;
}

std::vector<double> balanced_weights(const Dataset& dataset, std::string_view field) {
  const DatasetState& state = *DatasetAccess::state(dataset);
  if (state.mixture) {
    throw OptionError(
        "balanced_weights() is for a sampler, which a mixture does not take; mix a subset of each class, "
        "with "
        "equal weights");
  }
  const Labels labels(state, field);
  std::map<std::int64_t, double> weights;
  for_each_sample(dataset, [&](std::uint64_t sample) { weights[labels.of(sample)] += 1; });
  for (auto& [label, weight] : weights) weight = 1 / (weight * static_cast<double>(weights.size()));
  std::vector<double> balanced;
  balanced.reserve(static_cast<std::size_t>(dataset.size()));
  for_each_sample(dataset, [&](std::uint64_t sample) { balanced.push_back(weights[labels.of(sample)]); });
  return balanced;
}

}  // namespace h5feed
