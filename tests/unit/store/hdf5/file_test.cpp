// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <limits>

#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "store/format/byte_order.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/text_list.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

class StoreFile : public testing::Test {
 protected:
  std::filesystem::path path() const { return dir_ / "train.h5"; }

  std::string open_message() const {
    return refusal_in<FileError>(dir_.path(), [this] { H5File::open(path()); });
  }
  std::string describe_message(const std::string& name, const PathOption& option = {}) const {
    const auto file = H5File::open(path());
    return refusal_in<DatasetError>(dir_.path(), [&] { file->describe(name, option); });
  }

  TempDir dir_;
};

// The texts take 32 bytes each, however short they are.
TEST_F(StoreFile, refuses_a_list_of_texts_that_would_take_much_memory) {
  {
    H5TestFile file(path());
    file.create({.path = "only", .file_type = H5T_C_S1, .shape = {20'000'000}});
  }
  const auto file = H5File::open(path());
  EXPECT_EQ(refusal_in<DatasetError>(dir_.path(), [&] { read_text_list(*file, "only", {}); }),
            "train.h5:/only: a list of 20,000,000 strings is too long; name another dataset");
}

TEST_F(StoreFile, says_that_a_file_is_missing) {
  EXPECT_EQ(open_message(), "train.h5: no such file; check the path");
}

TEST_F(StoreFile, says_that_a_file_is_a_directory) {
  std::filesystem::create_directory(path());
  EXPECT_EQ(open_message(), "train.h5: is a directory; name a file in it");
}

TEST_F(StoreFile, says_that_a_file_is_not_hdf5) {
  const std::string expected =
      "train.h5: not an HDF5 file; check the path, and unpack it if it is compressed";
  for (const std::size_t size : {0U, 7U, 5000U}) {
    test::replace_file(path(), test::patterned_bytes(size));
    EXPECT_EQ(open_message(), expected) << size;
  }
}

TEST_F(StoreFile, says_by_how_much_a_file_is_truncated) {
  for (const bool latest : {false, true}) {
    for (const std::uint64_t user_block : {0U, 512U}) {
      {
        H5TestFile file(path(), {.latest = latest, .user_block = user_block});
        file.create({.shape = {3000}});
        file.write("x", test::patterned_bytes(3000));
      }
      std::vector<std::byte> bytes = test::file_bytes(path());
      const std::size_t whole = bytes.size();
      bytes.resize(2345);
      test::replace_file(path(), bytes);
      const std::string sizes = std::to_string(whole).insert(1, ",");
      EXPECT_EQ(open_message(), "train.h5: truncated: the file has 2,345 bytes, its header says " + sizes +
                                    "; copy it again from its source");
    }
  }
}

TEST_F(StoreFile, says_that_the_writer_did_not_close_the_file) {
  std::vector<std::byte> bytes;
  {
    H5TestFile file(dir_ / "writing.h5", {.latest = true});
    file.create({.shape = {3000}});
    test::require(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), "H5Fflush");
    bytes = test::file_bytes(dir_ / "writing.h5");
  }
  test::replace_file(path(), bytes);
  EXPECT_EQ(open_message(),
            "train.h5 was not closed by its writer; if none runs: h5clear -s --increment=0 train.h5");
}

