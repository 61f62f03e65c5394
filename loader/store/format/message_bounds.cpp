// SPDX-License-Identifier: Apache-2.0
#include "store/format/message_bounds.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "store/format/byte_order.hpp"

namespace h5feed {
namespace {

constexpr std::size_t kMostDimensions = 32;  // of libhdf5
constexpr std::size_t kPadding = 8;          // older versions pad names to a multiple of it

std::size_t padded(std::size_t bytes) { return (bytes + kPadding - 1) / kPadding * kPadding; }

// Takes the contents of a message off its front.
class Contents {
 public:
  explicit Contents(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  // Returns a number of up to eight bytes; 0 at the end of the message.
  std::uint64_t number(std::size_t bytes) noexcept {
    const std::span<const std::byte> taken = skip(bytes);
    return whole_ ? little_endian(taken) : 0;
  }
  unsigned byte() noexcept { return static_cast<unsigned>(number(1)); }

  // Returns the next bytes; none where there are fewer.
  std::span<const std::byte> skip(std::size_t count) noexcept {
    if (count > rest_.size()) whole_ = false;
    if (!whole_) return {};
    const std::span<const std::byte> bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }

  // Skips `count` numbers of `bytes` each.
  void skip_numbers(std::uint64_t count, std::size_t bytes) noexcept {
    if (count > rest_.size()) whole_ = false;  // and so the product does not overflow
    skip(static_cast<std::size_t>(count) * bytes);
  }

  // Skips bytes that nobody reads, and that may be missing.
  void skip_padding(std::size_t count) noexcept { rest_ = rest_.subspan(std::min(count, rest_.size())); }

  // Returns the length of the text that begins here, up to a byte of zero.
  std::size_t text_bytes() noexcept {
    const auto end = std::ranges::find(rest_, std::byte{0});
    if (end == rest_.end()) whole_ = false;
    return static_cast<std::size_t>(end - rest_.begin());
  }

  // Skips a text and the zero at its end, which may be padded.
  void skip_text(bool is_padded) noexcept {
    const std::size_t bytes = text_bytes() + 1;
    skip(bytes);
    if (is_padded) skip_padding(padded(bytes) - bytes);
  }

  // Skips a text of `bytes`, which must have the zero that ends it.
  void skip_name(std::size_t bytes) noexcept {
    const std::span<const std::byte> name = skip(bytes);
    if (std::ranges::find(name, std::byte{0}) == name.end()) whole_ = false;
  }

  // Returns whether all that was asked for was there.
  bool whole() const noexcept { return whole_; }

  // Ends the reading: libhdf5 refuses what was read last, and reads no more.
  void refuse() noexcept { refused_ = true; }
  // Ends the reading if that of a part of the message has ended.
  void take_end_of(const Contents& part) noexcept {
    whole_ = whole_ && part.whole_;
    refused_ = refused_ || part.refused_;
  }
  // Returns whether there is nothing more to read.
  bool ended() const noexcept { return refused_ || !whole_; }

 private:
  std::span<const std::byte> rest_;
  bool whole_ = true;
  bool refused_ = false;
};

// Returns the number of elements, which wraps around as it does in libhdf5.
std::uint64_t skip_dataspace(Contents& message, std::size_t length_bytes) noexcept {
  constexpr unsigned kHasMaxima = 1, kNull = 2;
  const unsigned version = message.byte();
  const std::size_t rank = message.byte();
  const unsigned flags = message.byte();
  const unsigned kind = message.byte();  // reserved in the first version
  if ((version != 1 && version != 2) || rank > kMostDimensions) {
    message.refuse();
    return 0;
  }
  if (version == 1) message.skip(4);
  std::uint64_t elements = version == 2 && kind == kNull ? 0 : 1;
  for (std::size_t i = 0; i < rank; ++i) elements *= message.number(length_bytes);
  if ((flags & kHasMaxima) != 0) message.skip_numbers(rank, length_bytes);
  return elements;
}

// Datatypes of the versions that libhdf5 1.10 knows; later libraries look where a message ends.
class Datatype {
 public:
  explicit Datatype(Contents& message) noexcept : message_(message) {}

  // Skips a type and those it is made of; returns the bytes of a value.
  std::uint64_t skip(int depth = 0) noexcept {
    // A type that is made of types, and these of types, that often is in no real file.
    constexpr int kDeepest = 1000;
    const std::uint64_t head = message_.number(4);
    const std::uint64_t bytes = message_.number(4);
    const auto version = static_cast<unsigned>(head >> 4 & 0xfU);
    if (version < 1 || version > 3 || depth > kDeepest) message_.refuse();
    if (message_.ended()) return bytes;
    skip_properties(static_cast<unsigned>(head & 0xfU), version, head >> 8, bytes, depth + 1);
    return bytes;
  }

