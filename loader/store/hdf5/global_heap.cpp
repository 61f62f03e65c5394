// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/global_heap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "store/filters/filters.hpp"

namespace h5feed {
namespace {

constexpr std::size_t kMaxHeader = 24;
// Limit of objects skipped before the wanted one; a 64 KiB collection written by libhdf5 has at most as many.
constexpr int kMaxObjects = 1 << 16;

std::uint64_t little_endian(const std::byte* bytes, std::size_t count) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

// The part of the file that was read last and is in memory.
class Window {
 public:
  explicit Window(const ByteSource& source) : source_(source) {}

  // Returns `count` ≤ kBytes bytes at `at`, which are inside the file.
  const std::byte* bytes(std::uint64_t at, std::size_t count) {
    if (at < begin_ || at + count > begin_ + size_) {
      size_ = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), source_.size() - at));
      begin_ = at;
      source_.read(begin_, std::span(buffer_).first(size_));
      read_ += size_;
    }
    return buffer_.data() + (at - begin_);
  }

  // Fills `out` from `at`, taking from memory what is there.
  void copy(std::uint64_t at, std::span<std::byte> out) {
    std::size_t have = 0;
    if (at >= begin_ && at < begin_ + size_) {
      have = std::min(out.size(), static_cast<std::size_t>(begin_ + size_ - at));
      std::memcpy(out.data(), buffer_.data() + (at - begin_), have);
    }
    if (have == out.size()) return;
    source_.read(at + have, out.subspan(have));
    read_ += out.size() - have;
  }

  std::uint64_t bytes_read() const noexcept { return read_; }

 private:
  static constexpr std::size_t kBytes = 512;

  const ByteSource& source_;
  std::array<std::byte, kBytes> buffer_;
  std::uint64_t begin_ = 0;
  std::size_t size_ = 0;
  std::uint64_t read_ = 0;
};

}  // namespace

HeapReference read_reference(std::span<const std::byte> stored, const HeapFormat& format) noexcept {
  HeapReference reference;
  reference.bytes = static_cast<std::uint32_t>(little_endian(stored.data(), 4));
  const std::uint64_t address = little_endian(stored.data() + 4, format.address_bytes);
  reference.object = static_cast<std::uint32_t>(little_endian(stored.data() + 4 + format.address_bytes, 4));
  // Address 0 is the superblock's and means "no value".
  if (address != 0 && address <= ~std::uint64_t{0} - format.base_address)
    reference.address = address + format.base_address;
  return reference;
}

std::uint64_t read_heap_object(const ByteSource& source, const HeapFormat& format,
                               const HeapReference& reference, std::span<std::byte> out) {
  const std::uint64_t file_bytes = source.size();
  const std::size_t collection_header = 8 + format.length_bytes;
  const std::size_t object_header = 8 + format.length_bytes;
  static_assert(8 + 8 <= kMaxHeader);
  if (out.empty()) return 0;
  if (reference.address == 0 || reference.address > file_bytes ||
      file_bytes - reference.address < collection_header) {
    throw FilterError(fmt::format("its heap is at {}, outside the file", reference.address));
  }
  Window window(source);
  const std::byte* const head = window.bytes(reference.address, collection_header);
  const std::uint64_t size = little_endian(head + 8, format.length_bytes);
  if (std::memcmp(head, "GCOL", 4) != 0 || head[4] != std::byte{1} || size < collection_header ||
      size > file_bytes - reference.address) {
    throw FilterError(fmt::format("there is no heap at {}", reference.address));
  }
  const std::uint64_t end = reference.address + size;
  std::uint64_t at = reference.address + collection_header;
  for (int passed = 0; passed < kMaxObjects && end - at >= object_header; ++passed) {
    const std::byte* const object = window.bytes(at, object_header);
    const std::uint64_t number = little_endian(object, 2);
    const std::uint64_t bytes = little_endian(object + 8, format.length_bytes);
    if (number == 0) break;  // Free space, which comes last
    at += object_header;
    if (bytes > end - at) break;
    if (number == reference.object) {
      if (out.size() > bytes) {
        throw FilterError(fmt::format("{} bytes are in its heap, {} are referred to", bytes, out.size()));
      }
      window.copy(at, out);
      return window.bytes_read();
    }
    const std::uint64_t padded = (bytes + 7) / 8 * 8;
    if (padded > end - at) break;
    at += padded;
  }
  throw FilterError(fmt::format("the heap at {} has no object {}", reference.address, reference.object));
}

}  // namespace h5feed
