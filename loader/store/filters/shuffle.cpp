// SPDX-License-Identifier: Apache-2.0
#include "store/filters/shuffle.hpp"

#include <fmt/format.h>

#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "store/filters/entry.hpp"

namespace h5feed {
namespace {

// Unshuffles elements [first, elements) one by one, and copies the bytes after the last whole element.
void unshuffle_from(std::size_t first, std::span<const std::byte> in, std::size_t element_bytes,
                    std::span<std::byte> out) noexcept {
  const std::size_t elements = in.size() / element_bytes;
  for (std::size_t i = first; i < elements; ++i) {
    for (std::size_t b = 0; b < element_bytes; ++b) out[i * element_bytes + b] = in[b * elements + i];
  }
  const std::size_t whole = elements * element_bytes;
  if (whole < in.size()) std::memcpy(out.data() + whole, in.data() + whole, in.size() - whole);
}

#if defined(__SSE2__)

// Aggregates, since the vector types would lose their attributes as template arguments.
template <std::size_t kBytes>
struct Lanes16 {
  __m128i at[kBytes];
};
template <std::size_t kBytes>
struct Lanes32 {
  __m256i at[kBytes];
};

// Interleaves 16 elements at a time: log2(kBytes) rounds of byte interleaving, each pairing plane i with
// plane i + kBytes/2, are a perfect shuffle. Starts at element `i`, returns the end.
template <std::size_t kBytes>
std::size_t unshuffle_sse2(const std::byte* in, std::size_t i, std::size_t elements,
                           std::byte* out) noexcept {
  constexpr std::size_t kLanes = 16;
  for (; i + kLanes <= elements; i += kLanes) {
    Lanes16<kBytes> lanes;
    for (std::size_t b = 0; b < kBytes; ++b) {
      lanes.at[b] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + b * elements + i));
    }
    for (std::size_t round = 1; round < kBytes; round *= 2) {
      Lanes16<kBytes> mixed;
      for (std::size_t b = 0; b < kBytes / 2; ++b) {
        mixed.at[2 * b] = _mm_unpacklo_epi8(lanes.at[b], lanes.at[b + kBytes / 2]);
        mixed.at[2 * b + 1] = _mm_unpackhi_epi8(lanes.at[b], lanes.at[b + kBytes / 2]);
      }
      lanes = mixed;
    }
    for (std::size_t b = 0; b < kBytes; ++b) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * kBytes + b * kLanes), lanes.at[b]);
    }
  }
  return i;
}

// Interleaves 32 elements at a time, in both halves of wider registers: the lower halves hold the first 16
// elements, the upper halves the next 16.
template <std::size_t kBytes>
__attribute__((target("avx2"))) std::size_t unshuffle_avx2(const std::byte* in, std::size_t elements,
                                                           std::byte* out) noexcept {
  constexpr std::size_t kLanes = 32;
  std::size_t i = 0;
  for (; i + kLanes <= elements; i += kLanes) {
    Lanes32<kBytes> lanes;
    for (std::size_t b = 0; b < kBytes; ++b) {
      lanes.at[b] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + b * elements + i));
    }
    for (std::size_t round = 1; round < kBytes; round *= 2) {
      Lanes32<kBytes> mixed;
      for (std::size_t b = 0; b < kBytes / 2; ++b) {
        mixed.at[2 * b] = _mm256_unpacklo_epi8(lanes.at[b], lanes.at[b + kBytes / 2]);
        mixed.at[2 * b + 1] = _mm256_unpackhi_epi8(lanes.at[b], lanes.at[b + kBytes / 2]);
      }
      lanes = mixed;
    }
    std::byte* const to = out + i * kBytes;
    for (std::size_t b = 0; b < kBytes / 2; ++b) {
      const __m256i lower = _mm256_permute2x128_si256(lanes.at[2 * b], lanes.at[2 * b + 1], 0x20);
      const __m256i upper = _mm256_permute2x128_si256(lanes.at[2 * b], lanes.at[2 * b + 1], 0x31);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + b * kLanes), lower);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (b + kBytes / 2) * kLanes), upper);
    }
  }
  return i;
}

template <std::size_t kBytes>
std::size_t unshuffle_blocks(const std::byte* in, std::size_t elements, std::byte* out,
                             SimdLevel level) noexcept {
  if (level == SimdLevel::none) return 0;
  const std::size_t done =
      level == SimdLevel::avx2 ? unshuffle_avx2<kBytes>(in, elements, out) : std::size_t{0};
  return unshuffle_sse2<kBytes>(in, done, elements, out);
}

#endif

}  // namespace

SimdLevel simd_level() noexcept {
#if defined(__SSE2__)
  static const SimdLevel level = __builtin_cpu_supports("avx2") != 0 ? SimdLevel::avx2 : SimdLevel::sse2;
  return level;
#else
  return SimdLevel::none;
#endif
}

void shuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                   std::span<std::byte> out) noexcept {
  const std::size_t elements = in.size() / element_bytes;
  for (std::size_t b = 0; b < element_bytes; ++b) {
    for (std::size_t i = 0; i < elements; ++i) out[b * elements + i] = in[i * element_bytes + b];
  }
  const std::size_t whole = elements * element_bytes;
  if (whole < in.size()) std::memcpy(out.data() + whole, in.data() + whole, in.size() - whole);
}

void unshuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                     [[maybe_unused]] SimdLevel level) noexcept {
  std::size_t done = 0;
#if defined(__SSE2__)
  const std::size_t elements = in.size() / element_bytes;
  if (element_bytes == 2) done = unshuffle_blocks<2>(in.data(), elements, out.data(), level);
  if (element_bytes == 4) done = unshuffle_blocks<4>(in.data(), elements, out.data(), level);
  if (element_bytes == 8) done = unshuffle_blocks<8>(in.data(), elements, out.data(), level);
#endif
  unshuffle_from(done, in, element_bytes, out);
}

namespace {

std::string unsupported_shuffle(const FilterSpec& filter) {
  return param(filter, 0, 1) > 0 ? "" : "has elements of 0 bytes";
}

std::size_t decode_shuffle(const FilterSpec& filter, std::span<const std::byte> in, std::span<std::byte> out,
                           CodecState&) {
  if (in.size() > out.size()) {
    throw FilterError(fmt::format("shuffle: {} bytes, a chunk has {}", in.size(), out.size()));
  }
  unshuffle_bytes(in, filter.params.front(), out.first(in.size()));
  return in.size();
}

std::vector<std::byte> encode_shuffle(const FilterSpec& filter, std::vector<std::byte> data) {
  std::vector<std::byte> out(data.size());
  shuffle_bytes(data, filter.params.front(), out);
  return out;
}

}  // namespace

extern constinit const FilterEntry shuffle_filter = {
    .id = filter_id::kShuffle,
    .name = "shuffle",
    .unsupported = unsupported_shuffle,
    // Shuffling single bytes changes nothing, but writers ask for it.
    .does_nothing = [](const FilterSpec& filter) noexcept { return param(filter, 0, 0) == 1; },
    .decode = decode_shuffle,
    .encode = encode_shuffle,
    .complete =
        [](FilterSpec& filter, std::size_t element_bytes) {
          if (filter.params.empty()) filter.params = {static_cast<unsigned>(element_bytes)};
        },
    .spelling = {.before = "shuffle"},
    .parse =
        [](std::string_view stage, const StageContext& context) {
          return params_of_name(stage, "shuffle", {static_cast<unsigned>(context.element_bytes)});
        },
    .compresses = false,
    .h5py = "shuffle=True"};

}  // namespace h5feed
