// SPDX-License-Identifier: Apache-2.0
#include "store/filters/fletcher32.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/filters/bytes.hpp"
#include "store/filters/entry.hpp"

namespace h5feed {
namespace {

std::uint32_t fold(std::uint32_t sum) noexcept { return (sum & 0xffffU) + (sum >> 16); }

std::uint32_t swap_halves(std::uint32_t value) noexcept {
  return ((value & 0x00ff00ffU) << 8) | ((value >> 8) & 0x00ff00ffU);
}

}  // namespace

std::uint32_t fletcher32(std::span<const std::byte> bytes) noexcept {
  // The second sum of 360 words still fits in 32 bits.
  constexpr std::size_t kBlockWords = 360;
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  const std::byte* next = bytes.data();
  for (std::size_t words = bytes.size() / 2; words > 0;) {
    const std::size_t block = std::min(words, kBlockWords);
    for (std::size_t i = 0; i < block; ++i, next += 2) {
      sum1 += (std::to_integer<std::uint32_t>(next[0]) << 8) | std::to_integer<std::uint32_t>(next[1]);
      sum2 += sum1;
    }
    sum1 = fold(sum1);
    sum2 = fold(sum2);
    words -= block;
  }
  if (bytes.size() % 2 != 0) {
    sum1 += std::to_integer<std::uint32_t>(*next) << 8;
    sum2 += sum1;
    sum1 = fold(sum1);
    sum2 = fold(sum2);
  }
  return (fold(sum2) << 16) | fold(sum1);
}

bool fletcher32_matches(std::span<const std::byte> bytes, std::uint32_t stored) noexcept {
  const std::uint32_t sum = fletcher32(bytes);
  return stored == sum || stored == swap_halves(sum);
}

namespace {

constexpr std::size_t kFletcher32Bytes = 4;

std::span<const std::byte> verify_fletcher32(std::span<const std::byte> in) {
  if (in.size() < kFletcher32Bytes) {
    throw FilterError(fmt::format("fletcher32: {} bytes are too few to hold a checksum", in.size()));
  }
  const std::span<const std::byte> data = in.first(in.size() - kFletcher32Bytes);
  if (!fletcher32_matches(data, read_little_endian32(in.subspan(data.size())))) {
    throw FilterError("fletcher32: the checksum does not match");
  }
  return data;
}

std::vector<std::byte> append_fletcher32(const FilterSpec&, std::vector<std::byte> data) {
  const std::uint32_t sum = fletcher32(data);
  for (unsigned shift = 0; shift < 32; shift += 8) data.push_back(static_cast<std::byte>(sum >> shift));
  return data;
}

}  // namespace

extern constinit const FilterEntry fletcher32_filter = {
    .id = filter_id::kFletcher32,
    .name = "fletcher32",
    .verify = verify_fletcher32,
    .encode = append_fletcher32,
    .encoded_size =
        [](const FilterSpec&, std::size_t bytes) noexcept {
          return EncodedSize{.bytes = bytes + kFletcher32Bytes, .exact = true};
        },
    .spelling = {.after = "fletcher32"},
    .parse = [](std::string_view stage,
                const StageContext&) { return params_of_name(stage, "fletcher32", {}); },
    .compresses = false,
    .h5py = "fletcher32=True"};

}  // namespace h5feed
