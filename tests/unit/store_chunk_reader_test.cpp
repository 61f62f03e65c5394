#include "store/chunk_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/chunk_index.hpp"
#include "store/chunk_readers.hpp"
#include "support/fault_source.hpp"
#include "support/h5_test_file.hpp"
#include "support/temp_dir.hpp"

namespace h5feed {
namespace {

using test::FaultSource;
using test::H5TestFile;
using test::Hid;
using test::TempDir;
using test::TestDataset;

using Shape = std::vector<std::uint64_t>;
using Bytes = std::vector<std::byte>;

class StoreChunkReader : public testing::Test {
 protected:
  StoreChunkReader() {
    set_log_sink([this](LogLevel level, std::string_view line) {
      if (level == LogLevel::warning) warnings_.push_back(without_directory(std::string(line)));
    });
  }
  ~StoreChunkReader() override { set_log_sink({}); }

  std::filesystem::path path() const { return dir_ / "train.h5"; }

  std::string without_directory(std::string text) const {
    const std::string prefix = dir_.path().string() + "/";
    for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) {
      text.erase(at, prefix.size());
    }
    return text;
  }

  // Creates the file with one dataset and returns what it holds.
  Bytes write(const TestDataset& dataset, bool latest = false) {
    std::size_t bytes = 1;
    for (const std::uint64_t extent : dataset.shape) bytes *= extent;
    const Hid type(H5Tcopy(dataset.file_type));
    Bytes values = test::patterned_bytes(bytes * H5Tget_size(type.get()));
    H5TestFile file(path(), {.latest = latest});
    file.create(dataset);
    file.write(dataset.path, values);
    return values;
  }

  std::shared_ptr<const ChunkReader> open(const std::string& name = "images") const {
    const auto file = H5File::open(path());
    return ChunkReader::open(file, file->describe(name));
  }

  template <typename Error>
  std::string read_message(const ChunkReader& reader, std::uint64_t chunk) const {
    ReadScratch scratch;
    Bytes out(reader.chunk_bytes());
    try {
      reader.read_chunk(chunk, out, scratch);
    } catch (const Error& error) {
      return without_directory(error.what());
    }
    return "nothing was thrown";
  }

