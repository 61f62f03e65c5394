// SPDX-License-Identifier: Apache-2.0
#include "h5feed/options.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/option_spelling.hpp"
#include "base/terminal_text.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

constexpr std::string_view kChunkPrefix = "chunk:";

}  // namespace

Shuffle::Shuffle(std::string_view text) {
  if (text == "sequential" || text == "false") return;
  if (text == "full" || text == "true") {
    kind_ = Kind::full;
    return;
  }
  if (text.starts_with(kChunkPrefix)) {
    const std::string_view number = text.substr(kChunkPrefix.size());
    const char* const end = number.data() + number.size();
    const auto [parsed_to, error] = std::from_chars(number.data(), end, window_chunks_);
    if (error == std::errc() && parsed_to == end && window_chunks_ > 0) {
      kind_ = Kind::chunk;
      return;
    }
    if (error == std::errc::result_out_of_range && parsed_to == end && !number.starts_with('-')) {
      throw OptionError(fmt::format("{} \"{}\": too many chunks in a window; the whole dataset is \"full\"",
                                    spelled("shuffle"), abridged(text)));
    }
  }
  throw OptionError(
      fmt::format("{} \"{}\" is not known; use \"sequential\", \"full\", or \"chunk:K\" with "
                  "windows of K chunks, e.g. \"chunk:16\"",
                  spelled("shuffle"), abridged(text)));
}

std::string Shuffle::to_string() const {
  switch (kind_) {
    case Kind::sequential:
      return "sequential";
    case Kind::full:
      return "full";
    case Kind::chunk:
      return fmt::format("{}{}", kChunkPrefix, window_chunks_);
  }
  return "unknown";
}

GpuCacheBytes::GpuCacheBytes(std::string_view text) : automatic_(text == "auto") {
  if (automatic_) return;
  throw OptionError(fmt::format("{} \"{}\" is not a size; use a number of bytes, or \"auto\"",
                                spelled("gpu_cache_bytes"), abridged(text)));
}

void GpuCacheBytes::refuse_negative() {
  throw OptionError(fmt::format("{} is negative; use a number of bytes, 0 for none, or \"auto\"",
                                spelled("gpu_cache_bytes")));
}

std::uint64_t SampleKey::random(std::uint64_t purpose) const noexcept {
  const std::uint64_t of_epoch =
      mix_key(mix_key(seed, kTransform, epoch), kTransform, static_cast<std::uint64_t>(repeat));
  return mix_key(mix_key(of_epoch, kTransform, static_cast<std::uint64_t>(sample)), kTransform, purpose);
}

std::string_view name_of(OnError on_error) noexcept {
  switch (on_error) {
    case OnError::fail:
      return "fail";
    case OnError::skip:
      return "skip";
    case OnError::replace:
      break;
  }
  return "replace";
}

std::string_view name_of(CachePolicy policy) noexcept {
  switch (policy) {
    case CachePolicy::lru:
      return "lru";
    case CachePolicy::clairvoyant:
      return "clairvoyant";
    case CachePolicy::keep_first:
      break;
  }
  return "keep_first";
}

}  // namespace h5feed
