// SPDX-License-Identifier: Apache-2.0
// Samplers of LibTorch at their edges, and what else of a TorchDataLoader meets the bounds of LibTorch's
// forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader.h>
#include <torch/data/samplers/random.h>
#include <torch/data/samplers/sequential.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "h5feed/torch.hpp"
#include "support/loaders/torch_sets.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

namespace samplers = torch::data::samplers;
namespace transforms = torch::data::transforms;
using ::testing::AllOf;
using ::testing::HasSubstr;
using TorchOptions = torch::data::DataLoaderOptions;
using Numbers = std::vector<std::size_t>;
using MaybeNumbers = torch::optional<Numbers>;

/// What every sampler of a user has to have, and these do not need.
class Unsaved : public samplers::Sampler<> {
 public:
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
};

// `count` samples, in batches of `own_size`, whatever is asked for.
class OwnBatches : public Unsaved {
 public:
  OwnBatches(std::size_t count, std::size_t own_size) : count_(count), own_size_(own_size) {}
  void reset(torch::optional<std::size_t> = torch::nullopt) override { next_ = 0; }
  MaybeNumbers next(std::size_t) override {
    if (next_ >= count_) return torch::nullopt;
    Numbers batch;
    while (batch.size() < own_size_ && next_ < count_) batch.push_back(next_++ % 100);
    return batch;
  }

 private:
  std::size_t count_;
  std::size_t own_size_;
  std::size_t next_ = 0;
};

// An order that there is only after a reset, drawn from Torch's generator.
class DrawnByReset : public Unsaved {
 public:
  void reset(torch::optional<std::size_t> = torch::nullopt) override {
    const torch::Tensor drawn = torch::randperm(100, torch::kInt64);
    order_.assign(drawn.data_ptr<std::int64_t>(), drawn.data_ptr<std::int64_t>() + 100);
    next_ = 0;
  }
  MaybeNumbers next(std::size_t batch_size) override {
    Numbers batch;
    while (batch.size() < batch_size && next_ < order_.size()) {
      batch.push_back(static_cast<std::size_t>(order_[next_++]));
    }
    if (batch.empty()) return torch::nullopt;
    return batch;
  }

 private:
  std::vector<std::int64_t> order_;
  std::size_t next_ = 0;
};

class CannotBeCopied : public DrawnByReset {
  std::unique_ptr<int> only_;
};
static_assert(TorchSampler<DrawnByReset> && !TorchSampler<CannotBeCopied>);

class TorchSamplers : public ::testing::Test {
 protected:
  Dataset data() const { return test::open(set_); }
  auto stacked() const { return TorchDataset(data()).map(transforms::Stack<>()); }

  test::SampleSet set_{test::numbered_images()};
};

TEST_F(TorchSamplers, batches_of_a_samplers_own_sizes_are_refused_instead_of_cut_anew) {
  const auto refusal = [&](std::size_t own_size) {
    return refusal_of<OptionError>(
        [&] { h5feed::make_data_loader(data(), OwnBatches(30, own_size), TorchOptions(8)); });
  };
  EXPECT_THAT(refusal(5), HasSubstr("batches of its own sizes (5 of batch_size 8 samples"));
  EXPECT_THAT(refusal(9), HasSubstr("batches of its own sizes (9 of batch_size 8 samples"));
  const auto loader = h5feed::make_data_loader(data(), OwnBatches(30, 8), TorchOptions(8));
  EXPECT_EQ(targets_of_epoch(*loader), first_samples(30));
}

TEST_F(TorchSamplers, a_sampler_that_does_not_end_is_refused) {
  const OwnBatches endless(std::numeric_limits<std::size_t>::max(), 8);
  EXPECT_THAT(refusal_of<OptionError>([&] { detail::TorchOrder(endless, 8, 1000); }),
              HasSubstr("gave 1008 samples and does not end"));
}

