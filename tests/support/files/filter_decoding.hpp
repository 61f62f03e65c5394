// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the tests of filters.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/filters/filters.hpp"
#include "support/files/bytes.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {

template <typename... Values>
Bytes bytes_of(Values... values) {
  return {static_cast<std::byte>(values)...};
}

/// Decodes into a buffer of exactly the chunk's size, so that a sanitizer detects any byte written beyond it.
inline Bytes decode(const FilterPipeline& pipeline, std::span<const std::byte> stored,
                    std::size_t chunk_bytes, std::uint32_t mask = 0) {
  DecodeScratch scratch;
  Bytes out(chunk_bytes);
  const Bytes exact(stored.begin(), stored.end());
  pipeline.decode(exact, mask, out, scratch);
  return out;
}

/// Returns the text of the FilterError that `decode` throws; "accepted" if it throws none.
inline std::string refusal(const FilterPipeline& pipeline, std::span<const std::byte> stored,
                           std::size_t chunk_bytes) {
  return test::refusal_of<FilterError>([&] { decode(pipeline, stored, chunk_bytes); });
}

/// Converts the text of a pipeline to a name that GoogleTest accepts: "shuffle_then_gzip_4".
inline std::string test_name(std::string_view text) {
  std::string name;
  for (const char c : text) name += c == '+' ? "_then_" : std::string(1, c == ':' ? '_' : c);
  return name;
}

}  // namespace h5feed::test
