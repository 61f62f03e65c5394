// SPDX-License-Identifier: Apache-2.0
#include "store/format/object_messages.hpp"

#include <algorithm>
#include <cstddef>

#include "store/format/message_contents.hpp"
#include "store/format/shared_message.hpp"

namespace h5feed {
namespace {

// Returns the message of this type, from another header if this one refers to it; empty if there is none, or
// if it is in the table of shared messages.
std::optional<HeaderMessage> read_message(const MetadataBytes& bytes, const ObjectHeader& header,
                                          unsigned type) {
  const std::optional<HeaderMessage> message = first_of(header, type);
  if (!message || !message->shared) return message;
  MessageContents contents(message->body);
  const std::optional<SharedPlace> place =
      take_shared_place(contents, {bytes.address_bytes(), bytes.length_bytes()});
  if (!place || place->in_table) return std::nullopt;
  const std::optional<HeaderMessage> there = first_of(read_object_header(bytes, place->header), type);
  return there && !there->shared ? there : std::nullopt;
}

}  // namespace

std::optional<HeaderMessage> first_of(const ObjectHeader& header, unsigned type) {
  const auto found = std::ranges::find(header.messages, type, &HeaderMessage::type);
  return found == header.messages.end() ? std::nullopt : std::optional(*found);
}

std::optional<bool> has_filters(const MetadataBytes& bytes, const ObjectHeader& header) {
  if (!first_of(header, HeaderMessage::filters)) return false;
  const std::optional<HeaderMessage> filters = read_message(bytes, header, HeaderMessage::filters);
  if (!filters) return std::nullopt;
  return number_in(filters->body, 1, 1) > 0;
}

std::uint64_t value_bytes_of(const MetadataBytes& bytes, const ObjectHeader& header) {
  const std::optional<HeaderMessage> type = read_message(bytes, header, HeaderMessage::datatype);
  return type ? number_in(type->body, 4, 4) : 0;
}

std::vector<std::uint64_t> largest_extents(const MetadataBytes& bytes, const ObjectHeader& header) {
  const std::optional<HeaderMessage> space = read_message(bytes, header, HeaderMessage::dataspace);
  if (!space) return {};
  // Version, rank, flags; with version 1 five reserved bytes, with version 2 one of its kind.
  const std::size_t first = number_in(space->body, 0, 1) == 1 ? 8 : 4;
  const bool limited = (number_in(space->body, 2, 1) & 1U) != 0;
  std::vector<std::uint64_t> extents(static_cast<std::size_t>(number_in(space->body, 1, 1)));
  const std::size_t width = bytes.length_bytes(), limits = first + extents.size() * width;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    extents[i] = number_in(space->body, first + i * width, width);
    if (limited) extents[i] = std::max(extents[i], number_in(space->body, limits + i * width, width));
  }
  return extents;
}

}  // namespace h5feed