TEST_F(StoreFile, opens_a_file_that_a_swmr_writer_has) {
  {
    H5TestFile file(path(), {.latest = true});
    file.create({.shape = {3000}, .max_shape = {4000}, .chunk = {500}});
  }
  const Hid locks(H5Pcreate(H5P_FILE_ACCESS));
  test::require(H5Pset_libver_bounds(locks.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST),
                "H5Pset_libver_bounds");
  test::require(H5Pset_file_locking(locks.get(), false, true), "H5Pset_file_locking");
  std::vector<std::byte> bytes;
  {
    const Hid writer(H5Fopen(path().c_str(), H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE, locks.get()));
    // While the writer has it open: in this process libhdf5 would give the file that it has open.
    bytes = test::file_bytes(path());
    test::replace_file(dir_ / "copy.h5", bytes);
    const auto copy = H5File::open(dir_ / "copy.h5");
    EXPECT_TRUE(copy->swmr_writer());
    EXPECT_EQ(copy->describe("x").shape, (std::vector<std::uint64_t>{3000}));
    EXPECT_NO_THROW(H5File::open(path())) << "which this process itself writes";
  }
  EXPECT_FALSE(H5File::open(path())->swmr_writer()) << "the writer has closed it";
  // libhdf5 does not compare the size of such a file with the one in its header.
  for (const std::size_t size : {50U, 100U, 150U}) {
    ASSERT_LT(size, bytes.size());
    test::replace_file(dir_ / "copy.h5", std::span(bytes).first(size));
    EXPECT_NE(test::refusal_of<Error>([&] { H5File::open(dir_ / "copy.h5")->describe("x"); }), "accepted")
        << size;
  }
}

TEST_F(StoreFile, says_how_numbers_of_variable_length_are_read) {
  const Hid ragged(H5Tvlen_create(H5T_STD_I32LE));
  {
    H5TestFile file(path());
    file.create({.path = "x", .file_type = ragged.get(), .shape = {4}});
    file.create({.path = "table", .file_type = ragged.get(), .shape = {4, 2}});
  }
  EXPECT_EQ(describe_message("x"),
            "train.h5:/x: the elements are i32 of variable length; they can be a named field, with collate = "
            "ragged or pad, while the samples of the data have one shape");
  EXPECT_THAT(describe_message("table"),
              testing::StartsWith("train.h5:/table: the elements are variable-length; h5feed reads"));
  EXPECT_EQ(H5File::open(path())->list_datasets().front().type_text, "variable-length");
}

TEST_F(StoreFile, says_why_libhdf5_refuses_a_damaged_file) {
  { const H5TestFile file(path(), {.latest = true}); }
  std::vector<std::byte> bytes = test::file_bytes(path());
  bytes[45] ^= std::byte{0xff};  // the superblock's checksum
  test::replace_file(path(), bytes);
  EXPECT_THAT(open_message(), testing::AllOf(testing::StartsWith("train.h5: libhdf5 cannot open it: "),
                                             testing::EndsWith("; restore the file from a good copy")));
}

TEST_F(StoreFile, prints_nothing_and_leaves_the_hosts_error_handler_alone) {
  { const H5TestFile file(path()); }
  static int calls = 0;
  const auto count = [](hid_t, void*) -> herr_t { return ++calls, 0; };
  H5E_auto2_t saved = nullptr;
  void* saved_data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &saved, &saved_data);
  H5Eset_auto2(H5E_DEFAULT, count, nullptr);
  testing::internal::CaptureStderr();
  const auto file = H5File::open(path());
  EXPECT_THROW(file->describe("x"), DatasetError);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(calls, 0);
  EXPECT_LT(H5Fopen("/nonexistent", H5F_ACC_RDONLY, H5P_DEFAULT), 0);
  EXPECT_EQ(calls, 1);
  H5Eset_auto2(H5E_DEFAULT, saved, saved_data);
}

TEST_F(StoreFile, restores_an_error_handler_of_the_old_interface) {
  { const H5TestFile file(path()); }
  static int calls = 0;
  const auto count = [](void*) -> herr_t { return ++calls, 0; };
  H5Eset_auto1(count, nullptr);
  testing::internal::CaptureStderr();
  EXPECT_THROW(H5File::open(path())->describe("x"), DatasetError);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_LT(H5Fopen("/nonexistent", H5F_ACC_RDONLY, H5P_DEFAULT), 0);
  EXPECT_EQ(calls, 1);
  H5Eset_auto2(H5E_DEFAULT, reinterpret_cast<H5E_auto2_t>(H5Eprint2), stderr);
}

