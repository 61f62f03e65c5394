// SPDX-License-Identifier: Apache-2.0
// Datasets behind links into other files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/isolation/reader_process.hpp"
#include "support/files/bytes.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/sparse_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loaded_rows.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Links : public testing::TestWithParam<Isolation> {
 protected:
  std::filesystem::path master() const { return dir_ / "master.h5"; }

  // Writes images in chunks and labels, whose bytes go on from those before.
  void add_part(const std::string& name, std::uint64_t rows, std::uint64_t chunk = 3) {
    H5TestFile file(dir_ / name);
    const std::vector<std::byte> images = random_bytes(rows * 20, seed_);
    const std::vector<std::byte> labels = random_bytes(rows, ++seed_);
    const Hid group(H5Gcreate2(file.id(), "train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    file.create(
        {.path = "train/images", .shape = {rows, 5, 4}, .chunk = {chunk, 5, 4}, .filters = {gzip_filter(1)}});
    file.create({.path = "train/labels", .shape = {rows}});
    file.write("train/images", images);
    file.write("train/labels", labels);
    images_.insert(images_.end(), images.begin(), images.end());
    append_as_labels(labels_, labels);
  }

  static void link(const H5TestFile& file, const std::string& to_file, const char* to, const char* name) {
    require(H5Lcreate_external(to_file.c_str(), to, file.id(), name, H5P_DEFAULT, H5P_DEFAULT), name);
  }

  DatasetOptions options(const std::string& data, const std::string& target = "") const {
    return {.files = {master()}, .data = data, .target = target, .isolation = GetParam()};
  }
  std::string refusal(const DatasetOptions& options) const {
    return refusal_in<Error>(dir_.path(), [&] { Dataset::open(options); });
  }

  TempDir dir_;
  unsigned seed_ = 1;
  std::vector<std::byte> images_;
  std::vector<std::byte> labels_;
};

