// SPDX-License-Identifier: Apache-2.0
// Files that a SWMR writer has open, in another process: whatever it does, every sample is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/captured_log.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/swmr_writer.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

// Filters of which each keeps a chunk in its place or moves it as it grows, and kinds of chunk indexes.
const SwmrFile kFiles[] = {
    {.filters = {gzip_filter(1)}},
    {.filters = {{.id = 3}}},
    {},
    {.chunk_width = 2, .filters = {{.id = 2, .optional = true}, gzip_filter(4)}},
    {.filters = {gzip_filter(1)}, .unlimited_width = true},
};

constexpr std::size_t kTree = 4;  // The file whose index is a tree; those of the others are extensible arrays

constexpr const char* kRowsLeftOut = "rows are read: a SWMR writer has the file";

struct Case {
  Isolation isolation = Isolation::none;
  std::size_t file = 0;
};

Dataset open_live(const std::filesystem::path& path, Isolation isolation) {
  return Dataset::open({.files = {path},
                        .data = "x",
                        .target = "y",
                        .input_layout = InputLayout::none,
                        .isolation = isolation});
}

// The number of samples in an epoch; fails where one is wrong or comes twice.
std::int64_t checked_samples(const Dataset& dataset, const std::string& shuffle = "full") {
  DataLoader loader(dataset, {.batch_size = 10, .shuffle = shuffle, .num_workers = 2, .cache_bytes = 0});
  std::set<std::int64_t> seen;
  for (const Batch& batch : loader) {
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const std::int64_t row = batch.indices[i];
      const std::vector<std::byte> x = SwmrWriter::x(static_cast<std::uint64_t>(row));
      EXPECT_EQ(std::memcmp(batch.data.bytes.get() + i * x.size(), x.data(), x.size()), 0) << row;
      std::int64_t y = 0;
      std::memcpy(&y, batch.target.bytes.get() + i * sizeof y, sizeof y);
      EXPECT_EQ(y, SwmrWriter::y(static_cast<std::uint64_t>(row)));
      EXPECT_TRUE(seen.insert(row).second) << row;
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(seen.size()), dataset.size());
  return static_cast<std::int64_t>(seen.size());
}

class Swmr : public testing::TestWithParam<Case> {
 protected:
  std::filesystem::path path() const { return dir_ / "live.h5"; }
  const SwmrFile& file() const { return kFiles[GetParam().file]; }

  Dataset open() const { return open_live(path(), GetParam().isolation); }

  TempDir dir_;
  CapturedLog log_;
};

TEST_P(Swmr, the_rows_that_are_flushed_are_read_and_refresh_adds_later_ones) {
  SwmrWriter writer(path(), file());
  std::uint64_t rows = 0;
  writer.append(rows = 5);
  Dataset dataset = open();
  EXPECT_EQ(checked_samples(dataset), 5);
  for (const std::uint64_t more : {1U, 2U, 8U, 60U, 200U}) {
    writer.append(more);
    EXPECT_EQ(checked_samples(dataset), static_cast<std::int64_t>(rows)) << "a snapshot";
    dataset.refresh();
    EXPECT_EQ(checked_samples(dataset), static_cast<std::int64_t>(rows += more));
  }
  writer.close();
  EXPECT_EQ(checked_samples(dataset), static_cast<std::int64_t>(rows));
  dataset.refresh();
  EXPECT_EQ(checked_samples(dataset), static_cast<std::int64_t>(rows));
}

TEST_P(Swmr, an_epoch_is_right_while_the_writer_appends) {
  SwmrWriter writer(path(), file());
  writer.append(40);  // More chunks than a window has
  Dataset dataset = open();
  const std::int64_t first = dataset.size();
  writer.run();
  for (int i = 0; i < 15; ++i) {
    checked_samples(dataset, i % 2 == 0 ? "full" : "chunk:4");
    const std::int64_t before = dataset.size();
    dataset.refresh();
    EXPECT_GE(dataset.size(), before);
  }
  while (dataset.size() == first) dataset.refresh();
  writer.close();
}

TEST_P(Swmr, a_file_whose_writer_was_killed_is_read_as_far_as_it_is_complete) {
  for (int i = 0; i < 3; ++i) {
    std::filesystem::remove(path());
    SwmrWriter writer(path(), file());
    writer.append(20);
    writer.run();
    Dataset dataset = open();
    while (dataset.size() < 40 + 20 * i) dataset.refresh();
    writer.kill();
    dataset.refresh();
    // Killed while it wrote to an index, the writer leaves a part that cannot be read any more.
    if (checked_samples(dataset) < 40 + 20 * i) {
      EXPECT_THAT(log_.warnings(), Contains(HasSubstr(kRowsLeftOut)));
    }
  }
}

TEST_P(Swmr, rows_without_values_are_left_out) {
  SwmrWriter writer(path(), file());
  writer.append(16);
  writer.extend_x(100);
  const Dataset x = Dataset::open(
      {.files = {path()}, .data = "x", .input_layout = InputLayout::none, .isolation = GetParam().isolation});
  EXPECT_EQ(x.size(), 16);
  EXPECT_THAT(log_.warnings(), Contains(HasSubstr("live.h5:/x: 16 of 116 rows are read: a SWMR writer")));
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("live.h5: a SWMR writer has it open")));
  EXPECT_EQ(checked_samples(open()), 16) << "as many as /y has";
}

