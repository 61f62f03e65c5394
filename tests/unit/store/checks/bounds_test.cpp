// SPDX-License-Identifier: Apache-2.0
// How much of a file is examined: structures that overlap or lie in holes take neither long nor much memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "h5feed/interrupt.hpp"
#include "store/checks/structure_check.hpp"
#include "store/format/object_header.hpp"
#include "store/format/superblock.hpp"
#include "support/files/damage.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kNone = ~std::uint64_t{0};
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSuperblockBytes = 48;
constexpr std::uint64_t kHeaderPrefixBytes = 10;
constexpr std::uint64_t kMessageHeadBytes = 4;

class Text {
 public:
  template <std::integral Number>
  Text& add(Number number) {
    for (const std::byte byte : little_endian_bytes(number)) bytes_.push_back(byte);
    return *this;
  }
  Text& add(std::string_view text) {
    for (const char letter : text) bytes_.push_back(static_cast<std::byte>(letter));
    return *this;
  }
  Text& add(const Text& text) {
    bytes_.insert(bytes_.end(), text.bytes_.begin(), text.bytes_.end());
    return *this;
  }
  Text& pad_to(std::uint64_t size) {
    bytes_.resize(size);
    return *this;
  }
  std::uint64_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

Text message(std::uint8_t type, const Text& body) {
  return Text().add(type).add(static_cast<std::uint16_t>(body.size())).add(std::uint8_t{0}).add(body);
}

// The beginning of a message without contents that takes so many bytes with its head.
Text gap(std::uint64_t bytes) {
  return Text()
      .add(std::uint8_t{0})
      .add(static_cast<std::uint16_t>(bytes - kMessageHeadBytes))
      .add(std::uint8_t{0});
}

// The checks leave checksums to libhdf5.
Text header_of(std::uint64_t message_bytes) {
  return Text()
      .add("OHDR")
      .add(std::uint8_t{2})
      .add(std::uint8_t{2})
      .add(static_cast<std::uint32_t>(message_bytes));
}

Text superblock(std::uint64_t file_bytes, std::uint64_t root, std::uint64_t extension, bool swmr) {
  return Text()
      .add("\x89HDF\r\n\x1a\n")
      .add(static_cast<std::uint8_t>(swmr ? 3 : 2))
      .add(std::uint8_t{8})
      .add(std::uint8_t{8})
      .add(static_cast<std::uint8_t>(swmr ? 5 : 0))
      .add(std::uint64_t{0})
      .add(extension)
      .add(file_bytes)
      .add(root)
      .add(std::uint32_t{0});
}

class Counted final : public ByteSource {
 public:
  explicit Counted(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    bytes_ += out.size();
    source_->read(offset, out);
  }
  std::uint64_t size() const noexcept override { return source_->size(); }
  std::uint64_t stored_bytes() const noexcept override { return source_->stored_bytes(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<const ByteSource> source_;
  mutable std::uint64_t bytes_ = 0;
};

class StoreBounds : public testing::Test {
 protected:
  void write(const Text& text, std::uint64_t size) const {
    replace_file(path(), text.bytes());
    std::filesystem::resize_file(path(), size);
  }

  // Writes a sparse file whose root group has so many links to headers of `header_bytes` each, which begin
  // one behind the other and have the same messages but for the first.
  void write_overlapping(std::size_t headers, std::uint64_t header_bytes, std::uint64_t size,
                         bool swmr = false) const {
    constexpr std::uint64_t kStep = 16, kLinkBytes = 21;
    const std::uint64_t first =
        (kSuperblockBytes + kHeaderPrefixBytes + headers * kLinkBytes + 31) / kStep * kStep;
    const std::uint64_t common = first + headers * kStep;
    Text links;
    for (std::size_t i = 0; i < headers; ++i) {
      const std::string name = std::to_string(100'000 + i);
      links.add(message(HeaderMessage::link, Text()
                                                 .add(std::uint8_t{1})
                                                 .add(std::uint8_t{0})
                                                 .add(static_cast<std::uint8_t>(name.size()))
                                                 .add(name)
                                                 .add(first + i * kStep)));
    }
    Text text = superblock(size, kSuperblockBytes, kNone, swmr);
    text.add(header_of(links.size())).add(links).pad_to(first);
    for (std::size_t i = 0; i < headers; ++i) {
      const std::uint64_t begin = first + i * kStep;
      text.add(header_of(header_bytes)).add(gap(common - begin - kHeaderPrefixBytes)).pad_to(begin + kStep);
    }
    constexpr std::uint64_t kGapBytes = 65'536;
    for (std::uint64_t at = common; at < first + header_bytes; at += kGapBytes)
      text.pad_to(at).add(gap(kGapBytes));
    write(text, size);
  }

  std::shared_ptr<const ByteSource> source() const { return open_file_source(path()); }
  std::filesystem::path path() const { return dir_ / "train.h5"; }

  TempDir dir_;
};

constexpr const char* kOverlap =
    "its structures overlap, so that examining them would take many times the bytes that it has";

TEST_F(StoreBounds, refuse_headers_of_a_sparse_file_that_overlap) {
  write_overlapping(1, 60 * kMiB, 4000 * kMiB);
  EXPECT_EQ(structure_damage(*source()), "");
  EXPECT_LT(source()->stored_bytes(), source()->size());
  write_overlapping(8, 60 * kMiB, 4000 * kMiB);
  const Counted counted(source());
  EXPECT_EQ(structure_damage(counted), kOverlap);
  EXPECT_LE(counted.bytes(), 600 * kMiB);
}

TEST_F(StoreBounds, end_the_checks_once_the_user_wants_to_stop) {
  struct Stop {};
  write_overlapping(8, 60 * kMiB, 4000 * kMiB);
  const InterruptCheck check([] { throw Stop(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  EXPECT_THROW(structure_damage(*source()), Stop);
}

TEST_F(StoreBounds, are_those_of_one_examination_also_beside_a_writer) {
  write_overlapping(200, 3 * kMiB, 4 * kMiB, true);
  const Counted counted(source());
  EXPECT_EQ(structure_damage(counted), kOverlap);
  EXPECT_LE(counted.bytes(), 40 * kMiB);
}

TEST_F(StoreBounds, of_a_header_are_those_of_its_messages) {
  const std::uint64_t header_bytes = 2 * kMiB;
  const auto write_messages = [&](std::uint64_t bytes) {
    write(superblock(header_bytes, kSuperblockBytes, kNone, false).add(header_of(bytes)), header_bytes);
  };
  write_messages(kMiB);  // 2^18 empty ones
  const auto file = source();
  const auto block = read_superblock(*file);
  ASSERT_TRUE(block);
  const ObjectHeader header = read_object_header(MetadataBytes(*file, *block), kSuperblockBytes);
  EXPECT_EQ(header.damage, "");
  EXPECT_EQ(header.messages.size(), 0U) << "places without contents take no memory";
  EXPECT_EQ(structure_damage(*file), "");
  write_messages(kMiB + kMessageHeadBytes);
  EXPECT_EQ(structure_damage(*source()),
            "the object header at byte 48 has more than 262144 messages, which h5feed does not examine");
}

// libhdf5 reads the extension before it refuses a file of several parts.
TEST_F(StoreBounds, are_also_those_of_the_extension_in_a_file_of_several_parts) {
  for (const bool circle : {false, true}) {
    const Text driver = message(
        HeaderMessage::driver,
        Text().add(std::uint8_t{0}).add("NCSAfami").add(std::uint16_t{8}).add(std::uint64_t{1} << 20));
    constexpr std::uint64_t kContinuationBytes = 20, kSignatureAndChecksum = 8;
    const std::uint64_t bytes = driver.size() + (circle ? kContinuationBytes : 0);
    const std::uint64_t next = kSuperblockBytes + kHeaderPrefixBytes + bytes + 4;
    const Text continuation = message(HeaderMessage::continuation,
                                      Text().add(next).add(kContinuationBytes + kSignatureAndChecksum));
    Text text = superblock(4096, 1000, kSuperblockBytes, false);
    text.add(header_of(bytes)).add(driver);
    if (circle) text.add(continuation).add(std::uint32_t{0}).add("OCHK").add(continuation);
    write(text, 4096);
    EXPECT_EQ(structure_damage(*source()), circle ? "the object header at byte 48 continues in itself" : "");
  }
}

}  // namespace
}  // namespace h5feed::test