TEST_P(Links, of_a_group_are_read_as_one_dataset) {
  add_part("a.h5", 7);
  add_part("b.h5", 1, 1);
  std::filesystem::create_directory(dir_ / "more");
  add_part("more/c.h5", 9, 4);
  {
    const H5TestFile file(master());
    for (const char* const group : {"images", "labels"})
      const Hid made(H5Gcreate2(file.id(), group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const char* const parts[] = {"a.h5", "b.h5", "more/c.h5"};
    const char* const images[] = {"images/0", "images/1", "images/10"};
    const char* const labels[] = {"labels/0", "labels/1", "labels/10"};
    const char* const all[] = {"all_0", "all_1", "all_10"};
    for (std::size_t i = 0; i < std::size(parts); ++i) {
      link(file, parts[i], "/train/images", images[i]);
      link(file, parts[i], "/train/labels", labels[i]);
      link(file, parts[i], "/", all[i]);
    }
  }
  for (const auto& [data, target] :
       {std::pair("images/*", "labels/*"), std::pair("all_*/train/images", "all_*/train/labels")}) {
    const Dataset dataset = Dataset::open(options(data, target));
    EXPECT_EQ(dataset.size(), 17);
    EXPECT_EQ(first_difference(dataset, images_, labels_), "") << data;
    EXPECT_EQ(dataset.origin(7).file, (dir_ / "b.h5").string());
    EXPECT_EQ(dataset.origin(10).path, "/train/images");
    EXPECT_EQ(dataset.origin(10).row, 2);
  }
  EXPECT_THAT(refusal(options("images/*", "all_1*/train/labels")), HasSubstr("target"));
  EXPECT_THAT(refusal(options("*/*")), HasSubstr("has a wildcard behind /all_0, a link into another file"));
  EXPECT_THAT(refusal(options("*s/*")), HasSubstr("datasets that are read as one need the same type"));
}

TEST_P(Links, lead_over_groups_soft_links_and_further_files) {
  add_part("a.h5", 6);
  {
    const H5TestFile file(dir_ / "between.h5");
    link(file, "a.h5", "/train", "here");
  }
  {
    const H5TestFile file(master());
    link(file, "between.h5", "/", "between");
    link(file, "a.h5", "train/images", "images");
    require(H5Lcreate_soft("/between/here", file.id(), "soft", H5P_DEFAULT, H5P_DEFAULT), "soft");
  }
  for (const char* const name : {"images", "between/here/images", "soft/images", "/soft/images"}) {
    EXPECT_EQ(first_difference(Dataset::open(options(name)), images_), "") << name;
    EXPECT_EQ(first_difference(Dataset::open(options(name, "soft/labels")), images_, labels_), "") << name;
  }
  DatasetOptions with_field = options("images");
  with_field.fields = {{.name = "labels", .data = "between/here/labels"}};
  EXPECT_EQ(Dataset::open(with_field).size(), 6);
}

TEST_P(Links, lead_to_sparse_matrices_and_categories) {
  const SparseRowsSet cells = random_rows(9, 6);
  {
    SparseFile file(dir_ / "cells.h5ad");
    file.matrix("X", cells, 16);
    file.file().createGroup("var");
    file.attribute("var", "_index", "gene");
    file.write_names("var/gene", {"a", "b", "c", "d", "e", "f"});
    file.file().createGroup("obs");
    file.categories("obs/type", {0, 1, 2, 0, 1, 2, 0, -1, 1}, {"T", "B", "NK"});
    file.write("obs/old", std::vector<std::int8_t>{1, 0, 1, 0, 1, 0, 1, 0, 1}, H5::PredType::NATIVE_INT8);
    file.file().createGroup("obs/__categories");
    file.write_names("obs/__categories/old", {"no", "yes"});
  }
  {
    const H5TestFile file(master());
    link(file, "cells.h5ad", "/X", "cells");
    link(file, "cells.h5ad", "/", "all");
    link(file, "cells.h5ad", "obs/type", "type");
  }
  for (const char* const data : {"cells", "all/X"}) {
    DatasetOptions linked = options(data, "type");
    linked.fields = {{.name = "old", .data = "all/obs/old"}};
    linked.sparse = SparseOptions{.format = SparseFormat::dense, .columns = {"b", 5}};
    const Dataset dataset = Dataset::open(linked);
    EXPECT_THAT(dataset.categories(), ElementsAre("T", "B", "NK"));
    EXPECT_THAT(dataset.categories("old"), ElementsAre("no", "yes"));
    DataLoader loader(dataset, {.batch_size = 9, .shuffle = false});
    const auto batch = loader.next();
    EXPECT_THAT(batch->target.as<std::int64_t>(), ElementsAre(0, 1, 2, 0, 1, 2, 0, -1, 1));
    EXPECT_THAT(batch->field("old").values.as<std::int8_t>(), ElementsAre(1, 0, 1, 0, 1, 0, 1, 0, 1));
    for (std::size_t row = 0; row < 9; ++row) {
      const std::vector<float> dense = cells.dense(static_cast<std::int64_t>(row));
      EXPECT_EQ(batch->data.as<float>()[2 * row], dense[1]);
      EXPECT_EQ(batch->data.as<float>()[2 * row + 1], dense[5]);
    }
    EXPECT_EQ(dataset.origin(3).file, (dir_ / "cells.h5ad").string());
  }
}

TEST_P(Links, lead_to_the_list_of_the_episodes_that_are_used) {
  {
    H5TestFile file(dir_ / "table.h5");
    const std::vector<std::int64_t> ids = {1, 1, 2, 2, 2, 3};
    file.create({.path = "ids", .file_type = H5T_STD_I64LE, .shape = {6}});
    file.write("ids", std::as_bytes(std::span(ids)));
    const std::vector<std::int64_t> chosen = {2};
    file.create({.path = "chosen", .file_type = H5T_STD_I64LE, .shape = {1}});
    file.write("chosen", std::as_bytes(std::span(chosen)));
  }
  {
    H5TestFile file(master());
    file.create({.path = "x", .shape = {6, 3}});
    file.write("x", patterned_bytes(18));
    link(file, "table.h5", "ids", "ids");
    link(file, "table.h5", "chosen", "chosen");
  }
  DatasetOptions chosen = options("x");
  chosen.input_layout = InputLayout::none;
  chosen.episodes = EpisodeOptions{.index = EpisodeOptions::Index::ids, .table = "ids", .only = "chosen"};
  EXPECT_EQ(Dataset::open(chosen).size(), 3);
}

TEST_P(Links, into_files_in_a_folder_of_the_environment_are_found) {
  std::filesystem::create_directory(dir_ / "moved");
  add_part("moved/a.h5", 4);
  {
    const H5TestFile file(master());
    link(file, "/gone/away/a.h5", "/train/images", "images");
  }
  EXPECT_THAT(refusal(options("images")),
              HasSubstr("leads into another file, /gone/away/a.h5, which is missing"));
  ASSERT_EQ(::setenv("HDF5_EXT_PREFIX", (dir_ / "moved").c_str(), 1), 0);
  EXPECT_EQ(first_difference(Dataset::open(options("images")), images_), "");
  ::unsetenv("HDF5_EXT_PREFIX");
}

TEST_P(Links, that_lead_to_no_dataset_are_named) {
  add_part("a.h5", 4);
  ASSERT_EQ(::mkfifo((dir_ / "pipe.h5").c_str(), 0600), 0);
  replace_file(dir_ / "text.h5", patterned_bytes(100));
  {
    const H5TestFile file(master());
    link(file, "a.h5", "/train/gone", "gone");
    link(file, "a.h5", "/train", "group");
    link(file, "pipe.h5", "/x", "pipe");
    link(file, "/dev/zero", "/x", "device");
    link(file, "text.h5", "/x", "text");
    link(file, "master.h5", "/circle", "circle");
    link(file, "back.h5", "/there", "there");
  }
  {
    const H5TestFile file(dir_ / "back.h5");
    link(file, "master.h5", "/there", "there");
  }
  EXPECT_EQ(refusal(options("gone")),
            "master.h5: \"gone\" is a link to a.h5:/train/gone, which is not there; restore it");
  EXPECT_THAT(refusal(options("group")), StartsWith("a.h5: \"/train\" is a group"));
  EXPECT_THAT(
      refusal(options("pipe")),
      StartsWith("master.h5: \"pipe\" leads into another file, pipe.h5, which cannot be opened: pipe.h5: "
                 "is not a regular file"));
  EXPECT_THAT(refusal(options("device")), HasSubstr("/dev/zero: is not a regular file"));
  EXPECT_THAT(refusal(options("text")), HasSubstr("which cannot be opened: text.h5: not an HDF5 file"));
  for (const char* const name : {"circle", "there"})
    EXPECT_THAT(refusal(options(name)), HasSubstr("after 16 others; name the dataset in its own file"))
        << name;
}

// Addresses of another file's data, looked up in this one, would be somebody else's bytes.
TEST_P(Links, are_not_followed_by_the_file_itself) {
  add_part("a.h5", 4);
  {
    const H5TestFile file(master());
    link(file, "a.h5", "/train/images", "images");
  }
  EXPECT_EQ(
      refusal_in<DatasetError>(dir_.path(), [&] { H5File::open(master())->describe("images"); }),
      "master.h5: \"images\" is in another file, behind a link to a.h5:/train/images; open a.h5 itself, "
      ".data = \"/train/images\"");
}

TEST_P(Links, are_listed_with_what_they_lead_to) {
  {
    const H5TestFile file(master());
    link(file, "gone.h5", "/train/images", "images");
    const Hid group(H5Gcreate2(file.id(), "train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    link(file, "/far/b.h5", "labels", "train/labels");
    require(H5Lcreate_soft("/images", file.id(), "soft", H5P_DEFAULT, H5P_DEFAULT), "soft");
  }
  const auto process =
      GetParam() == Isolation::process ? std::make_shared<ReaderProcess>(IsolationLimits{}) : nullptr;
  const auto file = H5File::open(master(), master(), process);
  const std::vector<ExternalLink> links = file->list_external_links();
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].path, "/images");
  EXPECT_EQ(links[0].other_file, "gone.h5");
  EXPECT_EQ(links[0].other_path, "/train/images");
  EXPECT_EQ(links[1].path, "/train/labels");
  EXPECT_EQ(links[1].other_file, "/far/b.h5");
  EXPECT_EQ(links[1].other_path, "labels");
  EXPECT_TRUE(file->list_datasets().empty());
  EXPECT_THAT(
      refusal(options("")),
      StartsWith("master.h5: no dataset looks like images; it has no datasets, and links into other files: "
                 "/images to gone.h5:/train/images, /train/labels to /far/b.h5:labels. Name one with "));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Links, testing::Values(Isolation::none, Isolation::process));

}  // namespace
}  // namespace h5feed::test