TEST_P(Swmr, samples_are_the_rows_that_data_and_target_have) {
  SwmrWriter writer(path(), file());
  writer.append(30);
  writer.append_to_x(7);
  EXPECT_EQ(checked_samples(open()), 30);
}

TEST_P(Swmr, samples_behind_links_are_the_rows_that_all_have) {
  SwmrWriter first(dir_ / "a.h5", file());
  SwmrWriter second(dir_ / "b.h5", file());
  const std::filesystem::path master = dir_ / "master.h5";
  {
    const H5TestFile links(master);
    const Hid nested(H5Pcreate(H5P_LINK_CREATE));
    require(H5Pset_create_intermediate_group(nested.get(), 1), "H5Pset_create_intermediate_group");
    for (const auto& [name, to] : {std::pair("demo_0", "a.h5"), std::pair("demo_1", "b.h5")}) {
      for (const char* const what : {"x", "y"}) {
        const std::string path = std::string(name) + '/' + what;
        require(H5Lcreate_external(to, what, links.id(), path.c_str(), nested.get(), H5P_DEFAULT),
                path.c_str());
      }
    }
  }
  Dataset dataset = [&] {
    first.append(20);
    first.append_to_x(3);
    second.append_to_x(4);  // Its part has no common rows yet
    return Dataset::open({.files = {master},
                          .data = "demo_*/x",
                          .target = "demo_*/y",
                          .input_layout = InputLayout::none,
                          .isolation = GetParam().isolation});
  }();
  EXPECT_EQ(checked_samples(dataset), 20);
  first.append(5);
  dataset.refresh();
  EXPECT_EQ(dataset.size(), 25);
}

// Of each kind of index that grows. Each waits until the writer would have written the rest.
class TornIndex : public Swmr {};

TEST_P(TornIndex, does_not_hide_the_rows_before_its_torn_part) {
  constexpr std::int64_t kRows = 900;
  {
    SwmrWriter writer(path(), file());
    writer.append(kRows);
    writer.kill();
  }
  tear_index(path(), GetParam().file == kTree ? "BTLF" : "EADB");
  const std::int64_t samples = checked_samples(open());
  EXPECT_GT(samples, 0);
  EXPECT_LT(samples, kRows);
  EXPECT_THAT(log_.warnings(), Contains(HasSubstr(kRowsLeftOut)));
}

std::vector<Case> cases(const std::vector<std::size_t>& files) {
  std::vector<Case> all;
  for (const std::size_t file : files) {
    for (const Isolation isolation : {Isolation::none, Isolation::process}) all.push_back({isolation, file});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Swmr, testing::ValuesIn(cases({0, 1, 2, 3, kTree})));
INSTANTIATE_TEST_SUITE_P(Kinds, TornIndex, testing::ValuesIn(cases({0, kTree})));

TEST(SwmrFile, the_last_chunk_is_left_out_if_its_checksum_is_of_an_earlier_write) {
  const TempDir dir;
  const CapturedLog log;
  const std::filesystem::path path = dir / "live.h5";
  constexpr std::int64_t kRows = 17;
  SwmrWriter writer(path, kFiles[1]);
  writer.append(kRows);
  writer.kill();
  std::vector<std::byte> bytes = file_bytes(path);
  const std::vector<std::byte> last = SwmrWriter::x(kRows - 1);
  const auto found = std::search(bytes.begin(), bytes.end(), last.begin(), last.end());
  ASSERT_NE(found, bytes.end());
  *found ^= std::byte{0xFF};
  replace_file(path, bytes);
  for (const Isolation isolation : {Isolation::none, Isolation::process})
    EXPECT_EQ(checked_samples(open_live(path, isolation)), 16) << "in whole chunks";
  EXPECT_THAT(log.warnings(), Contains(HasSubstr(kRowsLeftOut)));
}

TEST(SwmrFile, values_of_variable_length_are_refused) {
  const TempDir dir;
  const std::filesystem::path path = dir / "live.h5";
  const Hid ragged(H5Tvlen_create(H5T_STD_U8LE));
  {
    H5TestFile file(path, {.latest = true});
    file.create({.path = "x", .file_type = ragged.get(), .shape = {4}});
  }
  const Hid access(H5Pcreate(H5P_FILE_ACCESS));
  require(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "H5Pset_libver_bounds");
  require(H5Pset_file_locking(access.get(), false, true), "H5Pset_file_locking");
  const Hid writer(H5Fopen(path.c_str(), H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE, access.get()));
  // In this process libhdf5 would give the file that it has open.
  replace_file(dir / "copy.h5", file_bytes(path));
  EXPECT_EQ(
      refusal_in<DatasetError>(dir.path(), [&] { Dataset::open({.files = {dir / "copy.h5"}, .data = "x"}); }),
      "copy.h5:/x: values of variable length cannot be read safely while a SWMR writer has the file open; "
      "read it once the writer has closed it");
}

}  // namespace
}  // namespace h5feed::test
