// SPDX-License-Identifier: Apache-2.0
// h5feed repack: forms of files over which libhdf5's own copying fails or crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "store/hdf5/h5_file_handles.hpp"
#include "store/write/stored_values.hpp"
#include "store/write/value_pieces.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RepackForeign : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return dir_ / "a.h5"; }

  static void add_images(hid_t file) {
    const std::array<hsize_t, 3> shape = {8, 4, 4}, chunk = {4, 4, 4};
    const Hid space(H5Screate_simple(3, shape.data(), nullptr)), list(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_chunk(list.get(), 3, chunk.data()), "H5Pset_chunk");
    const Hid images(
        H5Dcreate2(file, "images", H5T_STD_U8LE, space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT));
    const std::vector<std::byte> values = patterned_bytes(8 * 4 * 4);
    require(H5Dwrite(images.get(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dwrite");
  }
  ProgramResult repack(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"repack", "a.h5", "b.h5", "--dataset", "images", "--chunk", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(dir_.path(), words);
  }
  Hid copy() const { return Hid(H5Fopen((dir_ / "b.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)); }

  const TempDir dir_;
};

Hid text_type() {
  Hid type(H5Tcopy(H5T_C_S1));
  require(H5Tset_size(type.get(), H5T_VARIABLE), "H5Tset_size");
  return type;
}

// As netCDF-4 writes texts. H5Ocopy of libhdf5 1.10 takes the place of the fill value in the source for one
// in the copy.
TEST_F(RepackForeign, texts_keep_their_fill_value) {
  const Hid type = text_type();
  {
    const H5TestFile file(path());
    add_images(file.id());
    const hsize_t three = 3;
    const Hid space(H5Screate_simple(1, &three, nullptr)), list(H5Pcreate(H5P_DATASET_CREATE));
    const char* const fill = "none";
    require(H5Pset_fill_value(list.get(), type.get(), &fill), "H5Pset_fill_value");
    const Hid texts(
        H5Dcreate2(file.id(), "texts", type.get(), space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT));
    const std::array<const char*, 3> values = {"a", "", "three"};
    require(H5Dwrite(texts.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dwrite");
  }
  for (const std::vector<std::string>& more :
       {std::vector<std::string>(), {"--libver", "latest", "--force"}}) {
    const ProgramResult result = repack(more);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Hid file = copy();
    const Hid texts(H5Dopen2(file.get(), "texts", H5P_DEFAULT)), list(H5Dget_create_plist(texts.get()));
    std::array<char*, 3> values = {};
    require(H5Dread(texts.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dread");
    EXPECT_THAT(std::vector<std::string>(values.begin(), values.end()), ElementsAre("a", "", "three"));
    char* fill = nullptr;
    require(H5Pget_fill_value(list.get(), type.get(), &fill), "H5Pget_fill_value");
    EXPECT_STREQ(fill, "none");
    for (char* const text : values) H5free_memory(text);
    H5free_memory(fill);
  }
}

// A copy would else be many times as large as its source. With a fill value, libhdf5 1.10 cannot read them.
TEST_F(RepackForeign, texts_that_were_never_written_stay_so) {
  const Hid type = text_type();
  for (const bool filled : {false, true}) {
    SCOPED_TRACE(filled);
    {
      const H5TestFile file(path());
      add_images(file.id());
      const hsize_t rows = 100, chunk = 8, most = H5S_UNLIMITED;
      const Hid space(H5Screate_simple(1, &rows, &most)), list(H5Pcreate(H5P_DATASET_CREATE));
      const char* const fill = "none";
      if (filled) require(H5Pset_fill_value(list.get(), type.get(), &fill), "H5Pset_fill_value");
      require(H5Pset_chunk(list.get(), 1, &chunk), "H5Pset_chunk");
      const Hid texts(
          H5Dcreate2(file.id(), "texts", type.get(), space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT));
      const hsize_t row = 98, one = 1;
      const Hid memory(H5Screate_simple(1, &one, nullptr));
      require(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &row, nullptr, &one, nullptr), "select");
      const char* const text = "written";
      require(H5Dwrite(texts.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, &text), "H5Dwrite");
    }
    const ProgramResult result = repack({"--force"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Hid file(H5Fopen((dir_ / "b.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const Hid texts(H5Dopen2(file.get(), "texts", H5P_DEFAULT));
    EXPECT_EQ(H5Dget_storage_size(texts.get()), 8 * 16U) << "one chunk";
    std::vector<char*> values(100);
    require(H5Dread(texts.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dread");
    EXPECT_STREQ(values[98], "written");
    EXPECT_STREQ(values[99], filled ? "none" : nullptr);
    for (char* const text : values) H5free_memory(text);
  }
}

// libhdf5 takes the attributes' spaces for ones in a table, which the copy therefore has.
TEST_F(RepackForeign, files_with_a_table_of_shared_messages_are_copied) {
  constexpr int kMany = 12;
  {
    const Hid list(H5Pcreate(H5P_FILE_CREATE));
    require(H5Pset_shared_mesg_nindexes(list.get(), 1), "H5Pset_shared_mesg_nindexes");
    require(H5Pset_shared_mesg_index(list.get(), 0, H5O_SHMESG_ALL_FLAG, 16), "H5Pset_shared_mesg_index");
    const Hid file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, list.get(), H5P_DEFAULT));
    add_images(file.get());
    const Hid images(H5Dopen2(file.get(), "images", H5P_DEFAULT));
    const hsize_t four = 4;
    const Hid space(H5Screate_simple(1, &four, nullptr));
    for (int i = 0; i < kMany; ++i) {
      const Hid attribute(H5Acreate2(images.get(), std::to_string(i).c_str(), H5T_NATIVE_INT, space.get(),
                                     H5P_DEFAULT, H5P_DEFAULT));
      const std::array<int, 4> values = {i, 1, 2, 3};
      require(H5Awrite(attribute.get(), H5T_NATIVE_INT, values.data()), "H5Awrite");
    }
  }
  for (const std::vector<std::string>& more :
       {std::vector<std::string>(), {"--libver", "latest", "--force"}}) {
    const ProgramResult result = repack(more);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Hid file = copy();
    for (int i = 0; i < kMany; ++i) {
      const Hid attribute(
          H5Aopen_by_name(file.get(), "images", std::to_string(i).c_str(), H5P_DEFAULT, H5P_DEFAULT));
      std::array<int, 4> values = {};
      require(H5Aread(attribute.get(), H5T_NATIVE_INT, values.data()), "H5Aread");
      EXPECT_THAT(values, ElementsAre(i, 1, 2, 3));
    }
  }
}

// H5Ocopy crashes over what it cannot read.
TEST_F(RepackForeign, values_outside_the_file_are_refused) {
  {
    H5TestFile file(path());
    add_images(file.id());
    file.create({.path = "labels", .shape = {8}});
    file.write("labels", patterned_bytes(8));
  }
  const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid labels(H5Dopen2(file.get(), "labels", H5P_DEFAULT));
  const haddr_t address = H5Dget_offset(labels.get());
  // Layout of version 3, contiguous: address, bytes.
  std::vector<std::uint8_t> layout = {3, 1}, damaged = {3, 1};
  for (int i = 0; i < 8; ++i) {
    layout.push_back(static_cast<std::uint8_t>(address >> 8 * i));
    damaged.push_back(static_cast<std::uint8_t>((address | std::uint64_t{1} << 60) >> 8 * i));
  }
  replace_bytes(path(), layout, damaged);
  const ProgramResult result = repack();
  EXPECT_EQ(result.exit_code, 1);
  // libhdf5 1.14 does not open such a dataset.
  EXPECT_THAT(result.err, AnyOf(HasSubstr("a.h5:/labels: its 8 bytes of values begin at byte 1152921504606"),
                                HasSubstr("a.h5:/labels: libhdf5 cannot open it: ")));
  EXPECT_THAT(result.err, HasSubstr("; restore the file"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "b.h5"));
}

// libhdf5 lists their chunks at wrong places.
TEST_F(RepackForeign, texts_in_columns_that_may_grow_are_copied) {
  const Hid type = text_type();
  constexpr hsize_t kRows = 4, kColumns = 6;
  std::vector<std::string> texts;
  std::vector<const char*> values;
  for (hsize_t i = 0; i < kRows * kColumns; ++i) texts.push_back("text " + std::to_string(i));
  for (const std::string& text : texts) values.push_back(text.c_str());
  {
    const H5TestFile file(path(), {.latest = true});
    add_images(file.id());
    const std::array<hsize_t, 2> extent = {kRows, kColumns}, most = {kRows, H5S_UNLIMITED}, chunk = {1, 2};
    const Hid space(H5Screate_simple(2, extent.data(), most.data())), list(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_chunk(list.get(), 2, chunk.data()), "H5Pset_chunk");
    const Hid dataset(
        H5Dcreate2(file.id(), "texts", type.get(), space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT));
    require(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dwrite");
  }
  for (const std::vector<std::string>& more :
       {std::vector<std::string>(), {"--libver", "latest", "--force"}}) {
    const ProgramResult result = repack(more);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Hid file = copy();
    const Hid dataset(H5Dopen2(file.get(), "texts", H5P_DEFAULT));
    std::vector<char*> copied(values.size());
    ASSERT_GE(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, copied.data()), 0);
    for (std::size_t i = 0; i < copied.size(); ++i) EXPECT_STREQ(copied[i], values[i]);
    const Hid space(H5Dget_space(dataset.get()));
    const Reclaim reclaim(type.get(), space.get(), copied.data());
  }
}

TEST_F(RepackForeign, texts_that_grew_after_they_were_allocated_at_once_are_copied) {
  const Hid type = text_type();
  {
    const H5TestFile file(path());
    add_images(file.id());
    const hsize_t four = 4, eight = 8, two = 2, most = H5S_UNLIMITED;
    const Hid space(H5Screate_simple(1, &four, &most)), list(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_chunk(list.get(), 1, &two), "H5Pset_chunk");
    require(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_LATE), "H5Pset_alloc_time");
    const Hid dataset(
        H5Dcreate2(file.id(), "texts", type.get(), space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT));
    const std::array<const char*, 4> values = {"a", "b", "c", "d"};
    require(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dwrite");
    require(H5Dset_extent(dataset.get(), &eight), "H5Dset_extent");
  }
  const ProgramResult result = repack();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Hid file = copy();
  const Hid dataset(H5Dopen2(file.get(), "texts", H5P_DEFAULT));
  constexpr std::size_t kReferenceBytes = 16;
  EXPECT_EQ(H5Dget_storage_size(dataset.get()), 4 * kReferenceBytes);
}

// H5Ocopy of libhdf5 1.10 crashes over them.
TEST_F(RepackForeign, texts_whose_filter_is_missing_are_refused_by_name) {
  const Hid type = text_type();
  {
    const H5TestFile file(path());
    add_images(file.id());
    const hsize_t three = 3;
    const Hid space(H5Screate_simple(1, &three, nullptr)), list(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_chunk(list.get(), 1, &three), "H5Pset_chunk");
    constexpr H5Z_filter_t kUnknown = 305;
    require(H5Pset_filter(list.get(), kUnknown, H5Z_FLAG_OPTIONAL, 0, nullptr), "H5Pset_filter");
    const Hid texts(
        H5Dcreate2(file.id(), "texts", type.get(), space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT));
  }
  const ProgramResult result = repack();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("a.h5:/texts: copying it needs filter 305"));
  EXPECT_THAT(result.err, HasSubstr("HDF5_PLUGIN_PATH"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "b.h5"));
}

TEST_F(RepackForeign, sparse_datasets_are_copied_without_what_they_leave_out) {
  constexpr std::uint64_t kExtent = std::uint64_t{1} << 50;
  {
    H5TestFile file(path());
    add_images(file.id());
    file.create({.path = "sparse", .shape = {kExtent}, .chunk = {16}});
    for (const std::uint64_t element : {kExtent - 1, std::uint64_t{5}})
      file.write_box("sparse", std::array{element}, std::array<std::uint64_t, 1>{1}, patterned_bytes(1));
    file.create({.path = "links", .file_type = H5T_STD_REF_OBJ, .shape = {kExtent, 2}, .chunk = {16, 1}});
    hobj_ref_t target = 0;
    ASSERT_GE(H5Rcreate(&target, file.id(), "/images", H5R_OBJECT, -1), 0);
    file.write_box("links", std::array<std::uint64_t, 2>{40, 1}, std::array<std::uint64_t, 2>{1, 1},
                   std::as_bytes(std::span(&target, 1)));
  }
  const ProgramResult result = repack();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Hid file = copy();
  const Hid sparse(H5Dopen2(file.get(), "sparse", H5P_DEFAULT));
  EXPECT_EQ(H5Dget_storage_size(sparse.get()), 32U);
  const Hid links(H5Dopen2(file.get(), "links", H5P_DEFAULT));
  EXPECT_EQ(H5Dget_storage_size(links.get()), 16 * sizeof(hobj_ref_t));
  const std::array<hsize_t, 2> place = {40, 1}, one = {1, 1};
  const Hid space(H5Dget_space(links.get()));
  ASSERT_GE(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, place.data(), nullptr, one.data(), nullptr), 0);
  const Hid single(H5Screate(H5S_SCALAR));
  hobj_ref_t copied = 0;
  ASSERT_GE(H5Dread(links.get(), H5T_STD_REF_OBJ, single.get(), space.get(), H5P_DEFAULT, &copied), 0);
  const Hid images(H5Rdereference2(file.get(), H5P_DEFAULT, H5R_OBJECT, &copied));
  std::array<char, 16> name = {};
  EXPECT_EQ(H5Iget_name(images.get(), name.data(), name.size()), 7);
  EXPECT_STREQ(name.data(), "/images");
}

// What a piece refers to may be far larger than the piece.
TEST_F(RepackForeign, large_values_of_variable_length_are_read_in_small_pieces) {
  constexpr std::size_t kValues = 500, kBytes = 100'000;
  {
    H5TestFile file(path());
    write_ragged(file, "texts", std::vector<Bytes>(kValues, Bytes(kBytes)));
  }
  const auto file = H5File::open(path());
  const Hdf5Session session;
  const Hdf5Calls calls(session, "a.h5");
  const ScopedId dataset(H5Dopen2(H5FileAccess::handle(*file).getId(), "texts", H5P_DEFAULT));
  const ScopedId type(H5Dget_type(dataset.get()));
  std::vector<std::size_t> pieces;
  read_in_pieces(
      dataset.get(), type.get(), calls, "texts",
      [&](std::span<std::byte>, std::size_t elements, hid_t, hid_t) { pieces.push_back(elements); });
  std::size_t sum = 0;
  for (const std::size_t piece : pieces) sum += piece;
  EXPECT_EQ(sum, kValues);
  EXPECT_LE(std::ranges::max(pieces), 64U) << "the first, before the size is known";
  EXPECT_EQ(pieces.at(1), (4U << 20U) / (kBytes + sizeof(hvl_t)));
}

TEST_F(RepackForeign, datasets_whose_messages_the_file_shares_are_kept) {
  for (const unsigned kind : {H5O_SHMESG_SDSPACE_FLAG, H5O_SHMESG_DTYPE_FLAG, H5O_SHMESG_FILL_FLAG,
                              H5O_SHMESG_PLINE_FLAG, H5O_SHMESG_ATTR_FLAG, H5O_SHMESG_ALL_FLAG}) {
    {
      const Hid creation(H5Pcreate(H5P_FILE_CREATE)), list(H5Pcreate(H5P_DATASET_CREATE));
      require(H5Pset_shared_mesg_nindexes(creation.get(), 1), "H5Pset_shared_mesg_nindexes");
      require(H5Pset_shared_mesg_index(creation.get(), 0, kind, 10), "H5Pset_shared_mesg_index");
      const Hid file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT));
      const std::array<hsize_t, 2> shape = {40, 6}, chunk = {8, 6};
      const Hid space(H5Screate_simple(2, shape.data(), nullptr));
      require(H5Pset_chunk(list.get(), 2, chunk.data()), "H5Pset_chunk");
      require(H5Pset_deflate(list.get(), 1), "H5Pset_deflate");
      for (const char* const name : {"images", "copied", "also_copied"}) {
        const Hid set(
            H5Dcreate2(file.get(), name, H5T_STD_U8LE, space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT));
        require(H5Dwrite(set.get(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, patterned_bytes(240).data()),
                "H5Dwrite");
      }
    }
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{"--force"}, {"--libver", "latest", "--force"}}) {
      const ProgramResult result = repack(more);
      ASSERT_EQ(result.exit_code, 0) << kind << ": " << result.err;
      const Hid file = copy();
      for (const char* const name : {"images", "copied", "also_copied"}) {
        const Hid set(H5Dopen2(file.get(), name, H5P_DEFAULT));
        std::vector<std::byte> read(240);
        require(H5Dread(set.get(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data()), "H5Dread");
        EXPECT_EQ(read, patterned_bytes(240)) << kind << name;
      }
    }
  }
}

}  // namespace
}  // namespace h5feed::test
