// SPDX-License-Identifier: Apache-2.0
// What `h5feed::make_data_loader` takes from programs written for LibTorch's, and what it makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader.h>
#include <torch/data/samplers/distributed.h>
#include <torch/data/samplers/random.h>
#include <torch/data/samplers/sequential.h>
#include <torch/data/transforms/lambda.h>
#include <torch/utils.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "h5feed/torch.hpp"
#include "support/captured_log.hpp"
#include "support/loaders/torch_sets.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

namespace transforms = torch::data::transforms;
namespace samplers = torch::data::samplers;
using ::testing::AllOf;
using ::testing::HasSubstr;
using TorchOptions = torch::data::DataLoaderOptions;
using Example = torch::data::Example<>;

class TorchFeed : public ::testing::Test {
 protected:
  TorchDataset dataset() const { return TorchDataset(test::open(set_)); }
  auto stacked() const { return dataset().map(transforms::Stack<>()); }

  test::SampleSet set_{test::numbered_images()};
};

TEST_F(TorchFeed, takes_a_sampler_as_template_argument) {
  auto loader = h5feed::make_data_loader<samplers::SequentialSampler>(stacked(), TorchOptions(8).workers(2));
  EXPECT_EQ(loader->size(), 13U);
  EXPECT_EQ(targets_of_epoch(*loader), first_samples(100));
  auto ours = h5feed::make_data_loader<samplers::SequentialSampler>(stacked(), {.batch_size = 8});
  EXPECT_EQ(targets_of_epoch(*ours), first_samples(100));
}

TEST_F(TorchFeed, takes_a_sampler_object) {
  auto loader = h5feed::make_data_loader(test::open(set_), samplers::SequentialSampler(100), TorchOptions(8));
  EXPECT_EQ(targets_of_epoch(*loader), first_samples(100));
}

TEST_F(TorchFeed, shuffles_by_default_where_libtorch_would) {
  EXPECT_NE(targets_of_epoch(*h5feed::make_data_loader(stacked(), TorchOptions(100))), first_samples(100));
  EXPECT_NE(targets_of_epoch(*h5feed::make_data_loader(test::open(set_), 100)), first_samples(100));
  EXPECT_NE(targets_of_epoch(*h5feed::make_data_loader(stacked())), first_samples(100));
  EXPECT_EQ(targets_of_epoch(*h5feed::make_data_loader(stacked(), {.batch_size = 100})), first_samples(100));
  EXPECT_EQ(targets_of_epoch(*h5feed::make_data_loader(test::open(set_))), first_samples(100));
}