  TempDir dir_;
  std::vector<std::string> warnings_;
};

const std::vector<FilterSpec> kGzip = {{.id = 1, .optional = true, .params = {4}, .name = "gzip"}};

TEST_F(StoreChunkReader, CutsContiguousDataIntoRunsOfWholeRows) {
  write({.path = "images", .shape = {5000, 1000}});
  const auto reader = open();
  EXPECT_EQ(reader->chunk_shape(), (Shape{1048, 1000}));
  EXPECT_EQ(reader->grid(), (Shape{5, 1}));
  EXPECT_EQ(reader->num_chunks(), 5U);
  EXPECT_EQ(reader->chunk_bytes(), 1048000U);
  EXPECT_EQ(reader->scratch_bytes(), 0U);
  EXPECT_TRUE(reader->direct());
  EXPECT_EQ(without_directory(reader->describe_chunk(4)),
            "train.h5:/images: chunk (4,0) (samples 4192-4999)");
}

TEST_F(StoreChunkReader, KeepsOneRowAtLeastWhereRowsAreLarge) {
  write({.path = "images", .shape = {3, 2 << 20}});
  EXPECT_EQ(open()->chunk_shape(), (Shape{1, 2 << 20}));
  EXPECT_EQ(without_directory(open()->describe_chunk(2)), "train.h5:/images: chunk (2,0) (sample 2)");
}

TEST_F(StoreChunkReader, CountsWhatAReadCosts) {
  write({.path = "images", .shape = {10, 100}, .chunk = {5, 100}, .filters = kGzip});
  const auto reader = open();
  ReadScratch scratch;
  Bytes out(reader->chunk_bytes());
  const ReadCost cost = reader->read_chunk(1, out, scratch);
  EXPECT_GT(cost.bytes_read, 0U);
  EXPECT_LE(cost.bytes_read, reader->max_stored_bytes());
  EXPECT_FALSE(cost.fallback);
}

TEST_F(StoreChunkReader, NamesTheCorruptChunkAndItsSamples) {
  write({.path = "images", .shape = {1250, 6}, .chunk = {100, 6}, .filters = kGzip});
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("images");
  const ChunkIndex index = build_chunk_index(*file, info);
  Bytes bytes = test::file_bytes(path());
  bytes[index.locations[12].address + 2] ^= std::byte{0xff};
  test::replace_file(path(), bytes);
  const auto reader = open();
  EXPECT_EQ(
      read_message<ChunkError>(*reader, 12),
      "train.h5:/images: chunk (12,0) (samples 1200-1249) is corrupt: deflate: not a valid zlib stream; "
      "restore the file from a good copy");
  EXPECT_EQ(read_message<ChunkError>(*reader, 11), "nothing was thrown");
  EXPECT_THROW(read_all(*reader, 4), ChunkError);
}

TEST_F(StoreChunkReader, VerifiesChecksums) {
  write({.path = "images", .shape = {8, 6}, .chunk = {4, 6}, .filters = {{.id = 3, .name = "fletcher32"}}});
  const auto file = H5File::open(path());
  const ChunkIndex index = build_chunk_index(*file, file->describe("images"));
  Bytes bytes = test::file_bytes(path());
  bytes[index.locations[1].address + 5] ^= std::byte{1};
  test::replace_file(path(), bytes);
  EXPECT_EQ(
      read_message<ChunkError>(*open(), 1),
      "train.h5:/images: chunk (1,0) (samples 4-7) is corrupt: fletcher32: the checksum does not match; "
      "restore the file from a good copy");
}

TEST_F(StoreChunkReader, NamesChunkAndSamplesOfAFailedRead) {
  for (const bool filtered : {false, true}) {
    write({.path = "images",
           .shape = {40, 6},
           .chunk = {10, 6},
           .filters = filtered ? kGzip : std::vector<FilterSpec>()});
    const auto file = H5File::open(path());
    const auto failing = std::make_shared<FaultSource>(file->bytes(), test::Fault{.failing_read = 1});
    const auto reader = ChunkReader::open(file, file->describe("images"), failing);
    EXPECT_EQ(read_message<FileError>(*reader, 0), "nothing was thrown");
    EXPECT_EQ(read_message<FileError>(*reader, 3),
              "train.h5:/images: chunk (3,0) (samples 30-39) cannot be read: injected input/output error");
    EXPECT_EQ(read_message<FileError>(*reader, 3), "nothing was thrown");
    EXPECT_EQ(failing->reads(), 3U);
    const auto ending = std::make_shared<FaultSource>(file->bytes(), test::Fault{.short_read = 0});
    EXPECT_EQ(read_message<FileError>(*ChunkReader::open(file, file->describe("images"), ending), 2),
              "train.h5:/images: chunk (2,0) (samples 20-29) cannot be read: injected end of file");
  }
}

TEST_F(StoreChunkReader, ReadAllRethrowsAndStopsAfterAFailure) {
  write({.path = "images", .shape = {1000, 6}, .chunk = {1, 6}});
  const auto file = H5File::open(path());
  for (const unsigned threads : {1U, 4U}) {
    const auto failing = std::make_shared<FaultSource>(file->bytes(), test::Fault{.failing_read = 5});
    EXPECT_THROW(read_all(*ChunkReader::open(file, file->describe("images"), failing), threads), FileError);
  }
}

TEST_F(StoreChunkReader, SaysThatAFileShrankWhileInUse) {
  write({.path = "images", .shape = {4, 1000}, .chunk = {1, 1000}});
  const auto reader = open();
  std::filesystem::resize_file(path(), 3000);
  EXPECT_THAT(
      read_message<FileError>(*reader, 3),
      testing::AllOf(testing::StartsWith("train.h5:/images: chunk (3,0) (sample 3) cannot be read: the file "
                                         "ended while reading 1,000 bytes at offset "),
                     testing::EndsWith("; it changed while in use, open it again")));
}

TEST_F(StoreChunkReader, ReadsRowsOfUnfilteredChunksOnly) {
  const Bytes values = write({.path = "images", .shape = {10, 6}, .chunk = {4, 6}});
  const auto reader = open();
  ASSERT_TRUE(reader->rows_readable());
  Bytes rows(12);
  reader->read_rows(5, 2, rows);
  EXPECT_EQ(rows, Bytes(values.begin() + 30, values.begin() + 42));
  EXPECT_THROW(reader->read_rows(3, 2, rows), std::invalid_argument) << "across chunks";
  EXPECT_THROW(reader->read_rows(9, 2, rows), std::invalid_argument) << "beyond the end";
  write({.path = "images", .shape = {10, 6}, .chunk = {4, 3}});
  EXPECT_FALSE(open()->rows_readable());
  write({.path = "images", .shape = {10, 6}, .chunk = {4, 6}, .filters = kGzip});
  EXPECT_FALSE(open()->rows_readable());
  write({.path = "images", .file_type = H5T_STD_U16BE, .shape = {10, 6}, .chunk = {4, 6}});
  EXPECT_FALSE(open()->rows_readable());
}

TEST_F(StoreChunkReader, RefusesChunksThatDoNotExistAndSmallBuffers) {
  write({.path = "images", .shape = {10, 6}, .chunk = {4, 6}});
  ReadScratch scratch;
  Bytes out(24);
  EXPECT_THROW(open()->read_chunk(3, out, scratch), std::invalid_argument);
  EXPECT_THROW(open()->read_chunk(0, std::span(out).first(23), scratch), std::invalid_argument);
}

TEST_F(StoreChunkReader, DoesNotBelieveAStoredSizeThatNoEncoderMakes) {
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {8, 100}, .chunk = {4, 100}, .filters = kGzip});
    file.write("images", test::patterned_bytes(800));
    file.write_chunk("images", Shape{4, 0}, Bytes(70'000));
  }
  const auto reader = open();
  EXPECT_LT(reader->max_stored_bytes(), 1000u) << "one damaged size does not size every buffer";
  EXPECT_EQ(reader->stored_bytes(1), 0u) << "nor is it fetched ahead";
  ReadScratch scratch;
  Bytes out(400);
  EXPECT_NO_THROW(reader->read_chunk(0, out, scratch));
  EXPECT_THROW(reader->read_chunk(1, out, scratch), ChunkError);
}