TEST_F(StoreFile, names_the_datasets_that_exist) {
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {20000, 3, 218, 178}});
    file.create({.path = "labels", .shape = {20000}});
  }
  EXPECT_EQ(describe_message("imgs"),
            "train.h5: no dataset \"imgs\"; it has /images (20000×3×218×178 u8), /labels (20000 u8). "
            "Try .data = \"images\"");
  EXPECT_EQ(describe_message("lables", {.name = "target"}),
            "train.h5: no dataset \"lables\"; it has /images (20000×3×218×178 u8), /labels (20000 u8). "
            "Try .target = \"labels\"");
  EXPECT_EQ(describe_message("qqqqqqqqqqqq", {.name = "target"}),
            "train.h5: no dataset \"qqqqqqqqqqqq\"; it has /images (20000×3×218×178 u8), /labels (20000 u8)");
}

TEST_F(StoreFile, finds_datasets_in_groups) {
  {
    H5TestFile file(path());
    file.create({.path = "train/images", .shape = {2, 3, 4}});
    file.create({.path = "train/labels", .shape = {2}});
    file.create({.path = "meta/labels", .shape = {}});
  }
  EXPECT_EQ(describe_message("images"),
            "train.h5: no dataset \"images\"; it has /meta/labels (scalar u8), /train/images (2×3×4 u8), "
            "/train/labels (2 u8). Try .data = \"train/images\"");
  EXPECT_EQ(describe_message("train"),
            "train.h5: \"train\" is a group; it has /train/images (2×3×4 u8), /train/labels (2 u8). "
            "Try .data = \"train/images\"");
  EXPECT_THAT(describe_message("/"), testing::StartsWith("train.h5: \"/\" is a group; it has /meta/labels"));
  EXPECT_EQ(H5File::open(path())->describe("train/images").path, "/train/images");
  EXPECT_EQ(H5File::open(path())->describe("//train/images").path, "/train/images");
}

TEST_F(StoreFile, lists_eight_datasets_and_counts_the_rest) {
  {
    H5TestFile file(path());
    for (char c = 'a'; c < 'm'; ++c) file.create({.path = std::string(3, c), .shape = {1}});
  }
  EXPECT_EQ(describe_message("zzz"),
            "train.h5: no dataset \"zzz\"; it has /aaa (1 u8), /bbb (1 u8), /ccc (1 u8), /ddd (1 u8), "
            "/eee (1 u8), /fff (1 u8), /ggg (1 u8), /hhh (1 u8) and 4 more");
}

TEST_F(StoreFile, says_that_a_file_has_no_datasets) {
  { const H5TestFile file(path()); }
  EXPECT_EQ(describe_message("x"), "train.h5: no dataset \"x\"; it has no datasets");
}

