// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 1 (deflate).
#include <libdeflate.h>

#include <algorithm>
#include <new>

#include "store/filters/entry.hpp"

namespace h5feed {
namespace {

struct FreeCompressor {
  void operator()(libdeflate_compressor* compressor) const noexcept {
    libdeflate_free_compressor(compressor);
  }
};

}  // namespace

void DeflateDecoder::Free::operator()(libdeflate_decompressor* decompressor) const noexcept {
  libdeflate_free_decompressor(decompressor);
}

std::size_t DeflateDecoder::decode(std::span<const std::byte> in, std::span<std::byte> out) {
  if (!decompressor_) decompressor_.reset(libdeflate_alloc_decompressor());
  if (!decompressor_) throw std::bad_alloc();
  std::size_t written = 0;
  switch (libdeflate_zlib_decompress(decompressor_.get(), in.data(), in.size(), out.data(), out.size(),
                                     &written)) {
    case LIBDEFLATE_SUCCESS:
      return written;
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      throw FilterError("deflate: the stream holds more bytes than a chunk");
    default:
      throw FilterError("deflate: not a valid zlib stream");
  }
}

std::vector<std::byte> encode_deflate(std::span<const std::byte> in, unsigned level) {
  const std::unique_ptr<libdeflate_compressor, FreeCompressor> compressor(
      libdeflate_alloc_compressor(static_cast<int>(std::min(level, 9U))));
  if (!compressor) throw std::bad_alloc();
  std::vector<std::byte> out(libdeflate_zlib_compress_bound(compressor.get(), in.size()));
  out.resize(libdeflate_zlib_compress(compressor.get(), in.data(), in.size(), out.data(), out.size()));
  return out;
}

extern constinit const FilterEntry deflate_filter = {
    .id = filter_id::kDeflate,
    .name = "gzip",
    .decode = [](const FilterSpec&, std::span<const std::byte> in, std::span<std::byte> out,
                 CodecState& state) { return state.deflate.decode(in, out); },
    .encode = [](const FilterSpec& filter,
                 std::vector<std::byte> data) { return encode_deflate(data, param(filter, 0, 6)); },
    .encoded_size = compressed_size,
    .spelling = {.compressor = "gzip:0..9"},
    .parse =
        [](std::string_view stage, const StageContext&) {
          return level_params(stage, "gzip", {0, 9, 4});
        },
    .parameter_text = level_text,
    .h5py = "compression=\"gzip\", compression_opts={}"};

}  // namespace h5feed