TEST_F(StoreChunkReader, ManyThreadsReadTheSameBytes) {
  const Bytes values = write({.path = "images", .shape = {64, 50}, .chunk = {2, 50}, .filters = kGzip});
  const auto reader = open();
  std::vector<std::jthread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      ReadScratch scratch;
      Bytes out(reader->chunk_bytes());
      for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t chunk = (i * 7 + t) % reader->num_chunks();
        reader->read_chunk(chunk, out, scratch);
        wrong[t] +=
            std::equal(out.begin(), out.end(), values.begin() + static_cast<std::ptrdiff_t>(chunk * 100)) ? 0
                                                                                                          : 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST_F(StoreChunkReader, FallsBackForExternalFilesAndSaysSoOnce) {
  const Bytes values = write({.path = "images", .shape = {40, 5}, .external_file = (dir_ / "raw").string()});
  const auto reader = open();
  EXPECT_FALSE(reader->direct());
  EXPECT_EQ(reader->fallback_reason(), "its bytes are in external files");
  const ByteBuffer bytes = read_all(*reader, 2);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data(), bytes.data() + bytes.size()));
  EXPECT_THAT(warnings_,
              testing::ElementsAre("train.h5:/images: reading through libhdf5's lock, one chunk at a "
                                   "time (its bytes are in external files)"));
  ReadScratch scratch;
  Bytes out(reader->chunk_bytes());
  EXPECT_TRUE(reader->read_chunk(0, out, scratch).fallback);
  EXPECT_EQ(reader->rows_readable(), false);
}

