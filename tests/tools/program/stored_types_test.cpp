// SPDX-License-Identifier: Apache-2.0
// The program on bitfields, bfloat16 and scaleoffset: info, check, repack, bench and tune.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "support/programs/tune_runs.hpp"
#include "tools/measure/sample_cost.hpp"
#include "tools/storage/storage_advice.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr std::size_t kElements = 40 * 6;

// Flags as PyTables keeps booleans, weights, and counts that scaleoffset packs to 16 bits: HDF5 1.14.5
// refuses to read chunks whose number of bits libhdf5 has chosen itself.
class StoredTypes : public testing::Test {
 protected:
  StoredTypes() {
    H5TestFile file(dir_ / "a.h5");
    file.create({.path = "flags", .file_type = H5T_STD_B8LE, .shape = {40, 6}, .chunk = {16, 6}});
    std::vector<std::byte> flags = random_bytes(kElements);
    for (std::byte& flag : flags) flag &= std::byte{1};
    file.write("flags", flags);
    const Hid brain(float16_type(7, 127, H5T_ORDER_BE));
    file.create({.path = "weights",
                 .file_type = brain.get(),
                 .shape = {40, 6},
                 .chunk = {16, 6},
                 .filters = parse_filters("shuffle+gzip:1", 2)});
    file.write("weights", patterned_bytes(2 * kElements));
    file.create({.path = "counts",
                 .file_type = H5T_STD_I32LE,
                 .shape = {40, 6},
                 .chunk = {16, 6},
                 .filters = {{.id = filter_id::kScaleOffset, .optional = true, .params = {2, 16}}}});
    file.write("counts", patterned_bytes(4 * kElements));
  }

  ProgramResult run(const std::vector<std::string>& arguments) const {
    return run_program(dir_.path(), arguments);
  }

  // As libhdf5 reads them.
  void expect_same_values(const std::string& file) const {
    for (const char* const name : {"flags", "weights", "counts"}) {
      EXPECT_EQ(read_through_libhdf5(dir_ / file, name), read_through_libhdf5(dir_ / "a.h5", name)) << name;
    }
  }

  std::string filters(const std::string& file, const std::string& dataset) const {
    return format_filters(H5File::open(dir_ / file)->describe(dataset).filters);
  }

  TempDir dir_;
};

