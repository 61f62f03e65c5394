// SPDX-License-Identifier: Apache-2.0
// The saved form of a loader's state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "h5feed/error.hpp"
#include "h5feed/state.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

const LoaderState kState{.seed = 7,
                         .epoch = 12,
                         .position = 1'000'000'007,
                         .plan = 0xFEDCBA9876543210,
                         .world_size = 8,
                         .echo_samples = 4096,
                         .echo_ahead = 100};

std::string refusal(std::string_view bytes) {
  return test::refusal_of<StateError>([&] { LoaderState::from_bytes(bytes); });
}

TEST(LoaderState, comes_back_from_its_bytes) {
  const std::string bytes = kState.to_bytes();
  EXPECT_EQ(bytes.size(), LoaderState::kBytes);
  EXPECT_LE(bytes.size(), 64u);
  EXPECT_EQ(LoaderState::from_bytes(bytes), kState);
  EXPECT_EQ(bytes.substr(0, 16), std::string("h5fs\x02\0\0\0\x07\0\0\0\0\0\0\0", 16)) << "little-endian";
}

TEST(LoaderState, refuses_what_is_truncated_changed_or_foreign) {
  const std::string bytes = kState.to_bytes();
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_NE(refusal(bytes.substr(0, length)), "accepted") << length;
  EXPECT_THAT(refusal(bytes.substr(0, 40)), HasSubstr("40 bytes instead of 64"));
  EXPECT_THAT(refusal(bytes + "x"), HasSubstr("65 bytes instead of 64"));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_NE(refusal(changed), "accepted") << "byte " << at;
  }
  std::string newer = bytes;
  newer[4] = 3;
  EXPECT_THAT(refusal(newer), HasSubstr("version 3; this h5feed reads versions 1 and 2"));
  EXPECT_THAT(refusal("PK\x03\x04 something else"), HasSubstr("not a saved loader state"));
  EXPECT_THAT(refusal(""), HasSubstr("not a saved loader state"));
}

TEST(LoaderState, reads_what_version_1_saved) {
  const std::string bytes = std::string("h5fs\x01\0\0\0", 8) + kState.to_bytes().substr(8, 40);
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum = mix_key(sum, kStateSum, word);
  }
  LoaderState expected = kState;
  expected.echo_samples = expected.echo_ahead = 0;
  const std::string saved = bytes + std::string(reinterpret_cast<const char*>(&sum), sizeof sum);
  EXPECT_EQ(LoaderState::from_bytes(saved), expected);
  EXPECT_THAT(refusal(saved.substr(0, 48)), HasSubstr("48 bytes instead of 56"));
}

TEST(LoaderState, refuses_to_save_an_echo_that_it_cannot_hold) {
  LoaderState state = kState;
  state.echo_samples = std::uint64_t{1} << 32;
  EXPECT_THROW(static_cast<void>(state.to_bytes()), StateError);
}

}  // namespace
}  // namespace h5feed::test
