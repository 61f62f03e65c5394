// SPDX-License-Identifier: Apache-2.0
#include "store/checks/virtual_mapping.hpp"

#include <H5public.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "store/format/message_contents.hpp"

namespace h5feed {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kMostDimensions = 32;  // of libhdf5
// libhdf5 before 1.12 reads selections whose numbers have a width of their own as if they had none.
constexpr bool kKnowsWidths = H5_VERSION_GE(1, 12, 0);

// A collection of the global heap, whose objects libhdf5 visits all when it needs one of them.
class Collection {
 public:
  Collection(Bytes bytes, std::size_t length_bytes) noexcept : bytes_(bytes), length_bytes_(length_bytes) {}

  // Returns the contents of an object; nothing if there is none of the number. Sets `damage` to what makes
  // libhdf5 read beyond the collection, or visit the same object without end.
  std::optional<Bytes> object(std::uint64_t number, std::string_view& damage) const noexcept {
    const std::size_t head = padded(8 + length_bytes_);
    std::optional<Bytes> found;
    for (std::size_t at = head; bytes_.size() - at >= head;) {
      const std::uint64_t index = number_in(bytes_, at, 2);
      const std::uint64_t size = number_in(bytes_, at + 8, length_bytes_);
      const std::size_t left = bytes_.size() - at;
      if (index == 0) {  // Free space, whose size counts its own head
        if (size == 0) damage = "lie in a heap with free space of no size";
        if (size == 0 || size >= left) break;
        at += static_cast<std::size_t>(size);
        continue;
      }
      if (size > left - head) {
        damage = "lie in a heap whose objects go beyond its end";
        break;
      }
      const auto length = static_cast<std::size_t>(size);
      if (index == number) found = bytes_.subspan(at + head, length);
      if (padded(length) > left - head) break;
      at += head + padded(length);
    }
    return found;
  }

 private:
  Bytes bytes_;
  std::size_t length_bytes_;
};

// Takes the list of sources apart.
class SourceList {
 public:
  SourceList(Bytes list, std::size_t length_bytes, std::size_t rank) noexcept
      : list_(list), length_bytes_(length_bytes), rank_(rank) {}

  // Returns what is wrong with it; empty if nothing is, or if libhdf5 refuses it.
  std::string_view damage() noexcept {
    if (list_.byte() != 0) return {};
    const std::uint64_t sources = list_.number(length_bytes_);
    for (std::uint64_t i = 0; i < sources && !list_.ended() && what_.empty(); ++i) {
      list_.skip_text(false);  // File
      list_.skip_text(false);  // Dataset
      take_selection(0);
      take_selection(rank_);
    }
    if (!list_.ended()) list_.number(4);  // Checksum
    return list_.whole() ? what_ : "go beyond the end of their list";
  }

 private:
  // Takes a selection of `rank` dimensions; 0: of any number.
  void take_selection(std::size_t rank) noexcept {
    enum Kind : std::uint64_t { none = 0, points = 1, hyperslabs = 2, all = 3 };
    switch (list_.number(4)) {
      case none:
      case all:
        list_.skip(12);
        break;
      case points:
        take_points(rank);
        break;
      case hyperslabs:
        take_hyperslabs(rank);
        break;
      default:
        list_.refuse();
    }
  }

  void take_points(std::size_t rank) noexcept {
    const std::uint64_t version = list_.number(4);
    const bool newer = version >= 2 && kKnowsWidths;
    const auto width = static_cast<std::size_t>(newer ? list_.byte() : 4);
    if (!newer) list_.skip(8);
    const std::size_t dimensions = take_rank(rank);
    const std::uint64_t count = take_width(width);
    if (!list_.ended()) list_.skip_numbers(count, dimensions * width);
  }

  void take_hyperslabs(std::size_t rank) noexcept {
    constexpr unsigned kRegular = 1;
    const std::uint64_t version = list_.number(4);
    unsigned flags = 0;
    std::size_t width = 4;
    const bool has_width = version >= 3 && kKnowsWidths;
    if (has_width) {
      flags = list_.byte();
      width = list_.byte();
    } else if (version >= 2) {
      flags = list_.byte();
      list_.skip(4);
    } else {
      list_.skip(8);
    }
    const std::size_t dimensions = take_rank(rank);
    if ((flags & kRegular) != 0) {
      if (!has_width) width = 8;
      for (std::size_t i = 0; i < dimensions && !list_.ended(); ++i) take_regular(width);
      return;
    }
    const std::uint64_t blocks = take_width(width);
    for (std::uint64_t i = 0; i < blocks && !list_.ended() && what_.empty(); ++i)
      take_block(dimensions, width);
  }

  std::size_t take_rank(std::size_t rank) noexcept {
    const std::uint64_t taken = list_.number(4);
    if (list_.ended()) return 0;
    if (taken > kMostDimensions || (rank != 0 && taken != rank)) {
      what_ = "select other dimensions than the dataset has";
      list_.refuse();
      return 0;
    }
    return static_cast<std::size_t>(taken);
  }

  // Takes a number of a width that the list gives.
  std::uint64_t take_width(std::size_t width) noexcept {
    if (width != 2 && width != 4 && width != 8) list_.refuse();
    return list_.ended() ? 0 : list_.number(width);
  }

  // Start, stride, count and block of a dimension. libhdf5 divides by the stride.
  void take_regular(std::size_t width) noexcept {
    take_width(width);
    const std::uint64_t stride = take_width(width);
    const std::uint64_t count = take_width(width);
    const std::uint64_t block = take_width(width);
    if (list_.ended()) return;
    if (stride == 0 || (count > 1 && block > stride)) {
      what_ = "select blocks that overlap";
      list_.refuse();
    }
  }

  // First and last corner of a block.
  void take_block(std::size_t dimensions, std::size_t width) noexcept {
    std::array<std::uint64_t, kMostDimensions> first{};
    for (std::size_t i = 0; i < dimensions; ++i) first.at(i) = take_width(width);
    for (std::size_t i = 0; i < dimensions; ++i) {
      if (take_width(width) >= first.at(i) || list_.ended()) continue;
      what_ = "select blocks that end before they begin";
      list_.refuse();
    }
  }

  MessageContents list_;
  std::size_t length_bytes_;
  std::size_t rank_;
  std::string_view what_;
};

}  // namespace

std::string virtual_mapping_damage(const MetadataBytes& bytes, Bytes layout, std::size_t rank) {
  constexpr std::uint64_t kVersion = 4, kVirtual = 3;
  if (number_in(layout, 0, 1) != kVersion || number_in(layout, 1, 1) != kVirtual) return {};
  const std::uint64_t address = bytes.address_in(layout, 2);
  const std::uint64_t number = number_in(layout, 2 + bytes.address_bytes(), 4);
  const std::vector<std::byte> head = bytes.read(address, 8 + bytes.length_bytes());
  const std::uint64_t size = number_in(head, 8, bytes.length_bytes());
  if (!begins_with(head, "GCOL") || size > bytes.left(address) || size < padded(head.size())) return {};
  const std::vector<std::byte> collection = bytes.read(address, static_cast<std::size_t>(size));
  std::string_view damage;
  const std::optional<Bytes> list = Collection(collection, bytes.length_bytes()).object(number, damage);
  if (list && damage.empty()) damage = SourceList(*list, bytes.length_bytes(), rank).damage();
  if (damage.empty()) return {};
  return fmt::format("its sources, in the heap at byte {}, {}", address, damage);
}

}  // namespace h5feed