 private:
  enum Class : unsigned {
    fixed_point = 0,
    floating_point = 1,
    time = 2,
    string = 3,
    bit_field = 4,
    opaque = 5,
    compound = 6,
    reference = 7,
    enumeration = 8,
    variable_length = 9,
    array = 10
  };

  void skip_properties(unsigned of, unsigned version, std::uint64_t flags, std::uint64_t bytes,
                       int depth) noexcept {
    const std::uint64_t members = flags & 0xffffU;
    const bool is_padded = version < 3;
    switch (of) {
      case fixed_point:
      case bit_field:
        message_.skip(4);
        break;
      case floating_point:
        message_.skip(12);
        break;
      case time:
        message_.skip(2);
        break;
      case string:
      case reference:
        break;
      case opaque:
        message_.skip(flags & 0xffU);
        break;
      case compound:
        for (std::uint64_t i = 0; i < members && !message_.ended(); ++i) skip_member(version, bytes, depth);
        break;
      case enumeration: {
        const std::uint64_t value_bytes = skip(depth);
        for (std::uint64_t i = 0; i < members && !message_.ended(); ++i) message_.skip_text(is_padded);
        if (!message_.ended() && members > 0)
          message_.skip_numbers(value_bytes, static_cast<std::size_t>(members));
        break;
      }
      case variable_length:
        skip(depth);
        break;
      case array:
        skip_array(is_padded);
        if (!message_.ended()) skip(depth);
        break;
      default:
        message_.refuse();
    }
  }

  // Name, offset, in the first version the extents of an array, type.
  void skip_member(unsigned version, std::uint64_t bytes, int depth) noexcept {
    constexpr std::size_t kOldArray = 28;
    message_.skip_text(version < 3);
    const std::size_t narrowest = bytes == 0 ? 1 : (std::bit_width(bytes) - 1) / 8 + 1;
    message_.skip(version < 3 ? 4 : narrowest);
    if (version == 1) message_.skip(kOldArray);
    if (!message_.ended()) skip(depth);
  }

  void skip_array(bool with_permutation) noexcept {
    const std::size_t rank = message_.byte();
    if (rank > kMostDimensions) message_.refuse();
    if (message_.ended()) return;
    if (with_permutation) message_.skip(3);
    message_.skip_numbers(rank, with_permutation ? 8 : 4);
  }

