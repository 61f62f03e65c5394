// SPDX-License-Identifier: Apache-2.0
// Names in groups of the old format: libhdf5 1.10 crashes over most of the damaged ones.
#include "store/checks/old_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "store/checks/structure_check.hpp"
#include "support/files/structure_file.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

class OldGroup : public StoreStructure {
 protected:
  // /images, and a group /g with a dataset, a soft link, and free blocks in its heap of names.
  void write_group() const {
    H5TestFile file(path(), {});
    file.create({.path = "images", .shape = {4, 2}});
    file.create({.path = "g/x", .shape = {4}});
    for (const char* name : {"g/first-to-go", "g/between", "g/second-to-go", "g/last"})
      require(H5Lcreate_soft("/images", file.id(), name, H5P_DEFAULT, H5P_DEFAULT), "H5Lcreate_soft");
    for (const char* name : {"g/first-to-go", "g/second-to-go"})
      require(H5Ldelete(file.id(), name, H5P_DEFAULT), "H5Ldelete");
  }

  // The heap and the symbol table of /g: the only ones behind those of the root group.
  std::uint64_t heap() const { return find_from("HEAP", find("HEAP") + 1); }
  std::uint64_t number(std::uint64_t at) const {
    const std::vector<std::byte> bytes = file_bytes(path());
    return little_endian(std::span(bytes).subspan(at, 8));
  }
  std::uint64_t segment() const { return number(heap() + 24); }
  std::uint64_t first_free() const { return segment() + number(heap() + 16); }
  // The entry of the name `name` in the symbol table of /g.
  std::uint64_t entry(const std::string& name) const {
    constexpr std::uint64_t kEntryBytes = 40;
    const std::uint64_t offset = find_from(name + '\0', segment()) - segment();
    std::uint64_t at = find_from("SNOD", find("SNOD") + 1) + 8;
    while (number(at) != offset) at += kEntryBytes;
    return at;
  }

  std::string damage() const { return header_damage(*open_file_source(path()), header_address(path(), "g")); }
};

TEST_F(OldGroup, is_read_with_free_blocks_and_soft_links) {
  write_group();
  EXPECT_EQ(damage(), "");
  EXPECT_EQ(H5File::open(path())->list_datasets().size(), 2U);
}

TEST_F(OldGroup, with_damaged_names_is_refused_and_costs_that_group_only) {
  write_group();
  const std::vector<std::byte> intact = file_bytes(path());
  const std::string at = " of the local heap at byte " + std::to_string(heap()) + ", which does not hold it";
  const std::uint64_t size = number(heap() + 8);
  const auto refused = [&](std::uint64_t place, auto value, const std::string& why) {
    put(place, value);
    EXPECT_THAT(damage(), HasSubstr(why));
    const std::vector<DatasetEntry> listed = H5File::open(path())->list_datasets();
    ASSERT_EQ(listed.size(), 2U) << "the group is listed with its problem";
    EXPECT_THAT(listed[0].problem, HasSubstr(why));
    EXPECT_EQ(describe_message(), "accepted") << "other datasets can be used";
    replace_file(path(), intact);
  };
  refused(entry("x"), std::uint64_t{1} << 40, "a group has a name at byte 1099511627776" + at);
  refused(entry("x"), size, "a group has a name at byte " + std::to_string(size) + at);
  refused(entry("last") + 24, std::uint32_t{0xfffffff0},
          "a group has a soft link whose target is at byte 4294967280" + at);
}

TEST_F(OldGroup, whose_last_name_has_no_end_is_refused) {
  write_group();
  const std::uint64_t begin = segment(), end = begin + number(heap() + 8);
  put<std::uint64_t>(heap() + 16, 1);  // No free blocks, whose bytes follow
  for (std::uint64_t at = begin + 8; at < end; ++at) put<std::uint8_t>(at, 'a');
  EXPECT_THAT(damage(), HasSubstr("a group has a "));
}

TEST_F(OldGroup, with_a_damaged_list_of_free_blocks_is_refused) {
  write_group();
  const std::vector<std::byte> intact = file_bytes(path());
  const std::uint64_t size = number(heap() + 8);
  const auto refused = [&](std::uint64_t place, std::uint64_t value, const std::string& why) {
    put(place, value);
    EXPECT_EQ(damage(), "the local heap at byte " + std::to_string(heap()) + why);
    replace_file(path(), intact);
  };
  const std::string beyond = ", beyond its " + std::to_string(size) + " bytes";
  refused(heap() + 16, size - 8, " has a free block at its byte " + std::to_string(size - 8) + beyond);
  refused(first_free(), ~std::uint64_t{0}, " has a free block at its byte 18446744073709551615" + beyond);
  refused(first_free(), first_free() - segment(), " has a list of free blocks that leads in a circle");
  refused(first_free() + 8, size,
          " has a free block of " + std::to_string(size) + " bytes at its byte " +
              std::to_string(first_free() - segment()) + beyond);
  refused(heap() + 8, 1'000'000, " claims 1000000 bytes, more than the file has behind them");
}

