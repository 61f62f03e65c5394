// SPDX-License-Identifier: Apache-2.0
// Files whose numbers contradict each other: refused in one sentence, or what is intact is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/dataset_list.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/damage.hpp"

namespace h5feed::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class StoreDamaged : public StoreChunkReader {
 protected:
  // "/bad", damaged, and "/g/bad", "/images", "/z/images", intact.
  void write_siblings() {
    {
      H5TestFile file(path());
      const Hid group(H5Gcreate2(file.id(), "z", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      for (const char* name : {"bad", "images", "z/images"}) file.create({.path = name, .shape = {4, 5, 6}});
    }
    damage_header(path(), "bad");
  }

  std::vector<std::string> listed_paths() const {
    std::vector<std::string> paths;
    for (const DatasetEntry& entry : H5File::open(path())->list_datasets()) paths.push_back(entry.path);
    return paths;
  }
};

TEST_F(StoreDamaged, refuses_chunks_of_another_rank_than_the_data) {
  // Layout message of version 3, chunked, with the size of elements as its last dimension.
  write({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
  replace_bytes(path(), {3, 2, 3}, {3, 2, 2});
  EXPECT_EQ(
      open_message(),
      "train.h5:/images: its chunks have 1 dimension, its data has 2 dimensions; restore the file from a "
      "good copy");
  // Dataspace message of version 1 with maximal extents.
  write({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
  replace_bytes(path(), {1, 2, 1, 0, 0, 0, 0, 0, 12}, {1, 0, 0, 0, 0, 0, 0, 0, 12});
  // libhdf5 1.14 refuses it by itself.
  EXPECT_THAT(
      open_message(),
      AnyOf("train.h5:/images: its chunks have 2 dimensions, its data has 0 dimensions; restore the file "
            "from a good copy",
            "train.h5:/images: libhdf5 cannot open it: number of dimensions cannot be zero; restore the "
            "file from a good copy"));
}

TEST_F(StoreDamaged, refuses_contiguous_data_with_fewer_stored_bytes_than_its_shape_takes) {
  write({.path = "images", .shape = {12, 6}});
  // Dataspace message of version 1: extents and maximal extents.
  const auto dataspace = [](std::uint8_t rows) {
    std::vector<std::uint8_t> bytes = {1, 2, 1, 0, 0, 0, 0, 0};
    for (const std::uint8_t extent : {rows, std::uint8_t{6}, rows, std::uint8_t{6}})
      bytes.insert(bytes.end(), {extent, 0, 0, 0, 0, 0, 0, 0});
    return bytes;
  };
  replace_bytes(path(), dataspace(12), dataspace(13));
  // Later libraries than 1.10 refuse it by themselves.
  EXPECT_THAT(open_message(),
              AnyOf("train.h5:/images: 72 bytes are stored, the shape 13×6 u8 needs 78; restore the file "
                    "from a good copy",
                    AllOf(StartsWith("train.h5:/images: libhdf5 cannot "), HasSubstr("restore the file"))));
}

TEST_F(StoreDamaged, says_that_a_limit_is_its_own) {
  H5TestFile(path()).create({.path = "images", .shape = {std::uint64_t{1} << 60, 8}, .chunk = {4, 8}});
  EXPECT_EQ(open_message(),
            "train.h5:/images: data of 1152921504606846976×8 elements of 1 bytes take more than 2^62 bytes, "
            "h5feed's limit; name another dataset, or restore the file from a good copy if they should not");
}

TEST_F(StoreDamaged, lists_what_is_intact_beside_a_damaged_dataset) {
  write_siblings();
  const std::vector<DatasetEntry> entries = H5File::open(path())->list_datasets();
  EXPECT_THAT(listed_paths(), ElementsAre("/bad", "/images", "/z/images"));
  EXPECT_EQ(entries[0].type_text, "unreadable");
  EXPECT_FALSE(entries[0].numeric);
  std::string version = libhdf5_facts().header_version;  // "1.10.8"
  version = "v" + version.substr(0, 1) + version.substr(2, version.rfind('.') - 2);
  EXPECT_EQ(
      without_directory(entries[0].problem),
      "train.h5:/bad: libhdf5 cannot open it: bad object header version number; if a newer library than "
      "this libhdf5 " +
          libhdf5_facts().header_version +
          " wrote it, copy the file there by h5repack (its options --low and --high) into a format that this "
          "one reads, or have it written with libver=(\"" +
          version + "\", \"" + version + "\") of h5py, else restore the file from a good copy");
  EXPECT_EQ(entries[1].problem, "");
  EXPECT_TRUE(open("z/images")->direct());
  EXPECT_THAT(open_message("bad"), StartsWith("train.h5:/bad: libhdf5 cannot open it: bad object header"));
  EXPECT_EQ(
      open_message("none"),
      "train.h5: no dataset \"none\"; it has /bad (unreadable), /images (4×5×6 u8), /z/images (4×5×6 u8)");
}

TEST_F(StoreDamaged, says_why_the_only_images_cannot_be_read) {
  write({.path = "images", .shape = {4, 5, 6}, .chunk = {4, 5, 6}});
  // Layout message of version 3: extents of the chunks and size of the elements.
  replace_bytes(path(), {4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0},
                {0, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0});
  EXPECT_THAT(without_directory(refusal_of<DatasetError>([&] { Dataset::open({.files = {path()}}); })),
              AllOf(StartsWith("train.h5: no dataset looks like images; it has /images (unreadable); "),
                    HasSubstr("/images: libhdf5 cannot open it: "), HasSubstr(". Name one with data, ")));
}

TEST_F(StoreDamaged, lists_what_is_intact_beside_a_damaged_group) {
  {
    H5TestFile file(path());
    const Hid group(H5Gcreate2(file.id(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    for (const char* name : {"g/images", "images"}) file.create({.path = name, .shape = {4, 5, 6}});
  }
  damage_header(path(), "g");
  const std::vector<DatasetEntry> entries = H5File::open(path())->list_datasets();
  EXPECT_THAT(listed_paths(), ElementsAre("/g", "/images"));
  EXPECT_TRUE(entries[0].hides_others);
  EXPECT_THAT(open_message("g/images"), StartsWith("train.h5:/g: libhdf5 cannot open it: "));
  EXPECT_EQ(Dataset::open({.files = {path()}, .data = "images"}).size(), 4U);
  // Which images are meant cannot be told.
  EXPECT_THAT(without_directory(refusal_of<FileError>([&] { Dataset::open({.files = {path()}}); })),
              AllOf(StartsWith("train.h5:/g: libhdf5 cannot open it: "),
                    EndsWith(", or name a dataset outside it with data")));
}

TEST_F(StoreDamaged, ends_at_groups_that_contain_each_other_against_their_reference_counts) {
  {
    H5TestFile file(path());
    for (const char* name : {"a", "a/b"})
      const Hid group(H5Gcreate2(file.id(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    file.create({.path = "a/images", .shape = {4, 5, 6}});
  }
  const std::uint64_t outer = test::header_address(path(), "a");
  const std::uint64_t inner = test::header_address(path(), "a/b");
  test::replace_address(path(), inner, outer);
  EXPECT_THAT(listed_paths(), ElementsAre("/a/images"));
}

TEST_F(StoreDamaged, stops_at_a_depth_and_names_the_path) {
  std::string deep;
  {
    H5TestFile file(path());
    Hid group(H5Gopen2(file.id(), "/", H5P_DEFAULT));
    for (unsigned i = 0; i <= kMaxGroupDepth; ++i) {
      deep += "/g";
      group = Hid(H5Gcreate2(group.get(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
    file.create({.path = "images", .shape = {4, 5, 6}});
  }
  const std::vector<DatasetEntry> entries = H5File::open(path())->list_datasets();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(without_directory(entries[0].problem),
            "train.h5:" + short_path(deep.substr(0, 2 * kMaxGroupDepth)) +
                ": groups are nested more than 256 deep; move what is in them up");
  EXPECT_LT(entries[0].problem.size(), 300U);
  EXPECT_EQ(entries[0].path, deep.substr(0, 2 * kMaxGroupDepth));
  EXPECT_EQ(entries[1].path, "/images");
}

TEST(LongNames, are_shown_without_their_middle) {
  EXPECT_EQ(short_path("/train/images"), "/train/images");
  const std::string longest(120, 'x');
  EXPECT_EQ(short_path(longest), longest);
  EXPECT_EQ(short_path('/' + longest), '/' + longest.substr(0, 57) + "…" + longest.substr(0, 58));
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "ä";
  EXPECT_EQ(short_path('x' + umlauts), 'x' + umlauts.substr(0, 56) + "…" + umlauts.substr(0, 58));
  EXPECT_EQ(format_shape({2, 3, 4}), "2×3×4");
  EXPECT_EQ(format_shape(std::vector<std::uint64_t>(32, 1)).find('('), std::string::npos);
  EXPECT_EQ(format_shape(std::vector<std::uint64_t>(33, 1000)), "1000×1000×1000×…×1000 (33 dimensions)");
}

TEST_F(StoreDamaged, says_that_links_lead_in_a_circle) {
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {4, 5, 6}});
    const Hid group(H5Gcreate2(file.id(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const auto link = [](hid_t at, const char* name, const char* target) {
      test::require(H5Lcreate_soft(target, at, name, H5P_DEFAULT, H5P_DEFAULT), "H5Lcreate_soft");
    };
    link(file.id(), "self", "/self");
    link(file.id(), "there", "/back");
    link(file.id(), "back", "/there");
    link(group.get(), "near", "near");
    link(file.id(), "lost", "/nowhere");
    test::require(H5Lcreate_hard(file.id(), "/", group.get(), "root", H5P_DEFAULT, H5P_DEFAULT),
                  "H5Lcreate_hard");
  }
  EXPECT_EQ(open_message("self"),
            "train.h5: /self is a link to /self, which leads back to it; replace the link");
  EXPECT_EQ(open_message("there"),
            "train.h5: /there is a link to /back, which leads back to it; replace the link");
  EXPECT_EQ(open_message("g/near/x"),
            "train.h5: /g/near is a link to near, which leads back to it; replace the link");
  EXPECT_EQ(open_message("lost"), "train.h5: /lost is a link to /nowhere, which is not there; restore it");
  EXPECT_EQ(open_message("g/root/g/root/images"), "accepted");
  EXPECT_THAT(listed_paths(), ElementsAre("/images"));
}

TEST_F(StoreDamaged, names_the_external_file_that_is_missing_or_too_short) {
  write({.path = "images", .shape = {40, 5}, .external_file = (dir_ / "raw").string()});
  std::filesystem::rename(dir_ / "raw", dir_ / "moved");
  EXPECT_EQ(
      open_message(),
      "train.h5:/images: its values are stored in another file, raw, which cannot be opened: No such file or "
      "directory; restore it, or set HDF5_EXTFILE_PREFIX to the folder that has it");
  std::filesystem::rename(dir_ / "moved", dir_ / "raw");
  std::filesystem::resize_file(dir_ / "raw", 100);
  EXPECT_EQ(open_message(),
            "train.h5:/images: its values are stored in another file, raw, which has 100 bytes where 200 "
            "from byte 0 on are needed; restore it, or wait until its writer has completed it");
  std::filesystem::remove(dir_ / "raw");
  ASSERT_EQ(::mkfifo((dir_ / "raw").c_str(), 0600), 0);
  EXPECT_EQ(open_message(),
            "train.h5:/images: its values are stored in another file, raw, which is not a regular file; "
            "restore it, or set HDF5_EXTFILE_PREFIX to the folder that has it");
}

TEST_F(StoreDamaged, says_that_a_file_is_one_of_several_parts) {
  const auto write_parts = [&](const std::string& name, const auto& set_driver) {
    const Hid access(H5Pcreate(H5P_FILE_ACCESS));
    test::require(set_driver(access.get()), "H5Pset_fapl");
    const Hid file(H5Fcreate((dir_ / name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()));
    const hsize_t bytes = 20'000;
    const Hid space(H5Screate_simple(1, &bytes, nullptr));
    const Hid dataset(
        H5Dcreate2(file.get(), "x", H5T_STD_U8LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const Bytes values = test::patterned_bytes(bytes);
    test::require(H5Dwrite(dataset.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
                  "H5Dwrite");
  };
  write_parts("part%d.h5", [](hid_t access) { return H5Pset_fapl_family(access, 4096, H5P_DEFAULT); });
  write_parts("data%03d-2.h5", [](hid_t access) { return H5Pset_fapl_family(access, 4096, H5P_DEFAULT); });
  write_parts("split", [](hid_t access) {
    return H5Pset_fapl_split(access, "-m.h5", H5P_DEFAULT, "-r.h5", H5P_DEFAULT);
  });
  const auto message = [&](const std::string& name) {
    return test::refusal_in<FileError>(dir_.path(), [&] { H5File::open(dir_ / name); });
  };
  EXPECT_EQ(
      message("part0.h5"),
      "part0.h5: the first part of a file in several parts (HDF5's family driver), which h5feed does not "
      "read; join them once with h5repart");
  EXPECT_EQ(
      message("split-m.h5"),
      "split-m.h5: one of several parts of a file (HDF5's multi or split driver), which h5feed does not "
      "read; write it once as a single file with the program that wrote the parts");
  EXPECT_EQ(message("part2.h5"),
            "part2.h5: a later part of a file in several parts (HDF5's family driver) that begins with "
            "part0.h5, which h5feed does not read; join them once with h5repart");
  EXPECT_THAT(message("data001-2.h5"), HasSubstr("that begins with data000-2.h5, which"));
  EXPECT_EQ(
      message("split-r.h5"),
      "split-r.h5: one of several parts of a file (HDF5's multi or split driver), with split-m.h5, which "
      "h5feed does not read; write it once as a single file with the program that wrote the parts");
  test::replace_file(dir_ / "none1.h5", test::patterned_bytes(100));
  test::replace_file(dir_ / "none0.h5", test::patterned_bytes(100));
  EXPECT_EQ(message("none1.h5"),
            "none1.h5: not an HDF5 file; check the path, and unpack it if it is compressed");
}

}  // namespace
}  // namespace h5feed::test