TEST_F(StoreChunkReader, FallsBackForFiltersThatLibhdf5Has) {
  TestDataset dataset{.path = "images", .file_type = H5T_STD_U16BE, .shape = {13, 7}, .chunk = {4, 3}};
  dataset.filters = {{.id = 5, .optional = true, .name = "nbit"}};
  const Bytes values = write(dataset);
  const auto reader = open();
  EXPECT_FALSE(reader->direct());
  const ByteBuffer bytes = read_all(*reader, 3);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data(), bytes.data() + bytes.size()));
  EXPECT_THAT(warnings_,
              testing::ElementsAre("train.h5:/images: reading through libhdf5's lock, one chunk at a "
                                   "time (filter 5 nbit is not built in)"));
}

TEST_F(StoreChunkReader, FallsBackForVirtualDatasets) {
  const Bytes values = write({.path = "images", .shape = {13, 7}});
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const hsize_t shape[] = {13, 7};
    const Hid space(H5Screate_simple(2, shape, nullptr));
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    test::require(H5Pset_virtual(plist.get(), space.get(), ".", "images", space.get()), "H5Pset_virtual");
    const Hid dataset(
        H5Dcreate2(file.get(), "view", H5T_STD_U8LE, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }
  const auto reader = open("view");
  EXPECT_EQ(reader->fallback_reason(), "it is a virtual dataset");
  const ByteBuffer bytes = read_all(*reader, 1);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data(), bytes.data() + bytes.size()));
}

TEST_F(StoreChunkReader, RefusesFiltersThatNobodyHas) {
  const std::vector<FilterSpec> filters = {{.id = 32026, .optional = true, .name = "blosc2"}};
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {8, 6}, .chunk = {4, 6}, .filters = filters});
    file.write_chunk("images", Shape{0, 0}, test::patterned_bytes(17));
  }
  try {
    open();
    FAIL() << "opened";
  } catch (const DatasetError& error) {
    EXPECT_EQ(
        without_directory(error.what()),
        "train.h5:/images: filter 32026 (blosc2) is not built in and libhdf5 finds no plugin for it; install "
        "the plugin and set HDF5_PLUGIN_PATH, or write the dataset once with gzip");
  }
}

TEST_F(StoreChunkReader, ReadsChunksThatSkippedAnUnknownFilter) {
  const std::vector<FilterSpec> filters = {{.id = 32026, .optional = true, .name = "blosc2"}};
  const Bytes values = test::patterned_bytes(24);
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {8, 6}, .chunk = {4, 6}, .filters = filters});
    file.write_chunk("images", Shape{4, 0}, values, 1);
  }
  const auto reader = open();
  EXPECT_TRUE(reader->direct());
  const ByteBuffer bytes = read_all(*reader, 1);
  EXPECT_TRUE(std::all_of(bytes.data(), bytes.data() + 24, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data() + 24));
}

// Replaces every 8-byte little-endian `from` in the file.
void replace_address(const std::filesystem::path& path, std::uint64_t from, std::uint64_t to) {
  Bytes bytes = test::file_bytes(path);
  for (std::size_t i = 0; i + 8 <= bytes.size(); ++i) {
    if (std::memcmp(&bytes[i], &from, 8) == 0) std::memcpy(&bytes[i], &to, 8);
  }
  test::replace_file(path, bytes);
}

