// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "store/write/attributes.hpp"
#include "store/write/h5_writer.hpp"
#include "store/write/staged_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

class StoreWriter : public testing::Test {
 protected:
  std::filesystem::path path() const { return dir_ / "out.h5"; }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      result.push_back(entry.path().filename().string());
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  template <typename Call>
  std::string refusal(const Call& call) const {
    return test::refusal_in<FileError>(dir_.path(), call);
  }

  // Images in encoded chunks, labels contiguous, attributes.
  static void write_sample(const std::filesystem::path& target, bool commit = true) {
    const std::vector<FilterSpec> filters = parse_filters("shuffle+gzip:4+fletcher32", 2);
    const FilterPipeline pipeline(filters, 4 * 6 * 2, 2);
    H5Writer writer(target, false);
    writer.create_dataset({.path = "/train/images",
                           .dtype = DType::u16,
                           .shape = {8, 6},
                           .chunk_shape = {4, 6},
                           .filters = filters});
    writer.create_dataset({.path = "/train/labels", .dtype = DType::i64, .shape = {8}});
    for (std::uint64_t c = 0; c < 2; ++c) {
      writer.write_chunk("/train/images", Shape{c * 4, 0},
                         pipeline.encode(test::patterned_bytes(48, static_cast<unsigned>(c))));
    }
    writer.write_rows("/train/labels", 0, 3, test::patterned_bytes(24));
    writer.write_rows("/train/labels", 3, 5, test::patterned_bytes(40, 1));
    writer.write_attribute("/train/images", {"layout", "NHW"});
    writer.write_attribute("/", {"note", "größer"});
    if (commit) writer.commit();
  }

  TempDir dir_;
};

TEST_F(StoreWriter, writes_what_both_libhdf5_and_the_reader_read) {
  write_sample(path());
  EXPECT_EQ(names(), std::vector<std::string>{"out.h5"});
  struct stat status = {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1 << 20) << "space reserved while writing was not given back";
  std::vector<std::byte> images = test::patterned_bytes(48, 0);
  const std::vector<std::byte> second = test::patterned_bytes(48, 1);
  images.insert(images.end(), second.begin(), second.end());
  EXPECT_EQ(test::read_through_libhdf5(path(), "train/images"), images);
  std::vector<std::byte> labels = test::patterned_bytes(24);
  const std::vector<std::byte> more = test::patterned_bytes(40, 1);
  labels.insert(labels.end(), more.begin(), more.end());
  EXPECT_EQ(test::read_through_libhdf5(path(), "train/labels"), labels);

  const auto file = H5File::open(path());
  const auto reader = open_chunk_reader(file, file->describe("train/images"));
  EXPECT_TRUE(reader->direct());
  const ByteBuffer bytes = read_all(*reader, 2);
  EXPECT_TRUE(std::equal(images.begin(), images.end(), bytes.data(), bytes.data() + bytes.size()));
}

TEST_F(StoreWriter, writes_every_element_type) {
  const DType types[] = {DType::u8,  DType::i8,  DType::u16, DType::i16, DType::u32, DType::i32,
                         DType::u64, DType::i64, DType::f16, DType::f32, DType::f64, DType::bf16};
  {
    H5Writer writer(path(), false);
    for (const DType type : types) {
      writer.create_dataset({.path = "/" + std::string(name_of(type)), .dtype = type, .shape = {2}});
    }
    writer.create_dataset({.path = "/scalar", .dtype = DType::u8, .shape = {}});
    writer.write_rows("/scalar", 0, 1, test::patterned_bytes(1, 7));
    writer.commit();
  }
  EXPECT_EQ(test::read_through_libhdf5(path(), "scalar"), test::patterned_bytes(1, 7));
  const auto file = H5File::open(path());
  for (const DType type : types) {
    const DatasetInfo info = file->describe(std::string(name_of(type)));
    EXPECT_EQ(info.dtype, type);
    EXPECT_FALSE(info.byte_swapped);
  }
}