  Contents& message_;
};

// Version, flags, lengths of the name, the type and the dataspace, character set, these parts, the values.
void skip_attribute(Contents& message, const NumberWidths& widths, std::size_t message_bytes) noexcept {
  constexpr unsigned kTypeElsewhere = 1, kSpaceElsewhere = 2;
  const unsigned version = message.byte();
  if (version < 1 || version > 3) return;
  const unsigned stored_flags = message.byte();
  const unsigned flags = version == 1 ? 0 : stored_flags;
  const auto part_bytes = [&] {
    const auto bytes = static_cast<std::size_t>(message.number(2));
    return version == 1 ? padded(bytes) : bytes;
  };
  const std::size_t name_bytes = part_bytes();
  const std::size_t type_bytes = part_bytes();
  const std::size_t space_bytes = part_bytes();
  if (version == 3) message.skip(1);
  message.skip_name(name_bytes);
  Contents type = message;
  message.skip(type_bytes);
  Contents space = message;
  message.skip(space_bytes);
  if (((flags & kTypeElsewhere) | (flags & kSpaceElsewhere)) != 0) return;
  const std::uint64_t value_bytes = Datatype(type).skip();
  message.take_end_of(type);
  const std::uint64_t values = skip_dataspace(space, widths.length_bytes);
  message.take_end_of(space);
  // libhdf5 refuses values that are longer than the message.
  if (!message.ended() && values * value_bytes <= message_bytes)
    message.skip(static_cast<std::size_t>(values * value_bytes));
}

void skip_old_fill_value(Contents& message) noexcept { message.skip(message.number(4)); }

void skip_fill_value(Contents& message) noexcept {
  const unsigned version = message.byte();
  constexpr unsigned kUndefined = 0x10, kHasValue = 0x20;
  if (version == 1 || version == 2) {
    message.skip(2);
    if (message.byte() == 0) return;
    const std::uint64_t bytes = message.number(4);
    if (bytes <= INT32_MAX) message.skip(bytes);  // libhdf5 reads no value of a size below zero
  } else if (version == 3) {
    const unsigned flags = message.byte();
    if ((flags & kHasValue) != 0 && (flags & kUndefined) == 0) message.skip(message.number(4));
  }
}

// Version, reserved, places, files, address of the heap; of each file the place of its name, offset and size.
void skip_external_files(Contents& message, const NumberWidths& widths) noexcept {
  if (message.byte() != 1) return;
  message.skip(5);
  const std::uint64_t files = message.number(2);
  message.skip(widths.address_bytes);
  message.skip_numbers(files, 3 * widths.length_bytes);
}

// Number, length of the name, flags, number of parameters, name, parameters.
void skip_filter(Contents& message, bool old) noexcept {
  constexpr std::uint64_t kFirstWithName = 256;
  constexpr std::size_t kParameterBytes = 4;
  const std::uint64_t id = message.number(2);
  // Later versions leave the length out for the filters of the library.
  const std::uint64_t name_bytes = old || id >= kFirstWithName ? message.number(2) : 0;
  message.skip(2);
  const std::uint64_t parameters = message.number(2);
  if (name_bytes > 0) message.skip_name(static_cast<std::size_t>(name_bytes));
  message.skip_numbers(parameters, kParameterBytes);
  if (old && parameters % 2 != 0) message.skip_padding(kParameterBytes);
}

void skip_filters(Contents& message) noexcept {
  constexpr unsigned kMostFilters = 32;  // of libhdf5
  const unsigned version = message.byte();
  const unsigned filters = message.byte();
  if ((version != 1 && version != 2) || filters > kMostFilters) return;
  if (version == 1) message.skip(6);
  for (unsigned filter = 0; filter < filters && message.whole(); ++filter) skip_filter(message, version == 1);
}

void skip_chunk_index(Contents& message, const NumberWidths& widths) noexcept {
  enum Kind : unsigned { single = 1, implicit = 2, fixed_array = 3, extensible_array = 4, b_tree = 5 };
  constexpr unsigned kFilteredSingle = 2;
  const unsigned flags = message.byte();
  const std::size_t dimensions = message.byte();
  const std::size_t extent_bytes = message.byte();
  message.skip(dimensions * extent_bytes);
  switch (message.byte()) {
    case single:
      if ((flags & kFilteredSingle) != 0) message.skip(widths.length_bytes + 4);
      break;
    case implicit:
      break;
    case fixed_array:
      message.skip(1);
      break;
    case extensible_array:
      message.skip(5);
      break;
    case b_tree:
      message.skip(6);
      break;
    default:
      message.refuse();
  }
  if (!message.ended()) message.skip(widths.address_bytes);
}

void skip_layout(Contents& message, const NumberWidths& widths) noexcept {
  enum Class : unsigned { compact = 0, contiguous = 1, chunked = 2, virtual_sources = 3 };
  const unsigned version = message.byte();
  if (version == 1 || version == 2) {
    const std::size_t dimensions = message.byte();
    const unsigned of = message.byte();
    message.skip(5);
    if (of != compact) message.skip(widths.address_bytes);
    message.skip_numbers(dimensions, 4);
    if (of == compact) message.skip(message.number(4));
    return;
  }
  if (version != 3 && version != 4) return;
  switch (message.byte()) {
    case compact:
      message.skip(message.number(2));
      break;
    case contiguous:
      message.skip(widths.address_bytes + widths.length_bytes);
      break;
    case chunked:
      if (version == 3) {
        const std::size_t dimensions = message.byte();
        message.skip(widths.address_bytes);
        message.skip_numbers(dimensions, 4);
      } else {
        skip_chunk_index(message, widths);
      }
      break;
    case virtual_sources:
      message.skip(widths.address_bytes + 4);
      break;
    default:
      break;
  }
}

}  // namespace

std::string_view beyond_message(const HeaderMessage& message, const NumberWidths& widths) {
  if (message.shared) return {};
  Contents contents(message.body);
  std::string_view what;
  switch (message.type) {
    case HeaderMessage::dataspace:
      what = "a dataspace";
      skip_dataspace(contents, widths.length_bytes);
      break;
    case HeaderMessage::datatype:
      what = "a datatype";
      Datatype(contents).skip();
      break;
    case HeaderMessage::old_fill_value:
      what = "a fill value";
      skip_old_fill_value(contents);
      break;
    case HeaderMessage::fill_value:
      what = "a fill value";
      skip_fill_value(contents);
      break;
    case HeaderMessage::external_files:
      what = "a list of external files";
      skip_external_files(contents, widths);
      break;
    case HeaderMessage::layout:
      what = "a layout";
      skip_layout(contents, widths);
      break;
    case HeaderMessage::filters:
      what = "a list of filters";
      skip_filters(contents);
      break;
    case HeaderMessage::attribute:
      what = "an attribute";
      skip_attribute(contents, widths, message.body.size());
      break;
    case HeaderMessage::comment:
      what = "a comment";
      contents.skip_text(false);
      break;
    default:
      break;
  }
  return contents.whole() ? std::string_view() : what;
}

}  // namespace h5feed
