// SPDX-License-Identifier: Apache-2.0
#include "store/checks/message_bounds.hpp"

#include <bit>
#include <cstdint>
#include <optional>

#include "store/format/shared_message.hpp"

namespace h5feed {
namespace {

// Datatypes of versions 1 to 4. Those of version 5 are read by libhdf5 2 only, which looks where a message
// ends.
class Datatype {
 public:
  explicit Datatype(MessageContents& message) noexcept : message_(message) {}

  // Skips a type and those it is made of; returns the bytes of a value.
  std::uint64_t skip(int depth = 0) noexcept {
    // No real type is nested that often. libhdf5 calls itself for each, until its stack ends.
    constexpr int kDeepest = 1000;
    const std::uint64_t head = message_.number(4);
    const std::uint64_t bytes = message_.number(4);
    const auto version = static_cast<unsigned>(head >> 4 & 0xfU);
    if (version < 1 || version > 4) message_.refuse();
    if (depth > kDeepest) message_.fail();
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
        if (!message_.ended() && members > 0) message_.skip_numbers(members, value_bytes);
        break;
      }
      case variable_length: {
        // A sequence or a text. libhdf5 has no functions for other kinds, and calls them.
        constexpr std::uint64_t kText = 1;
        if ((flags & 0xfU) > kText) message_.fail();
        skip(depth);
        break;
      }
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
    message_.skip_text(version < 3);
    const auto bits = static_cast<std::size_t>(std::bit_width(bytes));
    const std::size_t narrowest = bits == 0 ? 1 : (bits - 1) / 8 + 1;
    message_.skip(version < 3 ? 4 : narrowest);
    if (version == 1) message_.skip(28);  // Rank, permutation, extents
    if (!message_.ended()) skip(depth);
  }

  void skip_array(bool with_permutation) noexcept {
    const std::size_t rank = message_.byte();
    if (rank > kMostRank) message_.refuse();
    if (message_.ended()) return;
    if (with_permutation) message_.skip(3);
    message_.skip_numbers(rank, with_permutation ? 8 : 4);
  }

