// SPDX-License-Identifier: Apache-2.0
// h5feed pack: IDX files of every type into HDF5, and hostile ones into an error that leaves nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/idx_bytes.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/pack/idx_file.hpp"
#include "tools/pack/pairs.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Big-endian bytes of values, as IDX stores them.
template <typename T>
std::vector<std::byte> big_endian(const std::vector<T>& values) {
  std::vector<std::byte> bytes;
  for (const T value : values) {
    std::array<std::byte, sizeof(T)> raw{};
    std::memcpy(raw.data(), &value, sizeof value);
    bytes.insert(bytes.end(), raw.rbegin(), raw.rend());
  }
  return bytes;
}

template <typename T>
void expect_packed(std::uint8_t type, const std::string& name, const std::vector<T>& values) {
  static_assert(std::endian::native == std::endian::little);
  const TempDir dir;
  const auto size = static_cast<std::uint32_t>(values.size());
  replace_file(dir / "x.idx", idx_bytes(type, {size}, big_endian(values)));
  const ProgramResult result = run_program(dir.path(), {"pack", "x.h5", "--idx", "x=x.idx"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(H5File::open(dir / "x.h5")->describe("x").shape_text(),
            std::to_string(values.size()) + " " + name);
  const auto bytes = read_through_libhdf5(dir / "x.h5", "x");
  std::vector<T> read(values.size());
  ASSERT_EQ(bytes.size(), values.size() * sizeof(T));
  std::memcpy(read.data(), bytes.data(), bytes.size());
  EXPECT_EQ(read, values);
}

TEST(Pack, keeps_the_values_of_all_six_element_types) {
  expect_packed<std::uint8_t>(0x08, "u8", {0, 1, 128, 255});
  expect_packed<std::int8_t>(0x09, "i8", {-128, -1, 0, 127});
  expect_packed<std::int16_t>(0x0B, "i16", {-32768, -2, 258, 32767});
  expect_packed<std::int32_t>(0x0C, "i32", {-2147483647, -2, 16909060});
  expect_packed<float>(0x0D, "f32", {-1.5F, 0.0F, 3.25e20F});
  expect_packed<double>(0x0E, "f64", {-1.5, 0.0, 3.25e200});
}

TEST(Pack, writes_plain_and_gzip_files_into_groups_in_chunks_of_whole_samples) {
  const TempDir dir;
  const auto images = patterned_bytes(2500 * 28 * 28);
  const auto labels = patterned_bytes(2500, 7);
  replace_file(dir / "images.gz", gzip(idx_bytes(0x08, {2500, 28, 28}, images)));
  replace_file(dir / "labels", idx_bytes(0x08, {2500}, labels));
  const ProgramResult result = run_program(
      dir.path(), {"pack", "m.h5", "--idx", "train/images=images.gz", "--idx", "/train/labels=labels"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "writing m.h5 from 2 IDX files, 1.9 MiB decoded\n");
  EXPECT_THAT(result.out, HasSubstr("/train/images (2500×28×28 u8): chunks of 1,000, gzip:4; "));
  EXPECT_THAT(result.out, HasSubstr("wrote m.h5 ("));
  EXPECT_THAT(names_in(dir.path()), ElementsAre("images.gz", "labels", "m.h5"));

  EXPECT_THAT(H5File::open(dir / "m.h5")->describe("train/images").chunk_shape, ElementsAre(1000, 28, 28));
  EXPECT_THAT(H5File::open(dir / "m.h5")->describe("train/labels").chunk_shape, ElementsAre(2500));
  EXPECT_EQ(read_through_libhdf5(dir / "m.h5", "train/images"), images);
  EXPECT_EQ(read_through_libhdf5(dir / "m.h5", "train/labels"), labels);
}

TEST(Pack, takes_chunk_and_filter_from_the_command_line) {
  const TempDir dir;
  const auto images = patterned_bytes(90 * 16);
  replace_file(dir / "i", idx_bytes(0x08, {90, 4, 4}, images));
  ASSERT_EQ(run_program(dir.path(), {"pack", "a.h5", "--idx", "i=i", "--chunk", "40", "--filter",
                                     "shuffle+zstd:3+fletcher32"})
                .exit_code,
            0);
  const DatasetInfo chunked = H5File::open(dir / "a.h5")->describe("i");
  EXPECT_THAT(chunked.chunk_shape, ElementsAre(40, 4, 4));
  EXPECT_EQ(format_filters(chunked.filters), "shuffle+zstd:3+fletcher32");

  ASSERT_EQ(run_program(dir.path(), {"pack", "b.h5", "--idx", "i=i", "--chunk", "none"}).exit_code, 0);
  EXPECT_EQ(H5File::open(dir / "b.h5")->describe("i").layout, StorageLayout::contiguous);
  EXPECT_EQ(read_through_libhdf5(dir / "b.h5", "i"), images);
}

TEST(Pack, refuses_to_replace_a_file_unless_forced) {
  const TempDir dir;
  replace_file(dir / "i", idx_bytes(0x08, {3}, patterned_bytes(3)));
  replace_file(dir / "a.h5", patterned_bytes(10));
  const ProgramResult refused = run_program(dir.path(), {"pack", "a.h5", "--idx", "i=i"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.err, "a.h5 exists; choose another name, or --force to replace it\n");
  EXPECT_EQ(file_bytes(dir / "a.h5"), patterned_bytes(10));
  EXPECT_EQ(run_program(dir.path(), {"pack", "a.h5", "--idx", "i=i", "--force"}).exit_code, 0);
  EXPECT_EQ(read_through_libhdf5(dir / "a.h5", "i"), patterned_bytes(3));
}

TEST(Pack, refuses_names_that_collide) {
  const TempDir dir;
  replace_file(dir / "i", idx_bytes(0x08, {3}, patterned_bytes(3)));
  const auto error = [&](const std::string& first, const std::string& second) {
    const ProgramResult result =
        run_program(dir.path(), {"pack", "a.h5", "--idx", first + "=i", "--idx", second + "=i"});
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_EQ(error("x", "/x"), "--idx names /x twice; give each file its own name\n");
  EXPECT_EQ(error("x", "x/y"), "--idx x and --idx x/y: a dataset cannot contain another; rename one\n");
  EXPECT_EQ(run_program(dir.path(), {"pack", "i", "--idx", "x=i", "--force"}).err,
            "i is both input and output; choose another name for the output\n");
}

TEST(Pack, refuses_labels_of_another_number_of_rows_than_their_images_and_options_of_images) {
  const TempDir dir;
  replace_file(dir / "i", idx_bytes(0x08, {10, 4, 4}, patterned_bytes(160)));
  replace_file(dir / "l", idx_bytes(0x08, {9}, patterned_bytes(9)));
  replace_file(dir / "m", idx_bytes(0x08, {3}, patterned_bytes(3)));
  const auto pack = [&](const std::vector<std::string>& names) {
    std::vector<std::string> arguments = {"pack", "a.h5", "--force"};
    for (const std::string& name : names) arguments.insert(arguments.end(), {"--idx", name});
    return run_program(dir.path(), arguments);
  };
  const ProgramResult refused = pack({"train/labels=l", "train/images=i"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.err,
            "--idx train/labels has 9 rows, and --idx train/images has 10; pack files of one set, or into "
            "different groups\n");
  EXPECT_THAT(names_in(dir.path()), ElementsAre("i", "l", "m"));
  EXPECT_EQ(run_program(dir.path(), {"pack", "a.h5", "--idx", "images=i", "--fit", "abc"}).err,
            "--fit is for --images and --csv; leave it out\n");
  EXPECT_EQ(pack({"x_train=i", "y_train=l"}).err,
            "--idx y_train has 9 rows, and --idx x_train has 10; pack files of one set, or into different "
            "groups\n");
  EXPECT_EQ(pack({"images=i", "mean=m"}).exit_code, 0) << "not called labels";
  EXPECT_EQ(pack({"images=i", "test/labels=l"}).exit_code, 0) << "of another group";
}

TEST(Pack, pairs_arrays_by_the_words_in_their_names) {
  using cli::NamedArray;
  const auto refused = [](const std::string& samples, const std::string& labels) {
    const std::vector<NamedArray> arrays = {{"--npy", samples, {10, 8, 8}}, {"--npy", labels, {9}}};
    try {
      cli::check_pairs(arrays);
      return false;
    } catch (const DatasetError&) {
      return true;
    }
  };
  for (const auto& [samples, labels] :
       std::vector<std::pair<std::string, std::string>>{{"/x", "/y"},
                                                        {"/X_train", "/y_train"},
                                                        {"/trainX", "/trainY"},
                                                        {"/x1", "/y1"},
                                                        {"/train_images", "/train_labels"},
                                                        {"/images_val", "/labels_val"},
                                                        {"/data", "/target"},
                                                        {"/data/images", "/data/labels"},
                                                        {"/a/train/x", "/a/train/y"},
                                                        {"/x/train", "/y/train"},
                                                        {"/anything", "/labels"}}) {
    EXPECT_TRUE(refused(samples, labels)) << samples << " " << labels;
  }
  for (const auto& [samples, labels] :
       std::vector<std::pair<std::string, std::string>>{{"/x_train", "/y_test"},
                                                        {"/train/x", "/test/y"},
                                                        {"/images", "/mean"},
                                                        {"/images", "/class_names"},
                                                        {"/images", "/label_map_of_words"},
                                                        {"/train/images", "/labels"},
                                                        {"/xmatrix", "/ymatrix"},
                                                        {"/x_small", "/y_large"}}) {
    EXPECT_FALSE(refused(samples, labels)) << samples << " " << labels;
  }
  // One of several arrays of samples is enough, and arrays of one dimension are no samples.
  const std::vector<NamedArray> fitting = {
      {"--npy", "/x", {10, 4}}, {"--npy", "/data", {9, 4}}, {"--npy", "/y", {9}}, {"--npy", "/img", {3}}};
  EXPECT_NO_THROW(cli::check_pairs(fitting));
  const std::vector<NamedArray> points = {{"--npy", "/x_of_points", {10}}, {"--npy", "/y_of_points", {9}}};
  EXPECT_NO_THROW(cli::check_pairs(points));
  const std::vector<NamedArray> columns = {{"--npy", "/x_train", {10, 784}}, {"--npy", "/y_train", {9, 1}}};
  EXPECT_THROW(cli::check_pairs(columns), DatasetError);
}

struct Hostile {
  std::string name;
  std::vector<std::byte> bytes;
  std::string reason;
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

class HostileIdx : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileIdx, is_an_error_that_leaves_no_file) {
  const TempDir dir;
  replace_file(dir / "x.idx", GetParam().bytes);
  const ProgramResult result = run_program(dir.path(), {"pack", "out.h5", "--idx", "x=x.idx"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "x.idx " + GetParam().reason + "; check the file or fetch it again\n");
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(names_in(dir.path()), ElementsAre("x.idx"));
}

std::vector<std::byte> cut(std::vector<std::byte> bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

std::vector<Hostile> hostile_files() {
  const auto data = random_bytes(50000);
  const auto damaged = [&] {
    auto bytes = gzip(idx_bytes(0x08, {50000}, data));
    bytes[bytes.size() - 6] ^= std::byte{0xFF};  // the checksum
    return bytes;
  }();
  const auto whole = gzip(idx_bytes(0x08, {50000}, data));
  auto followed = whole;
  followed.insert(followed.end(), data.begin(), data.begin() + 20);
  return {
      {"Empty", {}, "is cut short: it ends within its header"},
      {"NotIdx", idx_bytes(0x89, {}, data), "is not an IDX file (it starts with 00 00 89 00)"},
      {"NoDimensions", idx_bytes(0x08, {}, data), "is not an IDX file (it starts with 00 00 08 00)"},
      {"UnknownType", idx_bytes(0x0A, {4}, data), "is not an IDX file (it starts with 00 00 0a 01)"},
      {"CutHeader", cut(idx_bytes(0x08, {4, 4}, {}), 7), "is cut short: it ends within its header"},
      {"ZeroExtent", idx_bytes(0x08, {4, 0, 4}, {}), "holds nothing: its dimension 1 is 0"},
      {"OverflowingExtents", idx_bytes(0x0E, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, data),
       "is cut short or damaged: its header promises 4294967295×4294967295×4294967295 f64, more than its 49 "
       "KiB can "
       "hold"},
      {"OverflowTo16", idx_bytes(0x08, {0x80000000, 0x80000000, 4, 16}, data),
       "is cut short or damaged: its header promises 2147483648×2147483648×4×16 u8, more than its 49 KiB can "
       "hold"},
      {"CutPlain", cut(idx_bytes(0x08, {50000}, data), 49999),
       "is cut short or damaged: its header promises 50000 u8, more than its 49 KiB can hold"},
      {"LongPlain", idx_bytes(0x08, {49999}, data), "continues after the 49999 u8 that its header promises"},
      {"PromisingGzip", gzip(idx_bytes(0x08, {0x7FFFFFFF, 2}, data)),
       "is cut short or damaged: its header promises 2147483647×2 u8, more than its 49 KiB can hold"},
      {"ShortGzip", gzip(idx_bytes(0x08, {50001}, data)), "is cut short: it ends within its data"},
      {"LongGzip", gzip(idx_bytes(0x08, {49999}, data)),
       "continues after the 49999 u8 that its header promises"},
      {"MuchLongerGzip", gzip(idx_bytes(0x08, {49000}, data)),
       "continues after the 49000 u8 that its header promises"},
      {"CutGzip", cut(gzip(idx_bytes(0x08, {50000}, data)), 30000), "is cut short: it ends within its data"},
      {"CutChecksum", cut(whole, whole.size() - 2), "is cut short: it ends within its checksum"},
      {"BytesBehindGzip", followed, "is damaged (its gzip stream is followed by something else)"},
      {"DamagedGzip", damaged, "is damaged (incorrect data check)"},
  };
}

INSTANTIATE_TEST_SUITE_P(Pack, HostileIdx, ::testing::ValuesIn(hostile_files()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(Pack, refuses_more_dimensions_than_hdf5_has) {
  const TempDir dir;
  replace_file(dir / "x.idx", idx_bytes(0x08, std::vector<std::uint32_t>(33, 1), random_bytes(1)));
  const ProgramResult result = run_program(dir.path(), {"pack", "out.h5", "--idx", "x=x.idx"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, "--idx x: the array has 33 dimensions; HDF5 stores at most 32\n");
  EXPECT_THAT(names_in(dir.path()), ElementsAre("x.idx"));
}

TEST(Pack, reads_a_file_of_several_gzip_members) {
  const TempDir dir;
  const auto values = random_bytes(5000);
  const auto plain = idx_bytes(0x08, {5000}, values);
  auto members = gzip({plain.begin(), plain.begin() + 1000});
  const auto second = gzip({plain.begin() + 1000, plain.end()});
  members.insert(members.end(), second.begin(), second.end());
  replace_file(dir / "x.gz", members);
  ASSERT_EQ(run_program(dir.path(), {"pack", "x.h5", "--idx", "x=x.gz"}).exit_code, 0);
  EXPECT_EQ(read_through_libhdf5(dir / "x.h5", "x"), values);
}

TEST(Pack, refuses_a_fifo_at_once) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "f").c_str(), 0600), 0);
  const ProgramResult result = run_program(dir.path(), {"pack", "x.h5", "--idx", "x=f"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "f is not a regular file; check the file or fetch it again\n");
}

TEST(IdxFile, refuses_a_directory) {
  const TempDir dir;
  EXPECT_THROW(cli::IdxFile(dir.path()), FileError);
}

}  // namespace
}  // namespace h5feed::test
