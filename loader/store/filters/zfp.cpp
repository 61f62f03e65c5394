// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 32013 (zfp), lossy and lossless compression of numbers.
#include <fmt/format.h>
#include <zfp.h>
#include <zfp/bitstream.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>

#include "store/filters/bytes.hpp"
#include "store/filters/entry.hpp"
#include "store/format/byte_order.hpp"

namespace h5feed {
namespace {

struct CloseZfp {
  void operator()(zfp_stream* stream) const noexcept { zfp_stream_close(stream); }
  void operator()(zfp_field* field) const noexcept { zfp_field_free(field); }
  void operator()(bitstream* bits) const noexcept { stream_close(bits); }
};
template <typename T>
using ZfpHandle = std::unique_ptr<T, CloseZfp>;

// libzfp reads whole words, and a word ahead.
constexpr std::size_t kReadAheadBytes = 64;

// The filter's parameters: {versions, a header of zfp in words of 32 bits}, in which a writer with the other
// byte order has these the other way round. The header has the type, the extents and the mode of the chunks.
class ZfpSetUp {
 public:
  // Throws std::bad_alloc. `good()` tells whether the parameters are ones that h5feed supports.
  explicit ZfpSetUp(const std::vector<unsigned>& params)
      : stream_(zfp_stream_open(nullptr)), field_(zfp_field_alloc()) {
    if (!stream_ || !field_) throw std::bad_alloc();
    if (params.empty() || params.size() > kMostParams) return;
    std::array<unsigned, kMostParams + kReadAheadBytes / sizeof(unsigned)> words = {};
    std::copy(params.begin() + 1, params.end(), words.begin());
    if (!read_header(words)) {
      swapped_ = true;
      for (unsigned& word : words) word = __builtin_bswap32(word);
      if (!read_header(words)) return;
    }
    // Blocks may have a fixed size, which must not determine how much memory a read takes.
    constexpr std::size_t kTimes = 16, kSmallBytes = 64 * 1024;
    value_bytes_ = zfp_field_precision(field_.get()) / 8;
    bytes_ = zfp_field_size(field_.get(), nullptr) * value_bytes_;
    if (!limit_block_bits()) return;
    most_stored_bytes_ = zfp_stream_maximum_size(stream_.get(), field_.get());
    good_ = bytes_ > 0 && bytes_ < std::uint64_t{1} << 40 && most_stored_bytes_ > 0 &&
            most_stored_bytes_ <= kTimes * bytes_ + kSmallBytes;
  }

  bool good() const noexcept { return good_; }
  // Returns the bytes of a decoded chunk.
  std::size_t bytes() const noexcept { return bytes_; }
  // Returns the most bytes that decoding reads, whatever they are.
  std::size_t most_stored_bytes() const noexcept { return most_stored_bytes_ + kReadAheadBytes; }

  // Decodes `stored`, which has `most_stored_bytes()`, and returns how many of its bits it used; 0 if libzfp
  // refuses.
  std::uint64_t decode(std::span<std::byte> stored, std::byte* out) {
    const ZfpHandle<bitstream> bits(stream_open(stored.data(), stored.size()));
    if (!bits) throw std::bad_alloc();
    zfp_stream_set_bit_stream(stream_.get(), bits.get());
    zfp_stream_rewind(stream_.get());
    zfp_field_set_pointer(field_.get(), out);
    const bool decoded = zfp_decompress(stream_.get(), field_.get()) != 0;
    const std::uint64_t used = stream_rtell(bits.get());
    zfp_stream_set_bit_stream(stream_.get(), nullptr);
    if (used > 8 * stored.size()) throw std::logic_error("zfp: libzfp read more than its own bound");
    if (!decoded) return 0;
    if (swapped_) swap_byte_order({out, bytes_}, value_bytes_);
    return used;
  }

 private:
  static constexpr std::size_t kMostParams = 32;

  bool read_header(std::span<unsigned> words) {
    const ZfpHandle<bitstream> bits(stream_open(words.data(), words.size_bytes()));
    if (!bits) throw std::bad_alloc();
    zfp_stream_set_bit_stream(stream_.get(), bits.get());
    zfp_stream_rewind(stream_.get());
    const bool read = zfp_read_header(stream_.get(), field_.get(), ZFP_HEADER_FULL) != 0;
    zfp_stream_set_bit_stream(stream_.get(), nullptr);
    return read;
  }

