// SPDX-License-Identifier: Apache-2.0
// The same program over the same file with LibTorch's loader and with h5feed's, where LibTorch's loses data
// in silence or ends the program. Its behaviour is that of torch/data/dataloader/base.h and stateless.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader.h>
#include <torch/data/samplers/random.h>
#include <torch/data/samplers/sequential.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/torch.hpp"
#include "support/loaders/torch_sets.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using TorchOptions = torch::data::DataLoaderOptions;
using torch::data::samplers::RandomSampler;
using torch::data::samplers::SequentialSampler;

class Defects : public ::testing::Test {
 protected:
  auto data() const { return TorchDataset(test::open(set_)).map(torch::data::transforms::Stack<>()); }
  auto theirs(const TorchOptions& options) const {
    return torch::data::make_data_loader<SequentialSampler>(data(), options);
  }
  auto ours(const TorchOptions& options) const {
    return h5feed::make_data_loader<SequentialSampler>(data(), options);
  }

  test::SampleSet set_{test::numbered_images()};
};

// Prints, without failing, that LibTorch's loader behaves in another way than this test describes: a newer
// LibTorch may have corrected it.
void tell_unless(bool as_described) {
  if (as_described) return;
  std::cout << "LibTorch " << TORCH_VERSION
            << " no longer behaves as this test describes; see docs/libtorch.md\n";
}

TEST_F(Defects, a_loop_that_was_left_ends_the_use_of_libtorchs_loader) {
  const auto look_at_one_batch_then_train = [](auto& loader) {
    for (auto& batch : *loader) {
      EXPECT_EQ(batch.data.size(0), 8);
      break;
    }
    return targets_of_epoch(*loader);
  };
  const auto options = TorchOptions(8).workers(2);
  auto libtorch = theirs(options);
  tell_unless(test::refusal_of<c10::Error>([&] {
                look_at_one_batch_then_train(libtorch);
              }).find("another iterator is not yet exhausted") != std::string::npos);
  auto h5feed = ours(options);
  EXPECT_EQ(look_at_one_batch_then_train(h5feed), first_samples(100));
}

TEST_F(Defects, max_jobs_without_workers_loses_the_first_batches_in_libtorchs_loader) {
  const auto options = TorchOptions(8).workers(0).max_jobs(4);
  const auto libtorch = theirs(options);
  const std::vector<std::int64_t> all = first_samples(100);
  tell_unless(targets_of_epoch(*libtorch) == std::vector<std::int64_t>(all.begin() + 32, all.end()));
  const auto h5feed = ours(options);
  EXPECT_EQ(targets_of_epoch(*h5feed), all);
}

// A program that passes over batches it cannot have. `errors` counts them.
template <typename Loader>
std::vector<std::int64_t> all_that_can_be_had(Loader& loader, int& errors) {
  std::vector<std::int64_t> targets;
  auto it = loader.begin();
  for (bool started = false; true;) {
    try {
      if (std::exchange(started, true)) ++it;
      if (it == loader.end()) return targets;
      test::append_targets(*it, targets);
    } catch (const std::exception&) {
      ++errors;
    }
  }
}

// All samples, so that those of a damaged chunk come in the middle.
std::vector<std::int64_t> with_damage_in_the_middle(const Dataset& dataset) {
  const SampleReader reader(dataset);
  std::int64_t damaged = 0;
  while (test::refusal_of<ChunkError>([&] { reader.read(std::span(&damaged, 1)); }) == "accepted") ++damaged;
  std::vector<std::int64_t> samples = first_samples(100);
  std::ranges::rotate(samples, samples.begin() + (damaged + 50) % 100);
  return samples;
}