TEST_F(StoreWriter, stores_chunks_of_filters_libhdf5_does_not_have) {
  const std::vector<FilterSpec> filters = parse_filters("shuffle+zstd:3", 1);
  const FilterPipeline pipeline(filters, 24, 1);
  {
    H5Writer writer(path(), false);
    writer.create_dataset({.path = "/x", .shape = {4, 6}, .chunk_shape = {4, 6}, .filters = filters});
    writer.write_chunk("/x", Shape{0, 0}, pipeline.encode(test::patterned_bytes(24)));
    writer.commit();
  }
  const auto file = H5File::open(path());
  const auto reader = open_chunk_reader(file, file->describe("x"));
  EXPECT_EQ(format_filters(reader->info().filters), "shuffle+zstd:3");
  const ByteBuffer bytes = read_all(*reader, 1);
  const std::vector<std::byte> expected = test::patterned_bytes(24);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.data()));
}

TEST_F(StoreWriter, equal_calls_make_equal_files_without_time_stamps) {
  write_sample(path());
  write_sample(dir_ / "again.h5");
  EXPECT_EQ(test::file_bytes(path()), test::file_bytes(dir_ / "again.h5"));
  const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  for (const char* name : {"train", "train/images", "train/labels"}) {
#if H5_VERSION_GE(1, 12, 0)
    H5O_info2_t info = {};
    test::require(H5Oget_info_by_name3(file.get(), name, &info, H5O_INFO_TIME, H5P_DEFAULT), "H5Oget_info");
#else
    H5O_info_t info = {};
    test::require(H5Oget_info_by_name2(file.get(), name, &info, H5O_INFO_TIME, H5P_DEFAULT), "H5Oget_info");
#endif
    EXPECT_EQ(info.mtime, 0) << name;
    EXPECT_EQ(info.ctime, 0) << name;
  }
}

TEST_F(StoreWriter, writes_the_format_of_hdf5_version18) {
  write_sample(path());
  // Superblocks of version 0 to 2 are read by 1.8; version 3 is not.
  EXPECT_LT(std::to_integer<int>(test::file_bytes(path())[8]), 3);
}

TEST_F(StoreWriter, stores_attributes_as_text) {
  write_sample(path());
  const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const auto text = [&file](const char* object, const char* name) {
    const Hid attribute(H5Aopen_by_name(file.get(), object, name, H5P_DEFAULT, H5P_DEFAULT));
    const Hid type(H5Aget_type(attribute.get()));
    std::string value(H5Tget_size(type.get()), ' ');
    test::require(H5Aread(attribute.get(), type.get(), value.data()), "H5Aread");
    return std::string(value.c_str());
  };
  EXPECT_EQ(text("train/images", "layout"), "NHW");
  EXPECT_EQ(text("/", "note"), "größer");
}

TEST_F(StoreWriter, leaves_nothing_behind_unless_committed) {
  write_sample(path(), false);
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(StoreWriter, keeps_its_temporary_file_beside_the_target) {
  const H5Writer writer(path(), false);
  ASSERT_EQ(names().size(), 1U);
  EXPECT_TRUE(names().front().starts_with(".out.h5.tmp-")) << names().front();
}

TEST_F(StoreWriter, keeps_its_temporary_file_while_another_writes_the_same_target) {
  H5Writer writer(path(), false);
  const std::filesystem::path temporary = dir_ / names().front();
  std::filesystem::last_write_time(temporary,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1));
  { const H5Writer other(path(), false); }
  writer.commit();
  EXPECT_EQ(names(), std::vector<std::string>{"out.h5"});
}

// Whoever may write to the folder could else put a link in its place, and have what it leads to replaced.
TEST_F(StoreWriter, names_its_temporary_file_anew_each_time) {
  std::set<std::string> seen;
  for (int i = 0; i < 20; ++i) {
    const H5Writer writer(path(), false);
    ASSERT_EQ(names().size(), 1U);
    seen.insert(names().front());
  }
  EXPECT_EQ(seen.size(), 20U);
}

TEST_F(StoreWriter, refuses_an_existing_target_unless_asked_to_overwrite) {
  test::replace_file(path(), test::patterned_bytes(10));
  EXPECT_EQ(refusal([this] { H5Writer(path(), false); }),
            "out.h5 exists; choose another name, or --force to replace it");
  EXPECT_EQ(test::file_bytes(path()).size(), 10U);
  H5Writer writer(path(), true);
  EXPECT_EQ(test::file_bytes(path()).size(), 10U) << "replaced before it is complete";
  writer.commit();
  EXPECT_NO_THROW(H5File::open(path()));
}

