// SPDX-License-Identifier: Apache-2.0
// h5feed repack: the values are the same, the storage is what was asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plan/permutation.hpp"
#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/case_step.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/repack_runs.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

DatasetInfo info_of(const TempDir& dir, const std::string& file, const std::string& dataset) {
  return H5File::open(dir / file)->describe(dataset);
}

// The decoded values by h5feed itself: libhdf5 lacks most filters.
std::vector<std::byte> decoded(const TempDir& dir, const std::string& name, const std::string& dataset) {
  const auto file = H5File::open(dir / name);
  const ByteBuffer values = read_all(*open_chunk_reader(file, file->describe(dataset)), 1);
  return {values.span().begin(), values.span().end()};
}

// Datasets of one shape in every kind of storage.
const std::vector<TestDataset>& stored_kinds() {
  static const std::vector<std::uint64_t> kShape = {23, 14, 9};
  static const auto kGzip = parse_filters("shuffle+gzip:1+fletcher32", 4);
  static const std::vector<TestDataset> kKinds = {
      {.path = "contiguous", .file_type = H5T_STD_I32LE, .shape = kShape},
      {.path = "compact", .file_type = H5T_STD_I32LE, .shape = kShape, .compact = true},
      {.path = "plain", .file_type = H5T_STD_I32LE, .shape = kShape, .chunk = {5, 4, 3}},
      {.path = "big_endian",
       .file_type = H5T_STD_I32BE,
       .shape = kShape,
       .chunk = {23, 1, 2},
       .filters = kGzip},
      {.path = "one_chunk", .file_type = H5T_IEEE_F32LE, .shape = kShape, .chunk = kShape, .filters = kGzip},
      {.path = "unlimited",
       .file_type = H5T_IEEE_F32BE,
       .shape = kShape,
       .max_shape = {kUnlimited, 14, 9},
       .chunk = {4, 14, 5},
       .filters = kGzip}};
  return kKinds;
}

void write_kinds(const TempDir& dir, bool latest) {
  H5TestFile file(dir / "a.h5", {.latest = latest});
  for (const TestDataset& kind : stored_kinds()) {
    file.create(kind);
    file.write(kind.path, patterned_bytes(23 * 14 * 9 * 4, static_cast<unsigned>(kind.path.size())));
  }
}

