// SPDX-License-Identifier: Apache-2.0
// Datasets that grow: opening them again.
#include <fmt/format.h>

#include <cstdint>
#include <tuple>

#include "base/byte_units.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {
namespace {

// Throws unless the samples up to `largest` of a dataset are the same samples of the dataset opened later.
// Rows are appended to parts and parts are added, so that a sample's number changes only if those of all
// later ones do.
void check_same_samples(const DatasetState& before, const DatasetState& now, std::uint64_t largest) {
  if (largest >= now.num_samples()) {
    throw DatasetError(
        fmt::format("{}: the dataset has {} samples now, fewer than the subset needs; choose it again",
                    now.file, format_count(now.num_samples())));
  }
  const SampleOrigin old = origin_of(before, static_cast<std::int64_t>(largest));
  const SampleOrigin current = origin_of(now, static_cast<std::int64_t>(largest));
  const auto place = [](const SampleOrigin& origin) {
    return std::tie(origin.file, origin.path, origin.row, origin.y, origin.x, origin.z, origin.frame);
  };
  if (place(old) == place(current)) return;
  throw DatasetError(fmt::format(
      "{}: samples were added before some of the subset: its sample {} was row {} of {}:{}, and is row {} of "
      "{}:{} now; choose it again",
      now.file, format_count(largest), format_count(static_cast<std::uint64_t>(old.row)), old.file, old.path,
      format_count(static_cast<std::uint64_t>(current.row)), current.file, current.path));
}

}  // namespace

void Dataset::refresh() {
  if (state_->mixture) {
    *this = opened_again(*state_);
    return;
  }
  Dataset newer = open(state_->options);
  if (chosen_ == state_->kept) {
    *this = newer;
    return;
  }
  if (chosen_) check_same_samples(*state_, *newer.state_, chosen_->sorted(chosen_->size() - 1));
  state_ = newer.state_;
}

}  // namespace h5feed