TEST_F(TorchFeed, means_by_libtorchs_options_what_libtorch_means) {
  const auto options =
      TorchOptions(16).workers(2).max_jobs(3).enforce_ordering(false).drop_last(true).timeout(
          std::chrono::milliseconds(60'000));
  const auto loader = h5feed::make_data_loader(stacked(), options);
  EXPECT_EQ(loader->options().batch_size, 16);
  EXPECT_EQ(loader->options().num_workers, 2);
  EXPECT_EQ(loader->options().prefetch_batches, 4U);  // 3, to a whole number for each worker
  EXPECT_FALSE(loader->options().in_order);
  EXPECT_EQ(loader->options().timeout, std::chrono::milliseconds(60'000));
  // The names of LibTorch's resolved options.
  EXPECT_EQ(loader->options().workers, 2U);
  EXPECT_EQ(loader->options().max_jobs, 4U);
  EXPECT_FALSE(loader->options().enforce_ordering);
  EXPECT_EQ(loader->size(), 6U);
}

// A training loop whose model draws random numbers from the same generator.
template <typename Loader>
std::vector<std::int64_t> order_of_training(Loader& loader) {
  std::vector<std::int64_t> targets;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (auto& batch : loader) {
      test::append_targets(batch, targets);
      torch::rand({3});
    }
  }
  return targets;
}

TEST_F(TorchFeed, has_the_very_order_of_libtorchs_loader) {
  torch::manual_seed(5);
  const auto theirs = torch::data::make_data_loader(stacked(), TorchOptions(8));
  const auto expected = order_of_training(*theirs);
  for (const std::size_t workers : {0U, 3U}) {
    torch::manual_seed(5);
    const auto ours = h5feed::make_data_loader(stacked(), TorchOptions(8).workers(workers));
    EXPECT_EQ(order_of_training(*ours), expected) << workers << " workers";
  }
}

TEST_F(TorchFeed, takes_libtorchs_distributed_samplers) {
  std::vector<std::int64_t> seen;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    auto loader = h5feed::make_data_loader(
        stacked(), samplers::DistributedRandomSampler(100, 4, rank, /*allow_duplicates=*/true),
        TorchOptions(8));
    loader->set_epoch(0);
    const auto first = targets_of_epoch(*loader);
    EXPECT_EQ(first.size(), 25U);
    loader->set_epoch(3);
    samplers::DistributedRandomSampler expected(100, 4, rank, true);
    expected.set_epoch(3);
    expected.reset();
    const auto listed = *expected.next(25);
    EXPECT_EQ(targets_of_epoch(*loader), (std::vector<std::int64_t>(listed.begin(), listed.end())));
    seen.insert(seen.end(), first.begin(), first.end());
  }
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 100U);
}

// Every third sample, then none.
class EveryThird : public samplers::Sampler<> {
 public:
  void reset(torch::optional<std::size_t>) override { next_ = 0; }
  torch::optional<std::vector<std::size_t>> next(std::size_t batch_size) override {
    std::vector<std::size_t> batch;
    for (; batch.size() < batch_size && next_ < 100; next_ += 3) batch.push_back(next_);
    if (batch.empty()) return torch::nullopt;
    return batch;
  }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}

 private:
  std::size_t next_ = 0;
};

TEST_F(TorchFeed, takes_a_users_sampler) {
  auto loader = h5feed::make_data_loader(stacked(), EveryThird(), TorchOptions(10).workers(1));
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto targets = targets_of_epoch(*loader);
    ASSERT_EQ(targets.size(), 34U);
    for (std::size_t i = 0; i < targets.size(); ++i) EXPECT_EQ(targets[i], static_cast<std::int64_t>(3 * i));
  }
}

TEST_F(TorchFeed, tells_which_samples_a_batch_has) {
  auto loader = h5feed::make_data_loader(test::open(set_), {.batch_size = 10, .shuffle = true, .seed = 3});
  for (auto& batch : *loader) {
    std::vector<std::int64_t> targets;
    test::append_targets(batch, targets);
    EXPECT_EQ(batch.indices, targets);
  }
}

TEST_F(TorchFeed, a_batch_unpacks_into_data_and_target_and_may_be_moved_from) {
  const auto loader =
      h5feed::make_data_loader<samplers::SequentialSampler>(stacked(), TorchOptions(50).workers(1));
  std::vector<torch::Tensor> kept;
  for (auto& [data, target] : *loader) {
    EXPECT_EQ(data.size(0), target.size(0));
    kept.push_back(std::move(data));
  }
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_TRUE(torch::equal(kept[1][0], test::stored_image(set_, 50)));
  std::vector<Example> examples;
  for (torch::data::Example<>& batch : *loader) examples.push_back(std::move(batch));
  EXPECT_TRUE(torch::equal(examples[0].data, kept[0]));
}

TEST_F(TorchFeed, says_nothing_of_decoding_twice_where_libtorchs_sampler_follows_the_file) {
  DataLoaderOptions options{.batch_size = 8};
  options.cache_bytes = 1000;  // two chunks
  const auto sequential =
      h5feed::make_data_loader(test::open(set_), samplers::SequentialSampler(100), options);
  EXPECT_EQ(sequential->plan().decodes_per_chunk, 1.0);
  const auto random = h5feed::make_data_loader(test::open(set_), samplers::RandomSampler(100), options);
  EXPECT_GT(*random->plan().decodes_per_chunk, 2.0);
}

