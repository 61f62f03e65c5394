// SPDX-License-Identifier: Apache-2.0
#include "support/files/blosc2_chunk.hpp"

#include <b2nd.h>
#include <blosc2.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

namespace h5feed::test {
namespace {

void require_blosc2(bool done, const char* call) {
  if (!done) throw std::runtime_error(std::string("libblosc2: ") + call);
}

// A frame in memory that libblosc2 allocated.
std::vector<std::byte> taken(std::uint8_t* frame, std::int64_t bytes, bool needs_free) {
  const auto* const first = reinterpret_cast<const std::byte*>(frame);
  std::vector<std::byte> result(first, first + bytes);
  if (needs_free) std::free(frame);
  return result;
}

std::vector<std::byte> plain_frame(blosc2_storage& storage, std::span<const std::byte> values) {
  const std::unique_ptr<blosc2_schunk, int (*)(blosc2_schunk*)> chunks(blosc2_schunk_new(&storage),
                                                                       blosc2_schunk_free);
  require_blosc2(chunks != nullptr, "blosc2_schunk_new");
  require_blosc2(
      blosc2_schunk_append_buffer(chunks.get(), values.data(), static_cast<std::int32_t>(values.size())) > 0,
      "blosc2_schunk_append_buffer");
  std::uint8_t* frame = nullptr;
  bool needs_free = false;
  const std::int64_t bytes = blosc2_schunk_to_buffer(chunks.get(), &frame, &needs_free);
  require_blosc2(bytes > 0, "blosc2_schunk_to_buffer");
  return taken(frame, bytes, needs_free);
}

std::vector<std::byte> array_frame(const Blosc2SetUp& set_up, blosc2_storage& storage,
                                   std::span<const std::byte> values) {
  const std::vector<std::int64_t> shape(set_up.shape.begin(), set_up.shape.end());
  const std::unique_ptr<b2nd_context_t, int (*)(b2nd_context_t*)> context(
      b2nd_create_ctx(&storage, static_cast<std::int8_t>(shape.size()), shape.data(), set_up.shape.data(),
                      set_up.block.data(), "|u1", DTYPE_NUMPY_FORMAT, nullptr, 0),
      b2nd_free_ctx);
  require_blosc2(context != nullptr, "b2nd_create_ctx");
  b2nd_array_t* array = nullptr;
  require_blosc2(
      b2nd_from_cbuffer(context.get(), &array, values.data(), static_cast<std::int64_t>(values.size())) == 0,
      "b2nd_from_cbuffer");
  const std::unique_ptr<b2nd_array_t, int (*)(b2nd_array_t*)> owner(array, b2nd_free);
  std::uint8_t* frame = nullptr;
  std::int64_t bytes = 0;
  bool needs_free = false;
  require_blosc2(b2nd_to_cframe(array, &frame, &bytes, &needs_free) == 0, "b2nd_to_cframe");
  return taken(frame, bytes, needs_free);
}

}  // namespace

std::vector<std::byte> blosc2_chunk(const Blosc2SetUp& set_up, std::span<const std::byte> values) {
  static const bool initialized = (blosc2_init(), true);
  static_cast<void>(initialized);
  blosc2_cparams params = BLOSC2_CPARAMS_DEFAULTS;
  params.compcode = static_cast<std::uint8_t>(set_up.codec);
  params.clevel = static_cast<std::uint8_t>(set_up.level);
  params.typesize = set_up.element_bytes;
  params.nthreads = 1;
  params.filters[BLOSC2_MAX_FILTERS - 1] = static_cast<std::uint8_t>(set_up.filter);
  // All bits of a float are kept, so that decoding undoes it.
  if (set_up.filter == BLOSC_TRUNC_PREC) params.filters_meta[BLOSC2_MAX_FILTERS - 1] = 23;
  blosc2_storage storage = BLOSC2_STORAGE_DEFAULTS;
  storage.cparams = &params;
  if (set_up.shape.empty()) return plain_frame(storage, values);
  params.blocksize = set_up.element_bytes;
  for (const std::int32_t extent : set_up.block) params.blocksize *= extent;
  return array_frame(set_up, storage, values);
}

}  // namespace h5feed::test