TEST_F(StoredTypes, are_read_directly_and_named_by_info) {
  const ProgramResult result = run({"info", "a.h5", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Json datasets = Json::parse(result.out).at("datasets");
  ASSERT_EQ(datasets.size(), 3U);
  const std::vector<std::string> types = {"i32", "bitfield of u8", "bf16"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(datasets[i].at("type"), types[i]);
    EXPECT_EQ(datasets[i].at("numeric"), true);
    EXPECT_EQ(datasets[i].at("read_path"), "direct");
  }
  EXPECT_EQ(datasets[0].at("filters"), "scaleoffset");
  EXPECT_THAT(run({"info", "a.h5"}).out, HasSubstr("\n40 samples of 6: --data /counts\n"));
  const ProgramResult stats = run({"info", "a.h5", "--stats", "--data", "weights"});
  EXPECT_EQ(stats.exit_code, 0) << stats.err;
}

TEST_F(StoredTypes, are_checked_against_libhdf5_and_benched_without_a_layout) {
  const ProgramResult check = run({"check", "a.h5", "--json"});
  EXPECT_EQ(check.exit_code, 0) << check.err << check.out;
  for (const char* const name : {"flags", "weights", "counts"}) {
    const ProgramResult bench = run({"bench", "a.h5", "--data", name, "--num-workers", "0", "--time-budget",
                                     "50ms", "--batch-size", "8", "--json"});
    EXPECT_EQ(bench.exit_code, 0) << name << ": " << bench.err;
  }
}

TEST_F(StoredTypes, keep_their_types_filters_and_values_in_a_repack_of_another) {
  const ProgramResult result = run({"repack", "a.h5", "b.h5", "--dataset", "weights", "--chunk", "8"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_same_values("b.h5");
  EXPECT_EQ(H5File::open(dir_ / "b.h5")->describe("weights").dtype, DType::bf16);
  EXPECT_EQ(filters("b.h5", "weights"), "shuffle+gzip:1");
  EXPECT_EQ(filters("b.h5", "counts"), "scaleoffset");
  const ProgramResult check = run({"check", "b.h5"});
  EXPECT_EQ(check.exit_code, 0) << check.err << check.out;
}

TEST_F(StoredTypes, of_scaleoffset_are_repacked_with_another_filter_only) {
  const ProgramResult same = run({"repack", "a.h5", "b.h5", "--dataset", "counts", "--chunk", "8"});
  EXPECT_EQ(same.exit_code, 2);
  EXPECT_EQ(same.err,
            "a.h5:/counts: h5feed cannot write its filter 6 (scaleoffset); choose another, such as --filter "
            "shuffle+gzip:4\n");
  EXPECT_EQ(names_in(dir_.path()), std::vector<std::string>{"a.h5"});
  const ProgramResult other =
      run({"repack", "a.h5", "b.h5", "--dataset", "counts", "--chunk", "8", "--filter", "shuffle+gzip:1"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  expect_same_values("b.h5");
  EXPECT_EQ(filters("b.h5", "counts"), "shuffle+gzip:1");
}

TEST_F(StoredTypes, of_scaleoffset_are_copied_chunk_by_chunk_where_their_chunks_stay) {
  const ProgramResult result = run({"repack", "a.h5", "b.h5", "--dataset", "counts", "--maxshape", "fixed"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out + result.err, ::testing::Not(HasSubstr("hdf5plugin")))
      << "h5py has the filter from libhdf5";
  expect_same_values("b.h5");
  EXPECT_EQ(filters("b.h5", "counts"), "scaleoffset");
}

TEST(RepackAdvice, names_a_filter_where_the_own_one_cannot_be_written) {
  DatasetInfo info{.file = "a.h5", .path = "/x", .dtype = DType::i16, .shape = {20, 8}};
  info.layout = StorageLayout::chunked;
  info.chunk_shape = {4, 2};
  info.filters = parse_filters("gzip:1", 2);
  EXPECT_THAT(cli::cut_samples(info)->line(info),
              ::testing::EndsWith(": h5feed repack a.h5 NEW.h5 --dataset /x --chunk auto"));
  info.filters[0].id = filter_id::kScaleOffset;
  EXPECT_THAT(cli::cut_samples(info)->line(info),
              ::testing::EndsWith("--chunk auto --filter shuffle+gzip:4"));
  EXPECT_EQ(cli::repack_command(info, "--filter none"),
            "h5feed repack a.h5 NEW.h5 --dataset /x --filter none");
}

TEST_F(StoredTypes, of_bitfields_and_enumerations_move_to_other_chunks) {
  std::vector<std::byte> colors;
  {
    const Hid file(H5Fopen((dir_ / "a.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const Hid type(H5Tenum_create(H5T_STD_I16BE));
    for (short number = 0; number < 3; ++number) {
      const auto high_first = static_cast<short>(number << 8);
      require(
          H5Tenum_insert(type.get(), std::string(1, static_cast<char>('a' + number)).c_str(), &high_first),
          "H5Tenum_insert");
    }
    const hsize_t shape[] = {40, 6}, chunk[] = {16, 6};
    const Hid space(H5Screate_simple(2, shape, nullptr));
    const Hid storage(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_chunk(storage.get(), 2, chunk), "H5Pset_chunk");
    const Hid dataset(
        H5Dcreate2(file.get(), "colors", type.get(), space.get(), H5P_DEFAULT, storage.get(), H5P_DEFAULT));
    for (std::size_t i = 0; i < kElements; ++i) colors.insert(colors.end(), {std::byte{0}, std::byte(i % 3)});
    require(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, colors.data()), "H5Dwrite");
  }
  const ProgramResult result = run({"repack", "a.h5", "b.h5", "--dataset", "flags", "colors", "--chunk", "8",
                                    "--filter", "shuffle+gzip:1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_same_values("b.h5");
  {
    const auto copy = H5File::open(dir_ / "b.h5");
    EXPECT_EQ(copy->list_one("/flags").type_text, "bitfield of u8");
    EXPECT_EQ(copy->list_one("/colors").type_text, "enumeration of i16");
    for (const char* const name : {"flags", "colors"}) {
      EXPECT_EQ(copy->describe(name).chunk_shape, (std::vector<std::uint64_t>{8, 6}));
    }
  }
  EXPECT_EQ(run({"check", "b.h5"}).exit_code, 0);
  const Hid file(H5Fopen((dir_ / "b.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid dataset(H5Dopen2(file.get(), "colors", H5P_DEFAULT));
  const Hid type(H5Dget_type(dataset.get()));
  std::vector<std::byte> copied(colors.size());
  require(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, copied.data()), "H5Dread");
  EXPECT_EQ(copied, colors);
}

TEST_F(StoredTypes, of_bitfields_are_repacked_in_chunks_and_in_one_file_only) {
  const auto refusal = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"repack", "a.h5", "b.h5", "--dataset", "flags"});
    const ProgramResult result = run(options);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(names_in(dir_.path()), std::vector<std::string>{"a.h5"});
    return result.err;
  };
  EXPECT_EQ(refusal({"--chunk", "none"}),
            "a.h5:/flags: the elements are bitfield of u8, which repack writes in chunks only; give --chunk "
            "auto, or leave out --dataset /flags\n");
  EXPECT_EQ(refusal({"--chunk", "8", "--split", "2"}),
            "a.h5:/flags: the elements are bitfield of u8, which repack does not write in parts; leave out "
            "--split, --part and --resume, or --dataset /flags\n");
}

TEST_F(StoredTypes, of_bfloat16_are_tuned) {
  const ProgramResult result = tune_with_enough_time(
      dir_.path(), {"a.h5", "--data", "weights", "--chunks", "10", "--filters", "none", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace
}  // namespace h5feed::test
