// SPDX-License-Identifier: Apache-2.0
// Bytes of a file into one place or several.
#include "store/format/byte_source.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <numeric>
#include <span>
#include <vector>

#include "h5feed/error.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

class ByteSourceTest : public testing::Test {
 protected:
  ByteSourceTest() : path_(dir_ / "a.bin"), bytes_(5000) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i * 7);
    std::ofstream(path_, std::ios::binary).write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    source_ = open_file_source(path_);
  }

  const TempDir dir_;
  const std::filesystem::path path_;
  std::vector<char> bytes_;
  std::shared_ptr<const ByteSource> source_;
};

// More buffers than one call of the system takes, of unequal sizes, some empty.
TEST_F(ByteSourceTest, scatters_neighbouring_bytes_over_buffers_in_order) {
  std::vector<std::vector<std::byte>> buffers;
  std::vector<std::span<std::byte>> outs;
  std::size_t total = 0;
  for (std::size_t i = 0; i < 150; ++i) buffers.emplace_back(i % 17);
  for (auto& buffer : buffers) {
    outs.emplace_back(buffer);
    total += buffer.size();
  }
  source_->read_scattered(100, outs);
  std::size_t at = 100;
  for (const auto& buffer : buffers) {
    for (const std::byte byte : buffer) ASSERT_EQ(byte, static_cast<std::byte>(bytes_[at++])) << at;
  }
  EXPECT_EQ(at, 100 + total);
}

TEST_F(ByteSourceTest, names_the_file_where_it_ends_within_scattered_buffers) {
  std::vector<std::byte> first(600), second(600);
  const std::vector<std::span<std::byte>> outs = {first, second};
  try {
    source_->read_scattered(4000, outs);
    FAIL() << "1,000 bytes are left";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("ended"), std::string::npos) << error.what();
  }
}

TEST_F(ByteSourceTest, takes_hints_about_any_bytes) {
  source_->will_need(0, 5000);
  source_->will_need(4999, 1 << 20);
  std::vector<std::byte> all(5000);
  source_->read(0, all);
  EXPECT_EQ(all.back(), static_cast<std::byte>(bytes_.back()));
}

}  // namespace
}  // namespace h5feed::test