TEST_F(StoreChunkReader, FallsBackWhereAChunkLiesOutsideTheFile) {
  write({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
  std::uint64_t address = 0;
  {
    const auto file = H5File::open(path());
    address = build_chunk_index(*file, file->describe("images")).locations[1].address;
  }
  for (const std::uint64_t hostile : {std::uint64_t{1} << 40, std::uint64_t{0x7fffffffffffff00}}) {
    write({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
    replace_address(path(), address, hostile);
    warnings_.clear();
    const auto reader = open();
    EXPECT_FALSE(reader->direct());
    EXPECT_EQ(warnings_.size(), 1U);
    EXPECT_EQ(read_message<FileError>(*reader, 0), "nothing was thrown");
    EXPECT_THAT(read_message<FileError>(*reader, 1),
                testing::StartsWith("train.h5:/images: chunk (1,0) (samples 4-7) cannot be read: "));
  }
}

TEST_F(StoreChunkReader, DecodesOutsideLibhdf5WhereTheIndexCannotBeListed) {
  const TestDataset dataset{.path = "images",
                            .file_type = H5T_STD_I16BE,
                            .shape = {14, 6},
                            .max_shape = {14, 6},
                            .chunk = {4, 6},
                            .filters = parse_filters("shuffle+gzip:4", 2),
                            .unfiltered_edges = true,
                            .fill_value = {std::byte{1}, std::byte{2}}};
  Bytes written = test::patterned_bytes(8 * 12);
  {
    H5TestFile file(path(), {.latest = true});
    file.create(dataset);
    file.write_box("images", Shape{0, 0}, Shape{8, 6}, written);
    file.write_box("images", Shape{13, 0}, Shape{1, 6}, std::span(written).first(12));
  }
  const Bytes expected = test::read_through_libhdf5(path(), "images");
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("images");
  const ChunkIndex index = build_chunk_index(*file, info);
  ASSERT_FALSE(index.locations[2].allocated());
  const auto reader = make_fallback_reader(info, file, "the index cannot be listed");
  const ByteBuffer bytes = read_all(*reader, 3);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.data(), bytes.data() + bytes.size()));
  ReadScratch scratch;
  Bytes out(reader->chunk_bytes());
  EXPECT_EQ(reader->read_chunk(0, out, scratch).bytes_read, index.locations[0].stored_bytes);
  EXPECT_LE(index.locations[0].stored_bytes, reader->max_stored_bytes());
}

TEST_F(StoreChunkReader, NamesACorruptChunkOnTheFallbackPath) {
  write({.path = "images", .shape = {8, 6}, .chunk = {4, 6}, .filters = kGzip});
  const auto intact = H5File::open(path());
  const DatasetInfo info = intact->describe("images");
  const std::uint64_t address = build_chunk_index(*intact, info).locations[1].address;
  Bytes bytes = test::file_bytes(path());
  bytes[address + 3] ^= std::byte{0xff};
  test::replace_file(path(), bytes);
  const auto reader = make_fallback_reader(info, H5File::open(path()), "the index cannot be listed");
  EXPECT_EQ(read_message<ChunkError>(*reader, 0), "nothing was thrown");
  EXPECT_THAT(read_message<ChunkError>(*reader, 1),
              testing::StartsWith("train.h5:/images: chunk (1,0) (samples 4-7) is corrupt: deflate: "));
}

// Reads a file with one damaged byte after another; ends the process with 0 where each was read or
// refused with one line.
[[noreturn]] void read_damaged(const std::filesystem::path& path, const Bytes& intact) {
  set_log_sink([](LogLevel, std::string_view) {});
  std::size_t delivered = 0;
  for (std::size_t at = 0; at < intact.size(); at += 11) {
    Bytes bytes = intact;
    bytes[at] ^= std::byte{0xa5};
    test::replace_file(path, bytes);
    try {
      const auto file = H5File::open(path);
      const auto reader = ChunkReader::open(file, file->describe("images"));
      // A damaged shape may claim terabytes; what a loader's budget refuses is not read here either.
      if (reader->info().total_bytes() > (1U << 24) || reader->chunk_bytes() > (1U << 24)) continue;
      delivered += read_all(*reader, 1).size();
    } catch (const Error& error) {
      if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::_Exit(2);
    }
  }
  // No exit handlers: libhdf5 1.10 loses memory on some damaged files and complains of it at exit.
  std::_Exit(delivered > 0 ? 0 : 3);
}

TEST_F(StoreChunkReader, DamagedMetadataNeverCrashes) {
  write({.path = "images", .shape = {40, 6}, .chunk = {4, 3}, .filters = kGzip});
  EXPECT_EXIT(read_damaged(path(), test::file_bytes(path())), testing::ExitedWithCode(0), testing::Eq(""));
}

}  // namespace
}  // namespace h5feed
