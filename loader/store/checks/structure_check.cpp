// SPDX-License-Identifier: Apache-2.0
#include "store/checks/structure_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "store/checks/attribute_values.hpp"
#include "store/checks/bounded_source.hpp"
#include "store/checks/dense_storage.hpp"
#include "store/checks/layout_message.hpp"
#include "store/checks/link_message.hpp"
#include "store/checks/message_bounds.hpp"
#include "store/checks/newer_index.hpp"
#include "store/checks/old_group.hpp"
#include "store/checks/old_tree.hpp"
#include "store/checks/virtual_mapping.hpp"
#include "store/format/object_header.hpp"
#include "store/format/object_messages.hpp"
#include "store/format/shared_message.hpp"
#include "store/format/superblock.hpp"

namespace h5feed {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kMostObjects = 1024;

// Bytes of a datatype that tell its class and, of one of variable length, the size of its elements.
constexpr std::ptrdiff_t kTypeHeadBytes = 16;

struct SharedType {
  bool elsewhere = false;  // Its header refers to another one for it
  std::uint64_t value_bytes = 0;
  std::vector<std::byte> head;
};

class Structure {
 public:
  Structure(const ByteSource& source, const Superblock& block)
      : bytes_(source, block),
        open_for_swmr_(block.open_for_swmr),
        closed_(!block.open_for_write),
        in_several_parts_(!block.driver.empty() && !block.extension) {
    if (!block.extension) return;
    const ObjectHeader extension = read_object_header(bytes_, *block.extension);
    extension_damage_ = damage_of(extension, *block.extension);
    in_several_parts_ = names_driver_of_parts(extension);
    has_shared_table_ = first_of(extension, HeaderMessage::shared_table).has_value();
    has_image_ = first_of(extension, HeaderMessage::image).has_value();
  }

  // Returns the damage of the superblock's extension, and from the root on that of headers and of the trees
  // of groups. libhdf5 itself refuses one of several parts after it has read the extension.
  std::string groups(std::uint64_t root) const {
    if (!extension_damage_.empty() || in_several_parts_) return extension_damage_;
    if (bytes_.left(root) == 0)
      return fmt::format("its superblock puts the root group at byte {}, outside the file", root);
    std::vector<std::uint64_t> objects = {root};
    std::set<std::uint64_t> seen = {root};
    // `objects` grows during the loop.
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const ObjectHeader header = read_object_header(bytes_, objects[i]);
      if (i == 0 && !header.damage.empty()) return header.damage;
      if (std::string damage = damage_of(header, objects[i]); !damage.empty()) return damage;
      // libhdf5 reads the names of the root group to open a file, those of others when they are opened.
      if (std::string damage = i == 0 ? damage_of_names(header) : ""; !damage.empty()) return damage;
      std::vector<std::uint64_t> members;
      if (std::string damage = visit_group(header, members); !damage.empty()) return damage;
      for (const std::uint64_t member : members) {
        if (objects.size() < kMostObjects && bytes_.left(member) > 0 && seen.insert(member).second)
          objects.push_back(member);
      }
    }
    return {};
  }

  // Returns the damage of a header and of what it refers to: the tree of a group, the sources of a virtual
  // dataset.
  std::string header(std::uint64_t address) const {
    const ObjectHeader header = read_object_header(bytes_, address);
    // libhdf5 refuses other damage, too, but may ask for as much memory as it claims. While a SWMR writer
    // changes the header, that may only be how it looks.
    if (!header.damage.empty() && !open_for_swmr_) return header.damage;
    if (std::string damage = damage_of(header, address); !damage.empty()) return damage;
    if (const std::optional<HeaderMessage> layout = first_of(header, HeaderMessage::layout)) {
      std::string damage =
          virtual_mapping_damage(bytes_, layout->body, largest_extents(bytes_, header).size());
      if (!damage.empty()) return damage;
    }
    if (std::string damage = damage_of_names(header); !damage.empty()) return damage;
    std::vector<std::uint64_t> members;
    for (const HeaderMessage& message : header.messages) {
      if (std::string damage = visit_links(message, members); !damage.empty()) return damage;
    }
    return {};
  }