TEST_F(TorchFeed, computes_normalize_and_stack_while_it_gathers) {
  constexpr double kMean = 63.5;
  constexpr double kStd = 36.7;
  const auto chain = dataset().map(transforms::Normalize<>(kMean, kStd)).map(transforms::Stack<>());
  auto [data, options] = detail::resolve_chain(chain, {});
  EXPECT_FALSE(options.collate_fn) << "nothing is left to do for each example";
  auto ours = h5feed::make_data_loader<samplers::SequentialSampler>(chain, TorchOptions(100));
  auto theirs = torch::data::make_data_loader<samplers::SequentialSampler>(chain, TorchOptions(100));
  const torch::Tensor fused = ours->begin()->data;
  const torch::Tensor each = theirs->begin()->data;
  EXPECT_EQ(fused.scalar_type(), torch::kFloat32);
  const double bound = std::ldexp(1.0, -22) * (126 + kMean) / kStd;
  EXPECT_LE((fused - each).abs().max().item<double>(), bound);
}

TEST_F(TorchFeed, scales_before_it_normalizes_where_the_dataset_is_told_to) {
  const TorchDataset scaled(test::open(set_),
                            {.normalize = Normalize{.scale = 1.0 / 255, .mean = {}, .std = {}}});
  auto chain = TorchDataset(scaled).map(transforms::Normalize<>(0.5, 0.25)).map(transforms::Stack<>());
  EXPECT_FALSE(detail::resolve_chain(chain, {}).second.collate_fn);
  const auto loader = h5feed::make_data_loader<samplers::SequentialSampler>(chain, TorchOptions(1));
  const torch::Tensor expected = (test::stored_image(set_, 0).to(torch::kFloat64) / 255 - 0.5) / 0.25;
  EXPECT_LE((loader->begin()->data[0] - expected).abs().max().item<double>(), 1e-6);
}

TEST_F(TorchFeed, has_the_values_of_libtorchs_own_datasets_by_unit_range) {
  constexpr double kMean = 0.1307;
  constexpr double kStd = 0.3081;
  // As torch::data::datasets::MNIST makes its images.
  const torch::Tensor image = test::stored_image(set_, 0).to(torch::kFloat32).div_(255);
  const torch::Tensor expected = (image - kMean) / kStd;
  const Dataset by_dataset =
      Dataset::open({.files = {set_.path()}, .data = "images", .target = "labels", .unit_range = true});
  const test::CapturedLog log;
  for (const TorchDataset& data :
       {TorchDataset(by_dataset), TorchDataset(test::open(set_), {.unit_range = true})}) {
    const Example plain = TorchDataset(data).get(0);
    EXPECT_TRUE(torch::equal(plain.data, image));
    const auto chain =
        TorchDataset(data).map(transforms::Normalize<>(kMean, kStd)).map(transforms::Stack<>());
    auto ours = h5feed::make_data_loader<samplers::SequentialSampler>(chain, TorchOptions(1));
    auto theirs = torch::data::make_data_loader<samplers::SequentialSampler>(chain, TorchOptions(1));
    EXPECT_LE((ours->begin()->data[0] - expected).abs().max().item<double>(), 1e-6);
    EXPECT_LE((theirs->begin()->data[0] - expected).abs().max().item<double>(), 1e-6);
  }
  EXPECT_THAT(log.lines(), ::testing::IsEmpty());
  const auto unscaled = dataset().map(transforms::Normalize<>(kMean, kStd)).map(transforms::Stack<>());
  auto loader = h5feed::make_data_loader<samplers::SequentialSampler>(unscaled, TorchOptions(1));
  EXPECT_THAT(log.lines(), ::testing::ElementsAre(AllOf(
                               HasSubstr("normalize: mean 0.1307 and std 0.3081 are for values in 0 … 1"),
                               HasSubstr("open the dataset with .unit_range = true"))));
}

