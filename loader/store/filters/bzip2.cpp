// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 307 (bzip2).
#include <bzlib.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>

#include "store/filters/entry.hpp"

namespace h5feed {
namespace {

// libbz2 counts in unsigned int.
constexpr std::size_t kMaxBzip2Bytes = std::numeric_limits<unsigned>::max();

// libbz2 takes its input without const but does not modify it.
char* input(std::span<const std::byte> in) noexcept {
  return const_cast<char*>(reinterpret_cast<const char*>(in.data()));
}

// Decodes one bzip2 stream.
std::size_t decode_bzip2(const FilterSpec&, std::span<const std::byte> in, std::span<std::byte> out,
                         CodecState&) {
  if (in.size() > kMaxBzip2Bytes) throw FilterError("bzip2: more than 4 GiB in one chunk");
  auto written = static_cast<unsigned>(std::min(out.size(), kMaxBzip2Bytes));
  switch (BZ2_bzBuffToBuffDecompress(reinterpret_cast<char*>(out.data()), &written, input(in),
                                     static_cast<unsigned>(in.size()), 0, 0)) {
    case BZ_OK:
      return written;
    case BZ_MEM_ERROR:
      throw std::bad_alloc();
    case BZ_OUTBUFF_FULL:
      throw FilterError("bzip2: the stream holds more bytes than a chunk");
    default:
      throw FilterError("bzip2: not a valid stream");
  }
}

std::vector<std::byte> encode_bzip2(const FilterSpec& filter, std::vector<std::byte> in) {
  const auto level = static_cast<int>(param(filter, 0, 9));  // 1 to 9: block size in units of 100 kB
  // The bound that libbz2's manual gives.
  std::vector<std::byte> out(in.size() + in.size() / 100 + 601);
  if (out.size() > kMaxBzip2Bytes) throw FilterError("bzip2: more than 4 GiB in one chunk");
  auto written = static_cast<unsigned>(out.size());
  const int status = BZ2_bzBuffToBuffCompress(reinterpret_cast<char*>(out.data()), &written, input(in),
                                              static_cast<unsigned>(in.size()), level, 0, 0);
  // As `out` has the maximum size, only memory can be missing.
  if (status != BZ_OK) throw std::bad_alloc();
  out.resize(written);
  return out;
}

}  // namespace

extern constinit const FilterEntry bzip2_filter = {
    .id = filter_id::kBzip2,
    .name = "bzip2",
    .decode = decode_bzip2,
    .encode = encode_bzip2,
    .encoded_size = [](const FilterSpec&,
                       std::size_t bytes) noexcept { return EncodedSize{bytes + bytes / 64 + 640}; },
    // Memory that libbz2 allocates for blocks of 900 kB, rounded up.
    .decode_memory = [](const FilterSpec&,
                        std::size_t) noexcept { return DecodeMemory{.transient = 4 * 1024 * 1024}; },
    .spelling = {.compressor = "bzip2:1..9"},
    .parse =
        [](std::string_view stage, const StageContext&) {
          return level_params(stage, "bzip2", {1, 9, 9});
        },
    .parameter_text = level_text};

}  // namespace h5feed