TEST_F(Defects, errors_of_workers_end_the_epoch_early_in_libtorchs_loader) {
  const auto options = TorchOptions(5).workers(2).max_jobs(2);
  test::damage(set_.path(), std::filesystem::file_size(set_.path()) / 2, 1);
  const Dataset dataset = test::open(set_);
  const std::vector<std::int64_t> order = with_damage_in_the_middle(dataset);
  const auto data = TorchDataset(dataset.subset(order)).map(torch::data::transforms::Stack<>());

  auto h5feed = h5feed::make_data_loader<SequentialSampler>(data, options);
  int h5feed_errors = 0;
  std::vector<std::int64_t> expected = order;
  expected.erase(expected.begin() + 50, expected.begin() + 60);
  EXPECT_EQ(all_that_can_be_had(*h5feed, h5feed_errors), expected) << "all but the damaged chunk";
  EXPECT_EQ(h5feed_errors, 2);

  auto libtorch = torch::data::make_data_loader<SequentialSampler>(data, options);
  int libtorch_errors = 0;
  const std::vector<std::int64_t> first_half(order.begin(), order.begin() + 50);
  tell_unless(all_that_can_be_had(*libtorch, libtorch_errors) == first_half && libtorch_errors == 2);
}

TEST_F(Defects, no_jobs_are_an_empty_epoch_in_libtorchs_loader) {
  // In order, LibTorch's loader divides by the number of jobs and ends the program.
  const auto options = TorchOptions(8).workers(2).max_jobs(0).enforce_ordering(false);
  const auto libtorch = theirs(options);
  tell_unless(targets_of_epoch(*libtorch).empty());
  EXPECT_THAT(test::refusal_of<OptionError>([&] { ours(options); }),
              HasSubstr("max_jobs(0) leaves the workers nothing"));
}

// Through a file's bytes, as a checkpoint does.
template <typename Saved, typename Loaded>
void hand_over(const Saved& saved, Loaded& loaded) {
  torch::serialize::OutputArchive out;
  saved.save(out);
  std::stringstream bytes;
  out.save_to(bytes);
  torch::serialize::InputArchive in;
  in.load_from(bytes);
  loaded.load(in);
}

template <typename Loader>
std::vector<std::int64_t> targets_of_batches(Loader& loader, int batches) {
  std::vector<std::int64_t> targets;
  for (auto& batch : loader) {
    test::append_targets(batch, targets);
    if (--batches == 0) break;
  }
  return targets;
}

TEST_F(Defects, a_run_that_is_resumed_starts_the_epoch_again_in_libtorchs_loader) {
  const auto options = TorchOptions(8).workers(2);
  // LibTorch's loader has no state; its sampler has, which the loader resets.
  const RandomSampler sampler(100);
  auto libtorch = torch::data::make_data_loader(data(), sampler, options);
  std::vector<std::int64_t> seen = targets_of_batches(*libtorch, 4);
  RandomSampler loaded(100);
  hand_over(sampler, loaded);
  auto resumed_libtorch = torch::data::make_data_loader(data(), loaded, options);
  for (const std::int64_t target : targets_of_epoch(*resumed_libtorch)) seen.push_back(target);
  tell_unless(seen.size() == 132);

  auto h5feed = h5feed::make_data_loader<RandomSampler>(data(), options);
  seen = targets_of_batches(*h5feed, 4);
  auto resumed = h5feed::make_data_loader<RandomSampler>(data(), options);
  hand_over(*h5feed, *resumed);
  for (const std::int64_t target : targets_of_epoch(*resumed)) seen.push_back(target);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, first_samples(100));
  EXPECT_EQ(targets_of_epoch(*resumed).size(), 100U) << "the epoch after it is whole";
}

TEST_F(Defects, a_state_without_the_samplers_order_is_refused_in_mid_epoch) {
  auto loader = h5feed::make_data_loader<RandomSampler>(data(), TorchOptions(8));
  targets_of_batches(*loader, 4);
  const LoaderState state = loader->state();
  EXPECT_THAT(test::refusal_of<StateError>([&] { loader->restore(state); }),
              HasSubstr("use save() and load()"));
}

// The loader's own shuffle resumes by 56 bytes, also through save() and load().
TEST_F(Defects, the_loaders_own_shuffle_resumes_the_same_order) {
  const DataLoaderOptions options{.batch_size = 8, .shuffle = true, .num_workers = 2};
  auto whole = h5feed::make_data_loader(data(), options);
  const std::vector<std::int64_t> expected = targets_of_epoch(*whole);
  whole->set_epoch(0);
  std::vector<std::int64_t> seen = targets_of_batches(*whole, 4);
  auto resumed = h5feed::make_data_loader(data(), options);
  hand_over(*whole, *resumed);
  for (const std::int64_t target : targets_of_epoch(*resumed)) seen.push_back(target);
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace h5feed::test
