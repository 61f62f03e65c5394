// SPDX-License-Identifier: Apache-2.0
#include "store/checks/virtual_mapping.hpp"

#include <H5public.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "store/checks/global_heap.hpp"
#include "store/format/message_contents.hpp"

namespace h5feed {
namespace {

using Bytes = std::span<const std::byte>;

// Newest versions of selections that libhdf5 knows; it refuses others.
constexpr std::uint64_t kNewestHyperslabs = H5_VERSION_GE(1, 12, 0) ? 3 : 2;
constexpr std::uint64_t kNewestPoints = H5_VERSION_GE(1, 12, 0) ? 2 : 1;

// Takes the list of sources apart.
class SourceList {
 public:
  SourceList(Bytes list, std::size_t length_bytes, std::size_t rank) noexcept
      : list_(list), bytes_(list.size()), length_bytes_(length_bytes), rank_(rank) {}

  // Returns what is wrong with it; empty if nothing is, or if libhdf5 refuses it.
  std::string_view damage() noexcept {
    constexpr std::string_view kBeyond = "go beyond the end of their list";
    constexpr std::size_t kSmallest = 1 + 1 + 16 + 16;  // Two empty names and two selections of all
    if (list_.byte() != 0) return {};
    const std::uint64_t sources = list_.number(length_bytes_);
    // libhdf5 makes room for all of them before it reads the first.
    if (sources > bytes_ / kSmallest) return kBeyond;
    for (std::uint64_t i = 0; i < sources && !list_.ended(); ++i) {
      list_.skip_text(false);  // File
      list_.skip_text(false);  // Dataset
      take_selection(0);
      take_selection(rank_);
    }
    if (!list_.ended()) list_.number(4);  // Checksum
    return list_.whole() ? what_ : kBeyond;
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
    const std::uint64_t version = take_version(kNewestPoints);
    if (list_.ended()) return;
    if (version == 1) list_.skip(8);
    const auto width = static_cast<std::size_t>(version == 1 ? 4 : list_.byte());
    const std::size_t dimensions = take_rank(rank);
    const std::uint64_t count = take_width(width);
    if (!list_.ended()) list_.skip_numbers(count, dimensions * width);
  }

  void take_hyperslabs(std::size_t rank) noexcept {
    constexpr unsigned kRegular = 1;
    const std::uint64_t version = take_version(kNewestHyperslabs);
    if (list_.ended()) return;
    const unsigned flags = version == 1 ? 0 : list_.byte();
    std::size_t width = version == 1 ? 4 : 8;
    if (version == 3) {
      width = list_.byte();
    } else {
      list_.skip(version == 1 ? 8 : 4);
    }
    const std::size_t dimensions = take_rank(rank);
    if ((flags & kRegular) != 0) {
      for (std::size_t i = 0; i < dimensions && !list_.ended(); ++i) take_regular(width);
      return;
    }
    const std::uint64_t blocks = take_width(width);
    for (std::uint64_t i = 0; i < blocks && !list_.ended(); ++i) take_block(dimensions, width);
  }

  std::uint64_t take_version(std::uint64_t newest) noexcept {
    const std::uint64_t version = list_.number(4);
    if (version == 0 || version > newest) list_.refuse();
    return version;
  }

  // Takes a number of dimensions, which is not 0: a scalar is selected as all.
  std::size_t take_rank(std::size_t rank) noexcept {
    const std::uint64_t taken = list_.number(4);
    if (list_.ended()) return 0;
    if (taken > 0 && taken <= kMostRank && (rank == 0 || taken == rank))
      return static_cast<std::size_t>(taken);
    what_ = "select other dimensions than the dataset has";
    list_.refuse();
    return 0;
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
    std::array<std::uint64_t, kMostRank> first{};
    for (std::size_t i = 0; i < dimensions; ++i) first.at(i) = take_width(width);
    for (std::size_t i = 0; i < dimensions; ++i) {
      if (take_width(width) >= first.at(i) || list_.ended()) continue;
      what_ = "select blocks that end before they begin";
      list_.refuse();
    }
  }

  MessageContents list_;
  std::size_t bytes_;
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
  std::string_view damage;
  const std::optional<GlobalHeap::Object> object = GlobalHeap(bytes).find(address, number, damage);
  if (object && damage.empty()) {
    const std::vector<std::byte> list = bytes.read(object->address, static_cast<std::size_t>(object->bytes));
    damage = SourceList(list, bytes.length_bytes(), rank).damage();
  }
  if (damage.empty()) return {};
  return fmt::format("its sources, in the heap at byte {}, {}", address, damage);
}

}  // namespace h5feed
