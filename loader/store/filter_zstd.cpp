#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <new>

#include "store/filter_codecs.hpp"
#include "store/filters.hpp"

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
  // With room for the bound, memory is all that can be missing.
  if (ZSTD_isError(written) != 0) throw std::bad_alloc();
  out.resize(written);
  return out;
}

}  // namespace h5feed
