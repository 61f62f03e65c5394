// SPDX-License-Identifier: Apache-2.0
// The global heap, read without libhdf5: objects found, and nothing but exceptions for what is no heap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "store/filters/filters.hpp"
#include "store/hdf5/global_heap.hpp"
#include "support/files/bytes.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(Bytes bytes) : bytes_(std::move(bytes)) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    // A read beyond the end is what these tests are to find.
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      throw std::logic_error("read beyond the end");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  std::uint64_t size() const noexcept override { return bytes_.size(); }

 private:
  Bytes bytes_;
};

void put(Bytes& bytes, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

constexpr std::uint64_t kHeapAt = 64;

// A file with one collection: objects of `sizes` bytes, numbered from 1, object i full of bytes i.
Bytes heap_file(const std::vector<std::size_t>& sizes, std::size_t length_bytes = 8) {
  Bytes file(kHeapAt, std::byte{0xee});
  std::uint64_t size = 8 + length_bytes;
  for (const std::size_t bytes : sizes) size += 8 + length_bytes + (bytes + 7) / 8 * 8;
  size += 8 + length_bytes;
  for (const char c : {'G', 'C', 'O', 'L'}) file.push_back(static_cast<std::byte>(c));
  put(file, 1, 4);
  put(file, size, length_bytes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    put(file, i + 1, 2);
    put(file, 1, 6);
    put(file, sizes[i], length_bytes);
    file.insert(file.end(), (sizes[i] + 7) / 8 * 8, static_cast<std::byte>(i + 1));
  }
  put(file, 0, 8);
  put(file, 8 + length_bytes, length_bytes);
  return file;
}

Bytes read(const MemorySource& source, const HeapReference& reference, const HeapFormat& format = {}) {
  Bytes out(reference.bytes);
  read_heap_object(source, format, reference, out);
  return out;
}

TEST(GlobalHeap, has_objects_before_and_behind_others) {
  const std::vector<std::size_t> sizes = {5, 0, 4000, 17, 600, 8};
  for (const std::size_t length_bytes : {4u, 8u}) {
    const HeapFormat format{.length_bytes = length_bytes};
    const MemorySource source(heap_file(sizes, length_bytes));
    for (std::uint32_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(read(source, {kHeapAt, static_cast<std::uint32_t>(sizes[i]), i + 1}, format),
                Bytes(sizes[i], static_cast<std::byte>(i + 1)));
    }
  }
}

TEST(GlobalHeap, gives_references_their_place_in_the_file) {
  Bytes stored;
  put(stored, 77, 4);
  put(stored, 4096, 8);
  put(stored, 3, 4);
  const HeapReference reference = read_reference(stored, {.base_address = 512});
  EXPECT_EQ(reference.bytes, 77u);
  EXPECT_EQ(reference.address, 4608u);
  EXPECT_EQ(reference.object, 3u);
  EXPECT_EQ(read_reference(Bytes(16), {.base_address = 512}).address, 0u);
}

TEST(GlobalHeap, refuses_what_is_not_there) {
  const MemorySource source(heap_file({5, 9}));
  const auto refuse = [&](const HeapReference& reference) {
    return refusal_of<FilterError>([&] { read(source, reference); });
  };
  EXPECT_EQ(refuse({kHeapAt, 5, 3}), "the heap at 64 has no object 3");
  EXPECT_EQ(refuse({kHeapAt, 10, 2}), "9 bytes are in its heap, 10 are referred to");
  EXPECT_EQ(refuse({0, 5, 1}), "its heap is at 0, outside the file");
  EXPECT_EQ(refuse({~std::uint64_t{0}, 5, 1}), "its heap is at 18446744073709551615, outside the file");
  EXPECT_EQ(refuse({8, 5, 1}), "there is no heap at 8");
}

TEST(GlobalHeap, survives_damage_of_any_byte) {
  const Bytes intact = heap_file({5, 700, 17, 1});
  std::mt19937 random(1);
  int found = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes file = intact;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) file[random() % file.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) file.resize(random() % file.size());
    const MemorySource source(std::move(file));
    const HeapReference reference{random() % 8 == 0 ? random() : kHeapAt,
                                  static_cast<std::uint32_t>(random() % 2000),
                                  static_cast<std::uint32_t>(random() % 6)};
    try {
      read(source, reference);
      ++found;
    } catch (const FilterError& error) {
      EXPECT_STRNE(error.what(), "");
      ++refused;
    }
  }
  EXPECT_GT(found, 0) << "most damage leaves some objects intact";
  EXPECT_GT(refused, 0);
  EXPECT_EQ(found + refused, 20'000) << "and no other exception";
}

}  // namespace
}  // namespace h5feed::test