  // Makes `zfp_stream_maximum_size()` a bound of what decoding reads, or returns false where nothing does.
  // Two modes of experts break it (zfp 1.0.1, src/template/decodef.c, revdecode.c): the decoder subtracts the
  // head of a block from a smaller limit of its bits without a check, and a reversible block has a precision
  // of its own, beside `maxprec`.
  bool limit_block_bits() {
    unsigned least = 0, most = 0, precision = 0;
    int least_exponent = 0;
    zfp_stream_params(stream_.get(), &least, &most, &precision, &least_exponent);
    const bool reversible = least_exponent < ZFP_MIN_EXP;
    if (reversible) zfp_stream_set_params(stream_.get(), least, most, ZFP_MAX_PREC, least_exponent);
    return most >= head_bits(field_->type, reversible);
  }

  // Returns the bits of a block before those of its values: flags, an exponent of floats, a precision.
  static unsigned head_bits(zfp_type type, bool reversible) {
    switch (type) {
      case zfp_type_int32:
        return reversible ? 5 : 0;
      case zfp_type_int64:
        return reversible ? 6 : 0;
      case zfp_type_float:
        return reversible ? 2 + 8 + 5 : 1 + 8;
      case zfp_type_double:
        return reversible ? 2 + 11 + 6 : 1 + 11;
      case zfp_type_none:
        break;
    }
    return ZFP_MAX_BITS;
  }

  ZfpHandle<zfp_stream> stream_;
  ZfpHandle<zfp_field> field_;
  bool good_ = false;
  bool swapped_ = false;
  std::size_t value_bytes_ = 1;
  std::size_t bytes_ = 0;
  std::size_t most_stored_bytes_ = 0;
};

// libzfp does not know where its input ends: it gets a copy in front of as many zeros as it could read.
std::size_t decode_zfp(const FilterSpec& filter, std::span<const std::byte> in, std::span<std::byte> out,
                       CodecState& state) {
  ZfpSetUp set_up(filter.params);
  if (!set_up.good()) throw FilterError("zfp: with these parameters it is not built in");
  require_fits(set_up.bytes(), out, "zfp");
  const std::size_t capacity = set_up.most_stored_bytes();
  ByteBuffer& stored = state.workspace[0];
  stored.resize_discard(capacity);
  const std::size_t copied = std::min(in.size(), capacity);
  std::copy_n(in.begin(), copied, stored.data());
  std::fill_n(stored.data() + copied, capacity - copied, std::byte{0});
  const std::uint64_t used = set_up.decode(stored.span().first(capacity), out.data());
  if (used == 0) throw FilterError("zfp: not a valid stream");
  // It ends at a whole word of libzfp, of which a writer with shorter words stores less.
  constexpr std::uint64_t kWordBits = 64;
  if ((used + kWordBits - 1) / kWordBits > (8 * in.size() + kWordBits - 1) / kWordBits) {
    throw FilterError(fmt::format("zfp: {} bytes end before the last value", in.size()));
  }
  return set_up.bytes();
}

std::string unsupported_zfp(const FilterSpec& filter) {
  return ZfpSetUp(filter.params).good() ? "" : foreign_parameters(filter);
}

// The sizes are asked for where nothing may be thrown: without memory, the decoder reports it.
std::size_t most_zfp_bytes(const FilterSpec& filter) noexcept {
  try {
    const ZfpSetUp set_up(filter.params);
    return set_up.good() ? set_up.most_stored_bytes() : 0;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

}  // namespace

extern constinit const FilterEntry zfp_filter = {
    .id = filter_id::kZfp,
    .name = "zfp",
    .unsupported = unsupported_zfp,
    .decode = decode_zfp,
    .encoded_size = [](const FilterSpec& filter, std::size_t bytes) noexcept -> EncodedSize {
      return {.bytes = std::max(compressed_size(filter, bytes).bytes, most_zfp_bytes(filter))};
    },
    .decode_memory = [](const FilterSpec& filter, std::size_t) noexcept -> DecodeMemory {
      return {.kept = most_zfp_bytes(filter)};
    }};

}  // namespace h5feed
