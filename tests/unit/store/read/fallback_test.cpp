// SPDX-License-Identifier: Apache-2.0
// Reading through libhdf5: how often it decodes, what it may keep, and files that change meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/bytes.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

// From the range that the HDF Group leaves to tests; h5feed does not know it.
constexpr H5Z_filter_t kCountingFilter = 300;
std::atomic<int> decoded_chunks{0};

// Stores bytes as they are and counts those that come back.
std::size_t count_decoded(unsigned flags, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                          void**) {
  if ((flags & H5Z_FLAG_REVERSE) != 0) ++decoded_chunks;
  return bytes;
}

class StoreFallback : public testing::Test {
 protected:
  StoreFallback() {
    set_log_sink([](LogLevel, std::string_view) {});
    H5Z_class2_t filter = {};
    filter.version = H5Z_CLASS_T_VERS;
    filter.id = kCountingFilter;
    filter.encoder_present = filter.decoder_present = 1;
    filter.name = "counting";
    filter.filter = count_decoded;
    test::require(H5Zregister(&filter), "H5Zregister");
    decoded_chunks = 0;
  }
  ~StoreFallback() override {
    H5Zunregister(kCountingFilter);
    set_log_sink({});
  }

  // Elements of 2 bytes, 4 × 3 chunks, ragged at both edges.
  Bytes write(hid_t type = H5T_STD_U16LE) const {
    const Bytes values = test::patterned_bytes(14 * 7 * 2);
    H5TestFile file(path());
    file.create({.path = "x",
                 .file_type = type,
                 .shape = {14, 7},
                 .chunk = {4, 3},
                 .filters = {{.id = kCountingFilter, .optional = false, .params = {}, .name = {}}}});
    file.write("x", values);
    return values;
  }

  std::filesystem::path path() const { return dir_ / "train.h5"; }

  static std::string refusal(const ChunkReader& reader, std::uint64_t chunk) {
    ReadScratch scratch;
    Bytes out(reader.chunk_bytes());
    return refusal_of<FileError>([&] { reader.read_chunk(chunk, out, scratch); });
  }

  TempDir dir_;
};

TEST_F(StoreFallback, decodes_each_chunk_once_an_epoch) {
  for (const hid_t type : {H5T_STD_U16LE, H5T_STD_U16BE}) {
    const Bytes values = write(type);
    const auto file = H5File::open(path());
    const auto reader = open_chunk_reader(file, file->describe("x"));
    ASSERT_FALSE(reader->direct());
    for (const unsigned threads : {1U, 2U}) {
      for (int epoch = 0; epoch < 2; ++epoch) {
        decoded_chunks = 0;
        const ByteBuffer bytes = read_all(*reader, threads);
        EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data(), bytes.data() + bytes.size()));
        // The chunk that libhdf5 keeps may be the first of the next epoch if a thread was late with it.
        EXPECT_LE(decoded_chunks, 12);
        EXPECT_GE(decoded_chunks, threads == 1 ? 12 : 11);
      }
    }
  }
}

TEST_F(StoreFallback, gives_libhdf5_a_cache_of_one_chunk_and_counts_it) {
  write();
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("x");
  const auto reader = open_chunk_reader(file, info);
  read_all(*reader, 1);
  const std::uint64_t chunk_bytes = 4 * 3 * 2;
  EXPECT_EQ(reader->chunk_bytes(), chunk_bytes);
  // The clipped copy, what the filter writes to, the cache.
  EXPECT_EQ(reader->scratch_bytes(), 3 * chunk_bytes);
  const Hdf5Session session;
  std::size_t slots = 0;
  std::size_t bytes = 0;
  double preemption = 0;
  H5FileAccess::reader(*file, info, 0).getAccessPlist().getChunkCache(slots, bytes, preemption);
  EXPECT_EQ(bytes, chunk_bytes);
  EXPECT_EQ(slots, 101U) << "a prime of about 100 times the chunks that fit";
  // Not 1, with which libhdf5 1.10 would keep the chunks at the edge: decodes_each_chunk_once_an_epoch, where
  // the second epoch would then find six of twelve.
  EXPECT_EQ(preemption, 0.0);
}

TEST_F(StoreFallback, refuses_a_file_that_was_written_since_it_was_opened) {
  write();
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("x");
  const auto reader = open_chunk_reader(file, info);
  EXPECT_NO_THROW(file->check_unchanged());
  EXPECT_EQ(refusal(*reader, 1), "accepted");
  // A byte more; the modification time alone would tell as well, but clocks are coarse.
  Bytes bytes = test::file_bytes(path());
  bytes.push_back({});
  test::replace_file(path(), bytes);
  const std::string expected = "the file was written or replaced since it was opened; open it again";
  EXPECT_EQ(refusal(*reader, 1),
            path().string() + ":/x: chunk (0,1) (samples 0-3) cannot be read: " + expected);
  EXPECT_EQ(refusal_of<FileError>([&] { open_chunk_reader(file, info); }), path().string() + ": " + expected);
  const auto again = H5File::open(path());
  EXPECT_EQ(refusal(*open_chunk_reader(again, again->describe("x")), 1), "accepted");
}

TEST_F(StoreFallback, notices_the_time_of_modification_and_another_file_of_that_name) {
  write();
  const auto written = H5File::open(path());
  std::filesystem::last_write_time(path(),
                                   std::filesystem::last_write_time(path()) + std::chrono::seconds(1));
  EXPECT_THROW(written->check_unchanged(), FileError);
  const auto replaced = H5File::open(path());
  const auto modified = std::filesystem::last_write_time(path());
  std::filesystem::copy_file(path(), dir_ / "copy.h5");
  std::filesystem::rename(dir_ / "copy.h5", path());
  std::filesystem::last_write_time(path(), modified);
  EXPECT_THROW(replaced->check_unchanged(), FileError);
}

TEST_F(StoreFallback, reads_on_where_the_name_of_an_open_file_is_gone) {
  write();
  const auto file = H5File::open(path());
  const auto reader = open_chunk_reader(file, file->describe("x"));
  std::filesystem::remove(path());
  EXPECT_EQ(refusal(*reader, 1), "accepted");
}

}  // namespace
}  // namespace h5feed::test
