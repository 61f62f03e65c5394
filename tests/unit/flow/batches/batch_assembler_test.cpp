// SPDX-License-Identifier: Apache-2.0
// How rows are copied into batches.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "batch/device.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batches/batch_assembler.hpp"
#include "flow/resolve/resolve.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

// An assembler for batches of 32 samples of 64 KiB: 2 MiB.
class Assembler {
 public:
  explicit Assembler(DataLoaderOptions options, bool has_device = true) {
    options.batch_size = 32;
    SystemLimits limits;
    limits.cpus = limits.host_cpus = 2;
    limits.available_bytes = 16 * kGiB;
    resolved_ = resolve(options, *state_, nullptr, limits, MemoryClaim::foreseen);
    if (has_device) device_ = make_host_device({.data = 2 * kMiB, .target = 0}, 4);
    assembler_ = std::make_unique<BatchAssembler>(*state_, resolved_, device_.get(), counters_);
  }

  BatchAssembler& operator*() { return *assembler_; }
  BatchAssembler* operator->() { return assembler_.get(); }

 private:
  const SampleSet set_{{.shape = {64, 256, 256}, .chunk_shape = {8, 256, 256}}};
  const Dataset dataset_ = open(set_);
  const std::shared_ptr<const DatasetState> state_ = DatasetAccess::state(dataset_);
  Resolved resolved_;
  std::unique_ptr<Device> device_;
  Counters counters_;
  std::unique_ptr<BatchAssembler> assembler_;
};

TEST(BatchAssembler, copies_past_the_caches_while_the_prefetched_batches_exceed_them) {
  Assembler assembler({.num_workers = 2, .prefetch_factor = 4});
  EXPECT_TRUE(assembler->copies_past_caches(kData)) << "8 batches, 16 MiB";
  assembler->set_prefetched(7);
  EXPECT_FALSE(assembler->copies_past_caches(kData));
  assembler->set_prefetched(16);
  EXPECT_TRUE(assembler->copies_past_caches(kData));
  EXPECT_FALSE(assembler->copies_past_caches(kTarget)) << "small rows";
  EXPECT_FALSE(Assembler({.num_workers = 2, .prefetch_factor = 3})->copies_past_caches(kData));
}

// What self-tuning has chosen counts, and not how many batches loaders of so many CPUs usually prefetch.
TEST(BatchAssembler, copies_like_a_fixed_setting_what_self_tuning_has_chosen) {
  Assembler assembler({.num_workers = kAuto});
  assembler->set_prefetched(8);
  EXPECT_TRUE(assembler->copies_past_caches(kData));
  assembler->set_prefetched(4);
  EXPECT_FALSE(assembler->copies_past_caches(kData));
}

TEST(BatchAssembler, keeps_in_the_caches_what_is_converted_or_taken_at_once) {
  const DataLoaderOptions many{.num_workers = 2, .prefetch_factor = 64};
  EXPECT_TRUE(Assembler(many)->copies_past_caches(kData));
  EXPECT_FALSE(Assembler(many, false)->copies_past_caches(kData)) << "no device: the caller waits for it";
  DataLoaderOptions normalized = many;
  normalized.normalize = Normalize{};
  EXPECT_FALSE(Assembler(normalized)->copies_past_caches(kData));
}

}  // namespace
}  // namespace h5feed::test
