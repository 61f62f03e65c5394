// SPDX-License-Identifier: Apache-2.0
// Many files as one: lists, patterns, labels elsewhere, files that grow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/files/natural_order.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/error.hpp"
#include "support/files/bytes.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/identity_filter.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loaded_rows.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kRowBytes = 5 * 4;

// Files with rows that go on from one to the next, images of 5×4 and labels.
class ManyFiles {
 public:
  std::filesystem::path add(const std::string& name, std::uint64_t rows, TestDataset storage = {}) {
    const std::filesystem::path path = dir_ / name;
    const std::vector<std::byte> images = test::random_bytes(rows * kRowBytes, seed_);
    const std::vector<std::byte> labels = test::random_bytes(rows, ++seed_);
    H5TestFile file(path);
    storage.path = "images";
    storage.shape = {rows, 5, 4};
    file.create(storage);
    file.create({.path = "labels", .shape = {rows}});
    if (rows > 0) {
      file.write("images", images);
      file.write("labels", labels);
    }
    images_.insert(images_.end(), images.begin(), images.end());
    append_as_labels(labels_, labels);
    files_.push_back(path);
    return path;
  }

  DatasetOptions options() const { return {.files = files_, .data = "images", .target = "labels"}; }
  const std::vector<std::byte>& images() const { return images_; }
  const std::vector<std::byte>& labels() const { return labels_; }
  const TempDir& dir() const { return dir_; }

 private:
  TempDir dir_;
  unsigned seed_ = 0;
  std::vector<std::filesystem::path> files_;
  std::vector<std::byte> images_;
  std::vector<std::byte> labels_;
};

TEST(NaturalOrder, compares_digits_as_numbers) {
  std::vector<std::string> names = {"traj_10", "traj_2",  "traj_1", "traj_02", "b",
                                    "traj_",   "traj_1a", "10",     "9"};
  std::ranges::sort(names, natural_less);
  EXPECT_THAT(names,
              ElementsAre("9", "10", "b", "traj_", "traj_1", "traj_1a", "traj_02", "traj_2", "traj_10"));
}

TEST(FileList, reads_files_of_different_length_and_storage_as_one) {
  ManyFiles many;
  many.add("a.h5", 7, {.chunk = {3, 5, 4}, .filters = {gzip_filter(1)}});
  many.add("b.h5", 1);
  many.add("c.h5", 12, {.chunk = {5, 5, 4}, .filters = {gzip_filter(1)}});
  many.add("d.h5", 0);
  many.add("e.h5", 4, {.chunk = {4, 5, 4}});
  const Dataset dataset = Dataset::open(many.options());
  EXPECT_EQ(dataset.size(), 24);
  EXPECT_TRUE(DatasetAccess::state(dataset)->data.reader->direct());
  EXPECT_EQ(first_difference(dataset, many.images(), many.labels()), "");
}

TEST(FileList, reads_chunks_that_cut_samples_in_some_files_only) {
  ManyFiles many;
  many.add("a.h5", 7, {.chunk = {3, 2, 3}, .filters = {gzip_filter(1)}});
  many.add("b.h5", 5, {.chunk = {2, 5, 4}, .filters = {gzip_filter(1)}});
  EXPECT_EQ(first_difference(Dataset::open(many.options()), many.images(), many.labels()), "");
}

TEST(FileList, reads_chunks_that_cut_samples_in_all_files) {
  ManyFiles many;
  many.add("a.h5", 7, {.chunk = {3, 2, 3}, .filters = {gzip_filter(1)}});
  many.add("b.h5", 5, {.chunk = {2, 2, 3}, .filters = {gzip_filter(1)}});
  EXPECT_EQ(first_difference(Dataset::open(many.options()), many.images(), many.labels()), "");
}

TEST(FileList, reads_files_that_only_libhdf5_can_read) {
  ManyFiles many;
  many.add("a.h5", 7, {.chunk = {3, 5, 4}, .filters = {identity_filter()}});
  many.add("b.h5", 5, {.chunk = {3, 5, 4}, .filters = {gzip_filter(1)}});
  many.add("c.h5", 6, {.chunk = {3, 5, 4}, .filters = {identity_filter()}});
  const Dataset dataset = Dataset::open(many.options());
  EXPECT_FALSE(DatasetAccess::state(dataset)->data.reader->direct());
  EXPECT_EQ(first_difference(dataset, many.images(), many.labels()), "");
}

