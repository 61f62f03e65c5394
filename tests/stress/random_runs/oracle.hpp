// SPDX-License-Identifier: Apache-2.0
// Expected batches of a random training: the order of a loader without workers, the values of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "stress/random_runs/random_data.hpp"
#include "stress/random_runs/training.hpp"

namespace h5feed::test {

/// Expected result of one call of `next()`.
struct Due {
  std::uint64_t epoch = 0, number = 0;
  std::int64_t repeat = 0;
  std::vector<std::int64_t> indices;  ///< samples to deliver
  std::vector<std::int64_t> planned;  ///< the samples of the plan, bad ones included
  bool throws_bad = false;            ///< may throw because of bad data
  bool throws_planted = false;        ///< may throw what a function of the user throws

  bool throws() const noexcept { return throws_bad || throws_planted; }
};

/// Returns position and samples of a batch, for messages.
std::string name_of_batch(const Batch& batch);
/// Returns position and samples of what is due, for messages.
std::string name_of_due(const Due& due);

/// Times that each (sample, repeat) was delivered.
using Count = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;

/// Knows what one training must deliver. `check` is thread-safe once `prepare` was called for the epoch.
class Oracle {
 public:
  /// Throws OptionError if the options of the training exclude each other. Borrows both.
  Oracle(const RandomData& data, const Training& training);

  /// Returns what the calls of one rank must do in an epoch, or in the rest of one from `from` on.
  std::vector<Due> due(const Size& size, std::int64_t rank, std::uint64_t epoch,
                       const std::optional<LoaderState>& from = {}) const;

  /// Learns the values of an epoch.
  void prepare(std::uint64_t epoch);
  /// Throws Mismatch unless the batch is what was due.
  void check(const Batch& batch, const Due& due) const;
  /// Throws Mismatch unless the deliveries of all ranks are those of one epoch, less what `lost` counts.
  void check_epoch(const Size& size, std::uint64_t epoch, const Count& delivered, const Count& lost) const;

 private:
  struct Value {
    std::vector<std::byte> bytes;
    SampleTransform transform;
  };
  // Of one epoch, by repeat and sample.
  using Values = std::map<std::pair<std::int64_t, std::int64_t>, Value>;

  bool loses_samples(const Size& size) const;
  void apply_faults(const Size& size, std::int64_t rank, std::uint64_t epoch,
                    const std::optional<LoaderState>& from, std::vector<Due>& due) const;
  void check_values(const Batch& batch) const;
  void check_fields(const Batch& batch) const;
  void check_origins(const Batch& batch) const;
  void check_bytes(const std::byte* bytes, std::size_t count, std::int64_t sample, const Value& value) const;

  const RandomData& data_;
  const Training& training_;
  const Dataset whole_;
  const Dataset damaged_;
  DataLoader values_loader_;
  DType dtype_ = DType::u8;
  bool as_stored_ = false;
  std::map<std::uint64_t, Values> values_;
};

}  // namespace h5feed::test