// Two Normalize, a Lambda on tensors and one on examples: what cannot be fused.
auto long_chain(const TorchDataset& dataset, const std::function<void()>& on_example) {
  return TorchDataset(dataset)
      .map(transforms::Normalize<>(100.0, 30.0))
      .map(transforms::TensorLambda<>([](torch::Tensor image) { return image.flip({2}); }))
      .map(transforms::Normalize<>(0.25, 2.0))
      .map(transforms::Lambda<Example>([on_example](Example example) {
        on_example();
        return Example(example.data, example.target + 1000);
      }))
      .map(transforms::Stack<>());
}

TEST_F(TorchFeed, runs_other_transforms_for_each_example_on_the_workers) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int> examples = 0;
  const auto note = [&] {
    ++examples;
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  };
  auto ours = h5feed::make_data_loader<samplers::SequentialSampler>(long_chain(dataset(), note),
                                                                    TorchOptions(20).workers(3));
  auto theirs = torch::data::make_data_loader<samplers::SequentialSampler>(long_chain(dataset(), [] {}),
                                                                           TorchOptions(20));
  auto expected = theirs->begin();
  for (auto& batch : *ours) {
    EXPECT_LE((batch.data - expected->data).abs().max().item<double>(), 1e-6);
    EXPECT_TRUE(torch::equal(batch.target, expected->target));
    ++expected;
  }
  EXPECT_TRUE(expected == theirs->end());
  EXPECT_EQ(examples, 100);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST_F(TorchFeed, leaves_float64_data_to_libtorchs_normalize) {
  const test::SampleSet doubles({.shape = {20, 8, 6}, .dtype = DType::f64});
  const auto chain = TorchDataset(Dataset::open({.files = {doubles.path()},
                                                 .data = "images",
                                                 .target = "labels",
                                                 .input_layout = InputLayout::nhw}))
                         .map(transforms::Normalize<>(1.0, 3.0))
                         .map(transforms::Stack<>());
  auto ours = h5feed::make_data_loader<samplers::SequentialSampler>(chain, TorchOptions(20));
  auto theirs = torch::data::make_data_loader<samplers::SequentialSampler>(chain, TorchOptions(20));
  EXPECT_EQ(ours->begin()->data.scalar_type(), torch::kFloat64);
  EXPECT_TRUE(torch::equal(ours->begin()->data, theirs->begin()->data));
}

TEST_F(TorchFeed, delivers_what_a_transform_throws_with_the_batch_it_belongs_to) {
  auto chain = dataset()
                   .map(transforms::Lambda<Example>([](Example example) {
                     if (example.target.item<std::int64_t>() == 37) throw std::runtime_error("sample 37");
                     return example;
                   }))
                   .map(transforms::Stack<>());
  for (const std::size_t workers : {0U, 2U}) {
    auto loader =
        h5feed::make_data_loader<samplers::SequentialSampler>(chain, TorchOptions(10).workers(workers));
    std::vector<std::int64_t> targets;
    int errors = 0;
    for (auto it = loader->begin(); true;) {
      try {
        if (it == loader->end()) break;
        test::append_targets(*it, targets);
        ++it;
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "sample 37");
        ++errors;
      }
    }
    EXPECT_EQ(errors, 1);
    std::vector<std::int64_t> expected = first_samples(100);
    expected.erase(expected.begin() + 30, expected.begin() + 40);
    EXPECT_EQ(targets, expected);
  }
}