TEST(FileList, takes_patterns_in_natural_order) {
  ManyFiles many;
  many.add("part_2.h5", 3);
  many.add("part_10.h5", 4);
  many.add("part_100.h5", 2);
  DatasetOptions options = many.options();
  options.files = {many.dir() / "part_*.h5"};
  EXPECT_EQ(first_difference(Dataset::open(options), many.images(), many.labels()), "");
}

TEST(FileList, takes_labels_from_other_files) {
  ManyFiles images;
  images.add("a.h5", 7);
  images.add("b.h5", 5);
  TempDir dir;
  {
    H5TestFile file(dir / "y.h5");
    file.create({.path = "y", .file_type = H5T_STD_I64LE, .shape = {12}});
    file.write("y", images.labels());
  }
  DatasetOptions options = images.options();
  options.target = "y";
  options.target_files = {dir / "y.h5"};
  EXPECT_EQ(first_difference(Dataset::open(options), images.images(), images.labels()), "");
}

TEST(FileList, says_where_a_sample_comes_from) {
  ManyFiles many;
  many.add("a.h5", 7);
  many.add("b.h5", 5);
  const Dataset dataset = Dataset::open(many.options());
  const SampleOrigin origin = dataset.origin(9);
  EXPECT_EQ(origin.file, (many.dir() / "b.h5").string());
  EXPECT_EQ(origin.path, "/images");
  EXPECT_EQ(origin.row, 2);
  EXPECT_THROW(dataset.origin(12), OptionError);
  EXPECT_THROW(dataset.origin(-1), OptionError);
}

TEST(FileList, names_what_does_not_belong) {
  ManyFiles many;
  many.add("a.h5", 7);
  const TempDir& dir = many.dir();
  {
    H5TestFile file(dir / "other.h5");
    file.create({.path = "images", .shape = {3, 6, 4}});
    file.create({.path = "labels", .shape = {3}});
  }
  {
    H5TestFile file(dir / "short.h5");
    file.create({.path = "images", .shape = {3, 5, 4}});
    file.create({.path = "labels", .shape = {2}});
  }
  { const H5TestFile file(dir / "empty.h5"); }
  const auto refuse = [&](const std::string& name) {
    DatasetOptions options = many.options();
    options.files.push_back(dir / name);
    return refusal_in<Error>(dir.path(), [&] { Dataset::open(options); });
  };
  EXPECT_EQ(
      refuse("other.h5"),
      "other.h5:/images is 3×6×4 u8, a.h5:/images is 7×5×4 u8; datasets that are read as one need the "
      "same type and, except for the first dimension, the same shape; leave it out or open it by itself");
  EXPECT_EQ(refuse("short.h5"),
            "short.h5: /labels has 2 rows, /images has 3; a target needs one row per sample");
  EXPECT_EQ(refuse("empty.h5"), "empty.h5: no dataset \"images\"; it has no datasets");
  EXPECT_EQ(refuse("missing.h5"), "missing.h5: no such file; check the path");
  EXPECT_EQ(refuse("x*.h5"), "x*.h5: no file matches; check the folder and pattern");
  DatasetOptions options = many.options();
  options.target_files = {dir / "short.h5"};
  EXPECT_EQ(refusal_in<Error>(dir.path(), [&] { Dataset::open(options); }),
            "short.h5: /labels has 2 rows, /images has 7; a target needs one row per sample");
  options.target.clear();
  EXPECT_THAT(refusal_in<Error>(dir.path(), [&] { Dataset::open(options); }),
              StartsWith("target_files are given without target"));
}