TEST_F(TorchSamplers, an_order_that_a_reset_draws_is_that_of_libtorchs_loader) {
  torch::manual_seed(3);
  const auto theirs = torch::data::make_data_loader(stacked(), DrawnByReset(), TorchOptions(8));
  std::vector<std::int64_t> expected = targets_of_epoch(*theirs);
  const std::vector<std::int64_t> second = targets_of_epoch(*theirs);
  torch::manual_seed(3);
  const auto ours = h5feed::make_data_loader(stacked(), DrawnByReset(), TorchOptions(8));
  EXPECT_EQ(ours->size(), 13U);
  EXPECT_EQ(targets_of_epoch(*ours), expected);
  EXPECT_EQ(targets_of_epoch(*ours), second);
}

TEST_F(TorchSamplers, several_ranks_need_a_sampler_that_knows_them) {
  EXPECT_THAT(
      refusal_of<OptionError>([&] {
        h5feed::make_data_loader<samplers::RandomSampler>(
            data(), DataLoaderOptions{.batch_size = 8, .rank = 1, .world_size = 2});
      }),
      AllOf(HasSubstr("world_size 2 with a sampler of LibTorch"), HasSubstr("DistributedRandomSampler")));
}

TEST_F(TorchSamplers, a_state_that_is_refused_leaves_the_running_order_alone) {
  const auto save = [](const TorchDataLoader& loader, torch::serialize::InputArchive& in) {
    torch::serialize::OutputArchive out;
    loader.save(out);
    std::stringstream bytes;
    out.save_to(bytes);
    in.load_from(bytes);
  };
  std::vector<std::int64_t> half = first_samples(50);
  const auto other = h5feed::make_data_loader<samplers::RandomSampler>(data().subset(half), TorchOptions(8));
  other->begin()->data.sum();
  torch::serialize::InputArchive archive;
  save(*other, archive);

  const auto loader = h5feed::make_data_loader<samplers::RandomSampler>(data(), TorchOptions(8));
  std::vector<std::int64_t> seen;
  for (auto& batch : *loader) {
    EXPECT_THROW(loader->load(archive), StateError);
    test::append_targets(batch, seen);
  }
  std::ranges::sort(seen);
  EXPECT_EQ(seen, first_samples(100));
}

TEST_F(TorchSamplers, transforms_of_single_samples_get_examples) {
  const auto plus_1000 = transforms::Lambda<torch::data::Example<>>([](torch::data::Example<> example) {
    EXPECT_EQ(example.data.sizes(), (torch::IntArrayRef{1, 8, 6}));
    return torch::data::Example<>(example.data, example.target + 1000);
  });
  const auto loader = h5feed::make_data_loader(TorchDataset(data()).map(plus_1000).map(transforms::Stack<>()),
                                               DataLoaderOptions{.batch_size = std::nullopt});
  std::int64_t sample = 0;
  for (auto& one : *loader) {
    ASSERT_TRUE(torch::equal(one.data, test::stored_image(set_, sample)));
    ASSERT_EQ(one.target.item<std::int64_t>(), 1000 + sample++);
  }
  EXPECT_EQ(sample, 100);
}

TEST_F(TorchSamplers, next_into_says_what_it_needs) {
  const torch::Tensor images = torch::empty({8, 1, 8, 6}, torch::kUInt8);
  const auto own_order = h5feed::make_data_loader(data(), DataLoaderOptions{.batch_size = 8});
  EXPECT_THAT(refusal_of<OptionError>([&] { own_order->next_into(images); }), HasSubstr("delivers to a GPU"));
  const auto sampled = h5feed::make_data_loader<samplers::SequentialSampler>(data(), TorchOptions(8));
  EXPECT_THAT(refusal_of<OptionError>([&] { sampled->next_into(images); }),
              HasSubstr("a sampler of LibTorch needs begin()"));
}

}  // namespace
}  // namespace h5feed::test
