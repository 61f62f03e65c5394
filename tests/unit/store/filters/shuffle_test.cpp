// SPDX-License-Identifier: Apache-2.0
// Shuffles, the checksum, byte order: what changes bytes without compressing them.
#include <gtest/gtest.h>

#include "store/filters/fletcher32.hpp"
#include "store/filters/shuffle_bits.hpp"
#include "store/format/byte_order.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/h5_test_file.hpp"

namespace h5feed::test {
namespace {

TEST(Fletcher32, matches_known_sums) {
  EXPECT_EQ(fletcher32({}), 0U);
  // Words 0x0102, 0x0304: sums 0x0406 and 0x0102 + 0x0406.
  EXPECT_EQ(fletcher32(bytes_of(1, 2, 3, 4)), 0x05080406U);
  // An odd last byte counts as the high half of a word.
  EXPECT_EQ(fletcher32(bytes_of(1, 2, 3)), 0x05040402U);
}

TEST(Fletcher32, folds_the_carry_instead_of_taking_the_remainder) {
  EXPECT_EQ(fletcher32(Bytes(1000, std::byte{0xff})), 0xffffffffU);
}

TEST(Fletcher32, accepts_the_sum_of_old_libraries) {
  const Bytes data = bytes_of(1, 2, 3, 4);
  EXPECT_TRUE(fletcher32_matches(data, 0x05080406U));
  EXPECT_TRUE(fletcher32_matches(data, 0x08050604U));
  EXPECT_FALSE(fletcher32_matches(data, 0x05080407U));
}

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> result;
  for (const SimdLevel level : {SimdLevel::none, SimdLevel::sse2, SimdLevel::avx2}) {
    if (level <= simd_level()) result.push_back(level);
  }
  return result;
}

TEST(Shuffle, is_undone_by_every_instruction_set_for_all_sizes) {
  for (const std::size_t element_bytes : {1U, 2U, 3U, 4U, 5U, 8U, 16U}) {
    for (std::size_t size = 0; size < 700; ++size) {
      const Bytes original = test::random_bytes(size, static_cast<unsigned>(size));
      Bytes shuffled(size);
      shuffle_bytes(original, element_bytes, shuffled);
      for (const SimdLevel level : levels()) {
        Bytes back(size);
        unshuffle_bytes(shuffled, element_bytes, back, level);
        ASSERT_EQ(back, original) << element_bytes << " bytes an element, " << size << " in all, level "
                                  << static_cast<int>(level);
      }
    }
  }
}

TEST(BitShuffle, puts_each_bit_of_eight_elements_into_one_byte) {
  Bytes out(16);
  Bytes work(16);
  // Elements of 2 bytes: bit 0 of the first byte is set in elements 0 and 7, bit 7 of the second in 1.
  Bytes in(16);
  in[0] = in[14] = std::byte{0x01};
  in[3] = std::byte{0x80};
  shuffle_bits(in, 2, out, work);
  Bytes expected(16);
  expected[0] = std::byte{0x81};
  expected[15] = std::byte{0x02};
  EXPECT_EQ(out, expected);
}

TEST(BitShuffle, is_undone_by_every_instruction_set_for_all_sizes) {
  for (const std::size_t element_bytes : {1U, 2U, 3U, 4U, 8U}) {
    for (std::size_t elements = 0; elements < 700; elements += 8) {
      const std::size_t size = elements * element_bytes;
      const Bytes original = test::random_bytes(size, static_cast<unsigned>(size));
      Bytes shuffled(size);
      Bytes work(size);
      shuffle_bits(original, element_bytes, shuffled, work);
      for (const SimdLevel level : levels()) {
        Bytes back(size);
        unshuffle_bits(shuffled, element_bytes, back, work, level);
        ASSERT_EQ(back, original) << element_bytes << " bytes an element, " << elements << " elements, level "
                                  << static_cast<int>(level);
      }
    }
  }
}

TEST(Shuffle, copies_the_tail) {
  Bytes out(7);
  shuffle_bytes(bytes_of(1, 2, 3, 4, 5, 6, 7), 3, out);
  EXPECT_EQ(out, bytes_of(1, 4, 2, 5, 3, 6, 7));
}

TEST(ByteOrder, reverses_each_element) {
  Bytes bytes = bytes_of(1, 2, 3, 4, 5, 6, 7, 8, 9);
  swap_byte_order(bytes, 1);
  EXPECT_EQ(bytes, bytes_of(1, 2, 3, 4, 5, 6, 7, 8, 9));
  swap_byte_order(bytes, 2);
  EXPECT_EQ(bytes, bytes_of(2, 1, 4, 3, 6, 5, 8, 7, 9));
  swap_byte_order(bytes, 4);
  EXPECT_EQ(bytes, bytes_of(3, 4, 1, 2, 7, 8, 5, 6, 9));
  swap_byte_order(bytes, 8);
  EXPECT_EQ(bytes, bytes_of(6, 5, 8, 7, 2, 1, 4, 3, 9));
}

}  // namespace
}  // namespace h5feed::test
