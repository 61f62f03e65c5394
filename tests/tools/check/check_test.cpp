// SPDX-License-Identifier: Apache-2.0
// h5feed check: equal values have equal digests, and every kind of difference is found and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "store/filters/filters.hpp"
#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/check/dataset.hpp"
#include "tools/check/report.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/sha256.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

std::string digest_of(std::span<const std::byte> bytes) {
  cli::Sha256 sha256;
  sha256.update(bytes);
  return sha256.finish();
}

Json check_json(const TempDir& dir, const std::vector<std::string>& options, int exit_code = 0) {
  std::vector<std::string> arguments = {"check", "a.h5", "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const ProgramResult result = run_program(dir.path(), arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  return Json::parse(result.out);
}

// Inverts one byte of what is read at `offset`.
class FlippingSource final : public ByteSource {
 public:
  FlippingSource(std::shared_ptr<const ByteSource> source, std::vector<std::uint64_t> offsets)
      : source_(std::move(source)), offsets_(std::move(offsets)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    source_->read(offset, out);
    for (const std::uint64_t flipped : offsets_) {
      if (flipped >= offset && flipped - offset < out.size()) out[flipped - offset] ^= std::byte{0xff};
    }
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
  const std::vector<std::uint64_t> offsets_;
};

TEST(Sha256, is_the_standards_digest) {
  // FIPS 180-4's example "abc", in two pieces.
  const std::string text = "abc";
  cli::Sha256 sha256;
  sha256.update(std::as_bytes(std::span(text).first(1)));
  sha256.update(std::as_bytes(std::span(text).subspan(1)));
  EXPECT_EQ(sha256.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Check, gives_equal_values_equal_digests_whatever_their_storage) {
  const TempDir dir;
  const std::vector<std::byte> values = patterned_bytes(std::size_t{23} * 6 * 5 * 4);
  const std::vector<std::uint64_t> shape = {23, 6, 5};
  {
    H5TestFile file(dir / "a.h5");
    const std::vector<TestDataset> storages = {
        {.path = "contiguous", .file_type = H5T_STD_I32LE, .shape = shape},
        {.path = "big_endian", .file_type = H5T_STD_I32BE, .shape = shape},
        {.path = "compact", .file_type = H5T_STD_I32LE, .shape = shape, .compact = true},
        {.path = "rows",
         .file_type = H5T_STD_I32LE,
         .shape = shape,
         .chunk = {4, 6, 5},
         .filters = parse_filters("shuffle+gzip:4+fletcher32", 4)},
        {.path = "split", .file_type = H5T_STD_I32BE, .shape = shape, .chunk = {7, 4, 3}},
        {.path = "one_row", .file_type = H5T_STD_I32LE, .shape = shape, .chunk = {1, 1, 5}},
        {.path = "one_chunk", .file_type = H5T_STD_I32LE, .shape = shape, .chunk = {23, 6, 5}}};
    for (const TestDataset& storage : storages) {
      file.create(storage);
      file.write(storage.path, values);
    }
    file.create({.path = "flat", .file_type = H5T_STD_I32LE, .shape = {1, 1, 23 * 30}, .chunk = {1, 1, 64}});
    file.write("flat", values);
  }
  const Json json = check_json(dir, {"--jobs", "3"});
  ASSERT_EQ(json.at("datasets").size(), 8U);
  for (const Json& dataset : json.at("datasets")) {
    EXPECT_EQ(dataset.at("result"), "equal") << dataset;
    EXPECT_EQ(dataset.at("read_path"), "direct");
    EXPECT_EQ(dataset.at("chunks_compared"), dataset.at("chunks"));
    EXPECT_EQ(dataset.at("sha256"), digest_of(values)) << dataset.at("path");
  }
}

TEST(Check, digests_scalars_and_datasets_without_elements) {
  const TempDir dir;
  const std::vector<std::byte> value = patterned_bytes(8, 3);
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "empty", .shape = {0, 4}, .max_shape = {~0ULL, 4}, .chunk = {2, 4}});
    file.create({.path = "scalar", .file_type = H5T_IEEE_F64BE});
    file.write("scalar", value);
  }
  const Json json = check_json(dir, {});
  EXPECT_EQ(json.at("datasets")[0].at("sha256"), digest_of({}));
  EXPECT_EQ(json.at("datasets")[1].at("sha256"), digest_of(value));
}

