// SPDX-License-Identifier: Apache-2.0
#include "store/checks/fractal_heap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "store/format/metadata_checksum.hpp"
#include "store/format/superblock.hpp"

namespace h5feed {
namespace {

// Kinds of objects in an id.
constexpr unsigned kManaged = 0, kHuge = 1, kTiny = 2;

unsigned version_of(std::span<const std::byte> id) { return std::to_integer<unsigned>(id[0]) >> 6U; }
unsigned kind_of(std::span<const std::byte> id) { return std::to_integer<unsigned>(id[0]) >> 4U & 3U; }

// Of an object that the id itself holds.
std::size_t tiny_bytes(std::span<const std::byte> id) {
  return 1 + (std::to_integer<std::size_t>(id[0]) & 0x0fU);
}

// The logarithm of a power of two.
unsigned bits_of(std::uint64_t number) { return static_cast<unsigned>(std::countr_zero(number)); }

std::size_t bytes_for(std::uint64_t bits) { return static_cast<std::size_t>((bits + 7) / 8); }

}  // namespace

FractalHeap::FractalHeap(const MetadataBytes& bytes, std::uint64_t address, std::size_t id_bytes)
    : bytes_(bytes), address_(address), id_bytes_(id_bytes) {
  const std::size_t length = bytes.length_bytes(), place = bytes.address_bytes();
  // Signature, version, bytes of an id and of the description of filters, flags, largest object; next huge
  // object, tree of these; then numbers that are not needed.
  const std::size_t huge_tree_at = 14 + length, huge_objects_at = huge_tree_at + 2 * place + 6 * length;
  const std::size_t width_at = huge_objects_at + 3 * length, space_bits_at = width_at + 2 + 2 * length;
  const std::size_t root_at = space_bits_at + 4, end = root_at + place + 2;
  std::vector<std::byte> head = bytes.head(address, "FRHP", end);
  // With filters: size and mask of a root that is a block, the description of the filters.
  const auto filter_bytes = static_cast<std::size_t>(number_in(head, 7, 2));
  const std::size_t checksum_at = end + (filter_bytes > 0 ? length + 4 + filter_bytes : 0);
  constexpr std::size_t kChecksumBytes = 4;
  head = bytes.head(address, "FRHP", checksum_at + kChecksumBytes);
  // A header whose checksum is wrong is left to libhdf5, which refuses it.
  exists_ = !head.empty() && metadata_checksum(std::span(head).first(checksum_at)) ==
                                 number_in(head, checksum_at, kChecksumBytes);
  stored_id_bytes_ = number_in(head, 5, 2);
  filtered_ = filter_bytes > 0;
  constexpr std::uint64_t kHasChecksums = 2;
  has_checksums_ = (number_in(head, 9, 1) & kHasChecksums) != 0;
  largest_object_ = number_in(head, 10, 4);
  huge_tree_ = bytes.address_in(head, huge_tree_at);
  huge_objects_ = number_in(head, huge_objects_at, length);
  width_ = number_in(head, width_at, 2);
  first_block_bytes_ = number_in(head, width_at + 2, length);
  largest_block_bytes_ = number_in(head, width_at + 2 + length, length);
  space_bits_ = number_in(head, space_bits_at, 2);
  root_ = bytes.address_in(head, root_at);
  root_rows_ = number_in(head, root_at + place, 2);
}

std::string FractalHeap::damage() {
  if (!exists_) return {};
  if (std::string damage = damage_of_sizes(); !damage.empty())
    return fmt::format("the heap at byte {} claims {}", address_, damage);
  if (huge_tree_ == undefined_address(bytes_.address_bytes())) return {};
  // libhdf5 deletes a tree of no objects.
  if (huge_objects_ == 0) return fmt::format("the heap at byte {} has a tree of no huge objects", address_);
  if (filtered_ || names_huge_directly()) return new_tree_damage(bytes_, huge_tree_, huge_records());
  // Records: address, length, number of the object.
  std::string damage =
      new_tree_damage(bytes_, huge_tree_, huge_records(), [this](std::span<const std::byte> record) {
        const std::size_t length = bytes_.length_bytes(), number_at = bytes_.address_bytes() + length;
        huge_places_.emplace_back(
            number_in(record, number_at, length),
            Place{bytes_.address_in(record, 0), number_in(record, bytes_.address_bytes(), length)});
        return std::string();
      });
  std::ranges::sort(huge_places_, {}, &std::pair<std::uint64_t, Place>::first);
  return damage;
}

bool FractalHeap::names_huge_directly() const {
  const std::size_t filters = filtered_ ? 4 + bytes_.length_bytes() : 0;
  return 1 + bytes_.address_bytes() + bytes_.length_bytes() + filters <= id_bytes_;
}

// Address, length, with filters their mask and the length without them, the number in a tree that ids need.
TreeRecords FractalHeap::huge_records() const {
  const std::size_t length = bytes_.length_bytes();
  const std::size_t bytes = bytes_.address_bytes() + length + (filtered_ ? 4 + length : 0);
  const unsigned kind = filtered_ ? 2 : 1;
  return names_huge_directly() ? TreeRecords{kind + 2, bytes} : TreeRecords{kind, bytes + length};
}

// libhdf5 divides by the sizes, takes logarithms of them, and subtracts these from each other.
std::string FractalHeap::damage_of_sizes() const {
  if (stored_id_bytes_ != id_bytes_)
    return fmt::format("ids of {} bytes, where {} belong", stored_id_bytes_, id_bytes_);
  const bool whole = std::has_single_bit(width_) && std::has_single_bit(first_block_bytes_) &&
                     std::has_single_bit(largest_block_bytes_);
  // Signature, version, address of the heap, offset, checksum.
  const std::uint64_t head_bytes = 5 + bytes_.address_bytes() + offset_bytes() + (has_checksums_ ? 4 : 0);
  if (!whole || first_block_bytes_ < head_bytes || largest_block_bytes_ < first_block_bytes_ ||
      largest_object_ == 0 || largest_object_ > largest_block_bytes_) {
    return fmt::format("rows of {} blocks of {} to {} bytes for objects of up to {}", width_,
                       first_block_bytes_, largest_block_bytes_, largest_object_);
  }
  const std::uint64_t least = std::max<std::uint64_t>(first_row_bits(), bits_of(largest_block_bytes_));
  if (1 + offset_bytes() + size_bytes() > id_bytes_)
    return fmt::format("ids of {} bytes for a space of {} bits", id_bytes_, space_bits_);
  if (space_bits_ > 64 || space_bits_ < least || root_rows_ > space_bits_ - first_row_bits() + 1)
    return fmt::format("{} rows of blocks in a space of {} bits", root_rows_, space_bits_);
  // The smallest block in which a table of blocks lies is twice as large as the largest of objects.
  if (root_rows_ > direct_rows() && bits_of(largest_block_bytes_) + 1 < first_row_bits())
    return fmt::format("blocks of up to {} bytes within rows of {}", largest_block_bytes_, space_in(1));
  // libhdf5 always sets that mark for links and attributes, and reads a block with filters only with it.
  if (filtered_ && !has_checksums_) return "filters of blocks that have no checksums";
  return {};
}

std::string FractalHeap::damage_of(std::span<const std::byte> id) {
  if (!exists_ || version_of(id) != 0) return {};
  switch (kind_of(id)) {
    case kManaged:
      return damage_of_managed(id);
    case kHuge:
      return huge_objects_ > 0
                 ? ""
                 : fmt::format("an id leads to a huge object, of which the heap at byte {} has none",
                               address_);
    case kTiny:
      return tiny_bytes(id) < id.size()
                 ? ""
                 : fmt::format("an id of {} bytes holds an object of {}", id.size(), tiny_bytes(id));
    default:
      return {};
  }
}

std::string FractalHeap::damage_of_managed(std::span<const std::byte> id) {
  const std::uint64_t offset = place_of(id).begin;
  const std::uint64_t space = root_rows_ == 0 ? first_block_bytes_ : space_in(root_rows_);
  if (root_ == undefined_address(bytes_.address_bytes()) || offset >= space)
    return fmt::format("an id leads to byte {} of the heap at byte {}, behind its end", offset, address_);
  if (sound_block_at(offset) != nullptr) return {};
  auto [damage, block] = block_at(offset);
  if (damage.empty() && block) damage = damage_of_block(*block, "FHDB");
  if (damage.empty() && block) sound_blocks_.emplace(block->offset, *block);
  return damage;
}

std::vector<std::byte> FractalHeap::object(std::span<const std::byte> id) const {
  if (!exists_ || filtered_ || version_of(id) != 0) return {};
  if (kind_of(id) == kTiny) {
    const std::span<const std::byte> inside = id.subspan(1, std::min(tiny_bytes(id), id.size() - 1));
    return {inside.begin(), inside.end()};
  }
  if (kind_of(id) == kHuge) {
    const std::optional<Place> place = huge_place(id);
    constexpr std::uint64_t kMost = 16U << 20U;
    if (!place || place->bytes > std::min(kMost, bytes_.left(place->begin))) return {};
    return bytes_.read(place->begin, static_cast<std::size_t>(place->bytes));
  }
  if (kind_of(id) != kManaged) return {};
  const Place place = place_of(id);
  const Block* const block = sound_block_at(place.begin);
  if (block == nullptr || place.bytes > block->bytes ||
      place.begin - block->offset > block->bytes - place.bytes)
    return {};
  return bytes_.read(block->address + (place.begin - block->offset), static_cast<std::size_t>(place.bytes));
}

std::optional<FractalHeap::Place> FractalHeap::huge_place(std::span<const std::byte> id) const {
  if (names_huge_directly()) {
    return Place{bytes_.address_in(id, 1), number_in(id, 1 + bytes_.address_bytes(), bytes_.length_bytes())};
  }
  const std::uint64_t number = number_in(id, 1, std::min<std::size_t>(id.size() - 1, 8));
  const auto found =
      std::ranges::lower_bound(huge_places_, number, {}, &std::pair<std::uint64_t, Place>::first);
  if (found == huge_places_.end() || found->first != number) return std::nullopt;
  return found->second;
}

std::size_t FractalHeap::offset_bytes() const { return bytes_for(space_bits_); }

std::size_t FractalHeap::size_bytes() const {
  return std::min<std::size_t>(bytes_for(bits_of(largest_block_bytes_)),
                               (static_cast<std::size_t>(std::bit_width(largest_object_)) - 1) / 8 + 1);
}

FractalHeap::Place FractalHeap::place_of(std::span<const std::byte> id) const {
  return {number_in(id, 1, offset_bytes()), number_in(id, 1 + offset_bytes(), size_bytes())};
}

const FractalHeap::Block* FractalHeap::sound_block_at(std::uint64_t offset) const {
  const auto behind = sound_blocks_.upper_bound(offset);
  if (behind == sound_blocks_.begin()) return nullptr;
  const Block& block = std::prev(behind)->second;
  return offset - block.offset < block.bytes ? &block : nullptr;
}

unsigned FractalHeap::first_row_bits() const { return bits_of(width_) + bits_of(first_block_bytes_); }

// The first two rows have blocks of one size; it doubles with each row behind them.
std::uint64_t FractalHeap::block_bytes(std::uint64_t row) const {
  return first_block_bytes_ << (std::max<std::uint64_t>(row, 1) - 1);
}

std::uint64_t FractalHeap::space_in(std::uint64_t rows) const {
  const std::uint64_t bits = first_row_bits() + rows - 1;
  return bits >= 64 ? ~std::uint64_t{0} : std::uint64_t{1} << bits;
}

std::uint64_t FractalHeap::direct_rows() const {
  return bits_of(largest_block_bytes_) - bits_of(first_block_bytes_) + 2;
}

FractalHeap::Found FractalHeap::block_at(std::uint64_t offset) const {
  // Signature, version, address of the heap, offset of the table; blocks have sizes and masks with filters.
  const std::uint64_t first = 5 + bytes_.address_bytes() + offset_bytes();
  const std::uint64_t entry_bytes = bytes_.address_bytes() + (filtered_ ? bytes_.length_bytes() + 4 : 0);
  Block block{.offset = 0, .bytes = first_block_bytes_, .address = root_};
  // Each table lies within a block of the one before it, and has fewer rows.
  for (std::uint64_t rows = root_rows_; rows > 0;) {
    if (std::string damage = damage_of_block(block, "FHIB"); !damage.empty()) return {damage, {}};
    const std::uint64_t within = offset - block.offset;
    const auto bits = static_cast<std::uint64_t>(std::bit_width(within));
    const std::uint64_t row = bits > first_row_bits() ? bits - first_row_bits() : 0;
    if (row >= rows) return {};
    const std::uint64_t row_begin = row == 0 ? 0 : space_in(row);
    const std::uint64_t column = (within - row_begin) / block_bytes(row);
    const bool direct = row < direct_rows();
    const std::uint64_t at = direct ? (row * width_ + column) * entry_bytes
                                    : direct_rows() * width_ * entry_bytes +
                                          ((row - direct_rows()) * width_ + column) * bytes_.address_bytes();
    const std::vector<std::byte> entry = bytes_.read(block.address + first + at, bytes_.address_bytes());
    block = {.offset = block.offset + row_begin + column * block_bytes(row),
             .bytes = block_bytes(row),
             .address = bytes_.address_in(entry, 0)};
    if (bytes_.left(block.address) == 0) return {};
    if (direct) break;
    rows = bits_of(block.bytes) - first_row_bits() + 1;
  }
  return {{}, block};
}

// libhdf5 takes from the block itself where it is in the heap, and computes with that where objects are in
// it, and in which row of a table it has to look.
std::string FractalHeap::damage_of_block(const Block& block, std::string_view signature) const {
  if (filtered_ && signature == "FHDB") return {};
  const std::size_t offset_at = 5 + bytes_.address_bytes();
  const std::vector<std::byte> head = bytes_.head(block.address, signature, offset_at + offset_bytes());
  if (head.empty()) return {};
  const std::uint64_t stored = number_in(head, offset_at, offset_bytes());
  if (stored == block.offset) return {};
  return fmt::format("the block at byte {} claims to be at byte {} of the heap at byte {}, not {}",
                     block.address, stored, address_, block.offset);
}

}  // namespace h5feed