class EveryChunking : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(EveryChunking, keeps_the_values_of_every_kind_of_storage) {
  for (const bool latest : {false, true}) {
    const TempDir dir;
    write_kinds(dir, latest);
    std::vector<std::string> options = GetParam();
    options.emplace_back("--dataset");
    for (const TestDataset& kind : stored_kinds()) options.push_back(kind.path);
    const ProgramResult result = repack(dir, options);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a.h5", "b.h5"));
    for (const TestDataset& kind : stored_kinds()) {
      EXPECT_EQ(read_through_libhdf5(dir / "b.h5", kind.path), read_through_libhdf5(dir / "a.h5", kind.path))
          << kind.path;
      const DatasetInfo before = info_of(dir, "a.h5", kind.path), after = info_of(dir, "b.h5", kind.path);
      EXPECT_EQ(before.byte_swapped, after.byte_swapped);
      EXPECT_EQ(before.dtype, after.dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Repack, EveryChunking,
    ::testing::Values(std::vector<std::string>{"--chunk", "1"},
                      std::vector<std::string>{"--chunk", "7", "--filter", "gzip:1", "--jobs", "1"},
                      std::vector<std::string>{"--chunk", "6x5x2", "--filter", "shuffle+gzip:2+fletcher32"},
                      std::vector<std::string>{"--chunk", "23x14x1", "--filter", "none"},
                      std::vector<std::string>{"--chunk", "2KiB", "--jobs", "3"},
                      std::vector<std::string>{"--chunk", "auto", "--no-verify"},
                      std::vector<std::string>{"--chunk", "4", "--libver", "latest"},
                      std::vector<std::string>{"--chunk", "none", "--maxshape", "fixed"}));

TEST(Repack, writes_every_filter_that_its_grammar_names) {
  const TempDir dir;
  write_kinds(dir, false);
  std::uint64_t number = 0;
  for (const char* filter :
       {"none", "gzip:9", "lz4", "zstd:3", "lzf", "bzip2:1", "blosc:zstd:5", "shuffle+lz4", "bitshuffle:lz4",
        "bitshuffle:zstd:2", "bitshuffle+gzip:1", "shuffle+zstd:1+fletcher32"}) {
    if (number++ % kCaseStep != 0) continue;
    const ProgramResult result =
        repack(dir, {"--dataset", "big_endian", "--chunk", "3x7x9", "--filter", filter, "--force"});
    ASSERT_EQ(result.exit_code, 0) << filter << result.err;
    EXPECT_EQ(format_filters(info_of(dir, "b.h5", "big_endian").filters), filter);
    EXPECT_EQ(decoded(dir, "b.h5", "big_endian"), decoded(dir, "a.h5", "big_endian")) << filter;
    const std::string_view text(filter);
    // h5py brings gzip and lzf.
    const bool plugin = text != "none" && text != "lzf" && text.find("gzip") == std::string_view::npos;
    EXPECT_EQ(result.err.find("Python readers need the hdf5plugin package") != std::string::npos,
              plugin || text.starts_with("bitshuffle"))
        << filter;
    // And on from there, through filters that libhdf5 may lack: as they are, and in other chunks.
    ASSERT_EQ(
        run_program(dir.path(), {"repack", "b.h5", "c.h5", "--dataset", "plain", "--chunk", "2", "--force"})
            .exit_code,
        0);
    EXPECT_EQ(decoded(dir, "c.h5", "big_endian"), decoded(dir, "a.h5", "big_endian")) << filter;
    ASSERT_EQ(run_program(dir.path(),
                          {"repack", "b.h5", "c.h5", "--dataset", "big_endian", "--chunk", "2", "--force"})
                  .exit_code,
              0);
    EXPECT_EQ(decoded(dir, "c.h5", "big_endian"), decoded(dir, "a.h5", "big_endian")) << filter;
  }
}

TEST(Repack, keeps_what_the_user_does_not_change) {
  const TempDir dir;
  write_kinds(dir, false);
  ASSERT_EQ(repack(dir, {"--dataset", "unlimited", "--chunk", "2"}).exit_code, 0);
  const DatasetInfo chunks = info_of(dir, "b.h5", "unlimited");
  EXPECT_THAT(chunks.chunk_shape, ElementsAre(2, 14, 9));
  EXPECT_EQ(format_filters(chunks.filters), "shuffle+gzip:1+fletcher32");
  EXPECT_THAT(chunks.max_shape, ElementsAre(kUnlimited, 14, 9));
  EXPECT_EQ(info_of(dir, "b.h5", "compact").layout, StorageLayout::compact);
  EXPECT_EQ(info_of(dir, "b.h5", "big_endian").stored_bytes, info_of(dir, "a.h5", "big_endian").stored_bytes);

  ASSERT_EQ(repack(dir, {"--dataset", "/unlimited", "--filter", "gzip:3", "--maxshape", "fixed", "--force"})
                .exit_code,
            0);
  const DatasetInfo filters = info_of(dir, "b.h5", "unlimited");
  EXPECT_THAT(filters.chunk_shape, ElementsAre(4, 14, 5));
  EXPECT_EQ(format_filters(filters.filters), "gzip:3");
  EXPECT_THAT(filters.max_shape, ElementsAre(23, 14, 9));
}

TEST(Repack, takes_the_datasets_that_look_like_images_unless_told) {
  const TempDir dir;
  ASSERT_EQ(
      run_program(dir.path(), {"generate", "a.h5", "--samples", "40", "--shape", "3,8,8", "--chunk", "7"})
          .exit_code,
      0);
  const ProgramResult result = repack(dir, {"--chunk", "auto", "--filter", "gzip:1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(info_of(dir, "b.h5", "images").chunk_shape, ElementsAre(40, 3, 8, 8));
  EXPECT_EQ(format_filters(info_of(dir, "b.h5", "labels").filters), "gzip:4");
  EXPECT_EQ(decoded(dir, "a.h5", "labels"), decoded(dir, "b.h5", "labels"));
  EXPECT_THAT(result.err,
              HasSubstr("repacking a.h5 into b.h5\n  /images (40×3×8×8 u8): chunks 7×3×8×8 gzip:4 → "
                        "chunks 40×3×8×8 gzip:1, 7.5 KiB decoded; each source chunk decoded once\n"
                        "  1 other numeric dataset and everything else copied as they are\n  reads "));
  EXPECT_THAT(result.out, HasSubstr("/images (40×3×8×8 u8): chunks 40×3×8×8 gzip:1; "));
  EXPECT_THAT(result.out, HasSubstr("values verified (SHA-256 of both sides)"));
}

TEST(Repack, copies_chunks_as_they_are_where_their_storage_stays) {
  const TempDir dir;
  const auto values = random_bytes(40 * 16);
  {
    H5TestFile file(dir / "a.h5");
    file.create({.shape = {40, 16}, .chunk = {4, 16}, .filters = parse_filters("gzip:4", 1)});
    file.write("x", values);
    // Stored without its filter, which must stay so.
    file.write_chunk("x", std::vector<std::uint64_t>{8, 0}, std::span(values).subspan(128, 64), 1);
    file.create({.path = "y", .shape = {10}, .chunk = {3}});
  }
  const ProgramResult result = repack(dir, {"--dataset", "y", "--chunk", "5", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(read_through_libhdf5(dir / "b.h5", "x"), values);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(json["datasets"][0]["verbatim"], true);
  EXPECT_EQ(json["datasets"][0]["source"]["stored_bytes"], json["datasets"][0]["target"]["stored_bytes"]);
  EXPECT_EQ(info_of(dir, "a.h5", "x").stored_bytes, info_of(dir, "b.h5", "x").stored_bytes);
  EXPECT_EQ(info_of(dir, "b.h5", "y").stored_bytes, 0U);
}

TEST(Repack, handles_extents_of_zero_and_sparse_and_unfiltered_edges) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5", {.latest = true});
    file.create({.path = "zero", .shape = {0, 4}, .max_shape = {kUnlimited, 4}, .chunk = {3, 4}});
    file.create({.path = "flat", .shape = {10, 0, 3}});
    file.create({.path = "sparse", .shape = {1000, 100}, .chunk = {10, 100}, .fill_value = {std::byte{9}}});
    file.write_box("sparse", std::vector<std::uint64_t>{500, 0}, std::vector<std::uint64_t>{1, 100},
                   patterned_bytes(100));
    file.create({.path = "edges",
                 .shape = {10, 10},
                 .chunk = {4, 4},
                 .filters = parse_filters("gzip:4", 1),
                 .unfiltered_edges = true});
    file.write("edges", patterned_bytes(100, 3));
  }
  for (const char* chunk : {"5", "none"}) {
    const ProgramResult result = repack(
        dir, {"--dataset", "zero", "flat", "sparse", "--chunk", chunk, "--maxshape", "fixed", "--force"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const char* name : {"sparse", "edges"}) {
      EXPECT_EQ(read_through_libhdf5(dir / "b.h5", name), read_through_libhdf5(dir / "a.h5", name))
          << name << chunk;
    }
    EXPECT_THAT(info_of(dir, "b.h5", "zero").shape, ElementsAre(0, 4));
    EXPECT_THAT(info_of(dir, "b.h5", "flat").shape, ElementsAre(10, 0, 3));
  }
  ASSERT_EQ(repack(dir, {"--dataset", "sparse", "--chunk", "5", "--force"}).exit_code, 0);
  // Ten rows were allocated, as two chunks of five.
  EXPECT_EQ(info_of(dir, "b.h5", "sparse").stored_bytes, 1000U);
  // One row brings a whole chunk, and the estimate knows it.
  const ProgramResult large =
      repack(dir, {"--dataset", "sparse", "--chunk", "500", "--force", "--dry-run", "--json"});
  ASSERT_EQ(large.exit_code, 0) << large.err;
  EXPECT_GE(Json::parse(large.out).at("estimate").at("bytes_out"), 50'000);
  ASSERT_EQ(repack(dir, {"--dataset", "edges", "--libver", "latest", "--force"}).exit_code, 0);
  EXPECT_TRUE(info_of(dir, "b.h5", "edges").unfiltered_edge_chunks);
  EXPECT_EQ(read_through_libhdf5(dir / "b.h5", "edges"), patterned_bytes(100, 3));
}

// Rows of a dataset in the order that `at` gives.
std::vector<std::byte> reordered(const std::vector<std::byte>& values, const Permutation& order,
                                 std::uint64_t rows) {
  const std::size_t row_bytes = values.size() / rows;
  std::vector<std::byte> result(values.size());
  for (std::uint64_t i = 0; i < rows; ++i) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(order.at(i) * row_bytes), row_bytes,
                result.begin() + static_cast<std::ptrdiff_t>(i * row_bytes));
  }
  return result;
}

TEST(Repack, shuffles_the_rows_of_data_and_labels_alike) {
  const TempDir dir;
  ASSERT_EQ(
      run_program(dir.path(), {"generate", "a.h5", "--samples", "3001", "--shape", "3,16,16", "--chunk", "7"})
          .exit_code,
      0);
  const Permutation order(3001, mix_key(7, 0, 0));
  // In memory, and through a scratch file.
  for (const char* memory : {"1GiB", "6MiB"}) {
    const ProgramResult result =
        repack(dir, {"--chunk", "50", "--shuffle-rows", "7", "--memory", memory, "--force", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(Json::parse(result.out)["estimate"]["scratch_bytes"], memory[1] == 'G' ? 0 : 3001 * 768);
    for (const char* name : {"images", "labels"}) {
      EXPECT_EQ(decoded(dir, "b.h5", name), reordered(decoded(dir, "a.h5", name), order, 3001)) << name;
    }
    EXPECT_THAT(info_of(dir, "b.h5", "labels").chunk_shape, ElementsAre(3001));
  }
  {
    const Hid file(H5Fopen((dir / "a.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const hsize_t rows = 3001;
    const Hid space(H5Screate_simple(1, &rows, nullptr));
    const Hid names(
        H5Dcreate2(file.get(), "names", H5T_C_S1, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  EXPECT_EQ(repack(dir, {"--shuffle-rows", "7", "--force"}).err,
            "a.h5:/names has as many rows as a dataset to shuffle, but its elements are string, which h5feed "
            "cannot "
            "move; remove it first\n");
}

TEST(Repack, counts_the_places_of_chunks_in_its_memory) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "x", .shape = {200, 100}, .chunk = {1, 1}});
    file.write("x", patterned_bytes(20'000));
  }
  // 20,000 source chunks and two of the target.
  const ProgramResult refused = repack(dir, {"--dataset", "x", "--chunk", "100", "--memory", "800KiB"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err,
            "--memory 800 KiB cannot hold the places of all chunks (469 KiB); give at least 2 MiB\n");
  const ProgramResult done = repack(dir, {"--dataset", "x", "--chunk", "100", "--memory", "16MiB", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GT(Json::parse(done.out)["estimate"]["memory_bytes"], 20'000 * 24);
  EXPECT_EQ(decoded(dir, "b.h5", "x"), decoded(dir, "a.h5", "x"));
}

TEST(Repack, stays_within_its_memory_where_one_row_of_source_chunks_does_not_fit) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "wide.h5", "--samples", "2000", "--shape", "6000", "--dtype",
                                     "f32", "--chunk", "100", "--filter", "none"})
                .exit_code,
            0);
  ASSERT_EQ(run_program(dir.path(), {"repack", "wide.h5", "a.h5", "--dataset", "images", "--chunk", "2000x8",
                                     "--no-verify"})
                .exit_code,
            0);
  const std::uint64_t idle = run_program(dir.path(), {"info", "a.h5"}).peak_rss_bytes;
  const ProgramResult result =
      repack(dir, {"--dataset", "images", "--chunk", "1", "--memory", "16MiB", "--jobs", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["datasets"][0]["decoded_bytes"], 48'000'000);
  EXPECT_LE(json["estimate"]["memory_bytes"], 16 << 20);
  EXPECT_THAT(result.err, ::testing::AnyOf(HasSubstr("scratch file"), HasSubstr("times on average")));
#if !defined(H5FEED_ADDRESS_SANITIZER) && !defined(H5FEED_THREAD_SANITIZER)
  // In addition to --memory, what the allocator keeps for each thread: up to 6 MiB was seen on a busy
  // machine.
  constexpr std::uint64_t kAllocatorBytes = 8 << 20;
  EXPECT_LE(result.peak_rss_bytes, idle + (16 << 20) + kAllocatorBytes);
#else
  EXPECT_GT(idle, 0U);
#endif
  EXPECT_EQ(decoded(dir, "b.h5", "images"), decoded(dir, "wide.h5", "images"));
}

}  // namespace
}  // namespace h5feed::test