  // Returns the damage of the chunk index of a dataset.
  std::string chunk_index(std::uint64_t address) const {
    const ObjectHeader header = read_object_header(bytes_, address);
    if (header.hazardous) return header.damage;
    for (const HeaderMessage& message : header.messages) {
      if (message.type != HeaderMessage::layout) continue;
      if (std::string damage = index_of_layout(message.body, header); !damage.empty()) return damage;
      if (closed_ && ends_beyond_file(bytes_, message.body))
        return "its values go beyond the end of its file";
      // The last extent is the size of an element, from which libhdf5 computes the size of its buffers.
      const std::vector<std::uint64_t> extents = chunk_extents(bytes_, message.body);
      const std::uint64_t in_chunks = extents.empty() ? 0 : extents.back();
      const std::uint64_t in_type = value_bytes_of(bytes_, header);
      if (in_chunks != 0 && in_chunks < in_type) {
        return fmt::format("its chunks have elements of {} bytes, and its datatype of {}", in_chunks,
                           in_type);
      }
    }
    return {};
  }

  bool has_image() const { return has_image_; }

 private:
  std::string damage_of(const ObjectHeader& header, std::uint64_t address) const {
    if (header.hazardous) return header.damage;
    const std::vector<std::uint64_t> headers = {address};
    for (const HeaderMessage& message : header.messages) {
      if (std::string damage = damage_of(message, headers); !damage.empty()) return damage;
    }
    return {};
  }

  // Whether libhdf5 will find the name of a driver for files in several parts.
  static bool names_driver_of_parts(const ObjectHeader& extension) {
    constexpr std::size_t kNameAt = 1;
    const std::optional<HeaderMessage> driver = first_of(extension, HeaderMessage::driver);
    if (!driver || driver->body.size() < kNameAt) return false;
    const Bytes name = Bytes(driver->body).subspan(kNameAt);
    return begins_with(name, "NCSAfami") || begins_with(name, "NCSAmult");
  }

  // Returns the damage of a message of the last of these headers; each refers to the next for it.
  std::string damage_of(const HeaderMessage& message, const std::vector<std::uint64_t>& headers) const {
    const std::string_view what = beyond_message(message, widths());
    if (!what.empty()) {
      return fmt::format("the object header at byte {} describes {} that goes beyond its message",
                         headers.back(), what);
    }
    // libhdf5 refuses this itself in newer versions of the message; in the older ones it divides by the
    // extent.
    if (message.type == HeaderMessage::layout && number_in(message.body, 0, 1) < 3 &&
        std::ranges::count(chunk_extents(bytes_, message.body), 0) > 0) {
      return fmt::format("the object header at byte {} describes chunks of which an extent is 0",
                         headers.back());
    }
    if (message.type == HeaderMessage::attribute && !message.shared) return damage_of_attribute(message.body);
    if (message.type == HeaderMessage::attribute_info) {
      const auto contents = [&](Bytes body) {
        return damage_of({.type = HeaderMessage::attribute, .body = {body.begin(), body.end()}}, headers);
      };
      return attribute_storage_damage(bytes_, message.body, {has_shared_table_, contents});
    }
    MessageContents contents(message.body);
    return message.shared ? damage_elsewhere(message.type, take_shared_place(contents, widths()), headers)
                          : "";
  }

  // The parts of an attribute may be shared: its datatype, which is then a named one, and its dataspace.
  std::string damage_of_attribute(Bytes body) const {
    MessageContents contents(body);
    std::optional<AttributeParts> parts = take_attribute_parts(contents);
    if (!parts) return {};
    // Without the attribute's own header: a named datatype may have an attribute of this type.
    if (parts->shares_space) {
      std::string damage =
          damage_elsewhere(HeaderMessage::dataspace, take_shared_place(parts->space, widths()), {});
      if (!damage.empty()) return damage;
    }
    const std::uint64_t count = parts->shares_space ? std::numeric_limits<std::uint64_t>::max()
                                                    : take_dataspace(parts->space, bytes_.length_bytes());
    if (!parts->shares_type)
      return attribute_values_damage(bytes_, heap_, parts->type.skip(kTypeHeadBytes), contents, count);
    const std::optional<SharedPlace> place = take_shared_place(parts->type, widths());
    if (std::string damage = damage_elsewhere(HeaderMessage::datatype, place, {}); !damage.empty())
      return damage;
    if (!place || place->in_table) return {};
    const SharedType& type = shared_type(place->header);
    if (type.elsewhere)
      return fmt::format("the datatype at byte {} refers to another one, which libhdf5 does not write",
                         place->header);
    if (values_beyond_attribute(body, type.value_bytes, widths())) {
      return fmt::format("an attribute of the datatype at byte {} has values that go beyond its message",
                         place->header);
    }
    return attribute_values_damage(bytes_, heap_, type.head, contents, count);
  }

