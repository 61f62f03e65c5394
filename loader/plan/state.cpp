// SPDX-License-Identifier: Apache-2.0
#include "h5feed/state.hpp"

#include <fmt/format.h>

#include <array>

#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

constexpr std::string_view kMark = "h5fs";
constexpr std::size_t kWord = 8;

// Appends `value` in little-endian order, on every platform.
template <typename T>
void append(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

template <typename T>
T take(std::string_view& in) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(in[i])) << (8 * i));
  in.remove_prefix(sizeof value);
  return value;
}

std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t sum = 0;
  while (bytes.size() >= kWord) sum = mix_key(sum, kStateSum, take<std::uint64_t>(bytes));
  return sum;
}

}  // namespace

std::string LoaderState::to_bytes() const {
  if (echo_samples > UINT32_MAX) {
    throw StateError(
        fmt::format("a state cannot be saved inside an echo of {} samples, only of 4294967295; save it after "
                    "a multiple of echo.factor deliveries, or use a smaller batch_size",
                    echo_samples));
  }
  std::string bytes(kMark);
  append(bytes, kVersion);
  for (const std::uint64_t word : {seed, epoch, position, plan, static_cast<std::uint64_t>(world_size)})
    append(bytes, word);
  append(bytes, static_cast<std::uint32_t>(echo_samples));
  append(bytes, static_cast<std::uint32_t>(echo_ahead));
  append(bytes, checksum(bytes));
  return bytes;
}

LoaderState LoaderState::from_bytes(std::string_view bytes) {
  if (!bytes.starts_with(kMark)) {
    throw StateError(fmt::format(
        "these {} bytes are not a saved loader state; pass what LoaderState::to_bytes gave", bytes.size()));
  }
  std::string_view rest = bytes.substr(kMark.size());
  const auto version = rest.size() >= sizeof kVersion ? take<std::uint32_t>(rest) : kVersion;
  if (version != kVersion) {
    throw StateError(fmt::format("the saved loader state has version {}; this h5feed reads version {}",
                                 version, kVersion));
  }
  if (bytes.size() != kBytes) {
    throw StateError(
        fmt::format("the saved loader state has {} bytes instead of {}; it was cut short or "
                    "extended, take an earlier one",
                    bytes.size(), kBytes));
  }
  LoaderState state;
  for (std::uint64_t* word : {&state.seed, &state.epoch, &state.position, &state.plan})
    *word = take<std::uint64_t>(rest);
  state.world_size = static_cast<std::int64_t>(take<std::uint64_t>(rest));
  state.echo_samples = take<std::uint32_t>(rest);
  state.echo_ahead = take<std::uint32_t>(rest);
  if (take<std::uint64_t>(rest) != checksum(bytes.substr(0, kBytes - kWord))) {
    throw StateError(
        "the saved loader state fails its checksum; its bytes were changed, take an earlier one");
  }
  return state;
}

}  // namespace h5feed