TEST(Check, digests_in_bounded_memory_where_rows_of_chunks_are_large) {
  const TempDir dir;
  const std::vector<std::byte> values = patterned_bytes(std::size_t{50} * 40 * 3);
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "x", .shape = {50, 40, 3}, .chunk = {16, 3, 1}});
    file.write("x", values);
  }
  const auto file = H5File::open(dir / "a.h5");
  const auto reader = open_chunk_reader(file, file->describe("x"));
  // A quarter of the memory is a slab: all 16 rows of a band, 5 of them, 1, and 1 although it is too much.
  for (const std::uint64_t memory_bytes : {1'000'000U, 4U * 5 * 120, 4U * 120, 8U}) {
    std::uint64_t seen_bytes = 0;
    const cli::CheckResult result =
        cli::check_dataset(*file, *reader, {.jobs = 2, .memory_bytes = memory_bytes},
                           [&](std::uint64_t bytes) { seen_bytes += bytes; });
    EXPECT_TRUE(result.clean());
    EXPECT_EQ(result.visited, 4U * 14 * 3) << "a chunk counts once";
    EXPECT_EQ(result.sha256, digest_of(values)) << memory_bytes;
    EXPECT_EQ(seen_bytes > values.size(), memory_bytes < 4 * 16 * 120) << "decoded again for each slab";
  }
}

TEST(Check, names_the_first_difference_and_counts_the_others) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "x", .file_type = H5T_STD_U16LE, .shape = {40, 8}});
    file.write("x", patterned_bytes(40 * 8 * 2));
    file.create({.path = "y", .file_type = H5T_STD_U16LE, .shape = {40, 8}, .chunk = {10, 8}});
    file.write("y", patterned_bytes(40 * 8 * 2));
  }
  const auto file = H5File::open(dir / "a.h5");
  const DatasetInfo x = file->describe("x");
  const std::uint64_t begin = *file->contiguous_offset(x);
  // Bytes of elements (3,2) and (11,7), of samples 3 and 11.
  const auto source = std::make_shared<FlippingSource>(
      file->bytes(), std::vector<std::uint64_t>{begin + (3 * 8 + 2) * 2, begin + (11 * 8 + 7) * 2 + 1});
  const auto reader = open_chunk_reader(file, x, source);
  const cli::CheckSettings settings{.jobs = 2, .memory_bytes = 1'000'000};
  const cli::CheckResult result = cli::check_dataset(*file, *reader, settings, [](std::uint64_t) {});
  EXPECT_FALSE(result.clean());
  EXPECT_EQ(result.differing, 1U);
  EXPECT_EQ(result.sha256, "");
  EXPECT_EQ(result.no_sha256, "not all chunks are equal on both sides");
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0],
              MatchesRegex(
                  ".*a.h5:/x: chunk \\(0,0\\) \\(samples 0-39\\) differs from libhdf5 in samples 3-11: "
                  "element \\(3,2\\) is 0x[0-9a-f]{4}, libhdf5 has 0x[0-9a-f]{4}; report it with this file"));

  // Another byte in each chunk of y, wherever these lie.
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::vector<std::byte> wanted = patterned_bytes(40 * 8 * 2);
    wanted = {wanted.begin() + static_cast<std::ptrdiff_t>(i * 160),
              wanted.begin() + static_cast<std::ptrdiff_t>(i * 160 + 160)};
    const std::vector<std::byte> all = file_bytes(dir / "a.h5");
    auto at = all.begin();
    while ((at = std::search(at, all.end(), wanted.begin(), wanted.end())) != all.end()) {
      offsets.push_back(static_cast<std::uint64_t>(at - all.begin()) + 7);
      ++at;
    }
  }
  const auto chunked =
      open_chunk_reader(file, file->describe("y"), std::make_shared<FlippingSource>(file->bytes(), offsets));
  const cli::CheckResult all = cli::check_dataset(*file, *chunked, settings, [](std::uint64_t) {});
  EXPECT_EQ(all.visited, 4U);
  EXPECT_EQ(all.differing, 4U);
  EXPECT_EQ(all.findings.size(), 4U);
  EXPECT_THAT(all.findings[2],
              HasSubstr("chunk (2,0) (samples 20-29) differs from libhdf5 in samples 20-20"));
}

void write_file_with_corrupt_chunk(const std::filesystem::path& path) {
  H5TestFile file(path);
  file.create({.path = "bad",
               .shape = {8, 4, 4},
               .chunk = {4, 4, 4},
               .filters = parse_filters("gzip:4+fletcher32", 1)});
  file.write("bad", patterned_bytes(8 * 16));
  file.write_chunk("bad", std::vector<std::uint64_t>{4, 0, 0}, random_bytes(30));
  file.create({.path = "good", .shape = {30}});
  file.write("good", patterned_bytes(30));
}