// The superblock says where the file ends; libhdf5 reads nothing that was appended.
TEST_F(OldGroup, whose_heap_is_behind_the_end_of_the_file_is_refused) {
  write_group();
  const std::uint64_t end = file_bytes(path()).size();
  put<std::uint64_t>(end + 1000, 0);
  put<std::uint64_t>(heap() + 24, end);
  EXPECT_THAT(damage(), HasSubstr("more than the file has behind them"));
}

TEST_F(OldGroup, of_the_root_is_examined_when_the_file_is_opened) {
  write_group();
  const std::uint64_t root = find("HEAP");
  put<std::uint64_t>(root + 16, 3);
  EXPECT_THAT(open_message(),
              HasSubstr("train.h5: the local heap at byte " + std::to_string(root) + " has a free block"));
}

// libhdf5 looks at the name of a driver only.
TEST_F(OldGroup, of_the_root_is_examined_beside_a_text_that_looks_like_a_driver) {
  write_group();
  constexpr std::uint64_t kDriverAt = 48;
  const std::uint64_t block = (file_bytes(path()).size() + 7) / 8 * 8;
  put<std::uint64_t>(block, 0);
  put<std::uint64_t>(block + 8, 0x5241424f4f46);  // FOOBAR
  put<std::uint64_t>(block + 16, 0);
  std::vector<std::byte> bytes = file_bytes(path());
  std::ranges::copy(std::as_bytes(std::span("NCSAfami", 8)), bytes.end() - 8);
  replace_file(path(), bytes);
  put<std::uint64_t>(kDriverAt, block);
  put<std::uint64_t>(find("HEAP") + 16, 3);
  EXPECT_THAT(open_message(), HasSubstr("has a free block"));
}

// libhdf5 1.10 writes beyond its memory where it makes such a file.
TEST_F(OldGroup, with_wide_numbers_is_left_to_the_reader_process) {
  write_group();
  constexpr std::uint64_t kAddressBytesAt = 13;
  put<std::uint8_t>(kAddressBytesAt, 16);
  EXPECT_THAT(open_message(),
              HasSubstr("it has addresses or lengths of 16 or 32 bytes, so that h5feed cannot"));
}

TEST_F(OldGroup, is_found_where_addresses_and_lengths_differ_in_width) {
  for (const std::size_t address_bytes : {4U, 8U}) {
    const Hid creation(H5Pcreate(H5P_FILE_CREATE));
    require(H5Pset_sizes(creation.get(), address_bytes, 12 - address_bytes), "H5Pset_sizes");
    {
      const Hid file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT));
      const Hid group(H5Gcreate2(file.get(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
    EXPECT_EQ(open_message(), "accepted");
    const std::uint64_t root = find("HEAP");
    put<std::uint32_t>(root + 8, 1 << 20);
    EXPECT_THAT(open_message(),
                HasSubstr("the local heap at byte " + std::to_string(root) + " claims 1048576"));
  }
}

TEST_F(OldGroup, tells_of_names_of_external_files_that_its_heap_does_not_hold) {
  {
    H5TestFile file(path(), {});
    file.create({.path = "images", .shape = {4, 2}, .external_file = "values.bin"});
  }
  EXPECT_EQ(header_damage(*open_file_source(path()), header_address(path(), "images")), "");
  const std::uint64_t names = heap(), name = find_from("values.bin", names) - number(names + 24);
  const std::vector<std::byte> bytes = file_bytes(path());
  // The list in the header: places and files, one of each; address of the heap; place of the name.
  std::uint64_t list = header_address(path(), "images");
  while (number(list) != names || number(list + 8) != name) ++list;
  const std::vector<std::byte> intact = file_bytes(path());
  put<std::uint8_t>(number(names + 24) + name, 0);
  EXPECT_THAT(describe_message(), HasSubstr("the name of an external file is empty"));
  replace_file(path(), intact);
  put<std::uint64_t>(list + 8, 1'000'000);
  EXPECT_THAT(describe_message(),
              HasSubstr("the name of an external file is at byte 1000000 of the local heap"));
}

}  // namespace
}  // namespace h5feed::test