  const SharedType& shared_type(std::uint64_t address) const {
    const auto [type, is_new] = shared_types_.try_emplace(address);
    if (!is_new) return type->second;
    const ObjectHeader header = read_object_header(bytes_, address);
    type->second.value_bytes = value_bytes_of(bytes_, header);
    if (const std::optional<HeaderMessage> message = first_of(header, HeaderMessage::datatype)) {
      type->second.elsewhere = message->shared;
      type->second.head.assign(message->body.begin(),
                               message->body.begin() + std::min(kTypeHeadBytes, std::ssize(message->body)));
    }
    return type->second;
  }

  // Returns the damage of a message that the last of these headers refers to. libhdf5 follows such references
  // without end, and also into a table that the file does not have.
  std::string damage_elsewhere(unsigned type, const std::optional<SharedPlace>& place,
                               std::vector<std::uint64_t> headers) const {
    constexpr std::size_t kMostHeaders = 8;  // libhdf5 writes one reference only
    constexpr std::size_t kMostFollowed = 1024;
    if (!place) return {};
    if (place->in_table) {
      return has_shared_table_
                 ? ""
                 : "an object header refers to a table of shared messages, which the file does not have";
    }
    if (std::ranges::find(headers, place->header) != headers.end() || headers.size() == kMostHeaders)
      return fmt::format("the object header at byte {} refers to itself for a message", place->header);
    if (followed_.size() == kMostFollowed || !followed_.emplace(place->header, type).second) return {};
    headers.push_back(place->header);
    std::optional<HeaderMessage> message;
    {  // The other messages are not kept, as the one may refer to the next header
      const ObjectHeader header = read_object_header(bytes_, place->header);
      if (header.hazardous) return header.damage;
      message = first_of(header, type);
    }
    return message ? damage_of(*message, headers) : "";
  }

  NumberWidths widths() const { return {bytes_.address_bytes(), bytes_.length_bytes()}; }

  // Appends the addresses of the members that hard links of the group name.
  std::string visit_group(const ObjectHeader& header, std::vector<std::uint64_t>& members) const {
    for (const HeaderMessage& message : header.messages) {
      std::string damage = message.type == HeaderMessage::old_group
                               ? old_group_members(bytes_, message.body, kMostObjects, members)
                               : visit_links(message, members);
      if (!damage.empty()) return damage;
    }
    return {};
  }

  std::string visit_links(const HeaderMessage& message, std::vector<std::uint64_t>& members) const {
    if (message.type == HeaderMessage::link_info) return link_storage_damage(bytes_, message.body);
    if (message.type != HeaderMessage::link) return {};
    const std::optional<LinkMessage> link = read_link_message(message.body, widths());
    if (!link) return kBadLink;
    if (link->target) members.push_back(*link->target);
    return {};
  }

  // Returns the damage of the names that libhdf5 reads when it opens an object, or lists a group.
  std::string damage_of_names(const ObjectHeader& header) const {
    for (const HeaderMessage& message : header.messages) {
      std::string damage;
      if (message.type == HeaderMessage::old_group) damage = old_group_damage(bytes_, message.body);
      if (message.type == HeaderMessage::external_files) damage = external_names_damage(bytes_, message.body);
      if (!damage.empty()) return damage;
    }
    return {};
  }

