// SPDX-License-Identifier: Apache-2.0
// Classes of datasets, subsets and mixtures, and the weights that balance them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/labels.hpp"
#include "h5feed/mixture.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::FieldsAre;
using testing::HasSubstr;

// Returns 10 samples with the labels 5, 6, 7, 5, …
SampleSetSpec three_classes() { return {.shape = {10, 4, 4}, .first_label = 5, .label_count = 3}; }

TEST(LabelShare, counts_the_classes_of_a_dataset_and_of_a_subset) {
  const SampleSet set(three_classes());
  const Dataset data = open(set);
  EXPECT_THAT(label_share(data),
              ElementsAre(FieldsAre(5, 4, DoubleEq(0.4)), FieldsAre(6, 3, testing::DoubleNear(0.3, 1e-12)),
                          FieldsAre(7, 3, testing::DoubleNear(0.3, 1e-12))));
  const std::vector<std::int64_t> chosen = {9, 1, 0, 3};
  EXPECT_THAT(label_share(data.subset(chosen)),
              ElementsAre(FieldsAre(5, 3, DoubleEq(0.75)), FieldsAre(6, 1, DoubleEq(0.25))));
}

TEST(LabelShare, weighs_the_sets_of_a_mixture) {
  const SampleSet set(three_classes());
  const Dataset data = open(set);
  const std::vector<std::int64_t> fives = {0, 3, 6, 9};
  const Dataset mixed = mix({{data.subset(fives), 0.75}, {data, 0.25}}, {.epoch_size = 4096});
  const std::vector<LabelShare> shares = label_share(mixed);
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].samples, 8);
  EXPECT_NEAR(shares[0].share, 0.75 + 0.25 * 0.4, 1e-12);
  EXPECT_NEAR(shares[1].share, 0.25 * 0.3, 1e-12);
}

TEST(BalancedWeights, let_a_sampler_draw_each_class_equally_often) {
  const SampleSet set({.shape = {90, 4, 4}, .label_shape = {90, 1}, .label_count = 7});
  std::vector<std::int64_t> chosen;
  for (std::int64_t sample = 89; sample >= 0; --sample) {
    if (set.label(sample) == 0 || set.label(sample) == 4 || sample == 3) chosen.push_back(sample);
  }
  const Dataset data = open(set).subset(chosen);
  const std::vector<double> weights = balanced_weights(data);
  ASSERT_EQ(weights.size(), chosen.size());
  std::map<std::int64_t, double> by_class;
  for (std::size_t i = 0; i < chosen.size(); ++i) by_class[set.label(chosen[i])] += weights[i];
  ASSERT_EQ(by_class.size(), 3u);
  for (const auto& [label, weight] : by_class) EXPECT_NEAR(weight, 1.0 / 3, 1e-12) << label;

  DataLoader loader(data,
                    {.batch_size = 500, .sampler = std::make_shared<WeightedRandomSampler>(weights, 6000)});
  std::map<std::int64_t, int> drawn;
  while (const auto batch = loader.next()) {
    for (const std::int64_t label : batch->target.as<std::int64_t>()) ++drawn[label];
  }
  for (const auto& [label, count] : drawn) EXPECT_NEAR(count, 2000, 150) << label;
}

TEST(BalancedWeights, refuse_fields_that_are_no_labels) {
  const SampleSet set(three_classes());
  const auto refusal = [&](const Dataset& data, const char* field) {
    return refusal_of<OptionError>([&] { balanced_weights(data, field); });
  };
  const Dataset data = Dataset::open({.files = {set.path()},
                                      .data = "images",
                                      .fields = {{.name = "images"}, {.name = "class", .data = "labels"}}});
  EXPECT_THAT(refusal(data, ""), HasSubstr("the dataset has no target to take the labels from"));
  EXPECT_THAT(refusal(data, "label"), HasSubstr("there is no field \"label\" of one number per sample"));
  EXPECT_THAT(refusal(data, "images"),
              HasSubstr(":/images is 10×4×4 u8; labels must be one integer per sample"));
  EXPECT_EQ(refusal(data, "class"), "accepted");
  EXPECT_THAT(refusal(mix({{data, 1}}), "class"),
              HasSubstr("mix a subset of each class, with equal weights"));
}

}  // namespace
}  // namespace h5feed::test
