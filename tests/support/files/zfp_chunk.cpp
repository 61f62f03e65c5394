// SPDX-License-Identifier: Apache-2.0
#include "support/files/zfp_chunk.hpp"

#include <zfp.h>
#include <zfp/bitstream.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace h5feed::test {
namespace {

struct Close {
  void operator()(zfp_stream* stream) const noexcept { zfp_stream_close(stream); }
  void operator()(zfp_field* field) const noexcept { zfp_field_free(field); }
  void operator()(bitstream* bits) const noexcept { stream_close(bits); }
};

void require_zfp(bool done, const char* call) {
  if (!done) throw std::runtime_error(std::string("libzfp: ") + call);
}

zfp_type type_of(ZfpValues values) { return static_cast<zfp_type>(values); }

template <typename T>
std::vector<std::byte> smooth_values(std::size_t count) {
  std::vector<std::byte> bytes(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(1000 * std::sin(0.1 * static_cast<double>(i)));
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> values_of(ZfpValues type, std::size_t count) {
  switch (type) {
    case ZfpValues::i32:
      return smooth_values<std::int32_t>(count);
    case ZfpValues::i64:
      return smooth_values<std::int64_t>(count);
    case ZfpValues::f32:
      return smooth_values<float>(count);
    case ZfpValues::f64:
      break;
  }
  return smooth_values<double>(count);
}

void set_mode(zfp_stream* stream, const ZfpSetUp& set_up) {
  switch (set_up.mode) {
    case ZfpSetUp::Mode::reversible:
      zfp_stream_set_reversible(stream);
      return;
    case ZfpSetUp::Mode::rate:
      zfp_stream_set_rate(stream, set_up.value, type_of(set_up.type),
                          static_cast<unsigned>(set_up.shape.size()), zfp_false);
      return;
    case ZfpSetUp::Mode::precision:
      zfp_stream_set_precision(stream, static_cast<unsigned>(set_up.value));
      return;
    case ZfpSetUp::Mode::accuracy:
      zfp_stream_set_accuracy(stream, set_up.value);
      return;
    case ZfpSetUp::Mode::expert:
      zfp_stream_set_params(stream, set_up.limits.least_bits, set_up.limits.most_bits,
                            set_up.limits.precision, set_up.limits.least_exponent);
      return;
  }
}

// A stream and a field of libzfp as `set_up` has them.
struct Handles {
  explicit Handles(const ZfpSetUp& set_up) : stream(zfp_stream_open(nullptr)), field(zfp_field_alloc()) {
    require_zfp(stream && field, "zfp_stream_open");
    zfp_field_set_type(field.get(), type_of(set_up.type));
    const auto extent = [&](std::size_t back) {
      return back < set_up.shape.size() ? set_up.shape[set_up.shape.size() - 1 - back] : 0;
    };
    field->nx = extent(0);
    field->ny = extent(1);
    field->nz = extent(2);
    field->nw = extent(3);
    set_mode(stream.get(), set_up);
  }

  std::unique_ptr<zfp_stream, Close> stream;
  std::unique_ptr<zfp_field, Close> field;
};

// The header is in the words behind that of the versions.
std::vector<unsigned> params_of(const Handles& zfp) {
  std::vector<std::uint64_t> words(8);
  const std::unique_ptr<bitstream, Close> header(stream_open(words.data(), 8 * words.size()));
  zfp_stream_set_bit_stream(zfp.stream.get(), header.get());
  const std::size_t bits = zfp_write_header(zfp.stream.get(), zfp.field.get(), ZFP_HEADER_FULL);
  require_zfp(bits > 0, "zfp_write_header");
  zfp_stream_flush(zfp.stream.get());
  std::vector<unsigned> params(1 + (bits + 31) / 32);
  params[0] = ZFP_VERSION << 16U | ZFP_CODEC << 12U;
  std::memcpy(params.data() + 1, words.data(), 4 * (params.size() - 1));
  return params;
}

}  // namespace

std::vector<unsigned> zfp_params(const ZfpSetUp& set_up) { return params_of(Handles(set_up)); }

ZfpChunk zfp_chunk(const ZfpSetUp& set_up) {
  const Handles zfp(set_up);
  zfp_stream* const stream = zfp.stream.get();
  zfp_field* const field = zfp.field.get();
  ZfpChunk chunk;
  chunk.params = params_of(zfp);
  chunk.decoded = values_of(set_up.type, zfp_field_size(field, nullptr));
  zfp_field_set_pointer(field, chunk.decoded.data());
  chunk.stored.resize(zfp_stream_maximum_size(stream, field));
  const std::unique_ptr<bitstream, Close> body(stream_open(chunk.stored.data(), chunk.stored.size()));
  zfp_stream_set_bit_stream(stream, body.get());
  zfp_stream_rewind(stream);
  const std::size_t bytes = zfp_compress(stream, field);
  require_zfp(bytes > 0, "zfp_compress");
  chunk.stored.resize(bytes);
  zfp_stream_rewind(stream);
  require_zfp(zfp_decompress(stream, field) > 0, "zfp_decompress");
  return chunk;
}

}  // namespace h5feed::test