TEST_F(StoreFile, lists_each_dataset_once_whatever_links_there_are) {
  {
    H5TestFile file(path());
    file.create({.path = "b", .shape = {3}});
    test::require(H5Lcreate_hard(file.id(), "b", file.id(), "a", H5P_DEFAULT, H5P_DEFAULT), "H5Lcreate_hard");
    test::require(H5Lcreate_soft("/b", file.id(), "c", H5P_DEFAULT, H5P_DEFAULT), "H5Lcreate_soft");
    // A group that contains itself.
    const Hid group(H5Gcreate2(file.id(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    test::require(H5Lcreate_hard(file.id(), "g", group.get(), "again", H5P_DEFAULT, H5P_DEFAULT),
                  "H5Lcreate_hard");
  }
  const auto file = H5File::open(path());
  const std::vector<DatasetEntry> entries = file->list_datasets();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].path, "/a");
  EXPECT_EQ(file->describe("c").shape, (std::vector<std::uint64_t>{3}));
}

TEST_F(StoreFile, refuses_every_type_that_is_not_numeric) {
  const Hid string(H5Tcopy(H5T_C_S1));
  test::require(H5Tset_size(string.get(), H5T_VARIABLE), "H5Tset_size");
  const Hid compound(H5Tcreate(H5T_COMPOUND, 2));
  test::require(H5Tinsert(compound.get(), "a", 0, H5T_STD_U8LE), "H5Tinsert");
  const Hid enumeration(H5Tenum_create(H5T_STD_I8LE));
  const std::int8_t yes = 1;
  test::require(H5Tenum_insert(enumeration.get(), "TRUE", &yes), "H5Tenum_insert");
  const hsize_t three = 3;
  const Hid array(H5Tarray_create2(H5T_STD_U8LE, 1, &three));
  const Hid odd(H5Tcopy(H5T_STD_U16LE));
  test::require(H5Tset_size(odd.get(), 3), "H5Tset_size");
  // The format of the HDF5 manual's example, and bfloat16 with another bias.
  const Hid short_float(H5Tcopy(H5T_IEEE_F32LE));
  test::require(H5Tset_fields(short_float.get(), 19, 13, 6, 0, 13), "H5Tset_fields");
  test::require(H5Tset_precision(short_float.get(), 20), "H5Tset_precision");
  test::require(H5Tset_ebias(short_float.get(), 31), "H5Tset_ebias");
  const Hid biased(test::float16_type(7, 15, H5T_ORDER_LE));
  const Hid flags(H5Tcopy(H5T_STD_B16BE));
  test::require(H5Tset_precision(flags.get(), 5), "H5Tset_precision");
  test::require(H5Tset_offset(flags.get(), 3), "H5Tset_offset");
  const std::pair<hid_t, std::string> types[] = {
      {string.get(), "string"},
      {H5T_C_S1, "string"},
      {compound.get(), "compound"},
      {array.get(), "array"},
      {odd.get(), "integers of 3 bytes"},
      {short_float.get(), "20-bit floats (6 exponent and 13 mantissa bits, bias 31)"},
      {biased.get(), "16-bit floats (8 exponent and 7 mantissa bits, bias 15)"},
      {H5T_NATIVE_LDOUBLE, std::numeric_limits<long double>::digits == 64
                               ? "long double (80-bit floats)"
                               : "128-bit floats (15 exponent and 112 mantissa bits, bias 16383)"},
      {H5T_VAX_F32, "32-bit floats in the byte order of the VAX"},
      {flags.get(), "bitfields of 5 bits at bit 3 of 16"},
      {H5T_STD_REF_OBJ, "reference"}};
  for (const auto& [type, text] : types) {
    {
      H5TestFile file(path());
      file.create({.path = "x", .file_type = type, .shape = {4}});
    }
    EXPECT_EQ(describe_message("x"),
              "train.h5:/x: the elements are " + text +
                  "; h5feed reads integers of 1, 2, 4 or 8 bytes, bitfields of 8, 16, 32 or 64 bits, "
                  "enumerations, IEEE floats of 16, 32 or 64 bits, bfloat16 and "
                  "complex numbers; store the data as one of these");
    const std::vector<DatasetEntry> entries = H5File::open(path())->list_datasets();
    ASSERT_EQ(entries.size(), 1U);
    EXPECT_EQ(entries[0].type_text, text);
    EXPECT_FALSE(entries[0].numeric);
  }
}

TEST_F(StoreFile, refuses_a_dataset_created_without_elements) {
  {
    const H5TestFile file(path());
    const Hid space(H5Screate(H5S_NULL));
    const Hid dataset(
        H5Dcreate2(file.id(), "x", H5T_STD_U8LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  EXPECT_EQ(describe_message("x"), "train.h5:/x: the dataset was created without any elements; name another");
}

TEST_F(StoreFile, describes_layout_filters_and_fill_value) {
  {
    H5TestFile file(path());
    file.create(
        {.path = "x",
         .file_type = H5T_STD_U16BE,
         .shape = {10, 4},
         .max_shape = {~std::uint64_t{0}, 4},
         .chunk = {3, 4},
         .filters = {{.id = 2, .optional = true}, {.id = 1, .optional = true, .params = {5}}, {.id = 3}},
         .fill_value = {std::byte{1}, std::byte{2}}});
  }
  const DatasetInfo info = H5File::open(path())->describe("x");
  EXPECT_EQ(info.dtype, DType::u16);
  EXPECT_EQ(info.byte_swapped, !kHostIsBigEndian);
  EXPECT_EQ(info.layout, StorageLayout::chunked);
  EXPECT_EQ(info.chunk_shape, (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(info.max_shape, (std::vector<std::uint64_t>{~std::uint64_t{0}, 4}));
  EXPECT_EQ(info.fill_value.at(kHostIsBigEndian ? 0 : 1), std::byte{1});
  ASSERT_EQ(info.filters.size(), 3U);
  EXPECT_EQ(info.filters[0].params, (std::vector<unsigned>{2}));
  EXPECT_EQ(info.filters[1].name, "gzip");
  EXPECT_TRUE(info.filters[1].optional);
  EXPECT_FALSE(info.filters[2].optional);
  EXPECT_EQ(info.shape_text(), "10×4 u16");
  EXPECT_EQ(info.row_bytes(), 8U);
  EXPECT_EQ(info.total_bytes(), 80U);
  EXPECT_EQ(info.stored_bytes, 0U);
}

TEST_F(StoreFile, reads_rows_through_libhdf5) {
  const std::vector<std::byte> values = test::patterned_bytes(10 * 4 * 2);
  {
    H5TestFile file(path());
    file.create({.path = "x", .file_type = H5T_STD_U16BE, .shape = {10, 4}, .chunk = {3, 2}});
    file.write("x", values);
  }
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("x");
  std::vector<std::byte> rows(3 * 8);
  file->read_rows(info, 5, 3, rows, 1 << 20);
  EXPECT_EQ(rows, std::vector<std::byte>(values.begin() + 40, values.begin() + 64));
  std::vector<std::byte> box(2 * 2);
  file->read_hyperslab(info, std::vector<std::uint64_t>{1, 3}, std::vector<std::uint64_t>{2, 1}, box);
  EXPECT_EQ(box, (std::vector<std::byte>{values[14], values[15], values[22], values[23]}));
  EXPECT_EQ(refusal_in<FileError>(dir_.path(), [&] { file->read_rows(info, 8, 3, rows); })
                .find("train.h5:/x: libhdf5 "
                      "cannot read 3×4"),
            0U);
}

TEST_F(StoreFile, opens_a_file_that_another_process_locks) {
  { const H5TestFile file(path()); }
  const FileDescriptor fd(open(path().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(fd.get(), LOCK_EX | LOCK_NB), 0);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  EXPECT_LT(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), 0) << "the lock has no effect here";
  EXPECT_NO_THROW(H5File::open(path()));
}

TEST_F(StoreFile, opens_a_file_that_the_host_program_holds) {
  H5TestFile writer(path());
  writer.create({.shape = {3}});
  writer.write("x", test::patterned_bytes(3));
  EXPECT_EQ(H5File::open(path())->describe("x").shape, (std::vector<std::uint64_t>{3}));
}

TEST(Hdf5Version, must_equal_that_of_the_headers) {
  EXPECT_NO_THROW(check_hdf5_version(H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE));
  const std::string built = std::to_string(H5_VERS_MAJOR) + "." + std::to_string(H5_VERS_MINOR) + "." +
                            std::to_string(H5_VERS_RELEASE);
  try {
    check_hdf5_version(1, 8, 23);
    FAIL() << "accepted";
  } catch (const VersionError& error) {
    EXPECT_EQ(error.what(), "libhdf5 1.8.23 is loaded, but h5feed was built with " + built +
                                "; load that one or build h5feed again");
  }
  EXPECT_THROW(check_hdf5_version(H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE + 1), VersionError);
}

}  // namespace
}  // namespace h5feed::test
