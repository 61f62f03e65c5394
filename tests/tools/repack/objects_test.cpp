// SPDX-License-Identifier: Apache-2.0
// h5feed repack: everything but the values comes over, or is refused by its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/write/object_copy.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Pair {
  std::int32_t number;
  double real;
};

void write_attribute(hid_t object, const char* name, hid_t type, const std::vector<hsize_t>& shape,
                     const void* value) {
  const Hid space(shape.empty() ? H5Screate(H5S_SCALAR)
                                : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const Hid attribute(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  require(H5Awrite(attribute.get(), type, value), "H5Awrite");
}

Hid ordered(hid_t plist_class) {
  Hid plist(H5Pcreate(plist_class));
  require(H5Pset_attr_creation_order(plist.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), "order");
  if (plist_class == H5P_GROUP_CREATE) {
    require(H5Pset_link_creation_order(plist.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), "order");
  }
  return plist;
}

void write_references(hid_t file) {
  hobj_ref_t targets[4] = {};  // the last one stays null
  require(H5Rcreate(&targets[0], file, "/images", H5R_OBJECT, -1), "H5Rcreate");
  require(H5Rcreate(&targets[1], file, "/ordered", H5R_OBJECT, -1), "H5Rcreate");
  require(H5Rcreate(&targets[2], file, "/pair", H5R_OBJECT, -1), "H5Rcreate");
  const hsize_t four = 4;
  const Hid space(H5Screate_simple(1, &four, nullptr));
  const Hid dataset(
      H5Dcreate2(file, "references", H5T_STD_REF_OBJ, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  require(H5Dwrite(dataset.get(), H5T_STD_REF_OBJ, H5S_ALL, H5S_ALL, H5P_DEFAULT, targets), "H5Dwrite");

  const Hid images(H5Dopen2(file, "/images", H5P_DEFAULT));
  const Hid region_space(H5Dget_space(images.get()));
  const std::array<hsize_t, 4> start = {3, 0, 1, 0}, count = {2, 3, 4, 5};
  require(
      H5Sselect_hyperslab(region_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
      "select");
  hdset_reg_ref_t region = {};
  require(H5Rcreate(&region, file, "/images", H5R_DATASET_REGION, region_space.get()), "H5Rcreate");
  const Hid root(H5Gopen2(file, "/", H5P_DEFAULT));
  write_attribute(root.get(), "region", H5T_STD_REF_DSETREG, {}, &region);

  // As dimension scales are stored: sequences of references, and compounds with one.
  const Hid list(H5Tvlen_create(H5T_STD_REF_OBJ));
  hvl_t sequence = {2, targets};
  write_attribute(images.get(), "DIMENSION_LIST", list.get(), {}, &sequence);
  struct Back {
    hobj_ref_t object;
    std::int32_t dimension;
  };
  const Back back = {targets[0], 1};
  const Hid compound(H5Tcreate(H5T_COMPOUND, sizeof(Back)));
  H5Tinsert(compound.get(), "dataset", 0, H5T_STD_REF_OBJ);
  H5Tinsert(compound.get(), "dimension", offsetof(Back, dimension), H5T_NATIVE_INT32);
  write_attribute(images.get(), "REFERENCE_LIST", compound.get(), {}, &back);
}

// One of everything that a file may hold.
void write_rich_file(const std::filesystem::path& path, TestFileOptions options) {
  H5TestFile file(path, options);
  const Hid type(H5Tcreate(H5T_COMPOUND, sizeof(Pair)));
  H5Tinsert(type.get(), "number", offsetof(Pair, number), H5T_STD_I32LE);
  H5Tinsert(type.get(), "real", offsetof(Pair, real), H5T_IEEE_F64LE);
  require(H5Tcommit2(file.id(), "pair", type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "H5Tcommit2");
  const std::int32_t on_type = 5;
  write_attribute(type.get(), "note", H5T_STD_I32LE, {}, &on_type);

  file.create({.path = "images",
               .shape = {20, 3, 8, 9},
               .chunk = {3, 3, 4, 9},
               .filters = parse_filters("gzip:1", 1)});
  file.write("images", patterned_bytes(20 * 3 * 8 * 9));
  file.create({.path = "labels", .shape = {20}});
  file.write("labels", patterned_bytes(20, 4));

  const Hid group(
      H5Gcreate2(file.id(), "ordered", H5P_DEFAULT, ordered(H5P_GROUP_CREATE).get(), H5P_DEFAULT));
  const hsize_t three = 3;
  const Hid space(H5Screate_simple(1, &three, nullptr));
  const Pair pairs[3] = {{1, 1.5}, {2, 2.5}, {3, 3.5}};
  for (const char* name : {"zebra", "ant", "mole"}) {
    const Hid dataset(H5Dcreate2(group.get(), name, type.get(), space.get(), H5P_DEFAULT,
                                 ordered(H5P_DATASET_CREATE).get(), H5P_DEFAULT));
    require(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pairs), "H5Dwrite");
    for (const char* attribute : {"second", "first"})
      write_attribute(dataset.get(), attribute, type.get(), {3}, pairs);
  }
  // More than a header holds: kept in heaps.
  for (std::int32_t i = 0; i < 20; ++i) {
    write_attribute(group.get(), ("number " + std::to_string(40 - i)).c_str(), H5T_STD_I32LE, {}, &i);
    const Hid member(H5Gcreate2(group.get(), ("member " + std::to_string(40 - i)).c_str(), H5P_DEFAULT,
                                H5P_DEFAULT, H5P_DEFAULT));
  }
  file.create({.path = "outside", .shape = {4}, .external_file = path.parent_path() / "outside.bin"});
  file.write("outside", patterned_bytes(4));
  const Hid text(H5Tcopy(H5T_C_S1));
  require(H5Tset_size(text.get(), H5T_VARIABLE), "H5Tset_size");
  require(H5Tset_cset(text.get(), H5T_CSET_UTF8), "H5Tset_cset");
  const char* words[3] = {"eins", "", "dr€i"};
  const Hid strings(
      H5Dcreate2(file.id(), "strings", text.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  require(H5Dwrite(strings.get(), text.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, words), "H5Dwrite");
  const Hid images(H5Dopen2(file.id(), "images", H5P_DEFAULT));
  write_attribute(images.get(), "words", text.get(), {3}, words);
  require(H5Oset_comment(images.get(), "by hand"), "H5Oset_comment");

  require(H5Lcreate_hard(file.id(), "/images", group.get(), "same", H5P_DEFAULT, H5P_DEFAULT), "hard");
  require(H5Lcreate_hard(file.id(), "/", group.get(), "root", H5P_DEFAULT, H5P_DEFAULT), "hard");
  require(H5Lcreate_soft("/images", file.id(), "soft", H5P_DEFAULT, H5P_DEFAULT), "soft");
  require(H5Lcreate_soft("/nowhere", file.id(), "dangling", H5P_DEFAULT, H5P_DEFAULT), "soft");
  require(H5Lcreate_external("other.h5", "/x", file.id(), "external", H5P_DEFAULT, H5P_DEFAULT), "external");
  const Hid null_space(H5Screate(H5S_NULL));
  const Hid null_dataset(
      H5Dcreate2(file.id(), "null", H5T_STD_I32LE, null_space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  write_references(file.id());
}

struct Seen {
  std::string object;
  std::vector<std::byte> bytes;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> everything_in(const std::filesystem::path& path) {
  std::vector<Seen> all;
  const auto file = H5File::open(path);
  CopyPlan plan{.latest = true};
  plan.filled_by_caller["/images"] = {};
  visit_values(*file, plan, [&](const std::string& object, std::span<const std::byte> bytes) {
    all.push_back({object, {bytes.begin(), bytes.end()}});
  });
  return all;
}

// What the reference at `place` points to is what this name leads to.
void expect_reference(const Hid& file, std::size_t place, const char* name) {
  const Hid id(H5Dopen2(file.get(), "references", H5P_DEFAULT));
  std::array<hobj_ref_t, 4> references = {};
  require(H5Dread(id.get(), H5T_STD_REF_OBJ, H5S_ALL, H5S_ALL, H5P_DEFAULT, references.data()), "H5Dread");
  hobj_ref_t expected = 0;
  require(H5Rcreate(&expected, file.get(), name, H5R_OBJECT, -1), "H5Rcreate");
  EXPECT_EQ(references[place], expected) << name;
  EXPECT_EQ(references[3], 0U);
}

struct Format {
  std::string name;
  TestFileOptions options;
};

// Names the parameter where a test fails.
void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

class EveryFormat : public ::testing::TestWithParam<Format> {};

TEST_P(EveryFormat, keeps_groups_links_types_attributes_and_references) {
  for (const char* format : {"", "latest"}) {
    const TempDir dir;
    write_rich_file(dir / "a.h5", GetParam().options);
    std::vector<std::string> arguments = {"repack",       "a.h5",    "b.h5", "--dataset",
                                          "ordered/same", "--chunk", "5"};
    if (*format != '\0') arguments.insert(arguments.end(), {"--libver", format});
    const ProgramResult result = run_program(dir.path(), arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;

    const auto before = everything_in(dir / "a.h5");
    EXPECT_GT(before.size(), 40U);
    EXPECT_EQ(everything_in(dir / "b.h5"), before);
    EXPECT_THAT(H5File::open(dir / "b.h5")->describe("images").chunk_shape, ElementsAre(5, 3, 8, 9));
    EXPECT_EQ(read_through_libhdf5(dir / "b.h5", "images"), patterned_bytes(20 * 3 * 8 * 9));

    // And by libhdf5 alone.
    const Hid file(H5Fopen((dir / "b.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    expect_reference(file, 0, "/images");
    expect_reference(file, 1, "/ordered");
    expect_reference(file, 2, "/pair");
    const Hid group(H5Gopen2(file.get(), "ordered", H5P_DEFAULT));
    for (const auto& [place, name] : {std::pair(0U, "zebra"), std::pair(1U, "ant"), std::pair(2U, "mole")}) {
      std::array<char, 16> found = {};
      H5Lget_name_by_idx(group.get(), ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, place, found.data(), found.size(),
                         H5P_DEFAULT);
      EXPECT_STREQ(found.data(), name);
    }
    const Hid images(H5Dopen2(file.get(), "images", H5P_DEFAULT)),
        same(H5Dopen2(group.get(), "same", H5P_DEFAULT));
    hobj_ref_t first = 0, second = 0;
    H5Rcreate(&first, file.get(), "images", H5R_OBJECT, -1);
    H5Rcreate(&second, group.get(), "same", H5R_OBJECT, -1);
    EXPECT_EQ(first, second);
    std::array<char, 16> comment = {};
    H5Oget_comment(images.get(), comment.data(), comment.size());
    EXPECT_STREQ(comment.data(), "by hand");
    const Hid attribute(H5Aopen_by_name(file.get(), "ordered/ant", "first", H5P_DEFAULT, H5P_DEFAULT));
    EXPECT_GT(H5Tcommitted(Hid(H5Aget_type(attribute.get())).get()), 0);
    const Hid dataset(H5Dopen2(file.get(), "ordered/ant", H5P_DEFAULT));
    EXPECT_GT(H5Tcommitted(Hid(H5Dget_type(dataset.get())).get()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Repack, EveryFormat,
                         ::testing::Values(Format{"oldest", {}}, Format{"newest", {.latest = true}},
                                           Format{"behind_a_user_block", {.user_block = 1024}}),
                         [](const auto& format) { return format.param.name; });

// More links and attributes than an object header holds, in an order that is tracked, but has no index.
TEST(Repack, keeps_the_order_of_many_links_and_attributes) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5", {.latest = true});
    const Hid plist(H5Pcreate(H5P_GROUP_CREATE));
    require(H5Pset_link_creation_order(plist.get(), H5P_CRT_ORDER_TRACKED), "order");
    require(H5Pset_attr_creation_order(plist.get(), H5P_CRT_ORDER_TRACKED), "order");
    const Hid group(H5Gcreate2(file.id(), "g", H5P_DEFAULT, plist.get(), H5P_DEFAULT));
    for (int i = 30; i > 0; --i) {
      const std::string name = std::to_string(i);
      require(H5Lcreate_soft("/images", group.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
              "H5Lcreate_soft");
      write_attribute(group.get(), name.c_str(), H5T_NATIVE_INT, {}, &i);
    }
    file.create({.path = "images", .shape = {4, 5, 6}});
  }
  ASSERT_EQ(run_program(dir.path(), {"repack", "a.h5", "b.h5", "--chunk", "1"}).exit_code, 0);
  const Hid file(H5Fopen((dir / "b.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid group(H5Gopen2(file.get(), "g", H5P_DEFAULT));
  for (unsigned place = 0; place < 30; ++place) {
    const std::string name = std::to_string(30 - place);
    std::array<char, 16> link = {}, attribute = {};
    H5Lget_name_by_idx(group.get(), ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, place, link.data(), link.size(),
                       H5P_DEFAULT);
    H5Aget_name_by_idx(group.get(), ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, place, attribute.data(),
                       attribute.size(), H5P_DEFAULT);
    EXPECT_EQ(link.data(), name);
    EXPECT_EQ(attribute.data(), name);
  }
}

// The version of a type's stored form, of which HDF5 1.8 knows 1 to 3: behind two bytes of H5Tencode's own.
unsigned stored_version(hid_t type) {
  std::size_t bytes = 0;
  require(H5Tencode(type, nullptr, &bytes), "H5Tencode");
  std::vector<unsigned char> encoded(bytes);
  require(H5Tencode(type, encoded.data(), &bytes), "H5Tencode");
  return encoded.at(2) >> 4U;
}

TEST(Repack, stores_types_in_a_form_that_old_readers_know) {
  const TempDir dir;
  struct Nested {
    hvl_t sequence;
    Pair pair;
    std::int16_t kind[2];
    const char* words;
    char fixed[5];
  };
  const std::array<std::int32_t, 2> numbers = {7, 8};
  const Nested value = {
      {2, const_cast<std::int32_t*>(numbers.data())}, {3, 1.5}, {1, 2}, "one", {'f', 'i', 'v', 'e', '!'}};
  {
    H5TestFile file(dir / "a.h5", {.latest = true});
    file.create({.path = "images", .shape = {20, 3}, .chunk = {3, 3}});
    const Hid sequence(H5Tvlen_create(H5T_NATIVE_INT32)), pair(H5Tcreate(H5T_COMPOUND, sizeof(Pair)));
    H5Tinsert(pair.get(), "number", offsetof(Pair, number), H5T_STD_I32BE);
    H5Tinsert(pair.get(), "real", offsetof(Pair, real), H5T_NATIVE_DOUBLE);
    const Hid kind(H5Tenum_create(H5T_NATIVE_INT16));
    for (std::int16_t i = 1; i <= 2; ++i) H5Tenum_insert(kind.get(), i == 1 ? "cat" : "dog", &i);
    const hsize_t two = 2;
    const Hid kinds(H5Tarray_create2(kind.get(), 1, &two)), words(H5Tcopy(H5T_C_S1)),
        fixed(H5Tcopy(H5T_C_S1));
    require(H5Tset_size(words.get(), H5T_VARIABLE), "H5Tset_size");
    require(H5Tset_cset(words.get(), H5T_CSET_UTF8), "H5Tset_cset");
    require(H5Tset_size(fixed.get(), 5), "H5Tset_size");
    require(H5Tset_strpad(fixed.get(), H5T_STR_SPACEPAD), "H5Tset_strpad");
    const Hid type(H5Tcreate(H5T_COMPOUND, sizeof(Nested)));
    H5Tinsert(type.get(), "sequence", offsetof(Nested, sequence), sequence.get());
    H5Tinsert(type.get(), "pair", offsetof(Nested, pair), pair.get());
    H5Tinsert(type.get(), "kind", offsetof(Nested, kind), kinds.get());
    H5Tinsert(type.get(), "words", offsetof(Nested, words), words.get());
    H5Tinsert(type.get(), "fixed", offsetof(Nested, fixed), fixed.get());
    write_attribute(file.id(), "nested", type.get(), {}, &value);
  }
  const ProgramResult result =
      run_program(dir.path(), {"repack", "a.h5", "b.h5", "--dataset", "images", "--chunk", "5"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Hid before(H5Fopen((dir / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)),
      after(H5Fopen((dir / "b.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid source(H5Aopen(before.get(), "nested", H5P_DEFAULT)),
      copy(H5Aopen(after.get(), "nested", H5P_DEFAULT));
  const Hid source_type(H5Aget_type(source.get())), copy_type(H5Aget_type(copy.get()));
  EXPECT_GT(H5Tequal(source_type.get(), copy_type.get()), 0);
  EXPECT_LE(stored_version(copy_type.get()), 3U);
  Nested read = {};
  require(H5Aread(copy.get(), copy_type.get(), &read), "H5Aread");
  ASSERT_EQ(read.sequence.len, 2U);
  EXPECT_EQ(std::memcmp(read.sequence.p, numbers.data(), sizeof numbers), 0);
  EXPECT_EQ(read.kind[1], 2);
  EXPECT_STREQ(read.words, "one");
  EXPECT_EQ(std::memcmp(read.fixed, "five!", 5), 0);
}

TEST(Repack, keeps_the_user_block) {
  const TempDir dir;
  write_rich_file(dir / "a.h5", {.user_block = 512});
  auto bytes = file_bytes(dir / "a.h5");
  const std::string text = "MATLAB 7.3 MAT-file";
  std::memcpy(bytes.data(), text.data(), text.size());
  replace_file(dir / "a.h5", bytes);
  ASSERT_EQ(run_program(dir.path(), {"repack", "a.h5", "b.h5", "--chunk", "5"}).exit_code, 0);
  const auto copy = file_bytes(dir / "b.h5");
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + 512, copy.begin()));
}

std::string refusal(const TempDir& dir) {
  const ProgramResult result =
      run_program(dir.path(), {"repack", "a.h5", "b.h5", "--dataset", "images", "--chunk", "5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(names_in(dir.path()), ::testing::Not(::testing::Contains("b.h5")));
  EXPECT_THAT(names_in(dir.path()), ::testing::Each(::testing::Not(HasSubstr(".tmp-"))));
  return result.err;
}

TEST(Repack, refuses_by_name_what_it_cannot_keep) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5", {.latest = true});
    file.create({.path = "images", .shape = {20, 3}, .chunk = {3, 3}});
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t shape[2] = {20, 3};
    const Hid space(H5Screate_simple(2, shape, nullptr));
    require(H5Pset_virtual(plist.get(), space.get(), "a.h5", "images", space.get()), "H5Pset_virtual");
    const Hid made(
        H5Dcreate2(file.id(), "view", H5T_STD_U8LE, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }
  EXPECT_EQ(refusal(dir),
            "a.h5:/view: a virtual dataset, which HDF5 1.8 cannot read; keep it with --libver latest\n");
  EXPECT_EQ(run_program(dir.path(), {"repack", "a.h5", "b.h5", "--dataset", "images", "--chunk", "5",
                                     "--libver", "latest"})
                .exit_code,
            0);
  EXPECT_EQ(H5File::open(dir / "b.h5")->describe("view").layout, StorageLayout::virtual_dataset);

  const TempDir other;
  {
    H5TestFile file(other / "a.h5");
    file.create({.path = "images", .shape = {20, 3}, .chunk = {3, 3}});
    file.create({.path = "gone", .shape = {2}});
    hobj_ref_t reference = 0;
    require(H5Rcreate(&reference, file.id(), "gone", H5R_OBJECT, -1), "H5Rcreate");
    const Hid root(H5Gopen2(file.id(), "/", H5P_DEFAULT));
    write_attribute(root.get(), "to_gone", H5T_STD_REF_OBJ, {}, &reference);
    require(H5Ldelete(file.id(), "gone", H5P_DEFAULT), "H5Ldelete");
  }
  EXPECT_EQ(refusal(other),
            "a.h5:/ attribute to_gone: it holds a reference to an object that no link of the file leads to; "
            "remove it "
            "first\n");
}

}  // namespace
}  // namespace h5feed::test