TEST_F(StoreWriter, does_not_replace_a_pipe_or_a_device) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const std::filesystem::path device = dir_ / "null";
  const bool made = ::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;  // root only
  for (const std::filesystem::path& special : {path(), made ? device : path()}) {
    EXPECT_EQ(refusal([&] { StagedFile(special, true); }),
              special.filename().string() + ": not a regular file; choose another name");
    EXPECT_TRUE(std::filesystem::is_other(special));
  }
}

// As /dev/stdout is, where it was redirected to a file.
TEST_F(StoreWriter, does_not_replace_a_file_behind_a_link_to_what_is_open) {
  test::replace_file(path(), test::patterned_bytes(4));
  const FileDescriptor open(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  const std::string link = "/dev/fd/" + std::to_string(open.get());
  EXPECT_EQ(refusal([&] { StagedFile(link, true); }), link + ": not a regular file; choose another name");
}

TEST_F(StoreWriter, does_not_replace_a_target_that_appeared_meanwhile) {
  H5Writer writer(path(), false);
  test::replace_file(path(), test::patterned_bytes(10));
  EXPECT_EQ(refusal([&writer] { writer.commit(); }),
            "out.h5 exists; choose another name, or --force to replace it");
  EXPECT_EQ(test::file_bytes(path()).size(), 10U);
}

TEST_F(StoreWriter, names_a_missing_directory) {
  EXPECT_EQ(refusal([this] { H5Writer(dir_ / "no" / "out.h5", false); }),
            "no/out.h5: there is no directory no; create it first");
  EXPECT_EQ(refusal([this] { H5Writer(dir_.path(), true); }).find("is a directory; name a file in it") !=
                std::string::npos,
            true);
}

TEST_F(StoreWriter, says_which_dataset_cannot_be_created) {
  H5Writer writer(path(), false);
  EXPECT_THAT(refusal([&] { writer.create_dataset({.path = "/x", .shape = {2}, .chunk_shape = {3}}); }),
              testing::StartsWith("out.h5: cannot create /x: "));
  EXPECT_EQ(refusal([&] { writer.write_chunk("/y", Shape{0}, {}); }), "out.h5: no dataset /y was created");
}

// Fills a file beyond the limit, and ends the process with 0 where all went as it should.
[[noreturn]] void write_beyond_limit() {
  int code = 1;
  {
    const TempDir dir;
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::exit(2);
    try {
      H5Writer writer(dir / "out.h5", false);
      writer.create_dataset({.path = "/x", .shape = {64, 1 << 16}, .chunk_shape = {1, 1 << 16}});
      const std::vector<std::byte> chunk = test::patterned_bytes(1 << 16);
      for (std::uint64_t i = 0; i < 64; ++i) writer.write_chunk("/x", Shape{i, 0}, chunk);
      writer.commit();
    } catch (const FileError& error) {
      std::fprintf(stderr, "%s\n", std::filesystem::path(error.what()).filename().c_str());
      code = std::filesystem::is_empty(dir.path()) ? 0 : 3;
    }
  }
  std::exit(code);
}

// A limit on file sizes stands for a full disk: libhdf5's writes fail the same way.
TEST(StoreWriterDeathTest, a_full_disk_is_one_error_and_leaves_nothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(write_beyond_limit(), testing::ExitedWithCode(0),
              testing::Eq("out.h5: larger than a file may be here; see ulimit -f\n"));
}

// As a damaged file may ask for.
TEST_F(StoreWriter, asks_for_no_storage_where_there_is_too_little) {
  const std::filesystem::space_info space = std::filesystem::space(path().parent_path());
  const FileDescriptor file(::open(path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(claim_storage(file.get(), 0, 2 * space.capacity), ENOSPC);
  struct stat status = {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0) << "nothing was allocated";
  EXPECT_EQ(claim_storage(file.get(), 0, 4096), 0);
}

TEST(UpdateAttributes, does_not_blame_the_mode_for_a_read_only_file_system) {
  EXPECT_EQ(cure_for_unwritable(EROFS), "copy the file to a place that can be written");
  EXPECT_EQ(cure_for_unwritable(EACCES), "check its mode and owner");
}

}  // namespace
}  // namespace h5feed::test
