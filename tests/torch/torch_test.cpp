// SPDX-License-Identifier: Apache-2.0
#include "h5feed/torch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/captured_log.hpp"
#include "support/loaders/torch_file.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST_F(TorchLoader, serves_the_loop_that_libtorch_users_write) {
  auto loader = make_data_loader(open_images(), {.batch_size = 8, .num_workers = 2});
  EXPECT_EQ(loader->size(), 3U);
  std::vector<std::int64_t> sizes;
  std::int64_t first = 0;
  for (auto& batch : *loader) {
    const std::int64_t count = batch.data.size(0);
    EXPECT_EQ(batch.data.sizes(), (torch::IntArrayRef{count, 1, 4, 5}));
    EXPECT_EQ(batch.data.scalar_type(), torch::kUInt8);
    EXPECT_EQ(batch.target.scalar_type(), torch::kInt64);
    EXPECT_TRUE(torch::equal(batch.target, torch::arange(first, first + count)));
    const auto stored = torch::arange(first * 20, (first + count) * 20).to(torch::kUInt8);
    EXPECT_TRUE(torch::equal(batch.data.flatten(), stored));
    sizes.push_back(count);
    first += count;
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{8, 8, 4}));
  EXPECT_EQ(loader->stats().samples, 20U);
  EXPECT_FALSE(loader->report().empty());
}

TEST_F(TorchLoader, tensors_outlive_the_loader_and_belong_to_their_consumer) {
  std::vector<torch::data::Example<>> kept;
  {
    auto loader = make_data_loader(open_images(), {.batch_size = 4, .num_workers = 2});
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (auto& batch : *loader) kept.push_back(std::move(batch));
    }
  }
  ASSERT_EQ(kept.size(), 10U);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto first = static_cast<std::int64_t>(i % 5 * 4);
    EXPECT_TRUE(torch::equal(kept[i].target, torch::arange(first, first + 4)));
    kept[i].data.fill_(7);
    EXPECT_TRUE(torch::equal(kept[i].target, torch::arange(first, first + 4)));
  }
}

TEST_F(TorchLoader, manual_seed_governs_the_order_where_no_seed_is_set) {
  const Dataset data = open_images();
  const auto order = [&](std::uint64_t torch_seed, DataLoaderOptions options) {
    options.batch_size = 4;
    options.shuffle = true;
    torch::manual_seed(torch_seed);
    auto loader = make_data_loader(data, options);
    return labels_of_epoch(*loader);
  };
  const auto seven = order(7, {});
  EXPECT_EQ(order(7, {.num_workers = 2}), seven);
  EXPECT_NE(order(8, {}), seven);
  EXPECT_EQ(order(7, {.seed = 1}), order(8, {.seed = 1}));

  torch::manual_seed(7);
  auto first = make_data_loader(data, {.shuffle = true});
  auto second = make_data_loader(data, {.shuffle = true});
  EXPECT_NE(first->options().seed, second->options().seed);
}

TEST_F(TorchLoader, epochs_differ_and_set_epoch_repeats_one) {
  auto loader =
      make_data_loader(open_images(), {.batch_size = 4, .shuffle = true, .seed = 3, .num_workers = 2});
  const auto first = labels_of_epoch(*loader);
  EXPECT_NE(labels_of_epoch(*loader), first);
  loader->set_epoch(0);
  EXPECT_EQ(labels_of_epoch(*loader), first);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, counting<std::int64_t>(20));
}

TEST_F(TorchLoader, a_run_that_is_resumed_goes_on_with_its_seed) {
  const Dataset dataset = open<std::uint8_t, std::int64_t>({12, 2, 2}, {12}, counting<std::int64_t>(12));
  const auto order = [](TorchDataLoader& loader) {
    std::vector<std::int64_t> targets;
    for (auto& batch : loader) {
      const std::int64_t* const first = batch.target.data_ptr<std::int64_t>();
      targets.insert(targets.end(), first, first + batch.target.numel());
    }
    return targets;
  };
  auto first = make_data_loader(dataset, {.batch_size = 5, .shuffle = true});
  (void)first->begin()->data;
  const std::string saved = first->state().to_bytes();
  auto second = make_data_loader(dataset, {.batch_size = 5, .shuffle = true, .num_workers = 1});
  EXPECT_NE(second->options().seed, first->options().seed) << "Torch's generator went on";
  second->restore(LoaderState::from_bytes(saved));
  second->warm_up();
  const std::vector<std::int64_t> rest = order(*second);
  first->set_epoch(0);
  std::vector<std::int64_t> whole = order(*first);
  EXPECT_EQ(rest, std::vector<std::int64_t>(whole.begin() + 5, whole.end()));
}

// The global order of torch.utils.data.DistributedSampler(shuffle=True): a permutation from a generator with
// seed + epoch, padded from its beginning, assigned round-robin.
TEST_F(TorchLoader, reproduces_the_order_of_distributed_sampler) {
  constexpr std::int64_t kSamples = 103;
  const Dataset dataset =
      open<std::uint8_t, std::int64_t>({kSamples, 2, 2}, {kSamples}, counting<std::int64_t>(kSamples));
  for (const std::uint64_t epoch : {0u, 3u}) {
    auto generator = at::detail::createCPUGenerator(17 + epoch);
    const torch::Tensor order = torch::randperm(kSamples, generator, torch::kInt64);
    std::vector<std::int64_t> global(order.data_ptr<std::int64_t>(),
                                     order.data_ptr<std::int64_t>() + kSamples);
    for (std::int64_t i = 0; global.size() % 4 != 0; ++i)
      global.push_back(global[static_cast<std::size_t>(i)]);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      DataLoader loader(dataset, {.batch_size = 10,
                                  .sampler = std::make_shared<TorchRandomSampler>(kSamples),
                                  .seed = 17,
                                  .num_workers = 2,
                                  .rank = rank,
                                  .world_size = 4,
                                  .uneven = Uneven::pad});
      loader.set_epoch(epoch);
      std::size_t place = static_cast<std::size_t>(rank);
      for (Batch& batch : loader) {
        for (const std::int64_t sample : batch.indices) {
          ASSERT_EQ(sample, global.at(place)) << "epoch " << epoch << ", rank " << rank;
          place += 4;
        }
      }
      EXPECT_EQ(place, global.size() + static_cast<std::size_t>(rank));
    }
  }
}

