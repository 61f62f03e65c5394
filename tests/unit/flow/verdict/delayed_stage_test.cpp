// SPDX-License-Identifier: Apache-2.0
// Trials in which one stage is slow: the verdict has to name it.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "store/format/byte_source.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"

namespace h5feed::test {
namespace {

using Cause = Verdict::Cause;
using std::chrono::microseconds;

constexpr int kTrials = 200;

class SlowSource final : public ByteSource {
 public:
  explicit SlowSource(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::this_thread::sleep_for(microseconds(1500));
    source_->read(offset, out);
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
};

class DelayedStage : public testing::Test {
 protected:
  // Chunks of 8 samples, so that even a delayed epoch is short.
  static SampleSetSpec spec(int gzip) {
    return {.shape = {128, 3, 32, 32}, .chunk_shape = {8, 3, 32, 32}, .gzip = gzip};
  }

  Dataset open_for(Cause slow) const {
    const SampleSet& set = slow == Cause::decode ? gzip_ : slow == Cause::read ? mixed() : plain_;
    const DatasetOptions options{.files = {set.path()}, .data = "images"};
    if (slow != Cause::read) return Dataset::open(options);
    return DatasetAccess::open(
        options, [](auto source) { return std::make_shared<const SlowSource>(std::move(source)); });
  }
  const SampleSet& mixed() const { return trial_ % 2 == 0 ? plain_ : gzip_; }

  // Options that differ from trial to trial, and make `slow` slow.
  DataLoaderOptions options_for(Cause slow) {
    const auto any = [&](auto... values) {
      const std::int64_t all[] = {values...};
      return all[random_() % std::size(all)];
    };
    DataLoaderOptions options{.batch_size = any(8, 16, 20), .num_workers = any(0, 1, 2, 4, kAuto)};
    options.shuffle = std::string(std::array{"sequential", "full", "chunk:4"}[random_() % 3]);
    options.cache_bytes = static_cast<std::uint64_t>(any(0, 100'000, 300'000));
    options.row_reads = RowReads::never;
    if (options.shuffle.kind() == Shuffle::Kind::full) options.cache_bytes = 300'000;
    if (slow == Cause::gather) {
      options.preload = true;
      options.cache_bytes = 4'000'000;
      options.normalize = Normalize{};
      options.augment = Augment{.random_resized_crop = Augment::RandomResizedCrop{.height = 96, .width = 96}};
    }
    if (slow == Cause::transform) {
      options.transform = [](const SampleView&, const SampleKey&) {
        std::this_thread::sleep_for(microseconds(300));
      };
    }
    return options;
  }

  Cause bottleneck_of(Cause slow) {
    DataLoader loader(open_for(slow), options_for(slow));
    while (loader.next()) {
      if (slow == Cause::consumer) std::this_thread::sleep_for(microseconds(8000));
    }
    text_ = loader.verdict()->to_string();
    return loader.verdict()->bottleneck;
  }

  const SampleSet plain_{spec(-1)};
  const SampleSet gzip_{spec(6)};
  const CapturedLog log_;
  std::mt19937 random_{7};
  int trial_ = 0;
  std::string text_;
};

TEST_F(DelayedStage, is_named_in_95_of_100_trials) {
  constexpr std::array kSlow = {Cause::consumer, Cause::read, Cause::decode, Cause::gather, Cause::transform};
  int right = 0;
  for (; trial_ < kTrials; ++trial_) {
    const Cause slow = kSlow[static_cast<std::size_t>(trial_) % kSlow.size()];
    const Cause found = bottleneck_of(slow);
    if (found == slow) {
      ++right;
    } else {
      std::printf("trial %d: %s was slow, found %s: %s\n", trial_, name_of(slow), name_of(found),
                  text_.c_str());
    }
  }
  EXPECT_GE(right, kTrials * 95 / 100);
}

}  // namespace
}  // namespace h5feed::test