// What libhdf5 lacks depends on the machine's plugins; healthy data is no failure either way.
TEST(Check, reads_alone_what_libhdf5_has_no_filter_for) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "40", "--shape", "3,8,8", "--chunk",
                                     "10", "--filter", "zstd"})
                .exit_code,
            0);
  const bool both = libhdf5_has_filter(filter_id::kZstd);
  const Json json = check_json(dir, {}, 0);
  const Json& images = json.at("datasets")[0];
  EXPECT_EQ(images.at("result"), both ? "equal" : "h5feed only, not compared");
  EXPECT_EQ(images.at("chunks_compared"), both ? 4 : 0);
  EXPECT_EQ(images.at("not_compared"), both ? Json() : Json("libhdf5 has no filter 32015 (zstd)"));
  EXPECT_TRUE(images.at("sha256").is_string());
}

TEST(Check, goes_on_behind_a_corrupt_chunk_and_fails) {
  const TempDir dir;
  write_file_with_corrupt_chunk(dir / "a.h5");
  const ProgramResult result = run_program(dir.path(), {"check", "a.h5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("\na.h5:/bad: chunk (1,0,0) (samples 4-7) is corrupt: "));
  EXPECT_THAT(result.err, HasSubstr("\na.h5:/bad: 1 corrupt of 2 compared chunks\n"));
  EXPECT_THAT(result.out, HasSubstr("\n/bad "));
  EXPECT_THAT(result.out, HasSubstr("  1 corrupt  "));
  EXPECT_THAT(result.out, HasSubstr(digest_of(patterned_bytes(30))));
  EXPECT_THAT(result.out,
              MatchesRegex("(.*\n)*a.h5: datasets: 1 equal, 1 failed; 3 of 3 chunks compared in [^\n]*\n"));

  const Json json = check_json(dir, {}, 1);
  EXPECT_EQ(json.at("datasets")[0].at("chunks_corrupt"), 1);
  EXPECT_EQ(json.at("datasets")[0].at("sha256"), nullptr);
  EXPECT_EQ(json.at("datasets")[1].at("result"), "equal");
}

TEST(Check, lists_what_it_cannot_compare_and_says_why) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    file.create_converted("converted", {64}, patterned_bytes(64));
    file.create({.path = "labels", .shape = {5}});
    const Hid text(H5Tcopy(H5T_C_S1));
    file.create({.path = "note", .file_type = text.get(), .shape = {1}});
    const Hid ragged(H5Tvlen_create(H5T_STD_U8LE));
    file.create({.path = "ragged", .file_type = ragged.get(), .shape = {3}});
  }
  const ProgramResult result = run_program(dir.path(), {"check", "a.h5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("libhdf5 only, not compared    " + digest_of(patterned_bytes(64)) +
                                    "  H5Dread: it is a virtual dataset of sources of another type"));
  EXPECT_THAT(result.out, HasSubstr("not checked: string "));
  EXPECT_THAT(result.out, HasSubstr("not checked: variable-length "));
  EXPECT_THAT(
      result.out,
      MatchesRegex("(.*\n)*a.h5: datasets: 2 equal, 1 read by libhdf5 only, 2 not checked; 2 of 3 chunks "
                   "compared in [^\n]*\n"));
  EXPECT_THAT(result.err,
              MatchesRegex("checking a.h5: 3 numeric datasets, 3 chunks, 197 B decoded, by h5feed "
                           "on [0-9]+ threads? and by libhdf5 on one\n"));
}

TEST(Check, a_sample_says_what_share_it_proves_and_has_no_digest) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "x", .shape = {400, 2}, .chunk = {4, 2}});
  }
  const ProgramResult result = run_program(dir.path(), {"check", "a.h5", "--sample", "10%"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("10 of 100  equal in the sample "));
  EXPECT_THAT(result.out,
              HasSubstr("\na.h5: datasets: 1 equal in the sample; 10 of 100 chunks compared in "));
  EXPECT_THAT(result.out,
              ::testing::EndsWith("; this proves 10 % of the chunks, and the whole has no digest\n"));
  const Json json = check_json(dir, {"--sample", "10%"});
  const Json& x = json.at("datasets")[0];
  EXPECT_EQ(x.at("no_sha256"), "a sample has no digest of the whole");
  EXPECT_EQ(x.at("result"), "partial") << "equal is what is equal as a whole";
  EXPECT_DOUBLE_EQ(x.at("share_compared"), 0.1);
  EXPECT_EQ(json.at("datasets_equal"), 0);
  EXPECT_EQ(json.at("datasets_partial"), 1);
  const Json whole = check_json(dir, {});
  EXPECT_EQ(whole.at("datasets")[0].at("result"), "equal");
  EXPECT_EQ(whole.at("datasets")[0].at("share_compared"), 1);
}