  MessageContents& message_;
};

// Skips `values` of `value_bytes` each. libhdf5 refuses those that are longer than the message, and does not
// ask how much of it is left.
void skip_values(MessageContents& message, std::uint64_t values, std::uint64_t value_bytes,
                 std::size_t message_bytes) noexcept {
  std::uint64_t bytes = 0;
  if (message.ended()) return;
  // libhdf5 multiplies likewise, and believes what is left of the product.
  if (__builtin_mul_overflow(values, value_bytes, &bytes)) message.fail();
  if (bytes <= message_bytes) message.skip(bytes);
}

void skip_attribute(MessageContents& message, const NumberWidths& widths,
                    std::size_t message_bytes) noexcept {
  std::optional<AttributeParts> parts = take_attribute_parts(message);
  if (!parts) return;
  std::uint64_t value_bytes = 0;
  if (parts->shares_type) {
    take_shared_place(parts->type, widths);
  } else {
    value_bytes = Datatype(parts->type).skip();
  }
  message.take_end_of(parts->type);
  std::uint64_t values = 0;
  if (parts->shares_space) {
    take_shared_place(parts->space, widths);
  } else {
    values = take_dataspace(parts->space, widths.length_bytes);
  }
  message.take_end_of(parts->space);
  skip_values(message, values, value_bytes, message_bytes);
}

void skip_old_fill_value(MessageContents& message) noexcept { message.skip(message.number(4)); }

void skip_fill_value(MessageContents& message) noexcept {
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
// libhdf5 makes room for as many files as there are places.
void skip_external_files(MessageContents& message, const NumberWidths& widths) noexcept {
  if (message.byte() != 1) return;
  message.skip(3);
  const std::uint64_t places = message.number(2);
  const std::uint64_t files = message.number(2);
  if (files > places) message.fail();
  message.skip(widths.address_bytes);
  message.skip_numbers(files, 3 * widths.length_bytes);
}

// Number, length of the name, flags, number of parameters, name, parameters.
void skip_filter(MessageContents& message, bool old) noexcept {
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

void skip_filters(MessageContents& message) noexcept {
  constexpr unsigned kMostFilters = 32;  // of libhdf5
  const unsigned version = message.byte();
  const unsigned filters = message.byte();
  if ((version != 1 && version != 2) || filters > kMostFilters) return;
  if (version == 1) message.skip(6);
  for (unsigned filter = 0; filter < filters && message.whole(); ++filter) skip_filter(message, version == 1);
}

void skip_chunk_index(MessageContents& message, const NumberWidths& widths) noexcept {
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

void skip_layout(MessageContents& message, const NumberWidths& widths) noexcept {
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

// Version, flags, largest order of creation in `order_bytes`, addresses of the heap and the trees.
void skip_dense(MessageContents& message, std::size_t order_bytes, const NumberWidths& widths) noexcept {
  constexpr unsigned kTracksOrder = 1, kIndexesOrder = 2;
  message.skip(1);
  const unsigned flags = message.byte();
  if ((flags & kTracksOrder) != 0) message.skip(order_bytes);
  message.skip_numbers((flags & kIndexesOrder) != 0 ? 3 : 2, widths.address_bytes);
}

// Version, name of the driver, length of what it has stored.
void skip_driver(MessageContents& message) noexcept {
  message.skip(9);
  message.skip(message.number(2));
}

}  // namespace

std::uint64_t take_dataspace(MessageContents& message, std::size_t length_bytes) noexcept {
  constexpr unsigned kHasMaxima = 1, kNull = 2;
  const unsigned version = message.byte();
  const std::size_t rank = message.byte();
  const unsigned flags = message.byte();
  const unsigned kind = message.byte();  // reserved in the first version
  if ((version != 1 && version != 2) || rank > kMostRank) {
    message.refuse();
    return 0;
  }
  if (version == 1) message.skip(4);
  std::uint64_t elements = version == 2 && kind == kNull ? 0 : 1;
  for (std::size_t i = 0; i < rank; ++i) elements *= message.number(length_bytes);
  if ((flags & kHasMaxima) != 0) message.skip_numbers(rank, length_bytes);
  return elements;
}

bool values_beyond_attribute(std::span<const std::byte> body, std::uint64_t value_bytes,
                             const NumberWidths& widths) {
  MessageContents contents(body);
  std::optional<AttributeParts> parts = take_attribute_parts(contents);
  if (!parts || parts->shares_space) return false;
  const std::uint64_t values = take_dataspace(parts->space, widths.length_bytes);
  contents.take_end_of(parts->space);
  skip_values(contents, values, value_bytes, body.size());
  return !contents.whole();
}

std::string_view beyond_message(const HeaderMessage& message, const NumberWidths& widths) {
  MessageContents contents(message.body);
  std::string_view what;
  if (message.shared) {
    take_shared_place(contents, widths);
    return contents.whole() ? std::string_view() : "a shared message";
  }
  switch (message.type) {
    case HeaderMessage::dataspace:
      what = "a dataspace";
      take_dataspace(contents, widths.length_bytes);
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
    case HeaderMessage::link_info:
      what = "a group";
      skip_dense(contents, 8, widths);
      break;
    case HeaderMessage::attribute_info:
      what = "attributes";
      skip_dense(contents, 2, widths);
      break;
    case HeaderMessage::old_group:
      what = "a group";
      contents.skip_numbers(2, widths.address_bytes);
      break;
    case HeaderMessage::driver:
      what = "a driver";
      skip_driver(contents);
      break;
    case HeaderMessage::old_time:
      what = "a time";
      contents.skip(14);
      break;
    case HeaderMessage::time:
      what = "a time";
      contents.skip(8);
      break;
    case HeaderMessage::tree_sizes:
      what = "the sizes of trees";
      contents.skip(7);
      break;
    case HeaderMessage::references:
      what = "a count of references";
      contents.skip(5);
      break;
    default:
      break;
  }
  return contents.whole() ? std::string_view() : what;
}

}  // namespace h5feed