TEST_F(TorchLoader, a_loop_may_be_left_and_begun_again) {
  auto loader = make_data_loader(open_images(), {.batch_size = 4, .num_workers = 2});
  for (int attempt = 0; attempt < 3; ++attempt) {
    for (auto& batch : *loader) {
      EXPECT_EQ(batch.target[0].item<std::int64_t>(), 0);
      break;
    }
  }
  EXPECT_EQ(labels_of_epoch(*loader), counting<std::int64_t>(20));
}

TEST_F(TorchLoader, an_iterator_behaves_as_libtorchs) {
  auto loader = make_data_loader(open_images(), {.batch_size = 16});
  auto it = loader->begin();
  EXPECT_TRUE(it == it);
  EXPECT_FALSE(it == loader->end());
  torch::data::Example<> moved = std::move(*it);
  EXPECT_EQ(moved.data.size(0), 16);
  EXPECT_FALSE(it->data.defined());  // what was moved from is not fetched again
  auto copy = it;
  ++it;
  EXPECT_EQ(copy->target.size(0), 4);  // copies share one position
  ++it;
  EXPECT_TRUE(it == loader->end());
  EXPECT_TRUE(copy == loader->end());
  EXPECT_THROW(++it, std::out_of_range);
  EXPECT_THROW(*it, std::out_of_range);
  EXPECT_THROW(*loader->end(), std::out_of_range);
}

TEST_F(TorchLoader, without_a_batch_size_samples_come_singly) {
  auto loader = make_data_loader(open_images(), {.batch_size = std::nullopt});
  EXPECT_EQ(loader->size(), 20U);
  auto it = loader->begin();
  EXPECT_EQ(it->data.sizes(), (torch::IntArrayRef{1, 4, 5}));
  EXPECT_EQ(it->target.dim(), 0);
  ++it;
  EXPECT_EQ(it->target.item<std::int64_t>(), 1);
}

TEST_F(TorchLoader, without_cuda_refuses_a_gpu_and_takes_auto_for_the_cpu) {
  if (detail::kTorchHasCuda) return;  // tests/gpu has the other half
  const Dataset dataset = open_images();
  const std::string expected = H5FEED_HAS_CUDA ? "this LibTorch (" TORCH_VERSION
                                                 ") has no CUDA; configure with -DCMAKE_PREFIX_PATH="
                                               : "device \"cuda:0\": h5feed was built without CUDA";
  try {
    make_data_loader(dataset, {.device = "cuda:0"});
    FAIL() << "no refusal";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr(expected));
  }
  const test::CapturedLog log;
  EXPECT_TRUE(make_data_loader(dataset, {.device = "auto"})->begin()->data.device().is_cpu());
  EXPECT_TRUE(make_data_loader(dataset, {.device = "auto"})->begin()->data.device().is_cpu());
  EXPECT_THAT(log.lines(), ::testing::ElementsAre(HasSubstr("device \"auto\": batches go to the CPU; ")));
}

TEST_F(TorchLoader, without_cuda_warns_of_pin_memory_and_goes_on) {
  if (detail::kTorchHasCuda) return;  // tests/gpu has the other half
  const Dataset dataset = open_images();
  const test::CapturedLog log;
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(make_data_loader(dataset, {.pin_memory = true})->begin()->data.is_pinned());
  }
  EXPECT_THAT(log.lines(),
              ::testing::ElementsAre(::testing::AllOf(
                  HasSubstr("pin_memory: batches are in pageable memory; "), HasSubstr("CUDA"))));
}

template <typename L>
concept LooksIntoATemporaryIterator = requires(L& loader) {
  loader.begin()->indices;
};
template <typename L>
concept LooksIntoTheResultOfNextInto = requires(L& loader, torch::Tensor tensor) {
  loader.next_into(tensor)->indices;
};
static_assert(!LooksIntoATemporaryIterator<TorchDataLoader>);
static_assert(!LooksIntoTheResultOfNextInto<TorchDataLoader>);
static_assert(std::same_as<decltype(*std::declval<TorchDataLoader&>().begin()), TorchBatch>);

TEST_F(TorchLoader, a_batch_that_has_no_name_lasts_for_a_loop_over_it) {
  auto loader = make_data_loader(open_images(), {.batch_size = 4});
  std::vector<std::int64_t> seen;
  for (const std::int64_t sample : (*loader->begin()).indices) seen.push_back(sample);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST_F(TorchLoader, leaves_torchs_thread_settings_alone) {
  const int threads = torch::get_num_threads();
  auto loader = make_data_loader(open_images(), {.batch_size = 4, .num_workers = 3});
  labels_of_epoch(*loader);
  EXPECT_EQ(torch::get_num_threads(), threads);
}

}  // namespace
}  // namespace h5feed::test
