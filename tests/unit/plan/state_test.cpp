// SPDX-License-Identifier: Apache-2.0
// The saved form of a loader's state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "h5feed/error.hpp"
#include "h5feed/state.hpp"
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
  for (const char version : {'\x01', '\x03'}) {
    std::string other = bytes;
    other[4] = version;
    EXPECT_THAT(refusal(other), HasSubstr("this h5feed reads version 2"));
  }
  EXPECT_THAT(refusal("PK\x03\x04 something else"), HasSubstr("not a saved loader state"));
  EXPECT_THAT(refusal(""), HasSubstr("not a saved loader state"));
}

TEST(LoaderState, refuses_to_save_an_echo_that_it_cannot_hold) {
  LoaderState state = kState;
  state.echo_samples = std::uint64_t{1} << 32;
  EXPECT_THROW(static_cast<void>(state.to_bytes()), StateError);
}

}  // namespace
}  // namespace h5feed::test
