#include <bzlib.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>

#include "store/filter_codecs.hpp"
#include "store/filters.hpp"

namespace h5feed {
namespace {

// libbz2 counts in unsigned int.
constexpr std::size_t kMaxBzip2Bytes = std::numeric_limits<unsigned>::max();

// libbz2 takes its input without const, but leaves it alone.
char* input(std::span<const std::byte> in) noexcept {
  return const_cast<char*>(reinterpret_cast<const char*>(in.data()));
}

}  // namespace

std::size_t decode_bzip2(std::span<const std::byte> in, std::span<std::byte> out) {
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

std::vector<std::byte> encode_bzip2(std::span<const std::byte> in, unsigned level) {
  // The bound that libbz2's manual gives.
  std::vector<std::byte> out(in.size() + in.size() / 100 + 601);
  if (out.size() > kMaxBzip2Bytes) throw FilterError("bzip2: more than 4 GiB in one chunk");
  auto written = static_cast<unsigned>(out.size());
  const int status =
      BZ2_bzBuffToBuffCompress(reinterpret_cast<char*>(out.data()), &written, input(in),
                               static_cast<unsigned>(in.size()), static_cast<int>(level), 0, 0);
  // With room for the bound, memory is all that can be missing.
  if (status != BZ_OK) throw std::bad_alloc();
  out.resize(written);
  return out;
}

}  // namespace h5feed
