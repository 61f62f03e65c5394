// SPDX-License-Identifier: Apache-2.0
#include "store/format/filter_message.hpp"

#include <algorithm>
#include <cstdint>

#include "store/format/byte_order.hpp"

namespace h5feed {
namespace {

// Takes what describes filters off the front of a message.
class Description {
 public:
  explicit Description(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  // Returns a number of two bytes; 0 at the end of the message.
  std::size_t number() noexcept {
    const std::span<const std::byte> bytes = skip(2);
    return whole_ ? static_cast<std::size_t>(little_endian(bytes)) : 0;
  }

  // Returns the next bytes; none where there are fewer.
  std::span<const std::byte> skip(std::size_t count) noexcept {
    if (count > rest_.size()) whole_ = false;
    if (!whole_) return {};
    const std::span<const std::byte> bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }

  // Skips bytes that nobody reads, and that may be missing.
  void skip_padding(std::size_t count) noexcept { rest_ = rest_.subspan(std::min(count, rest_.size())); }

  // Returns whether all that was asked for was there.
  bool whole() const noexcept { return whole_; }

 private:
  std::span<const std::byte> rest_;
  bool whole_ = true;
};

// Number, length of the name, flags, number of parameters, name, parameters.
bool skip_filter(Description& message, bool old) noexcept {
  constexpr std::size_t kFirstWithName = 256, kParameterBytes = 4;
  const std::size_t id = message.number();
  // Later versions leave the length out for the filters of the library.
  const std::size_t name_bytes = old || id >= kFirstWithName ? message.number() : 0;
  message.number();
  const std::size_t parameters = message.number();
  const std::span<const std::byte> name = message.skip(name_bytes);
  message.skip(parameters * kParameterBytes);
  if (old && parameters % 2 != 0) message.skip_padding(kParameterBytes);
  return message.whole() && (name.empty() || std::ranges::find(name, std::byte{0}) != name.end());
}

}  // namespace

std::optional<std::size_t> filter_beyond_message(std::span<const std::byte> body) noexcept {
  constexpr std::size_t kOldReserved = 6;
  if (body.size() < 2) return std::nullopt;
  const auto version = std::to_integer<unsigned>(body[0]);
  if (version != 1 && version != 2) return std::nullopt;
  Description message(body.subspan(2));
  if (version == 1) message.skip(kOldReserved);
  const auto filters = std::to_integer<std::size_t>(body[1]);
  for (std::size_t filter = 0; filter < filters; ++filter) {
    if (!skip_filter(message, version == 1)) return filter;
  }
  return std::nullopt;
}

}  // namespace h5feed