TEST(FileList, names_the_file_whose_chunk_is_corrupt) {
  ManyFiles many;
  many.add("a.h5", 6, {.chunk = {3, 5, 4}, .filters = {gzip_filter(1)}});
  const auto path = many.add("b.h5", 6, {.chunk = {3, 5, 4}, .filters = {{.id = 3}}});
  std::vector<std::byte> bytes = test::file_bytes(path);
  // The last row of b.h5 is the last of all.
  const auto row =
      std::search(bytes.begin(), bytes.end(), many.images().end() - kRowBytes, many.images().end());
  ASSERT_NE(row, bytes.end());
  *row ^= std::byte{1};
  test::replace_file(path, bytes);
  EXPECT_THAT(
      refusal_in<Error>(many.dir().path(), [&] { test::load_rows(Dataset::open(many.options()), {}); }),
      StartsWith("b.h5:/images: chunk (1,0,0) (samples 3-5) is corrupt"));
}

TEST(GrowingFile, is_a_snapshot_until_refresh) {
  TempDir dir;
  const std::filesystem::path path = dir / "grow.h5";
  const std::vector<std::byte> rows = test::random_bytes(60 * kRowBytes);
  H5TestFile file(path);
  file.create({.path = "x",
               .shape = {0, 5, 4},
               .max_shape = {~std::uint64_t{0}, 5, 4},
               .chunk = {8, 5, 4},
               .filters = {gzip_filter(1)}});
  const auto append = [&](std::uint64_t from, std::uint64_t to) {
    const std::uint64_t extent[] = {to, 5, 4};
    const std::uint64_t start[] = {from, 0, 0};
    const std::uint64_t count[] = {to - from, 5, 4};
    file.set_extent("x", extent);
    file.write_box("x", start, count, std::span(rows).subspan(from * kRowBytes, (to - from) * kRowBytes));
    test::require(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), "H5Fflush");
  };
  append(0, 24);
  Dataset dataset = Dataset::open({.files = {path}, .data = "x"});
  DataLoader old(dataset, {.batch_size = 10, .shuffle = true, .cache_bytes = 0});
  append(24, 40);
  // The writer still holds the file, which has other bytes by now.
  EXPECT_EQ(dataset.size(), 24);
  std::int64_t samples = 0;
  for (const Batch& batch : old) {
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const auto row = static_cast<std::size_t>(batch.indices[i]);
      EXPECT_EQ(std::memcmp(batch.data.bytes.get() + i * kRowBytes, rows.data() + row * kRowBytes, kRowBytes),
                0);
      ++samples;
    }
  }
  EXPECT_EQ(samples, 24);
  const Dataset part = dataset.subset(std::vector<std::int64_t>{3, 20});
  dataset.refresh();
  EXPECT_EQ(dataset.size(), 40);
  EXPECT_EQ(first_difference(dataset, {rows.begin(), rows.begin() + 40 * kRowBytes}), "");
  Dataset chosen = part;
  chosen.refresh();
  EXPECT_EQ(chosen.size(), 2);
  append(40, 60);
  dataset.refresh();
  EXPECT_EQ(first_difference(dataset, rows), "");
}

TEST(GrowingFile, brings_new_files_of_a_pattern) {
  ManyFiles many;
  many.add("1.h5", 3);
  DatasetOptions options = many.options();
  options.files = {many.dir() / "*.h5"};
  Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.size(), 3);
  many.add("2.h5", 4);
  EXPECT_EQ(dataset.size(), 3);
  dataset.refresh();
  EXPECT_EQ(first_difference(dataset, many.images(), many.labels()), "");
}

TEST(GrowingFile, refuses_a_subset_whose_samples_have_other_numbers) {
  ManyFiles many;
  many.add("1.h5", 3);
  many.add("3.h5", 4);
  DatasetOptions options = many.options();
  options.files = {many.dir() / "*.h5"};
  const Dataset dataset = Dataset::open(options);
  Dataset before = dataset.subset(std::vector<std::int64_t>{0, 2});
  Dataset behind = dataset.subset(std::vector<std::int64_t>{0, 5});
  many.add("2.h5", 2);
  before.refresh();
  EXPECT_EQ(before.size(), 2);
  EXPECT_EQ(refusal_in<DatasetError>(many.dir().path(), [&] { behind.refresh(); }),
            "1.h5 and 2 more files: samples were added before some of the subset: its sample 5 was row 2 of "
            "3.h5:/images, and is row 0 of 3.h5:/images now; choose it again");
  EXPECT_EQ(behind.origin(5).row, 2) << "unchanged";
}

}  // namespace
}  // namespace h5feed::test
