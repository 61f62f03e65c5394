// SPDX-License-Identifier: Apache-2.0
#include "store/filters/shuffle_bits.hpp"

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace h5feed {
namespace {

// Transposes an 8x8 bit matrix; bit 8r + c is bit c of row r. Three rounds exchange the off-diagonal quarters
// of 2x2, 4x4 and 8x8 blocks (Warren, "Hacker's Delight", section 7-3).
constexpr std::uint64_t kSwap1 = 0x00AA00AA00AA00AA;
constexpr std::uint64_t kSwap2 = 0x0000CCCC0000CCCC;
constexpr std::uint64_t kSwap4 = 0x00000000F0F0F0F0;

constexpr std::uint64_t exchange(std::uint64_t x, std::uint64_t mask, unsigned shift) noexcept {
  const std::uint64_t moved = (x ^ (x >> shift)) & mask;
  return x ^ moved ^ (moved << shift);
}

constexpr std::uint64_t transpose_8x8(std::uint64_t x) noexcept {
  return exchange(exchange(exchange(x, kSwap1, 7), kSwap2, 14), kSwap4, 28);
}

// `in` is 8 planes of `groups` bytes, from lowest bit to highest; `out` gets 8 * groups bytes, the first
// from the lowest bits of the planes' first bytes. Starts at group `i`.
void join_planes_portable(const std::byte* in, std::size_t i, std::size_t groups, std::byte* out) noexcept {
  for (; i < groups; ++i) {
    std::uint64_t rows = 0;
    for (std::size_t bit = 0; bit < 8; ++bit) {
      rows |= std::to_integer<std::uint64_t>(in[bit * groups + i]) << (8 * bit);
    }
    rows = transpose_8x8(rows);
    for (std::size_t k = 0; k < 8; ++k) out[8 * i + k] = static_cast<std::byte>(rows >> (8 * k));
  }
}

#if defined(__SSE2__)

// Interleaving the planes' bytes brings the 8 rows of a group together; each 64-bit lane is then transposed
// as an 8x8 bit matrix.
std::size_t join_planes_sse2(const std::byte* in, std::size_t i, std::size_t groups,
                             std::byte* out) noexcept {
  constexpr std::size_t kGroups = 16;
  const auto swap = [](__m128i x, std::uint64_t mask, int shift) {
    const __m128i moved = _mm_and_si128(_mm_xor_si128(x, _mm_srli_epi64(x, shift)),
                                        _mm_set1_epi64x(static_cast<std::int64_t>(mask)));
    return _mm_xor_si128(_mm_xor_si128(x, moved), _mm_slli_epi64(moved, shift));
  };
  for (; i + kGroups <= groups; i += kGroups) {
    __m128i rows[8];
    for (std::size_t bit = 0; bit < 8; ++bit) {
      rows[bit] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + bit * groups + i));
    }
    for (int round = 0; round < 3; ++round) {
      __m128i mixed[8];
      for (std::size_t k = 0; k < 4; ++k) {
        mixed[2 * k] = _mm_unpacklo_epi8(rows[k], rows[k + 4]);
        mixed[2 * k + 1] = _mm_unpackhi_epi8(rows[k], rows[k + 4]);
      }
      for (std::size_t k = 0; k < 8; ++k) rows[k] = mixed[k];
    }
    for (std::size_t k = 0; k < 8; ++k) {
      const __m128i joined = swap(swap(swap(rows[k], kSwap1, 7), kSwap2, 14), kSwap4, 28);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 8 * i + 16 * k), joined);
    }
  }
  return i;
}

__attribute__((target("avx2"))) inline __m256i exchange_avx2(__m256i x, std::uint64_t mask,
                                                             int shift) noexcept {
  const __m256i moved = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, shift)),
                                         _mm256_set1_epi64x(static_cast<std::int64_t>(mask)));
  return _mm256_xor_si256(_mm256_xor_si256(x, moved), _mm256_slli_epi64(moved, shift));
}

// Unshuffles in both halves of wider registers.
__attribute__((target("avx2"))) std::size_t join_planes_avx2(const std::byte* in, std::size_t groups,
                                                             std::byte* out) noexcept {
  constexpr std::size_t kGroups = 32;
  std::size_t i = 0;
  for (; i + kGroups <= groups; i += kGroups) {
    __m256i rows[8];
    for (std::size_t bit = 0; bit < 8; ++bit) {
      rows[bit] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + bit * groups + i));
    }
    for (int round = 0; round < 3; ++round) {
      __m256i mixed[8];
      for (std::size_t k = 0; k < 4; ++k) {
        mixed[2 * k] = _mm256_unpacklo_epi8(rows[k], rows[k + 4]);
        mixed[2 * k + 1] = _mm256_unpackhi_epi8(rows[k], rows[k + 4]);
      }
      for (std::size_t k = 0; k < 8; ++k) rows[k] = mixed[k];
    }
    std::byte* const to = out + 8 * i;
    for (std::size_t k = 0; k < 8; ++k) {
      rows[k] = exchange_avx2(rows[k], kSwap1, 7);
      rows[k] = exchange_avx2(rows[k], kSwap2, 14);
      rows[k] = exchange_avx2(rows[k], kSwap4, 28);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const __m256i lower = _mm256_permute2x128_si256(rows[2 * k], rows[2 * k + 1], 0x20);
      const __m256i upper = _mm256_permute2x128_si256(rows[2 * k], rows[2 * k + 1], 0x31);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * k), lower);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * (k + 4)), upper);
    }
  }
  return i;
}

#endif

void join_planes(const std::byte* in, std::size_t groups, std::byte* out,
                 [[maybe_unused]] SimdLevel level) noexcept {
  std::size_t done = 0;
#if defined(__SSE2__)
  if (level == SimdLevel::avx2) done = join_planes_avx2(in, groups, out);
  if (level != SimdLevel::none) done = join_planes_sse2(in, done, groups, out);
#endif
  join_planes_portable(in, done, groups, out);
}

}  // namespace

void shuffle_bits(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                  std::span<std::byte> work) noexcept {
  shuffle_bytes(in, element_bytes, work);
  const std::size_t elements = in.size() / element_bytes;
  const std::size_t groups = elements / 8;
  for (std::size_t b = 0; b < element_bytes; ++b) {
    const std::byte* const from = work.data() + b * elements;
    std::byte* const to = out.data() + b * elements;
    for (std::size_t i = 0; i < groups; ++i) {
      std::uint64_t rows = 0;
      for (std::size_t k = 0; k < 8; ++k) rows |= std::to_integer<std::uint64_t>(from[8 * i + k]) << (8 * k);
      rows = transpose_8x8(rows);
      for (std::size_t bit = 0; bit < 8; ++bit) {
        to[bit * groups + i] = static_cast<std::byte>(rows >> (8 * bit));
      }
    }
  }
}

void unshuffle_bits(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                    std::span<std::byte> work, SimdLevel level) noexcept {
  const std::size_t elements = in.size() / element_bytes;
  const std::span<std::byte> bytes = element_bytes == 1 ? out : work;
  for (std::size_t b = 0; b < element_bytes; ++b) {
    join_planes(in.data() + b * elements, elements / 8, bytes.data() + b * elements, level);
  }
  if (element_bytes > 1) unshuffle_bytes(work, element_bytes, out, level);
}

}  // namespace h5feed
