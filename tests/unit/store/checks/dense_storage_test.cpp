// SPDX-License-Identifier: Apache-2.0
// Groups of many links and objects of many attributes: what libhdf5 writes is accepted, and damage over which
// libhdf5 crashes or asks for memory without end is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/checks/bounded_source.hpp"
#include "store/checks/dense_storage.hpp"
#include "store/checks/structure_check.hpp"
#include "store/format/byte_source.hpp"
#include "store/format/metadata_checksum.hpp"
#include "store/format/superblock.hpp"
#include "store/hdf5/dataset_list.hpp"
#include "support/files/structure_file.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

constexpr int kMany = 30;

void add_text(hid_t object, const std::string& name, const std::string& text) {
  const Hid type(H5Tcopy(H5T_C_S1)), space(H5Screate(H5S_SCALAR));
  require(H5Tset_size(type.get(), text.size() + 1), "H5Tset_size");
  const Hid attribute(H5Acreate2(object, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  require(H5Awrite(attribute.get(), type.get(), text.c_str()), "H5Awrite");
}

void add_links(hid_t group, int count, std::size_t name_bytes) {
  for (int i = 0; i < count; ++i) {
    std::string name = std::to_string(i);
    name.resize(std::max(name.size(), name_bytes), 'x');
    require(H5Lcreate_soft("/images", group, name.c_str(), H5P_DEFAULT, H5P_DEFAULT), "H5Lcreate_soft");
  }
}

class DenseStorage : public StoreStructure {
 protected:
  // A file of the newest format with /images and the group /g, which `fill` gets.
  void write_group(const std::function<void(hid_t)>& fill, hid_t group_list = H5P_DEFAULT) const {
    H5TestFile file(path(), {.latest = true});
    file.create({.path = "images", .shape = {4, 5, 6}});
    const Hid group(H5Gcreate2(file.id(), "g", H5P_DEFAULT, group_list, H5P_DEFAULT));
    fill(group.get());
  }
  std::string damage_of_group() const {
    return header_damage(*open_file_source(path()), header_address(path(), "g"));
  }
  std::uint64_t heap() const { return find("FRHP"); }
  std::uint64_t leaf() const { return find("BTLF"); }
  // Makes the checksums right, behind `bytes` of a structure.
  void seal(std::uint64_t at, std::size_t bytes) const {
    const std::vector<std::byte> file = file_bytes(path());
    put(at + bytes, metadata_checksum(std::span(file).subspan(at, bytes)));
  }
  void seal_heap() const { seal(heap(), 142); }
  // Returns how many bytes precede the checksum of the structure at `at`.
  std::size_t sealed_bytes(std::uint64_t at) const {
    const std::vector<std::byte> file = file_bytes(path());
    std::size_t bytes = 4;
    while (at + bytes + 4 < file.size() && little_endian(std::span(file).subspan(at + bytes, 4)) !=
                                               metadata_checksum(std::span(file).subspan(at, bytes)))
      ++bytes;
    return bytes;
  }
  template <typename Number>
  void put_sealed(std::uint64_t structure, std::uint64_t at, Number number) const {
    const std::size_t bytes = sealed_bytes(structure);
    put(structure + at, number);
    seal(structure, bytes);
  }
  void seal_leaf(std::size_t records_bytes) const { seal(leaf(), 6 + records_bytes); }
  // The contents of the link info message of /g.
  std::vector<std::byte> bytes_of_link_info() const {
    std::vector<std::byte> info(2 + 2 * sizeof(std::uint64_t));
    put_little_endian(info, 2, heap());
    put_little_endian(info, 2 + sizeof(std::uint64_t), find("BTHD"));
    return info;
  }
  template <typename Number>
  void put_in_heap(std::uint64_t at, Number number) const {
    put(heap() + at, number);
    seal_heap();
  }
};

TEST_F(DenseStorage, of_every_kind_is_accepted) {
  const auto filtered = [] {
    Hid list(H5Pcreate(H5P_GROUP_CREATE));
    require(H5Pset_deflate(list.get(), 1), "H5Pset_deflate");
    return list;
  }();
  const auto ordered = [] {
    Hid list(H5Pcreate(H5P_GROUP_CREATE));
    require(H5Pset_link_creation_order(list.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), "order");
    require(H5Pset_attr_creation_order(list.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), "order");
    return list;
  }();
  const auto many_links = [](hid_t group) { add_links(group, 300, 10); };
  // Names above 4,096 bytes are stored outside of the blocks; 12,000 of 60 need blocks within blocks.
  const auto long_names = [](hid_t group) { add_links(group, kMany, 5'000); };
  const auto very_many_links = [](hid_t group) { add_links(group, 12'000, 60); };
  const auto attributes = [](hid_t group) {
    for (int i = 0; i < 200; ++i) add_text(group, std::to_string(i), std::string(300, 'y'));
    for (int i = 0; i < 5; ++i) add_text(group, "large" + std::to_string(i), std::string(70'000, 'y'));
  };
  const auto removed = [](hid_t group) {
    add_links(group, kMany, 10);
    for (int i = 0; i < kMany; ++i) {
      std::string name = std::to_string(i);
      name.resize(10, 'x');
      require(H5Ldelete(group, name.c_str(), H5P_DEFAULT), "H5Ldelete");
    }
  };
  for (const auto& fill : std::vector<std::function<void(hid_t)>>{many_links, long_names, very_many_links,
                                                                  attributes, removed}) {
    for (const hid_t list : {static_cast<hid_t>(H5P_DEFAULT), filtered.get(), ordered.get()}) {
      write_group(fill, list);
      EXPECT_EQ(damage_of_group(), "");
      EXPECT_EQ(open_message(), "accepted");
    }
  }
}

TEST_F(DenseStorage, of_attributes_in_a_table_of_shared_messages_is_accepted) {
  {
    const Hid list(H5Pcreate(H5P_FILE_CREATE)), access(H5Pcreate(H5P_FILE_ACCESS));
    require(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "H5Pset_libver_bounds");
    require(H5Pset_shared_mesg_nindexes(list.get(), 1), "H5Pset_shared_mesg_nindexes");
    require(H5Pset_shared_mesg_index(list.get(), 0, H5O_SHMESG_ALL_FLAG, 20), "H5Pset_shared_mesg_index");
    const Hid file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, list.get(), access.get()));
    const Hid group(H5Gcreate2(file.get(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    for (int i = 0; i < kMany; ++i) add_text(group.get(), std::to_string(i), std::string(300, 'y'));
  }
  EXPECT_EQ(damage_of_group(), "");
  EXPECT_EQ(open_message(), "accepted");
}

TEST_F(DenseStorage, with_a_heap_of_impossible_sizes_is_refused) {
  write_group([](hid_t group) { add_links(group, kMany, 10); });
  ASSERT_EQ(damage_of_group(), "");
  const std::vector<std::byte> intact = file_bytes(path());
  struct Damage {
    std::uint64_t at;
    std::uint16_t value;
    const char* text;
  };
  // Bytes of an id, largest object, blocks of a row, bytes of the first and of the largest block, bits of the
  // space, rows.
  for (const Damage& damage : std::vector<Damage>{{5, 9, "claims ids of 9 bytes, where 7 belong"},
                                                  {10, 0, "for objects of up to 0"},
                                                  {110, 0, "rows of 0 blocks"},
                                                  {110, 3, "rows of 3 blocks"},
                                                  {112, 0, "blocks of 0 to"},
                                                  {112, 513, "blocks of 513 to"},
                                                  {122, 0, "to 0 bytes"},
                                                  {128, 200, "for a space of 200 bits"},
                                                  {128, 3, "rows of blocks in a space of 3 bits"},
                                                  {140, 60, "60 rows of blocks in a space of"}}) {
    replace_file(path(), intact);
    put_in_heap<std::uint16_t>(damage.at, damage.value);
    EXPECT_THAT(damage_of_group(), HasSubstr(damage.text)) << damage.at;
    EXPECT_THAT(damage_of_group(), HasSubstr("the heap at byte " + std::to_string(heap())));
  }
  replace_file(path(), intact);
  put_in_heap<std::uint64_t>(22, 48);
  EXPECT_THAT(damage_of_group(), HasSubstr("has a tree of no huge objects"));
}

TEST_F(DenseStorage, with_ids_that_lead_out_of_the_heap_is_refused) {
  write_group([](hid_t group) { add_links(group, kMany, 10); });
  const std::vector<std::byte> intact = file_bytes(path());
  // Of the first link: hash of the name, then the id: kind, offset, size.
  const std::uint64_t id = leaf() + 6 + 4;
  constexpr std::size_t kRecordsBytes = kMany * 11;
  constexpr unsigned kHuge = 0x10, kTiny = 0x2f;
  put<std::uint8_t>(id, kHuge);
  EXPECT_EQ(damage_of_group(), "") << "libhdf5 refuses the checksum";
  seal_leaf(kRecordsBytes);
  EXPECT_THAT(damage_of_group(), HasSubstr("an id leads to a huge object, of which the heap at byte "));
  put<std::uint8_t>(id, kTiny);
  seal_leaf(kRecordsBytes);
  EXPECT_EQ(damage_of_group(), "an id of 7 bytes holds an object of 16");
  replace_file(path(), intact);
  put<std::uint32_t>(id + 1, 1U << 30U);
  seal_leaf(kRecordsBytes);
  EXPECT_THAT(damage_of_group(), HasSubstr("an id leads to byte 1073741824 of the heap at byte "));
  replace_file(path(), intact);
  put<std::uint32_t>(find("FHDB") + 13, 8);
  EXPECT_THAT(damage_of_group(), HasSubstr("claims to be at byte 8 of the heap at byte "));
}

TEST_F(DenseStorage, with_more_names_than_the_file_has_room_for_is_refused) {
  write_group([](hid_t group) { add_links(group, kMany, 10); });
  const std::uint64_t records = find("BTHD") + 26;
  put<std::uint64_t>(records, 33'000'000);
  EXPECT_THAT(damage_of_group(),
              HasSubstr("claims 33000000 records of 11 bytes, more than the file has room for"));
  put<std::uint64_t>(records, kMany - 1);
  EXPECT_THAT(damage_of_group(), HasSubstr("has more records than the 29 that it claims"));
}

// Or a small file could make each of its groups a large one.
TEST_F(DenseStorage, that_many_groups_share_is_refused) {
  write_group([](hid_t group) { add_links(group, 30'000, 10); });
  const auto source = open_file_source(path());
  const std::optional<Superblock> block = read_superblock(*source);
  const BoundedSource bounded(*source);
  const MetadataBytes bytes(bounded, *block);
  const std::vector<std::byte> info = bytes_of_link_info();
  int visits = 0;
  const auto visit = [&] {
    for (; visits < 100; ++visits) EXPECT_EQ(link_storage_damage(bytes, info), "");
  };
  EXPECT_THROW(visit(), BoundedSource::Exhausted);
  EXPECT_GE(visits, 4);
}

TEST_F(DenseStorage, of_damaged_attributes_is_refused) {
  constexpr int kAttributes = 20;  // Fit into one node of the tree
  write_group([](hid_t group) {
    const Hid type(H5Tcopy(H5T_C_S1)), space(H5Screate(H5S_SCALAR));
    require(H5Tset_size(type.get(), H5T_VARIABLE), "H5Tset_size");
    for (int i = 0; i < kAttributes; ++i) {
      const std::string name = "text" + std::to_string(i);
      const char* const text = "twelve bytes";
      const Hid attribute(H5Acreate2(group, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
      require(H5Awrite(attribute.get(), type.get(), &text), "H5Awrite");
    }
  });
  EXPECT_EQ(damage_of_group(), "");
  const std::vector<std::byte> intact = file_bytes(path());
  // Of the first attribute: id of 8 bytes, flags.
  put<std::uint8_t>(leaf() + 6 + 8, 2);
  seal_leaf(kAttributes * 17);
  EXPECT_THAT(damage_of_group(), HasSubstr("in a table of shared messages, which the file does not have"));
  replace_file(path(), intact);
  // Name, datatype of 8 bytes with one of 12 within, dataspace of 4 bytes, number of characters.
  const std::uint64_t length = find(std::string_view("text7\0", 6)) + 6 + 20 + 4;
  ASSERT_EQ(little_endian(std::span(intact).subspan(length, 4)), 12U);
  put<std::uint32_t>(length, 0x40000000);
  EXPECT_EQ(damage_of_group(), "an attribute claims a value of 1073741824 bytes, more than the file has");
}

TEST_F(DenseStorage, of_damaged_attributes_outside_of_the_heaps_blocks_is_refused) {
  const std::string name = "large";
  write_group([&](hid_t group) {
    add_text(group, name, std::string(70'000, 'y'));
    for (int i = 0; i < kMany; ++i) add_text(group, std::to_string(i), "y");
  });
  EXPECT_EQ(damage_of_group(), "");
  const std::vector<std::byte> intact = file_bytes(path());
  // Behind the name and its end: class and flags of the datatype, then the bytes of a value.
  put<std::uint32_t>(find(name) + name.size() + 1 + 4, 70'005);
  EXPECT_THAT(damage_of_group(), HasSubstr("describes an attribute that goes beyond its message"));
  replace_file(path(), intact);
  // An id that holds three bytes of an object itself.
  const std::uint64_t tree = find(std::string_view("BTHD\0\x08", 6));
  const std::uint64_t node = little_endian(std::span(intact).subspan(tree + 16, 8));
  put_sealed<std::uint32_t>(node, 6, 0x00'03'03'22);
  EXPECT_THAT(damage_of_group(), HasSubstr("describes an attribute that goes beyond its message"));
}

// libhdf5 takes the row of a table of blocks from where the table says that it is.
TEST_F(DenseStorage, with_a_table_of_blocks_that_claims_another_place_is_refused) {
  write_group([](hid_t group) { add_links(group, 12'000, 60); });
  ASSERT_EQ(damage_of_group(), "");
  const std::vector<std::byte> file = file_bytes(path());
  std::uint64_t table = find("FHIB");
  while (little_endian(std::span(file).subspan(table + 13, 4)) == 0) table = find_from("FHIB", table + 1);
  put_sealed<std::uint32_t>(table, 13, 0xfffffff0);
  EXPECT_THAT(damage_of_group(), HasSubstr("claims to be at byte 4294967280 of the heap at byte "));
}

TEST_F(DenseStorage, with_filters_and_no_checksums_is_refused) {
  const Hid list(H5Pcreate(H5P_GROUP_CREATE));
  require(H5Pset_deflate(list.get(), 1), "H5Pset_deflate");
  write_group([](hid_t group) { add_links(group, kMany, 10); }, list.get());
  ASSERT_EQ(damage_of_group(), "");
  put_sealed<std::uint8_t>(heap(), 9, 0);
  EXPECT_THAT(damage_of_group(), HasSubstr("claims filters of blocks that have no checksums"));
}

TEST_F(DenseStorage, with_tables_within_blocks_that_are_too_small_for_them_is_refused) {
  write_group([](hid_t group) { add_links(group, 300, 10); });
  put<std::uint32_t>(heap() + 10, 512);
  put_in_heap<std::uint64_t>(120, 512);
  EXPECT_THAT(damage_of_group(), HasSubstr("claims blocks of up to 512 bytes within rows of 2048"));
}

// libhdf5 1.10 frees what it has not filled where it lists links that it cannot decode.
TEST_F(DenseStorage, with_a_link_that_cannot_be_decoded_is_refused) {
  for (const int links : {3, kMany}) {
    SCOPED_TRACE(links);
    write_group([&](hid_t group) { add_links(group, links, 10); });
    ASSERT_EQ(damage_of_group(), "");
    const std::vector<std::byte> intact = file_bytes(path());
    // Version, flags, type, length of the name, name.
    const std::uint64_t link = find("2xxxxxxxxx") - 4;
    for (const auto& [at, value] : {std::pair(0, 2), {1, 0xff}, {2, 9}, {3, 0}}) {
      replace_file(path(), intact);
      put<std::uint8_t>(link + static_cast<std::uint64_t>(at), static_cast<std::uint8_t>(value));
      EXPECT_EQ(damage_of_group(), "a group has a link that cannot be decoded") << at;
    }
  }
}

TEST_F(DenseStorage, with_a_tree_of_names_and_no_heap_is_refused) {
  write_group([](hid_t group) { add_links(group, 3, 10); });
  // Version, flags, addresses of the heap and of the tree.
  const std::uint64_t header = header_address(path(), "g");
  const std::string_view none("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
  put<std::uint64_t>(find_from(none, header) + 8, 48);
  EXPECT_THAT(damage_of_group(), HasSubstr("or a tree alone"));
}

// Ids have room for short addresses, so that no tree has to list the objects.
TEST_F(DenseStorage, of_names_whose_addresses_are_in_their_ids_is_accepted) {
  {
    const Hid list(H5Pcreate(H5P_FILE_CREATE)), access(H5Pcreate(H5P_FILE_ACCESS));
    require(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "H5Pset_libver_bounds");
    require(H5Pset_sizes(list.get(), 2, 4), "H5Pset_sizes");
    const Hid file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, list.get(), access.get()));
    const Hid group(H5Gcreate2(file.get(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    add_links(group.get(), kMany, 10);
    const std::string name(5'000, 'x');
    require(H5Lcreate_soft("/images", group.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), "H5Lcreate_soft");
  }
  EXPECT_EQ(damage_of_group(), "");
  EXPECT_EQ(open_message(), "accepted");
}

TEST_F(DenseStorage, with_a_tree_of_more_nodes_than_the_file_has_room_for_is_refused) {
  write_group([](hid_t group) { add_links(group, 300, 10); });
  const std::uint64_t tree = find("BTHD");
  // The pointers of a node of that size are wider than those of the real one.
  put_sealed<std::uint32_t>(tree, 6, static_cast<std::uint32_t>(file_bytes(path()).size() / 2));
  EXPECT_THAT(damage_of_group(), HasSubstr("has more nodes than the file has room for"));
}

// libhdf5 1.10 lists such a group into a table, unless it may do so in any order, and crashes when it frees a
// table that it could not fill.
TEST_F(DenseStorage, that_is_not_whole_is_a_group_that_cannot_be_listed) {
  write_group([](hid_t group) { add_links(group, kMany, 10); });
  const std::vector<std::byte> intact = file_bytes(path());
  for (const char* const signature : {"BTLF", "FHDB"}) {
    SCOPED_TRACE(signature);
    replace_file(path(), intact);
    put<std::uint8_t>(find(signature) + 25, 0x5a);  // Of the hash of a name, and of the first link
    const std::vector<DatasetEntry> entries = H5File::open(path())->list_datasets();
    ASSERT_EQ(entries.size(), 2U);
    EXPECT_EQ(entries[0].path, "/g");
    EXPECT_THAT(entries[0].problem, HasSubstr("/g: libhdf5 cannot list it: incorrect metadata checksum"));
    EXPECT_TRUE(entries[0].hides_others);
    EXPECT_EQ(entries[1].path, "/images");
    EXPECT_EQ(entries[1].problem, "");
  }
}

}  // namespace
}  // namespace h5feed::test
