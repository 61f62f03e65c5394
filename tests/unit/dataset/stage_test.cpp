// SPDX-License-Identifier: Apache-2.0
// Datasets with `stage_dir`, and datasets on network file systems: what is read, and what is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "flow/storage_line.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"
#include "support/captured_log.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/identity_filter.hpp"
#include "support/files/temp_dir.hpp"
#include "support/files/waiting_source.hpp"
#include "support/loaders/loaded_rows.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class StagedFiles : public testing::Test {
 protected:
  StagedFiles() {
    fs::create_directory(local());
    fs::create_directory(dir_ / "far");
  }

  fs::path local() const { return dir_ / "local"; }
  fs::path far(const std::string& name) const { return dir_ / "far" / name; }

  // Copies in the folder of this user.
  int copies() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(local() / ("h5feed-" + std::to_string(::geteuid()))))
      count += entry.path().extension() == ".stage" ? 1 : 0;
    return count;
  }

  std::vector<std::byte> write(const std::string& name, std::uint64_t rows, unsigned seed = 1,
                               bool gzip = true) const {
    H5TestFile file(far(name));
    std::vector<std::byte> values = random_bytes(rows * 20, seed);
    file.create({.shape = {rows, 4, 5},
                 .chunk = {7, 4, 5},
                 .filters = gzip ? std::vector{gzip_filter(1)} : std::vector<FilterSpec>{}});
    file.write("x", values);
    file.create({.path = "y", .shape = {rows}});
    file.write("y", random_bytes(rows, seed + 100));
    return values;
  }

  // Makes the source of a virtual dataset: all rows of /x of `files`, one after the other, from column
  // `first_column` on.
  void make_virtual(const std::string& name, const std::vector<std::string>& files, hsize_t rows_each,
                    hsize_t first_column = 0) const {
    const H5TestFile file(far(name));
    const hsize_t columns = 5 - first_column;
    const hsize_t shape[] = {rows_each * files.size(), 4, columns};
    const Hid space(H5Screate_simple(3, shape, nullptr));
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    for (std::size_t i = 0; i < files.size(); ++i) {
      const hsize_t to_start[] = {i * rows_each, 0, 0}, from_start[] = {0, 0, first_column};
      const hsize_t count[] = {rows_each, 4, columns}, source[] = {rows_each, 4, 5};
      const Hid to(H5Screate_simple(3, shape, nullptr)), from(H5Screate_simple(3, source, nullptr));
      test::require(H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, to_start, nullptr, count, nullptr), "to");
      test::require(H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, from_start, nullptr, count, nullptr),
                    "from");
      test::require(H5Pset_virtual(plist.get(), to.get(), files[i].c_str(), "x", from.get()),
                    "H5Pset_virtual");
    }
    const Hid dataset(
        H5Dcreate2(file.id(), "x", H5T_STD_U8LE, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }

  DatasetOptions options(const std::vector<std::string>& names, const fs::path& stage_dir) const {
    DatasetOptions options{.data = "x", .input_layout = InputLayout::none, .stage_dir = stage_dir};
    for (const std::string& name : names) options.files.push_back(far(name));
    return options;
  }
  Dataset staged(const std::vector<std::string>& names) const {
    return Dataset::open(options(names, local()));
  }

  static std::vector<std::byte> joined(std::vector<std::byte> first, const std::vector<std::byte>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  // Targets of integers are delivered as int64.
  static std::vector<std::byte> as_int64(const std::vector<std::byte>& targets) {
    std::vector<std::byte> wide(targets.size() * 8);
    for (std::size_t i = 0; i < targets.size(); ++i) wide[i * 8] = targets[i];
    return wide;
  }

  // Makes the originals unusable: what is read now is read from the copies.
  void spoil(const std::string& name) const { fs::resize_file(far(name), 10); }

  TempDir dir_;
};

TEST_F(StagedFiles, reads_one_file_from_its_copy) {
  const std::vector<std::byte> values = write("a.h5", 40);
  const Dataset dataset = staged({"a.h5"});
  spoil("a.h5");
  EXPECT_EQ(first_difference(dataset, values), "");
  EXPECT_EQ(copies(), 1);
  EXPECT_EQ(dataset.origin(3).file, far("a.h5").string());
}

TEST_F(StagedFiles, reads_several_files_targets_and_fields_from_their_copies) {
  const std::vector<std::byte> values = joined(write("a.h5", 30, 1), write("b.h5", 20, 2, false));
  write("t.h5", 50, 3);
  DatasetOptions with = options({"*.h5"}, local());
  with.files = {far("[ab].h5")};
  with.target = "y";
  with.target_files = {far("t.h5")};
  with.fields = {{.name = "more", .data = "x", .files = {far("t.h5")}}};
  const Dataset dataset = Dataset::open(with);
  EXPECT_EQ(copies(), 3);
  for (const char* name : {"a.h5", "b.h5", "t.h5"}) spoil(name);
  EXPECT_EQ(first_difference(dataset, values, as_int64(random_bytes(50, 103))), "");
  EXPECT_EQ(dataset.origin(49).file, far("b.h5").string());
}

TEST_F(StagedFiles, reads_data_that_libhdf5_decodes_from_the_copy) {
  const std::vector<std::byte> values = random_bytes(800, 1);
  for (const char* name : {"a.h5", "b.h5"}) {
    H5TestFile file(far(name));
    file.create({.shape = {40, 4, 5}, .chunk = {7, 4, 5}, .filters = {identity_filter()}});
    file.write("x", values);
  }
  const Dataset dataset = staged({"a.h5", "b.h5"});
  for (const char* name : {"a.h5", "b.h5"}) spoil(name);
  EXPECT_EQ(first_difference(dataset, joined(values, values)), "");
}

TEST_F(StagedFiles, messages_and_saved_states_are_those_of_the_original) {
  write("a.h5", 40);
  const DataLoaderOptions loading{.batch_size = 8, .shuffle = true, .seed = 5, .provenance = true};
  DataLoader in_place(Dataset::open(options({"a.h5"}, {})), loading);
  in_place.next();
  DataLoader from_copy(staged({"a.h5"}), loading);
  from_copy.restore(in_place.state());
  while (true) {
    const auto expected = in_place.next();
    const auto got = from_copy.next();
    ASSERT_EQ(expected.has_value(), got.has_value());
    if (!expected) break;
    EXPECT_EQ(expected->indices, got->indices);
    EXPECT_EQ(got->origins.front().file, far("a.h5").string());
  }
  DatasetOptions wrong = options({"a.h5"}, local());
  wrong.data = "z";
  EXPECT_THAT(refusal_in<DatasetError>(dir_.path(), [&] { Dataset::open(wrong); }),
              testing::StartsWith("far/a.h5: no dataset \"z\"; it has /x"));
}

TEST_F(StagedFiles, refresh_copies_what_has_changed) {
  write("a.h5", 40, 1);
  Dataset dataset = staged({"a.h5"});
  fs::remove(far("a.h5"));
  const std::vector<std::byte> values = write("a.h5", 60, 2);
  dataset.refresh();
  EXPECT_EQ(dataset.size(), 60);
  EXPECT_EQ(first_difference(dataset, values), "");
}

TEST_F(StagedFiles, copies_the_sources_of_a_virtual_dataset) {
  const std::vector<std::byte> values = joined(write("a.h5", 30, 1), write("b.h5", 30, 2));
  make_virtual("v.h5", {"a.h5", "b.h5"}, 30);
  const Dataset dataset = staged({"v.h5"});
  EXPECT_EQ(copies(), 3);
  for (const char* name : {"a.h5", "b.h5", "v.h5"}) spoil(name);
  EXPECT_EQ(first_difference(dataset, values), "");
  EXPECT_EQ(dataset.origin(31).file, far("b.h5").string());
}

// libhdf5 would look for the sources next to the copy, and give fill values.
TEST_F(StagedFiles, copies_the_sources_of_virtual_datasets_of_parts_of_rows) {
  write("a.h5", 30, 1);
  write("b.h5", 30, 2);
  make_virtual("v.h5", {"a.h5", "b.h5"}, 30, 2);
  make_virtual("w.h5", {"a.h5", "b.h5"}, 30, 2);
  const std::vector<std::byte> values = read_through_libhdf5(far("v.h5"), "x");
  EXPECT_EQ(first_difference(staged({"v.h5"}), values), "");
  EXPECT_EQ(copies(), 3);
  EXPECT_EQ(first_difference(staged({"v.h5", "w.h5"}), joined(values, values)), "");
  EXPECT_EQ(copies(), 4);
}

TEST_F(StagedFiles, copies_external_files) {
  const std::vector<std::byte> values = random_bytes(800, 7);
  {
    H5TestFile file(far("e.h5"));
    file.create({.shape = {40, 4, 5}, .external_file = far("raw").string()});
    file.write("x", values);
  }
  EXPECT_EQ(first_difference(staged({"e.h5"}), values), "");
  EXPECT_EQ(copies(), 2);
  fs::copy_file(far("e.h5"), far("f.h5"));
  EXPECT_EQ(first_difference(staged({"e.h5", "f.h5"}), joined(values, values)), "");
  EXPECT_EQ(copies(), 3);
}

TEST_F(StagedFiles, reads_what_libhdf5_puts_together_from_the_originals) {
  const std::vector<std::byte> values = random_bytes(800, 7);
  H5TestFile(far("e.h5")).create_converted("x", {40, 4, 5}, values);
  CapturedLog log;
  EXPECT_EQ(first_difference(staged({"e.h5"}), values), "");
  EXPECT_THAT(log.lines(), Contains(far("e.h5").string() +
                                    ":/x: read from the original files, not from stage_dir, as it refers to "
                                    "other files"));
}

TEST_F(StagedFiles, names_a_damaged_original_as_without_it) {
  replace_file(far("a.h5"), random_bytes(5000, 1));
  const auto refused = [&](const fs::path& stage_dir) {
    return refusal_in<FileError>(dir_.path(), [&] { Dataset::open(options({"a.h5"}, stage_dir)); });
  };
  EXPECT_EQ(refused(local()), refused({}));
  write("a.h5", 400);
  fs::resize_file(far("a.h5"), 5000);
  EXPECT_EQ(refused(local()), refused({}));
  EXPECT_THAT(refused(local()), HasSubstr("far/a.h5: truncated"));
}

StorageProbe nfs() {
  return {.statfs = [](const char*, struct ::statfs* into) {
    *into = {};
    into->f_type = 0x6969;
    into->f_bsize = 4096;
    into->f_blocks = into->f_bavail = 1 << 20;
    return 0;
  }};
}

TEST_F(StagedFiles, the_report_names_a_network_file_system) {
  write("a.h5", 40);
  const auto report = [&](const fs::path& stage_dir) {
    DataLoader loader(DatasetAccess::open(options({"a.h5"}, stage_dir), {}, nfs()), {.batch_size = 8});
    while (loader.next()) {
    }
    return loader.report();
  };
  EXPECT_THAT(report({}),
              testing::ContainsRegex("\nstorage: " + far("a.h5").string() +
                                     " is on nfs, a network file system; reads gave [0-9.]+ MB/s per "
                                     "thread; stage_dir copies the files to a local disk"));
  EXPECT_THAT(report(local()), Not(HasSubstr("storage: ")));
  DataLoader here(Dataset::open(options({"a.h5"}, {})), {.batch_size = 8});
  EXPECT_THAT(here.report(), Not(HasSubstr("storage: ")));
}

TEST_F(StagedFiles, the_log_advises_once_if_reads_from_a_network_are_waited_for) {
  write("a.h5", 40);
  const auto slow = [](std::shared_ptr<const ByteSource> source) {
    return std::make_shared<const WaitingSource>(std::move(source), std::chrono::milliseconds(5));
  };
  const auto advice = [&](const StorageProbe& probe) {
    CapturedLog log;
    DataLoader loader(DatasetAccess::open(options({"a.h5"}, {}), slow, probe),
                      {.batch_size = 8, .cache_bytes = 0});
    for (int epoch = 0; epoch < 3; ++epoch) {
      while (loader.next()) {
      }
    }
    return std::ranges::count_if(
        log.lines(), [](const std::string& line) { return line.find("is on nfs, a network") != line.npos; });
  };
  EXPECT_EQ(advice(nfs()), 1);
  EXPECT_EQ(advice({}), 0);
}

TEST(StorageLine, says_what_was_measured) {
  LoaderStats stats;
  EXPECT_EQ(storage_line({"a.h5", "nfs"}, stats),
            "a.h5 is on nfs, a network file system; stage_dir copies the files to a local disk");
  stats.bytes_read = 76'000'000;
  stats.read_ns = 2'000'000'000;
  EXPECT_EQ(
      storage_line({"a.h5", "lustre"}, stats),
      "a.h5 is on lustre, a network file system; reads gave 38 MB/s per thread; stage_dir copies the files "
      "to a local disk");
}

}  // namespace
}  // namespace h5feed::test
