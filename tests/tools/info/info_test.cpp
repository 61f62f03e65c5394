// SPDX-License-Identifier: Apache-2.0
// h5feed info: table, JSON and exports of files of known layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files/storage_kind.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/measure/sample_cost.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// Images and labels as a training file has them, a contiguous table, and a text.
void write_mixed_file(const std::filesystem::path& path) {
  H5TestFile file(path);
  file.create({.path = "images", .shape = {20, 3, 8, 6}, .chunk = {8, 3, 8, 6}});
  file.write("images", patterned_bytes(20 * 3 * 8 * 6));
  file.create({.path = "labels", .file_type = H5T_STD_I64LE, .shape = {20}});
  file.write("labels", patterned_bytes(20 * 8));
  const Hid text(H5Tcopy(H5T_C_S1));
  file.create({.path = "note", .file_type = text.get(), .shape = {1}});
}

TEST(Info, prints_an_aligned_table_and_the_geometry_of_images) {
  const TempDir dir;
  write_mixed_file(dir / "m.h5");
  const ProgramResult result = run_program(dir.path(), {"info", "m.h5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto first_line = result.out.find('\n');
  EXPECT_THAT(result.out.substr(0, first_line),
              ::testing::MatchesRegex("m.h5: .* KiB, 3 datasets, on [a-z0-9.]+"));
  EXPECT_EQ(
      result.out.substr(first_line + 1),
      "\n"
      "dataset  shape     type    layout      chunks         filters   stored  decoded  ratio  read path\n"
      "/images  20×3×8×6  u8      chunked     3 × (8×3×8×6)  none     3.4 KiB  2.8 KiB   0.83  direct\n"
      "/labels  20        i64     contiguous  -              none       160 B    160 B   1.00  direct\n"
      "/note    1         string  -           -              -              -        -      -  not numeric\n"
      "\n"
      "/images: 20 images of 3×8×6 u8 (stored NCHW), 144 B each\n"
      "\n"
      "20 images: --data /images --target /labels\n");
  EXPECT_EQ(run_program(dir.path(), {"m.h5"}).out, result.out) << "h5feed FILE is h5feed info FILE";
}

TEST(Info, names_the_file_system) {
  const TempDir dir;
  write_mixed_file(dir / "m.h5");
  const StorageKind storage = storage_kind(dir / "m.h5");
  const ProgramResult table = run_program(dir.path(), {"info", "m.h5"});
  EXPECT_THAT(table.out.substr(0, table.out.find('\n')), HasSubstr(", on " + storage.name));
  const Json json = Json::parse(run_program(dir.path(), {"info", "m.h5", "--json"}).out);
  EXPECT_EQ(json["storage"], Json({{"name", storage.name}, {"remote", storage.remote}}));
}

TEST(Info, prints_the_same_as_json) {
  const TempDir dir;
  write_mixed_file(dir / "m.h5");
  const ProgramResult result = run_program(dir.path(), {"info", "m.h5", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("file"), "m.h5");
  EXPECT_EQ(json.at("file_bytes"), std::filesystem::file_size(dir / "m.h5"));
  EXPECT_EQ(json.at("datasets").size(), 3U);
  EXPECT_EQ(json.at("datasets")[0], Json::parse(R"({
    "path": "/images", "shape": [20, 3, 8, 6], "type": "u8", "numeric": true, "layout": "chunked",
    "chunk_shape": [8, 3, 8, 6], "chunks": 3, "filters": "none", "stored_bytes": 3456, "logical_bytes": 2880,
    "ratio": 0.8333333333333334, "chunks_per_sample": 1, "decoded_per_wanted_random": 8.0,
    "decoded_per_wanted_epoch": 1.2, "index": "B-tree v1", "padding_share": 0.16666666666666663,
    "forecast": null, "advice": [], "read_path": "direct", "fallback_reason": null,
    "samples": {"count": 20, "layout": "NCHW", "shape": [3, 8, 6], "bytes": 144}})"));
  EXPECT_EQ(json.at("datasets")[1].at("samples"), nullptr);
  EXPECT_EQ(json.at("datasets")[2].at("numeric"), false);
}

TEST(Info, shows_one_dataset_on_request_and_names_the_others_where_it_is_missing) {
  const TempDir dir;
  write_mixed_file(dir / "m.h5");
  const ProgramResult one = run_program(dir.path(), {"info", "m.h5", "--data", "labels", "--json"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(Json::parse(one.out).at("datasets").size(), 1U);

  const ProgramResult missing = run_program(dir.path(), {"info", "m.h5", "--data", "imgs"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.out, "");
  EXPECT_THAT(missing.err,
              ::testing::StartsWith("m.h5: no dataset \"imgs\"; it has /images (20×3×8×6 u8), "));
  EXPECT_THAT(missing.err, ::testing::EndsWith(". Try --data images\n"));
}

TEST(Info, shows_a_dataset_under_the_name_it_was_asked_for) {
  const TempDir dir;
  {
    H5TestFile file(dir / "n.h5");
    file.create({.path = "a_first_name", .shape = {5, 3, 8, 8}});
    require(H5Lcreate_hard(file.id(), "a_first_name", file.id(), "images", H5P_DEFAULT, H5P_DEFAULT), "link");
    require(H5Lcreate_soft("/a_first_name", file.id(), "soft", H5P_DEFAULT, H5P_DEFAULT), "link");
  }
  for (const std::string name : {"a_first_name", "images", "soft"}) {
    const ProgramResult result = run_program(dir.path(), {"info", "n.h5", "--data", name, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json datasets = Json::parse(result.out).at("datasets");
    ASSERT_EQ(datasets.size(), 1U) << name;
    EXPECT_EQ(datasets[0].at("path"), "/" + name);
  }
}

TEST(Info, says_which_options_read_the_samples) {
  const TempDir dir;
  {
    H5TestFile file(dir / "demo.h5");
    for (const char* const name :
         {"data", "data/demo_0", "data/demo_0/obs", "data/demo_1", "data/demo_1/obs"})
      const Hid group(H5Gcreate2(file.id(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    file.create({.path = "data/demo_0/obs/image", .shape = {5, 8, 8, 3}});
    file.create({.path = "data/demo_1/obs/image", .shape = {7, 8, 8, 3}});
    file.create({.path = "data/demo_0/rewards", .file_type = H5T_IEEE_F64LE, .shape = {5}});
    file.create({.path = "data/demo_1/rewards", .file_type = H5T_IEEE_F64LE, .shape = {7}});
    const Hid ragged(H5Tvlen_create(H5T_STD_U8LE));
    file.create({.path = "encoded_images", .file_type = ragged.get(), .shape = {40}});
    file.create({.path = "encoded_images_shapes", .file_type = H5T_STD_I32LE, .shape = {40, 3}});
    file.create({.path = "targets", .file_type = H5T_STD_I16LE, .shape = {40, 1}});
  }
  const ProgramResult result = run_program(dir.path(), {"info", "demo.h5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      HasSubstr("\n40 images of variable length: --data /encoded_images --target /targets --image-shapes "
                "/encoded_images_shapes (and --image-size HEIGHTxWIDTH where they differ in size)\n"));
  EXPECT_THAT(result.out, HasSubstr("\n2 groups, 12 samples: --data '/data/*/obs/image' --target "
                                    "'/data/*/rewards'\n"));
  const Json json = Json::parse(run_program(dir.path(), {"info", "demo.h5", "--json"}).out);
  EXPECT_EQ(json.at("reads_as")[1],
            Json::parse(R"({"what": "2 groups, 12 samples", "data": "/data/*/obs/image",
    "target": "/data/*/rewards", "note": null})"));
}

TEST(Info, tells_why_labels_are_no_target) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "images", .shape = {10, 3, 8, 8}});
    file.create({.path = "labels", .shape = {9}});
  }
  EXPECT_THAT(run_program(dir.path(), {"info", "a.h5"}).out,
              HasSubstr("\n10 images: --data /images; no target: /labels has 9 rows, not 10\n"));
  const Json json = Json::parse(run_program(dir.path(), {"info", "a.h5", "--json"}).out);
  EXPECT_EQ(json.at("reads_as")[0].at("no_target"), "/labels has 9 rows, not 10");
}

TEST(Info, says_which_types_of_numbers_it_cannot_read) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "images", .shape = {10, 3, 8, 8}});
    file.create({.path = "labels", .file_type = H5T_NATIVE_LDOUBLE, .shape = {10}});
  }
  const ProgramResult result = run_program(dir.path(), {"info", "a.h5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("  type cannot be read\n"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("not numeric")));
  EXPECT_THAT(result.out,
              HasSubstr("\n10 images: --data /images; no target: /labels is of a type that h5feed "
                        "cannot read (long double (80-bit floats))\n"));
  EXPECT_THAT(result.out,
              HasSubstr("\n/labels: h5feed cannot read its type, long double (80-bit floats); store "
                        "it as f32, f64 or an integer of 8, 16, 32 or 64 bits\n"));
}

TEST(Info, suggests_no_command_for_what_cannot_be_read) {
  const TempDir dir;
  constexpr unsigned kNobodysFilter = 32999;
  {
    H5TestFile file(dir / "a.h5");
    // In pieces, so that repack would be advised if it could be read.
    file.create({.path = "images",
                 .shape = {100, 3, 64, 64},
                 .chunk = {10, 1, 8, 8},
                 .filters = {{.id = kNobodysFilter, .optional = true}}});
    file.write_chunk("images", std::vector<std::uint64_t>{0, 0, 0, 0}, patterned_bytes(640));
    file.create({.path = "small/images", .shape = {10, 3, 8, 8}});
  }
  const ProgramResult result = run_program(dir.path(), {"info", "a.h5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("  cannot be read\n"));
  EXPECT_THAT(result.out, HasSubstr("\n10 images: --data /small/images\n"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("--data /images")));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("--dataset /images")));
  const Json json = Json::parse(run_program(dir.path(), {"info", "a.h5", "--json"}).out);
  EXPECT_EQ(json.at("reads_as").size(), 1U);
  EXPECT_EQ(json.at("datasets")[0].at("advice"), Json::array());
}

TEST(Info, quotes_the_paths_of_its_options_for_a_shell) {
  const TempDir dir;
  H5TestFile(dir / "space.h5").create({.path = "my images", .shape = {10, 3, 8, 8}});
  EXPECT_THAT(run_program(dir.path(), {"info", "space.h5"}).out, HasSubstr(": --data '/my images'\n"));
  H5TestFile(dir / "quote.h5").create({.path = "a'\x1b[1m", .shape = {10, 3, 8, 8}});
  EXPECT_THAT(run_program(dir.path(), {"info", "quote.h5"}).out, HasSubstr(R"(: --data $'/a\'\x1b[1m')"
                                                                           "\n"));
}

TEST(Info, ends_soon_where_a_dataset_has_more_chunks_than_can_be_counted) {
  const TempDir dir;
  H5TestFile(dir / "a.h5").create({.path = "x", .shape = {1ULL << 40, 4}, .chunk = {1, 4}});
  const ProgramResult result =
      run_program(dir.path(), {"info", "a.h5"}, {.timeout = std::chrono::seconds(60)});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1,099,511,627,776 × (1×4)"));
}

TEST(Info, tells_groups_of_a_sample_from_groups_of_many_samples) {
  const TempDir dir;
  {
    H5TestFile file(dir / "index.h5");
    for (const char* const name : {"0", "1", "2"}) {
      const Hid group(H5Gcreate2(file.id(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      file.create({.path = std::string(name) + "/data", .file_type = H5T_IEEE_F32LE, .shape = {4, 6}});
      file.create({.path = std::string(name) + "/target", .file_type = H5T_STD_I64LE});
    }
  }
  EXPECT_THAT(run_program(dir.path(), {"info", "index.h5"}).out,
              HasSubstr("\n3 groups, 3 samples: --data '/*/data' --target '/*/target' --sample dataset "
                        "--input-layout none\n"));
}

TEST(Info, says_how_rows_of_numbers_and_single_images_are_read) {
  const TempDir dir;
  {
    H5TestFile rows(dir / "rows.h5");
    rows.create({.path = "train", .file_type = H5T_IEEE_F32LE, .shape = {90, 25}});
    rows.create({.path = "label", .file_type = H5T_STD_I64LE, .shape = {90}});
    H5TestFile depth(dir / "depth.h5");
    depth.create({.path = "rgb", .shape = {3, 40, 50}});
    depth.create({.path = "depth", .file_type = H5T_IEEE_F32LE, .shape = {40, 50}});
    H5TestFile slide(dir / "slide.h5");
    slide.create({.path = "slide", .shape = {700, 800, 3}});
  }
  EXPECT_THAT(run_program(dir.path(), {"info", "rows.h5"}).out,
              HasSubstr("\n90 samples of 25: --data /train --target /label\n"));
  const std::string depth = run_program(dir.path(), {"info", "depth.h5"}).out;
  EXPECT_THAT(depth, HasSubstr("\none image of 40×50 in a file: --data /rgb --target /depth --sample dataset "
                               "--input-layout NCHW\n"));
  EXPECT_THAT(depth, ::testing::Not(::testing::AnyOf(HasSubstr("\n3 images: "), HasSubstr("40 samples"))));
  const std::string slide = run_program(dir.path(), {"info", "slide.h5"}).out;
  EXPECT_THAT(slide, HasSubstr("\none image of 700×800 in a file: --data /slide --sample dataset "
                               "--input-layout NHWC\n"));
  EXPECT_THAT(slide, HasSubstr("\n700 images: --data /slide\n"));
}

TEST(Info, leaves_out_of_its_patterns_what_does_not_fit) {
  const TempDir dir;
  {
    H5TestFile file(dir / "demo.h5");
    for (const char* const name : {"data", "data/demo_0", "data/demo_1", "data/other"})
      const Hid group(H5Gcreate2(file.id(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    file.create({.path = "data/demo_0/rgb", .shape = {5, 8, 8, 3}});
    file.create({.path = "data/demo_1/rgb", .shape = {7, 8, 8, 3}});
    for (const char* const name : {"data/demo_0/lab", "data/demo_1/lab", "data/other/x"})
      file.create({.path = name, .file_type = H5T_STD_I64LE});
  }
  EXPECT_THAT(run_program(dir.path(), {"info", "demo.h5"}).out,
              HasSubstr("\n2 groups, 12 samples: --data '/data/demo_*/rgb'\n"));
}

TEST(Info, says_that_large_images_are_read_in_tiles) {
  const TempDir dir;
  {
    H5TestFile file(dir / "slides.h5");
    file.create({.path = "slides", .shape = {3, 2500, 2600, 3}, .chunk = {1, 256, 256, 3}});
    file.create({.path = "stage", .file_type = H5T_STD_I64LE, .shape = {3}});
  }
  const ProgramResult result = run_program(dir.path(), {"info", "slides.h5"});
  EXPECT_THAT(result.out, HasSubstr("\n3 images: --data /slides"));
  EXPECT_THAT(result.out, HasSubstr("\ntiles of 3 images: --data /slides"));
  EXPECT_THAT(result.out, HasSubstr(" --tile-size 512\n"));
  const Json json = Json::parse(run_program(dir.path(), {"info", "slides.h5", "--json"}).out);
  EXPECT_EQ(json.at("reads_as")[1].at("tile_size"), 512);
}

TEST(Info, exports_its_table) {
  const TempDir dir;
  write_mixed_file(dir / "m.h5");
  ASSERT_EQ(run_program(dir.path(), {"info", "m.h5", "--export-csv", "t.csv", "--export-markdown", "t.md",
                                     "--export-json", "t.json"})
                .exit_code,
            0);
  const auto text = [&](const std::string& name) {
    const auto bytes = file_bytes(dir / name);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_THAT(text("t.csv"), HasSubstr("\n/labels,20,i64,contiguous,-,none,160 B,160 B,1.00,direct\n"));
  EXPECT_THAT(
      text("t.md"),
      HasSubstr("\n| /labels | 20 | i64 | contiguous | - | none | 160 B | 160 B | 1.00 | direct |\n"));
  EXPECT_EQ(Json::parse(text("t.json")).at("datasets").size(), 3U);
  EXPECT_THAT(names_in(dir.path()), ::testing::ElementsAre("m.h5", "t.csv", "t.json", "t.md"));
}

TEST(Info, warns_where_samples_span_several_chunks_and_says_what_to_do) {
  const TempDir dir;
  {
    H5TestFile file(dir / "w.h5");
    // CelebA as some tools store it: one line of pixels lies in a second chunk.
    file.create({.path = "celeba", .shape = {1000, 3, 218, 178}, .chunk = {100, 3, 217, 178}});
    // As h5py chunks (17736,96,96,3) when it is not told how.
    file.create({.path = "galaxies", .shape = {17736, 96, 96, 3}, .chunk = {1110, 12, 12, 1}});
    file.create({.path = "aligned", .shape = {1000, 3, 64, 64}, .chunk = {100, 3, 64, 64}});
    file.create({.path = "labels", .shape = {1000}, .chunk = {100}});
  }
  const ProgramResult result = run_program(dir.path(), {"info", "w.h5"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      ::testing::EndsWith(
          "\n\n"
          "/celeba: each sample spans 2 chunks of 11 MiB: a random sample decodes 199 bytes per byte "
          "wanted, whole epochs in chunk order 1.99 with a cache of at least 22 MiB; write it once with "
          "whole samples in a chunk: h5feed repack w.h5 NEW.h5 --dataset /celeba --chunk auto\n"
          "/galaxies: each sample spans 192 chunks of 156 KiB: a random sample decodes 1,110 bytes per "
          "byte wanted, whole epochs in chunk order 1 with a cache of at least 29 MiB; write it once with "
          "whole samples in a chunk: h5feed repack w.h5 NEW.h5 --dataset /galaxies --chunk auto\n"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("/aligned: each")));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("/labels: each")));

  const Json datasets = Json::parse(run_program(dir.path(), {"info", "w.h5", "--json"}).out).at("datasets");
  const auto dataset = [&](const std::string& path) {
    return *std::find_if(datasets.begin(), datasets.end(),
                         [&](const Json& one) { return one.at("path") == path; });
  };
  EXPECT_EQ(dataset("/celeba").at("chunks_per_sample"), 2);
  EXPECT_NEAR(dataset("/celeba").at("decoded_per_wanted_random"), 2 * 100 * 217.0 / 218, 1e-9);
  EXPECT_NEAR(dataset("/celeba").at("decoded_per_wanted_epoch"), 2 * 217.0 / 218, 1e-9);
  EXPECT_EQ(dataset("/galaxies").at("chunks_per_sample"), 8 * 8 * 3);
  EXPECT_EQ(dataset("/aligned").at("chunks_per_sample"), 1);
  EXPECT_EQ(dataset("/aligned").at("decoded_per_wanted_epoch"), 1.0);
}

TEST(Info, counts_what_the_facts_count) {
  // Shapes and h5py's own chunks of well-known sets, with chunks touched and bytes decoded per byte wanted.
  struct Known {
    std::vector<std::uint64_t> shape, chunk;
    std::uint64_t chunks;
    double decoded;
  };
  for (const Known& known : {Known{{262144, 96, 96, 3}, {8192, 6, 6, 1}, 768, 8192},
                             Known{{202599, 3, 218, 178}, {6332, 1, 7, 6}, 2880, 6579},
                             Known{{1281167, 3, 128, 128}, {40037, 1, 4, 4}, 3072, 40037},
                             Known{{50000, 3, 32, 32}, {6250, 1, 4, 4}, 192, 6250}}) {
    DatasetInfo info{.shape = known.shape, .layout = StorageLayout::chunked, .chunk_shape = known.chunk};
    const auto cost = cli::sample_cost(info);
    ASSERT_TRUE(cost);
    EXPECT_EQ(cost->chunks_per_sample, known.chunks);
    EXPECT_NEAR(cost->decoded_per_wanted_random, known.decoded, 0.5);
  }
  EXPECT_FALSE(cli::sample_cost({.shape = {100, 4}}));
}

TEST(Info, tells_what_libhdf5_has_to_read_and_why) {
  const TempDir dir;
  {
    H5TestFile file(dir / "e.h5");
    file.create_converted("x", {64}, patterned_bytes(64));
  }
  const ProgramResult result = run_program(dir.path(), {"info", "e.h5", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Json dataset = Json::parse(result.out).at("datasets")[0];
  EXPECT_EQ(dataset.at("layout"), "virtual");
  EXPECT_EQ(dataset.at("read_path"), "fallback");
  EXPECT_NE(dataset.at("fallback_reason"), "");
}

}  // namespace
}  // namespace h5feed::test
