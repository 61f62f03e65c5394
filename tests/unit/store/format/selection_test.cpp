// SPDX-License-Identifier: Apache-2.0
#include "store/format/selection.hpp"

#include <gtest/gtest.h>

#include <set>

namespace h5feed::test {
namespace {

TEST(SelectedIndices, are_numbered_in_rising_order) {
  for (const SelectedIndices& indices :
       {SelectedIndices::run_of(0, 1), SelectedIndices::run_of(4, 7), SelectedIndices{2, 5, 4, 3},
        SelectedIndices{1, 2, 6, 1}, SelectedIndices{3, 4, 2, 4}, SelectedIndices{9, 0, 1, 5}}) {
    SCOPED_TRACE(testing::Message() << indices.start << ", " << indices.stride << ", " << indices.count);
    ASSERT_TRUE(indices.valid());
    std::set<std::uint64_t> expected;
    for (std::uint64_t i = 0; i < indices.count; ++i) {
      for (std::uint64_t j = 0; j < indices.block; ++j)
        expected.insert(indices.start + i * indices.stride + j);
    }
    ASSERT_EQ(indices.extent(), expected.size());
    EXPECT_EQ(indices.end(), *expected.rbegin() + 1);
    EXPECT_EQ(indices.consecutive(), indices.end() - indices.start == indices.extent());
    std::uint64_t number = 0;
    for (const std::uint64_t index : expected) {
      EXPECT_EQ(indices.at(number), index);
      std::uint64_t run = 1;
      while (expected.contains(index + run)) ++run;
      EXPECT_EQ(indices.run_from(number), run);
      ++number;
    }
    number = 0;
    for (std::uint64_t index = 0; index < indices.end() + 3; ++index) {
      EXPECT_EQ(indices.below(index), number) << index;
      number += expected.count(index);
    }
  }
}

TEST(SelectedIndices, cover_a_dimension_only_from_its_beginning_and_without_gaps) {
  EXPECT_TRUE(SelectedIndices::run_of(0, 6).covers(6));
  EXPECT_TRUE((SelectedIndices{0, 2, 3, 2}).covers(6));
  EXPECT_FALSE(SelectedIndices::run_of(0, 6).covers(7));
  EXPECT_FALSE(SelectedIndices::run_of(1, 6).covers(6));
  EXPECT_FALSE((SelectedIndices{0, 3, 3, 2}).covers(6));
}

}  // namespace
}  // namespace h5feed::test
