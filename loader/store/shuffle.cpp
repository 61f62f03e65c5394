#include "store/shuffle.hpp"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace h5feed {
namespace {

// Elements [first, elements) of the planes, then the bytes behind the last whole element.
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

// An aggregate that copies: std::array would drop the attributes of the vector type.
template <std::size_t kBytes>
struct Lanes {
  __m128i at[kBytes];
};

// Interleaves 16 elements at a time: log2(kBytes) rounds of byte interleaving, each of which pairs
// plane i with plane i + kBytes/2, are a perfect shuffle. Returns the elements done.
template <std::size_t kBytes>
std::size_t unshuffle_blocks(const std::byte* in, std::size_t elements, std::byte* out) noexcept {
  constexpr std::size_t kLanes = 16;
  std::size_t i = 0;
  for (; i + kLanes <= elements; i += kLanes) {
    Lanes<kBytes> lanes;
    for (std::size_t b = 0; b < kBytes; ++b) {
      lanes.at[b] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + b * elements + i));
    }
    for (std::size_t round = 1; round < kBytes; round *= 2) {
      Lanes<kBytes> mixed;
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

#endif

}  // namespace

void shuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                   std::span<std::byte> out) noexcept {
  const std::size_t elements = in.size() / element_bytes;
  for (std::size_t b = 0; b < element_bytes; ++b) {
    for (std::size_t i = 0; i < elements; ++i) out[b * elements + i] = in[i * element_bytes + b];
  }
  const std::size_t whole = elements * element_bytes;
  if (whole < in.size()) std::memcpy(out.data() + whole, in.data() + whole, in.size() - whole);
}

void unshuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                     std::span<std::byte> out) noexcept {
  std::size_t done = 0;
#if defined(__SSE2__)
  const std::size_t elements = in.size() / element_bytes;
  if (element_bytes == 2) done = unshuffle_blocks<2>(in.data(), elements, out.data());
  if (element_bytes == 4) done = unshuffle_blocks<4>(in.data(), elements, out.data());
  if (element_bytes == 8) done = unshuffle_blocks<8>(in.data(), elements, out.data());
#endif
  unshuffle_from(done, in, element_bytes, out);
}

void unshuffle_bytes_scalar(std::span<const std::byte> in, std::size_t element_bytes,
                            std::span<std::byte> out) noexcept {
  unshuffle_from(0, in, element_bytes, out);
}

}  // namespace h5feed
