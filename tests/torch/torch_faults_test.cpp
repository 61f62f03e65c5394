// SPDX-License-Identifier: Apache-2.0
// Tensors of batches without data that cannot be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/transforms/lambda.h>
#include <torch/data/transforms/stack.h>

#include <cstdint>
#include <vector>

#include "h5feed/torch.hpp"
#include "support/captured_log.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/loaders/torch_sets.hpp"

namespace h5feed::test {
namespace {

namespace transforms = torch::data::transforms;

class TorchFaults : public ::testing::Test {
 protected:
  TorchFaults() { damage(set_.path(), chunk_offset(set_, 3) + 4, 12); }

  static DataLoaderOptions options(OnError on_error) {
    DataLoaderOptions options{.batch_size = 8, .num_workers = 2};
    options.on_error = on_error;
    options.max_bad_share = 0.1;
    return options;
  }

  const CapturedLog log_;
  const SampleSet set_{numbered_images()};
};

TEST_F(TorchFaults, skip_makes_smaller_and_empty_batches_of_the_same_shape) {
  std::vector<std::int64_t> good = first_samples(100);
  good.erase(good.begin() + 30, good.begin() + 40);
  auto loader = make_data_loader(open(set_), options(OnError::skip));
  std::vector<std::int64_t> sizes, targets;
  for (auto& batch : *loader) {
    ASSERT_EQ(batch.data.sizes().slice(1), torch::IntArrayRef({1, 8, 6}));
    sizes.push_back(batch.data.size(0));
    append_targets(batch, targets);
  }
  EXPECT_EQ(targets, good);
  EXPECT_THAT(sizes, ::testing::ElementsAre(8, 8, 8, 6, 0, 8, 8, 8, 8, 8, 8, 8, 4));
}

TEST_F(TorchFaults, transforms_see_the_samples_that_are_left_or_their_replacements) {
  const auto unit = transforms::TensorLambda<>([](torch::Tensor image) { return image / 255; });
  const auto dataset = [&] { return TorchDataset(open(set_)).map(unit).map(transforms::Stack<>()); };
  for (const OnError on_error : {OnError::skip, OnError::replace}) {
    auto loader = make_data_loader(dataset(), options(on_error));
    for (auto& batch : *loader) {
      ASSERT_EQ(batch.data.size(0), batch.target.size(0));
      for (std::int64_t i = 0; i < batch.data.size(0); ++i) {
        const auto sample = batch.target[i].item<std::int64_t>();
        EXPECT_NE(sample / 10, 3);
        EXPECT_TRUE(torch::equal(batch.data[i], stored_image(set_, sample) / 255));
      }
    }
    EXPECT_EQ(loader->stats().bad_chunks, 1u);
  }
}

}  // namespace
}  // namespace h5feed::test