TEST_F(TorchFeed, leaves_the_target_undefined_also_after_a_stack) {
  const Dataset bare = Dataset::open({.files = {set_.path()}, .data = "images"});
  const auto plain = h5feed::make_data_loader(TorchDataset(bare).map(transforms::Stack<>()), TorchOptions(4));
  EXPECT_FALSE(plain->begin()->target.defined());
  const auto identity = transforms::TensorLambda<>([](torch::Tensor image) { return image; });
  const auto mapped =
      h5feed::make_data_loader(TorchDataset(bare).map(identity).map(transforms::Stack<>()), TorchOptions(4));
  EXPECT_FALSE(mapped->begin()->target.defined());
  EXPECT_EQ(mapped->begin()->data.sizes(), (torch::IntArrayRef{4, 1, 8, 6}));
}

TEST_F(TorchFeed, refuses_options_that_the_dataset_has) {
  EXPECT_THAT(
      test::refusal_of<OptionError>([&] { h5feed::make_data_loader(stacked(), {.normalize = Normalize{}}); }),
      HasSubstr("belong to the TorchDataset"));
  EXPECT_THAT(test::refusal_of<OptionError>([&] {
                h5feed::make_data_loader(stacked(), samplers::SequentialSampler(100), {.shuffle = true});
              }),
              HasSubstr("mutually exclusive with shuffle"));
}

TEST_F(TorchFeed, a_collate_fn_changes_batches_on_the_workers) {
  DataLoaderOptions options{.batch_size = 10, .num_workers = 2};
  options.collate_fn = [](Batch& batch) {
    for (std::int64_t& target : batch.target.as<std::int64_t>()) target = -target;
  };
  auto loader = h5feed::make_data_loader(test::open(set_), options);
  std::vector<std::int64_t> targets = targets_of_epoch(*loader);
  for (std::int64_t& target : targets) target = -target;
  EXPECT_EQ(targets, first_samples(100));
}

TEST_F(TorchFeed, a_loop_may_be_left_at_any_batch_while_transforms_run) {
  for (int stop = 0; stop < 10; ++stop) {
    auto loader = h5feed::make_data_loader(long_chain(dataset(), [] {}), TorchOptions(10).workers(2));
    Example kept;
    int batches = 0;
    for (auto& batch : *loader) {
      kept = batch;
      if (batches++ == stop) break;
    }
    loader.reset();
    EXPECT_EQ(kept.data.sizes(), (torch::IntArrayRef{10, 1, 8, 6}));
    EXPECT_GE(kept.target.min().item<std::int64_t>(), 1000);
  }
}

TEST_F(TorchFeed, is_a_dataset_for_libtorchs_own_loader_and_its_threads) {
  TorchDataset dataset = this->dataset();
  EXPECT_EQ(*dataset.size(), 100U);
  const Example one = dataset.get(42);
  EXPECT_TRUE(torch::equal(one.data, test::stored_image(set_, 42)));
  EXPECT_EQ(one.target.item<std::int64_t>(), 42);
  auto loader = torch::data::make_data_loader<samplers::SequentialSampler>(
      TorchDataset(dataset).map(transforms::Stack<>()), TorchOptions(7).workers(4));
  std::int64_t sample = 0;
  for (auto& batch : *loader) {
    for (std::int64_t i = 0; i < batch.data.size(0); ++i, ++sample) {
      ASSERT_TRUE(torch::equal(batch.data[i], test::stored_image(set_, sample)));
      ASSERT_EQ(batch.target[i].item<std::int64_t>(), sample);
    }
  }
  EXPECT_EQ(sample, 100);
  EXPECT_EQ(dataset.reader().stats().chunk_loads, 10U) << "all workers share what one of them decoded";
}

TEST_F(TorchFeed, refuses_what_libtorch_cannot_hold_in_a_dataset_too) {
  const test::SampleSet wide({.shape = {10, 8, 6}, .dtype = DType::u16});
  const Dataset data =
      Dataset::open({.files = {wide.path()}, .data = "images", .input_layout = InputLayout::nhw});
  EXPECT_THAT(test::refusal_of<DatasetError>([&] { TorchDataset{data}; }), HasSubstr("the data is u16"));
}

}  // namespace
}  // namespace h5feed::test
