// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 32000 (lzf).
#include <fmt/format.h>
#include <lzf.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include "store/filters/entry.hpp"

namespace h5feed {
namespace {

// The parameters that the public plugin stores: its own version, liblzf's version and the chunk size.
constexpr unsigned kLzfFilterVersion = 4, kLzfLibraryVersion = 0x0105;
constexpr std::size_t kLzfChunkBytesPlace = 2;

// liblzf counts in unsigned int.
constexpr std::size_t kMaxLzfBytes = std::numeric_limits<unsigned>::max();

// The stream: a control byte below 32 is the number of literals that follow, less 1. In any other, the upper
// three bits are the length of a match less 2 (7: a byte with the rest follows); the lower five and the next
// byte are the distance less 1.
constexpr std::size_t kMostLiterals = 32;
constexpr std::size_t kMaxDistance = std::size_t{1} << 13;
constexpr std::size_t kMinMatch = 3;
constexpr std::size_t kMaxMatch = 264;

void append_literals(std::vector<std::byte>& out, std::span<const std::byte> literals) {
  while (!literals.empty()) {
    const std::span<const std::byte> run = literals.first(std::min(literals.size(), kMostLiterals));
    out.push_back(static_cast<std::byte>(run.size() - 1));
    out.insert(out.end(), run.begin(), run.end());
    literals = literals.subspan(run.size());
  }
}

void append_match(std::vector<std::byte>& out, std::size_t distance, std::size_t length) {
  const std::size_t far = distance - 1;
  const std::size_t code = length - 2;
  out.push_back(static_cast<std::byte>(std::min<std::size_t>(code, 7) << 5 | far >> 8));
  if (code >= 7) out.push_back(static_cast<std::byte>(code - 7));
  out.push_back(static_cast<std::byte>(far & 0xff));
}

// Remembers where each three bytes were last seen, by a hash that may collide. `exchange` stores a position
// plus one and returns the previous value; 0: never seen.
class RecentPlaces {
 public:
  RecentPlaces() : places_(std::size_t{1} << kBits) {}

  std::uint32_t exchange(const std::byte* at, std::uint32_t place) {
    const std::uint32_t three = std::to_integer<std::uint32_t>(at[0]) |
                                std::to_integer<std::uint32_t>(at[1]) << 8 |
                                std::to_integer<std::uint32_t>(at[2]) << 16;
    return std::exchange(places_[three * 2654435761U >> (32 - kBits)], place);
  }

 private:
  static constexpr unsigned kBits = 14;
  std::vector<std::uint32_t> places_;
};

}  // namespace

std::size_t decode_lzf(std::span<const std::byte> in, std::span<std::byte> out) {
  // liblzf reads the first byte of an empty stream.
  if (in.empty() || in.size() > kMaxLzfBytes) {
    throw FilterError(fmt::format("lzf: {} bytes are no stream", in.size()));
  }
  const auto room = static_cast<unsigned>(std::min(out.size(), kMaxLzfBytes));
  const unsigned written = lzf_decompress(in.data(), static_cast<unsigned>(in.size()), out.data(), room);
  if (written > 0) return written;
  throw FilterError(errno == E2BIG ? "lzf: the stream holds more bytes than a chunk"
                                   : "lzf: not a valid stream");
}

std::vector<std::byte> encode_lzf(std::span<const std::byte> in) {
  if (in.size() >= kMaxLzfBytes) throw FilterError("lzf: more than 4 GiB in one chunk");
  std::vector<std::byte> out;
  RecentPlaces recent;
  std::size_t literals = 0;  // First byte not in `out` yet
  std::size_t at = 0;
  while (at + kMinMatch <= in.size()) {
    const std::size_t earlier = recent.exchange(&in[at], static_cast<std::uint32_t>(at + 1));
    const std::size_t limit = std::min(kMaxMatch, in.size() - at);
    std::size_t length = 0;
    if (earlier > 0 && at - (earlier - 1) <= kMaxDistance) {
      while (length < limit && in[earlier - 1 + length] == in[at + length]) ++length;
    }
    if (length < kMinMatch) {
      ++at;
      continue;
    }
    append_literals(out, in.subspan(literals, at - literals));
    append_match(out, at - (earlier - 1), length);
    at += length;
    literals = at;
  }
  append_literals(out, in.subspan(literals));
  return out;
}

extern constinit const FilterEntry lzf_filter = {
    .id = filter_id::kLzf,
    .name = "lzf",
    .decode = [](const FilterSpec&, std::span<const std::byte> in, std::span<std::byte> out,
                 CodecState&) { return decode_lzf(in, out); },
    .encode = [](const FilterSpec&, std::vector<std::byte> data) { return encode_lzf(data); },
    // One byte for each run of literals.
    .encoded_size = [](const FilterSpec&,
                       std::size_t bytes) noexcept { return EncodedSize{bytes + bytes / 32 + 64}; },
    .chunk_bytes_place = kLzfChunkBytesPlace,
    .spelling = {.compressor = "lzf"},
    .parse =
        [](std::string_view stage, const StageContext&) {
          return params_of_name(stage, "lzf", {kLzfFilterVersion, kLzfLibraryVersion, 0});
        },
    .h5py = "compression=\"lzf\""};

}  // namespace h5feed