  std::string index_of_layout(Bytes body, const ObjectHeader& header) const {
    const std::uint64_t version = number_in(body, 0, 1);
    constexpr std::uint64_t kChunked = 2;
    const auto old_chunks = [&](std::uint64_t dimensions, std::size_t address_at) {
      return old_tree_damage(bytes_, {OldTree::chunks, 8 + 8 * static_cast<std::size_t>(dimensions)},
                             bytes_.address_in(body, address_at));
    };
    if (version == 1 || version == 2)
      return number_in(body, 2, 1) == kChunked ? old_chunks(number_in(body, 1, 1), 8) : "";
    if (number_in(body, 1, 1) != kChunked) return {};
    if (version == 3) return old_chunks(number_in(body, 2, 1), 3);
    if (version != 4) return {};
    const std::optional<bool> filtered = has_filters(bytes_, header);
    if (!filtered) return {};
    return newer_index_damage(
        bytes_, body,
        {.filtered = *filtered, .extents = largest_extents(bytes_, header), .may_grow = open_for_swmr_});
  }

  const MetadataBytes bytes_;
  const bool open_for_swmr_;
  const bool closed_;  // No writer has marked the file as open
  bool in_several_parts_ = false;
  std::string extension_damage_;
  bool has_shared_table_ = false;
  bool has_image_ = false;
  // Headers that others refer to for a message of a type, once these were examined.
  mutable std::set<std::pair<std::uint64_t, unsigned>> followed_;
  // Datatypes that attributes share, by the address of their headers.
  mutable std::map<std::uint64_t, SharedType> shared_types_;
  mutable GlobalHeap heap_{bytes_};
};

// Where the superblock now is, behind it the end of the file as libhdf5 understands it.
bool truncated(const ByteSource& source, const Superblock& block) {
  return source.size() < block.end_of_file + (block.user_block_bytes - block.base_address);
}

// Returns what `examine(structure)` finds; nothing in a file with a metadata cache image.
template <typename Examine>
std::string find_damage(const BoundedSource& bounded, const Superblock& block, const Examine& examine) {
  // A header may look damaged for a moment while a SWMR writer changes it.
  const int attempts = block.open_for_swmr ? 20 : 1;
  std::string damage;
  for (int i = 0; i < attempts; ++i) {
    try {
      // Another one for each attempt, because it remembers what it has examined.
      const Structure structure(bounded, block);
      if (structure.has_image()) return {};
      damage = examine(structure);
    } catch (const BoundedSource::Exhausted& exhausted) {
      // The bound is one for all attempts.
      return damage.empty() ? exhausted.what() : damage;
    }
    if (damage.empty()) break;
  }
  return damage;
}

}  // namespace

std::string_view why_not_examined(const ByteSource& source) {
  if (has_wide_numbers(source)) return "it has addresses or lengths of 16 or 32 bytes";
  const std::optional<Superblock> block = read_superblock(source);
  try {
    const BoundedSource bounded(source, true);
    return block && Structure(bounded, *block).has_image() ? "it has a metadata cache image" : "";
  } catch (const BoundedSource::Exhausted&) {
    return "the extension of its superblock leads to the same bytes again and again";
  }
}

std::string structure_damage(const ByteSource& source) {
  const std::optional<Superblock> block = read_superblock(source);
  // libhdf5 itself refuses a file that is truncated without reading more of it. It does not ask for the size
  // of a file with a SWMR writer.
  if (!block || (truncated(source, *block) && !block->open_for_swmr)) return {};
  return find_damage(BoundedSource(source, true), *block,
                     [&](const Structure& structure) { return structure.groups(block->root_header); });
}

std::string header_damage(const ByteSource& source, std::uint64_t address) {
  const std::optional<Superblock> block = read_superblock(source);
  if (!block) return {};
  return find_damage(BoundedSource(source), *block,
                     [&](const Structure& structure) { return structure.header(address); });
}

std::string chunk_tree_damage(const ByteSource& source, std::uint64_t address) {
  const std::optional<Superblock> block = read_superblock(source);
  if (!block) return {};
  return find_damage(BoundedSource(source), *block,
                     [&](const Structure& structure) { return structure.chunk_index(address); });
}

}  // namespace h5feed