TEST(Check, ends_with_its_time_and_says_what_is_missing) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    // Never written, so it takes no space: hours of fill values.
    file.create({.path = "x", .shape = {1ULL << 30, 1 << 14}});
    file.create({.path = "y", .shape = {10}});
  }
  // Longer again where the machine is too slow to reach a chunk in that time.
  ProgramResult result;
  for (int seconds = 2; seconds < 300; seconds *= 2) {
    result =
        run_program(dir.path(), {"check", "a.h5", "--json", "--time-budget", std::to_string(seconds) + "s"});
    if (result.exit_code == 0) break;
  }
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("datasets_equal"), 0);
  EXPECT_EQ(json.at("datasets_partial"), 1);
  EXPECT_EQ(json.at("datasets_not_reached"), 1);
  EXPECT_EQ(json.at("datasets")[0].at("result"), "partial");
  EXPECT_EQ(json.at("datasets")[0].at("no_sha256"), "time ran out before the last chunk");
  EXPECT_LT(json.at("datasets")[0].at("chunks_compared"), json.at("datasets")[0].at("chunks"));
  EXPECT_EQ(json.at("datasets")[1].at("result"), "not reached");
}

TEST(Check, fails_where_the_time_was_over_before_the_first_chunk) {
  const TempDir dir;
  H5TestFile(dir / "a.h5").create({.path = "x", .shape = {400, 2}, .chunk = {4, 2}});
  const ProgramResult result = run_program(dir.path(), {"check", "a.h5", "--time-budget", "0.000001ms"});
  EXPECT_EQ(result.exit_code, 1) << "nothing is known";
  EXPECT_THAT(
      result.out,
      MatchesRegex("(.*\n)*a.h5: datasets: 1 not reached in time; 0 of 100 chunks compared in [^\n]*; "
                   "partial, time ran out before the first chunk, give a longer --time-budget\n"));
  const Json json = check_json(dir, {"--time-budget", "0.000001ms"}, 1);
  EXPECT_EQ(json.at("datasets")[0].at("result"), "not reached");
  EXPECT_EQ(json.at("datasets")[0].at("share_compared"), 0);
}

TEST(Check, ends_by_ctrl_c_between_two_chunks) {
  const TempDir dir;
  H5TestFile(dir / "a.h5").create({.path = "x", .shape = {1ULL << 30, 1 << 14}});
  Program program(dir.path(), {"check", "a.h5"});
  program.wait_for_stderr_line();
  program.send(SIGINT);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.err,
      MatchesRegex(
          "checking a.h5: [^\n]*; about [0-9,]+ s; --sample or --time-budget checks less\ninterrupted\n"));
}

TEST(Check, refuses_what_it_cannot_find_or_read) {
  const TempDir dir;
  H5TestFile(dir / "a.h5").create({.path = "images", .shape = {10, 4, 4}});
  const auto error = [&](const std::vector<std::string>& arguments, int exit_code) {
    const ProgramResult result = run_program(dir.path(), arguments);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(error({"check", "a.h5", "--data", "imgs"}, 1),
            "a.h5: no dataset \"imgs\"; it has /images (10×4×4 u8). Try --data images\n");
  EXPECT_THAT(error({"check", "missing.h5"}, 1), MatchesRegex("missing.h5: [^\n]*\n"));
  EXPECT_EQ(error({"check", "a.h5", "--sample", "0%"}, 2),
            "--sample \"0%\": give a percentage above 0 and up to 100, such as 1%\n");
  EXPECT_THAT(error({"check", "a.h5", "--jobs", "0"}, 2), MatchesRegex("--jobs \"0\": [^\n]*\n"));
}

TEST(CheckReport, claims_no_proof_where_only_libhdf5_could_read) {
  cli::CheckEntry entry;
  entry.listed.path = "/x";
  entry.info.emplace();
  entry.chunks = 200;
  entry.fallback_reason = "its index is too large";
  entry.result = cli::CheckResult{.chunks = 200, .wanted = 200, .visited = 60};
  EXPECT_THAT(
      cli::check_verdict("a.h5", {entry}, 1),
      HasSubstr("0 of 200 chunks compared in 1.0 s; 30 % of the chunks were read, the others are unchecked"));
  const Json dataset = cli::check_json("a.h5", {entry}, 1, 1).at("datasets")[0];
  EXPECT_EQ(dataset.at("result"), "libhdf5 only, not compared");
  EXPECT_EQ(dataset.at("not_compared"), "only libhdf5 can read it");
}

}  // namespace
}  // namespace h5feed::test
