// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 32015 (zstd).
#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <new>

#include "store/filters/entry.hpp"

namespace h5feed {

void ZstdDecoder::Free::operator()(ZSTD_DCtx_s* context) const noexcept { ZSTD_freeDCtx(context); }

std::size_t ZstdDecoder::decode(std::span<const std::byte> in, std::span<std::byte> out) {
  if (!context_) context_.reset(ZSTD_createDCtx());
  if (!context_) throw std::bad_alloc();
  const std::size_t written =
      ZSTD_decompressDCtx(context_.get(), out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(written) == 0) return written;
  if (ZSTD_getErrorCode(written) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  throw FilterError(fmt::format("zstd: {}", ZSTD_getErrorName(written)));
}

std::vector<std::byte> encode_zstd(std::span<const std::byte> in, int level) {
  std::vector<std::byte> out(ZSTD_compressBound(in.size()));
  const std::size_t written = ZSTD_compress(out.data(), out.size(), in.data(), in.size(), level);
  // As `out` has the maximum size, only memory can be missing.
  if (ZSTD_isError(written) != 0) throw std::bad_alloc();
  out.resize(written);
  return out;
}

extern constinit const FilterEntry zstd_filter = {
    .id = filter_id::kZstd,
    .name = "zstd",
    .decode = [](const FilterSpec&, std::span<const std::byte> in, std::span<std::byte> out,
                 CodecState& state) { return state.zstd.decode(in, out); },
    .encode =
        [](const FilterSpec& filter, std::vector<std::byte> data) {
          return encode_zstd(data, static_cast<int>(param(filter, 0, 3)));
        },
    .encoded_size = compressed_size,
    .spelling = {.compressor = "zstd:1..22"},
    .parse = [](std::string_view stage,
                const StageContext&) { return level_params(stage, "zstd", kZstdLevels); },
    .parameter_text = level_text};

}  // namespace h5feed
