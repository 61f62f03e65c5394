// SPDX-License-Identifier: Apache-2.0
// Chunk sizes, labels and advice that the program finds for a dataset.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "store/filters/filters.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/storage/image_choice.hpp"
#include "tools/storage/parallel_write.hpp"
#include "tools/storage/recut_plan.hpp"
#include "tools/storage/storage_advice.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::test {
namespace {

using namespace cli;  // NOLINT: this file tests it
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(AutomaticChunks, are_about_a_mebibyte_of_whole_samples_in_round_numbers) {
  EXPECT_EQ(automatic_chunk_rows(60000, 28 * 28), 1000U);
  EXPECT_EQ(automatic_chunk_rows(60000, 3 * 224 * 224), 5U);
  EXPECT_EQ(automatic_chunk_rows(60000, 1), 20000U);
  EXPECT_EQ(automatic_chunk_rows(300, 1), 300U);
  EXPECT_EQ(automatic_chunk_rows(10, 64 * kMiB), 1U);
}

DatasetEntry entry(const std::string& path, std::vector<std::uint64_t> shape, bool numeric = true) {
  return {.path = path, .shape = std::move(shape), .type_text = "u8", .numeric = numeric};
}

TEST(ImageChoice, finds_the_labels_beside_images) {
  const DatasetEntry images = entry("/train/images", {30, 4, 4});
  const auto labels = [&](std::vector<DatasetEntry> others) {
    others.push_back(images);
    return Companions(others).labels(images);
  };
  EXPECT_EQ(labels({entry("/train/ids", {30}), entry("/train/labels", {30})}), "/train/labels");
  EXPECT_EQ(labels({entry("/train/b", {30}), entry("/train/a", {30, 1})}), "/train/b");
  EXPECT_EQ(labels({entry("/test/labels", {30}), entry("/train/labels", {29}), entry("/train/boxes", {30, 4}),
                    entry("/train/names", {30}, false)}),
            "");
  EXPECT_EQ(Companions({}).labels(entry("/train/one_value", {})), "");
}

TEST(ImageChoice, tells_why_labels_are_none) {
  const DatasetEntry images = entry("/train/images", {30, 4, 4});
  const auto why = [&](const DatasetEntry& labels) { return why_no_labels(images, {images, labels}); };
  EXPECT_EQ(why(entry("/train/labels", {29})), "/train/labels has 29 rows, not 30");
  EXPECT_EQ(why(entry("/train/y", {})), "/train/y is a single value");
  EXPECT_EQ(why(entry("/train/targets", {30, 10})),
            "/train/targets has several numbers per row; --target /train/targets delivers them as stored");
  EXPECT_EQ(why(entry("/train/labels", {30}, false)), "/train/labels holds no numbers (u8)");
  for (const DatasetEntry& none :
       {entry("/train/labels", {30}), entry("/test/labels", {29}), entry("/train/ids", {29})})
    EXPECT_EQ(why(none), "") << none.path;
}

DatasetInfo chunked(std::vector<std::uint64_t> shape, std::vector<std::uint64_t> chunk,
                    const std::string& filters = "none") {
  return {.file = "f.h5",
          .path = "/x",
          .shape = std::move(shape),
          .layout = StorageLayout::chunked,
          .chunk_shape = std::move(chunk),
          .filters = parse_filters(filters, 1)};
}

// What is said of a dataset, one line for each mistake.
std::vector<std::string> storage_advice(const DatasetInfo& info) {
  std::vector<std::string> lines;
  for (const StorageFault& fault : storage_faults(info, nullptr)) lines.push_back(fault.line(info));
  return lines;
}

TEST(StorageAdvice, knows_the_chunks_that_h5py_chooses) {
  // h5py 3.7's guess_chunk for these shapes of bytes.
  EXPECT_THAT(h5py_auto_chunk({262144, 96, 96, 3}, 1), ElementsAre(8192, 6, 6, 1));
  EXPECT_THAT(h5py_auto_chunk({202599, 3, 218, 178}, 1), ElementsAre(6332, 1, 7, 6));
  EXPECT_THAT(h5py_auto_chunk({17736, 256, 256, 3}, 1), ElementsAre(555, 16, 16, 1));
  EXPECT_THAT(h5py_auto_chunk({10000, 224, 224, 3}, 4), ElementsAre(313, 14, 14, 1));
  EXPECT_THAT(storage_advice(chunked({262144, 96, 96, 3}, {8192, 6, 6, 1})),
              ElementsAre(HasSubstr("h5py chose these chunks by itself")));
}

TEST(StorageAdvice, names_each_classic_mistake_in_one_sentence) {
  EXPECT_THAT(storage_advice(chunked({300, 100, 100}, {512, 128, 100})),
              ElementsAre(HasSubstr("its chunks (512×128×100) exceed its shape (300×100×100)")));
  EXPECT_THAT(storage_advice(chunked({1001, 100, 100}, {667, 100, 100})),
              ElementsAre(HasSubstr("25 % of its chunks' cells are outside the data")));
  EXPECT_THAT(storage_advice(chunked({60000, 28, 28}, {1, 28, 28})),
              ElementsAre(HasSubstr("one sample of 784 B in each of 60,000 chunks")));
  EXPECT_THAT(storage_advice(chunked({60000, 28, 28}, {60000, 28, 28}, "gzip:4")),
              ElementsAre(HasSubstr("all of it is one compressed chunk of 45 MiB")));
  EXPECT_THAT(storage_advice(chunked({60000, 64, 64}, {6000, 64, 64})),
              ElementsAre(HasSubstr("chunks of 23 MiB make random order and many workers need much memory")));
  DatasetInfo useless = chunked({6000, 64, 64}, {100, 64, 64}, "gzip:4");
  useless.stored_bytes = useless.total_bytes() - 1000;
  EXPECT_THAT(storage_advice(useless),
              ElementsAre(HasSubstr("gzip:4 saves 0.0 % of the space and costs decoding")));
}

TEST(StorageAdvice, recommends_a_repack_only_where_it_works_and_else_what_does) {
  DatasetInfo many = chunked({1'000'000'000, 1, 8, 8}, {1, 1, 8, 8}, "gzip:4");
  const std::vector<std::uint64_t> whole = {10'000, 1, 8, 8};
  const auto cure = [&](std::uint64_t available_bytes) {
    const StorageCure found = storage_cure(many, "more in a chunk", "--chunk auto", whole, available_bytes);
    return found.text + ": " + found.command;
  };
  const std::string repack = "more in a chunk: h5feed repack f.h5 NEW.h5 --dataset /x --chunk auto";
  const std::string anew =
      "out.create_dataset(\"/x\", data=values, chunks=(10000, 1, 8, 8), compression=\"gzip\", "
      "compression_opts=4)  # h5py";
  EXPECT_EQ(cure(kGiB), "nothing is written to it yet: write it with other chunks: " + anew);
  many.stored_bytes = 64;
  EXPECT_EQ(cure(400 * kGiB), repack);
  EXPECT_EQ(cure(100 * kGiB), repack + " --memory 45789MiB");
  EXPECT_TRUE(holds_chunk_tables(45789 * kMiB, chunk_table_bytes(1'000'000'000, 100'000)));
  EXPECT_EQ(
      cure(20 * kGiB),
      "repack would need 45 GiB of memory for the places of its 1,000,000,000 chunks: write it anew with "
      "larger ones: " +
          anew);
}

TEST(StorageAdvice, of_info_names_no_repack_that_is_refused_or_has_nothing_to_do) {
  const TempDir dir;
  const auto advice = [&](std::uint64_t rows, bool written) {
    const std::vector<std::uint64_t> first = {0, 0, 0, 0}, one = {1, 1, 8, 8};
    {
      H5TestFile file(dir / "a.h5");
      file.create({.path = "x", .shape = {rows, 1, 8, 8}, .chunk = one});
      if (written) file.write_box("x", first, one, patterned_bytes(64));
    }
    const ProgramResult result = run_program(dir.path(), {"info", "a.h5", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("datasets")[0].at("advice").dump();
  };
  // A table of its chunks would take 24 TB.
  const std::string endless = advice(1'000'000'000'000, true);
  EXPECT_THAT(endless, Not(HasSubstr("h5feed repack")));
  EXPECT_THAT(endless, HasSubstr("repack would need 44 TiB of memory for the places of its 1,000,000,000,000 "
                                 "chunks: write it anew with larger ones: out.create_dataset("));
  const std::string unwritten = advice(1'000'000'000, false);
  EXPECT_THAT(unwritten, Not(HasSubstr("h5feed repack")));
  EXPECT_THAT(unwritten, HasSubstr("nothing is written to it yet: write it with other chunks: "
                                   "out.create_dataset("));
  EXPECT_THAT(advice(100'000, true), HasSubstr("h5feed repack a.h5 NEW.h5 --dataset /x --chunk auto"));
  EXPECT_EQ(
      run_program(dir.path(), {"repack", "a.h5", "NEW.h5", "--dataset", "/x", "--chunk", "auto"}).exit_code,
      0);
}

TEST(StorageAdvice, says_nothing_of_sound_or_small_data) {
  EXPECT_TRUE(storage_advice(chunked({6000, 64, 64}, {250, 64, 64}, "gzip:4")).empty());
  EXPECT_TRUE(storage_advice(chunked({30, 28, 28}, {1, 28, 28})).empty());
  EXPECT_EQ(padding_share(chunked({100, 10}, {100, 10})), 0);
  EXPECT_DOUBLE_EQ(padding_share(chunked({75, 10}, {50, 10})), 0.25);
}

}  // namespace
}  // namespace h5feed::test
