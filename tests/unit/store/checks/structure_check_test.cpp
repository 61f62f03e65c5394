// SPDX-License-Identifier: Apache-2.0
// Files whose structure libhdf5 must not be given: most end the test program where they are not refused.
#include "store/checks/structure_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/error.hpp"
#include "store/format/byte_order.hpp"
#include "store/format/object_header.hpp"
#include "store/format/superblock.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/files/damage.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/structure_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(StoreStructure, refuses_a_chunk_index_that_names_itself_as_its_child) {
  write();
  const std::uint64_t node = find(std::string_view("TREE\1", 5));
  make_parent(node, kChunkKey, node);
  const std::string at = std::to_string(node);
  EXPECT_EQ(describe_message(), "train.h5:/images: the B-tree at byte " + at +
                                    " has a node of level 1 at byte " + at +
                                    ", where level 0 belongs; restore the file from a good copy");
  EXPECT_EQ(H5File::open(path())->list_datasets().size(), 2U) << "the other datasets can be used";
}

TEST_F(StoreStructure, refuses_a_chunk_index_in_which_two_nodes_have_the_same_child) {
  write();
  const std::uint64_t node = find(std::string_view("TREE\1", 5));
  const std::uint64_t leaf = file_bytes(path()).size();
  std::vector<std::byte> bytes = file_bytes(path());
  bytes.insert(bytes.end(), bytes.begin() + static_cast<std::ptrdiff_t>(node),
               bytes.begin() + static_cast<std::ptrdiff_t>(node) + 24 + 4 * (kChunkKey + 8));
  replace_file(path(), bytes);
  make_parent(node, kChunkKey, leaf);
  put<std::uint64_t>(node + 24 + kChunkKey + 8 + kChunkKey, leaf);
  EXPECT_THAT(describe_message(), HasSubstr("has the node at byte " + std::to_string(leaf) + " twice"));
}

TEST_F(StoreStructure, refuses_a_group_whose_tree_names_itself_as_its_child) {
  write();
  const std::uint64_t root = find(std::string_view("TREE\0", 5));
  make_parent(root, kGroupKey, root);
  EXPECT_THAT(open_message(), StartsWith("train.h5: the B-tree at byte " + std::to_string(root) +
                                         " has a node of level 1 at byte " + std::to_string(root)));
}

// Nodes that overlap could each claim as many children as the file has room for.
TEST_F(StoreStructure, refuses_a_group_whose_tree_has_more_nodes_than_the_file_has_room_for) {
  write();
  std::vector<std::byte> bytes = file_bytes(path());
  const std::uint64_t root = find(std::string_view("TREE\0", 5)), nodes = bytes.size();
  constexpr std::uint64_t kNodes = 4, kChildren = 60'000;
  bytes.resize(nodes + 24 + kChildren * (kGroupKey + 8));
  for (std::uint64_t node = 0; node < kNodes; ++node) {
    const std::uint64_t at = nodes + 8 * node;
    std::ranges::copy(std::as_bytes(std::span("TREE\0\1", 6)),
                      bytes.begin() + static_cast<std::ptrdiff_t>(at));
    put_little_endian(bytes, at + 6, static_cast<std::uint16_t>(kChildren));
    put_little_endian(bytes, root + 24 + kGroupKey + node * (kGroupKey + 8), at);
  }
  put_little_endian(bytes, root + 5, static_cast<std::uint16_t>(2 + kNodes * 256));  // Level, entries
  put_little_endian(bytes, 40, std::uint64_t{bytes.size()});
  replace_file(path(), bytes);
  EXPECT_THAT(open_message(), HasSubstr("has more nodes than the file has room for"));
}

TEST_F(StoreStructure, refuses_a_group_within_a_group_whose_tree_names_itself_as_its_child) {
  write();
  const std::vector<std::byte> bytes = file_bytes(path());
  const std::string_view kTree("TREE\0", 5);
  std::uint64_t last = 0;
  for (std::uint64_t at = 0; at + kTree.size() < bytes.size(); ++at) {
    if (std::memcmp(&bytes[at], kTree.data(), kTree.size()) == 0) last = at;
  }
  ASSERT_NE(last, find(kTree));
  make_parent(last, kGroupKey, last);
  EXPECT_THAT(open_message(), StartsWith("train.h5: the B-tree at byte " + std::to_string(last)));
}

TEST_F(StoreStructure, refuses_an_object_header_that_continues_in_itself) {
  write();
  const std::uint64_t header = header_address(path(), "images");
  // The first message becomes one that continues at itself.
  const std::uint64_t message = header + 16;
  const std::vector<std::byte> before = file_bytes(path());
  const std::uint64_t bytes = little_endian(std::span(before).subspan(message + 2, 2));
  ASSERT_GE(bytes, 16);
  put<std::uint16_t>(message, 16);
  put<std::uint64_t>(message + 8, message);
  put<std::uint64_t>(message + 16, 8U + bytes);
  EXPECT_EQ(open_message(), "train.h5: the object header at byte " + std::to_string(header) +
                                " continues in itself; restore the file from a good copy");
}

// libhdf5 asks for that much memory before it finds that the file ends.
TEST_F(StoreStructure, refuses_a_newer_header_that_continues_outside_the_file) {
  {
    H5TestFile file(path(), {.latest = true});
    file.create({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
  }
  EXPECT_EQ(describe_message(), "accepted");
  // Signature, version, flags, four times, size of the messages; type, size and flags of each.
  const std::uint64_t message = header_address(path(), "images") + 6 + 16 + 2;
  const std::vector<std::byte> bytes = file_bytes(path());
  const std::uint64_t size = little_endian(std::span(bytes).subspan(message + 1, 2));
  ASSERT_GE(size, 16);
  put<std::uint8_t>(message, HeaderMessage::continuation);
  put<std::uint64_t>(message + 4, 1'000'000);
  put<std::uint64_t>(message + 12, std::uint64_t{12} << 30);
  EXPECT_THAT(open_message(),
              HasSubstr("continues with 12884901888 bytes at byte 1000000, outside the file; restore"));
}

TEST_F(StoreStructure, refuses_filters_beyond_their_list) {
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {12, 6}, .chunk = {4, 6}, .filters = {gzip_filter(4)}});
  }
  EXPECT_EQ(open_message(), "accepted");
  const std::uint64_t name = find(std::string_view("deflate\0", 8));
  put<char>(name + 7, 'd');
  EXPECT_THAT(open_message(), HasSubstr("describes a list of filters that goes beyond its message; restore"));
  put<char>(name + 7, '\0');
  put<std::uint8_t>(name - 15, 17);  // Their number
  EXPECT_THAT(open_message(), HasSubstr("describes a list of filters that goes beyond its message; restore"));
}

// Each attempt to read it beside a writer examines everything again.
TEST_F(StoreStructure, refuses_a_named_datatype_beyond_its_message_also_beside_a_writer) {
  {
    H5TestFile file(path(), {.latest = true});
    const Hid type(H5Tcopy(H5T_STD_U8LE));
    ASSERT_GE(H5Tcommit2(file.id(), "pixel", type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), 0);
    const hsize_t extent = 12;
    const Hid row(H5Screate_simple(1, &extent, nullptr));
    const Hid dataset(
        H5Dcreate2(file.id(), "images", type.get(), row.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  EXPECT_EQ(open_message(), "accepted");
  // Version and class, three bytes of its bits, size, first bit, number of bits.
  constexpr std::string_view kBehindClass("\0\0\0\1\0\0\0\0\0\10\0", 11);
  const std::uint64_t type = find(kBehindClass) - 1;
  constexpr std::uint8_t kCompound = 6;
  put<std::uint8_t>(type,
                    std::to_integer<std::uint8_t>(file_bytes(path()).at(type) & std::byte{0xf0}) | kCompound);
  put<std::uint8_t>(type + 1, 200);  // Members
  EXPECT_THAT(open_message(), HasSubstr("describes a datatype that goes beyond its message; restore"));
  constexpr std::uint64_t kFlagsAt = 11, kChecksumAt = 44;
  constexpr std::uint8_t kOpenForSwmr = 5;
  put<std::uint8_t>(kFlagsAt, kOpenForSwmr);
  const std::vector<std::byte> bytes = file_bytes(path());
  put<std::uint32_t>(kChecksumAt, metadata_checksum(std::span(bytes).first(kChecksumAt)));
  EXPECT_THAT(open_message(), HasSubstr("describes a datatype that goes beyond its message; restore"));
}

TEST_F(StoreStructure, refuses_references_to_messages_that_lead_nowhere) {
  {
    H5TestFile file(path());
    const Hid type(H5Tcopy(H5T_STD_U8LE));
    ASSERT_GE(H5Tcommit2(file.id(), "pixel", type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), 0);
    const Hid space(H5Screate(H5S_SCALAR));
    const Hid own(
        H5Acreate2(type.get(), "of its own type", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
    const hsize_t extent = 12;
    const Hid row(H5Screate_simple(1, &extent, nullptr));
    const Hid dataset(
        H5Dcreate2(file.id(), "images", type.get(), row.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    ASSERT_GE(dataset.get(), 0);
  }
  EXPECT_EQ(open_message(), "accepted");
  // Version 3 or 2, another header, its address.
  const std::uint64_t type = header_address(path(), "pixel");
  const std::uint64_t dataset = header_address(path(), "images");
  const std::vector<std::byte> bytes = file_bytes(path());
  std::uint64_t reference = dataset;
  while (little_endian(std::span(bytes).subspan(reference + 2, 8)) != type) ++reference;
  put<std::uint64_t>(reference + 2, dataset);
  EXPECT_THAT(open_message(), HasSubstr("the object header at byte " + std::to_string(dataset) +
                                        " refers to itself for a message; restore the file"));
  put<std::uint8_t>(reference + 1, 1);
  EXPECT_THAT(open_message(),
              HasSubstr("refers to a table of shared messages, which the file does not have"));
}

// libhdf5 ignores the mark of layouts, so that they must be examined with it, too.
TEST_F(StoreStructure, examines_layouts_that_claim_to_be_shared) {
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
  }
  const std::uint64_t layout = layout_of_images();
  put<std::uint8_t>(layout + 4, 2);
  EXPECT_EQ(open_message(), "accepted");
  put<std::uint8_t>(layout + 8 + 2, 33);  // dimensions of a chunk
  EXPECT_THAT(open_message(), HasSubstr("describes a layout that goes beyond its message"));
}

// Every message that can be shared is, so that headers refer to the table.
TEST_F(StoreStructure, accepts_a_file_with_a_table_of_shared_messages) {
  const Hid creation(H5Pcreate(H5P_FILE_CREATE));
  ASSERT_GE(H5Pset_shared_mesg_nindexes(creation.get(), 1), 0);
  ASSERT_GE(H5Pset_shared_mesg_index(creation.get(), 0, H5O_SHMESG_ALL_FLAG, 1), 0);
  {
    const Hid file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT));
    const hsize_t extent = 12;
    const Hid row(H5Screate_simple(1, &extent, nullptr));
    for (const char* const name : {"images", "masks"}) {
      const Hid dataset(
          H5Dcreate2(file.get(), name, H5T_STD_I32LE, row.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      const Hid attribute(
          H5Acreate2(dataset.get(), "unit", H5T_STD_I32LE, row.get(), H5P_DEFAULT, H5P_DEFAULT));
      ASSERT_GE(attribute.get(), 0);
    }
  }
  EXPECT_EQ(open_message(), "accepted");
  EXPECT_EQ(describe_message(), "accepted");
  const auto source = open_file_source(path());
  const auto block = read_superblock(*source);
  ASSERT_TRUE(block);
  const ObjectHeader header =
      read_object_header(MetadataBytes(*source, *block), header_address(path(), "images"));
  EXPECT_TRUE(std::ranges::any_of(header.messages, &HeaderMessage::shared)) << "the test shares nothing";
}

TEST_F(StoreStructure, refuses_a_root_group_outside_the_file) {
  write();
  constexpr std::uint64_t kRootHeaderAt = 64;
  put<std::uint64_t>(kRootHeaderAt, 1'000'000);
  EXPECT_EQ(
      open_message(),
      "train.h5: its superblock puts the root group at byte 1000000, outside the file; restore the file "
      "from a good copy");
}

TEST_F(StoreStructure, refuses_a_root_group_whose_header_is_larger_than_the_file) {
  write();
  const std::uint64_t header = header_address(path(), "/");
  put<std::uint32_t>(header + 8, 1'000'000);
  EXPECT_EQ(open_message(), "train.h5: the object header at byte " + std::to_string(header) +
                                " has 1000000 bytes from byte " + std::to_string(header + 16) +
                                " on, more than the file; restore the file from a good copy");
}

TEST_F(StoreStructure, refuses_a_newer_tree_that_claims_to_be_deeper_than_any_file) {
  write({.latest = true});
  const std::uint64_t tree = find("BTHD");
  put<std::uint16_t>(tree + 12, 50'000);
  const std::string damage = chunk_tree_damage(*open_file_source(path()), header_address(path(), "images"));
  EXPECT_EQ(damage, "the B-tree at byte " + std::to_string(tree) + " claims to be 50000 levels deep");
}

// libhdf5 divides by the size of a record.
TEST_F(StoreStructure, refuses_a_newer_tree_without_room_for_records) {
  write({.latest = true});
  const std::uint64_t tree = find("BTHD");
  const auto damage = [&] {
    return chunk_tree_damage(*open_file_source(path()), header_address(path(), "images"));
  };
  const std::vector<std::byte> intact = file_bytes(path());
  put<std::uint16_t>(tree + 10, 0);
  EXPECT_EQ(damage(), "the B-tree at byte " + std::to_string(tree) +
                          " has records of kind 10 with 0 bytes, where kind 10 with 24 belongs");
  replace_file(path(), intact);
  EXPECT_EQ(damage(), "");
  put<std::uint32_t>(tree + 6, 12);
  EXPECT_THAT(damage(), HasSubstr("claims 1 levels of nodes of 12 bytes for records of 24"));
  replace_file(path(), intact);
  constexpr std::uint64_t kRootRecordsAt = 16 + 8;
  put<std::uint16_t>(tree + kRootRecordsAt, 85);
  EXPECT_THAT(damage(), HasSubstr("claims 85 records in the node at byte "));
  EXPECT_THAT(damage(), EndsWith(", into which 84 fit"));
}

// A tree of two levels: more records than fit into one node. libhdf5 computes how many bytes of a node it
// reads from how many records its parent says that it has.
TEST_F(StoreStructure, refuses_a_newer_tree_whose_nodes_claim_more_records_than_fit) {
  {
    H5TestFile file(path(), {.latest = true});
    file.create(
        {.path = "images", .shape = {400, 2}, .max_shape = {kUnlimited, kUnlimited}, .chunk = {2, 2}});
    file.write("images", patterned_bytes(800));
  }
  EXPECT_EQ(describe_message(), "accepted");
  // Signature, version, kind; records of 24 bytes; pointers of an address, the records of a leaf, in one
  // byte.
  const std::vector<std::byte> intact = file_bytes(path());
  const std::uint64_t tree = find("BTHD"), node = find("BTIN");
  const std::uint64_t records = little_endian(std::span(intact).subspan(tree + 16 + 8, 2));
  ASSERT_GE(records, 1);
  const std::uint64_t pointer = node + 6 + 24 * records;
  put<std::uint8_t>(pointer + 8, 200);
  EXPECT_THAT(describe_message(), HasSubstr("claims 200 records in the node at byte "));
  replace_file(path(), intact);
  put<std::uint64_t>(pointer + 9, little_endian(std::span(intact).subspan(pointer, 8)));
  EXPECT_THAT(describe_message(), HasSubstr(" twice; restore"));
  put<std::uint64_t>(pointer, ~std::uint64_t{0});
  EXPECT_THAT(describe_message(),
              HasSubstr("has a node of 2048 bytes at byte 18446744073709551615, which is not in the file"));
}

// libhdf5 visits every element that the header of an array claims.
TEST_F(StoreStructure, refuses_arrays_of_more_chunks_than_can_be_visited) {
  for (const bool extensible : {false, true}) {
    SCOPED_TRACE(extensible);
    {
      H5TestFile file(path(), {.latest = true});
      file.create({.path = "images",
                   .shape = {12, 6},
                   .max_shape = {extensible ? kUnlimited : 12, 6},
                   .chunk = {4, 6}});
      file.write("images", patterned_bytes(72));
    }
    EXPECT_EQ(describe_message(), "accepted");
    const std::uint64_t array = find(extensible ? "EAHD" : "FAHD");
    if (!extensible) {
      put<std::uint64_t>(array + 8, 2);
      EXPECT_THAT(describe_message(), HasSubstr(" claims 2 elements, for 3 chunks of the dataset; restore"));
    }
    put<std::uint64_t>(array + (extensible ? 12 + 4 * 8 : 8), std::uint64_t{1} << 60);
    EXPECT_THAT(describe_message(), HasSubstr("the array of chunks at byte " + std::to_string(array) +
                                              " claims 1152921504606846976 elements, more than "));
  }
  const std::uint64_t array = find("EAHD");
  put<std::uint8_t>(array + 9, 0);
  EXPECT_THAT(describe_message(), HasSubstr("claims blocks of 0 elements"));
  put<std::uint8_t>(array + 6, 4);
  EXPECT_THAT(describe_message(),
              HasSubstr("has elements of kind 0 with 4 bytes, where kind 0 with 8 belongs"));
}

TEST_F(StoreStructure, accepts_files_of_both_formats_with_and_without_a_user_block) {
  for (const bool latest : {false, true}) {
    for (const std::uint64_t user_block : {0U, 512U, 4096U}) {
      write({.latest = latest, .user_block = user_block});
      EXPECT_EQ(structure_damage(*open_file_source(path())), "");
      EXPECT_EQ(describe_message(), "accepted");
    }
  }
}

TEST_F(StoreStructure, accepts_a_file_whose_user_block_was_added_or_removed_after_it_was_written) {
  write();
  std::vector<std::byte> bytes = file_bytes(path());
  bytes.insert(bytes.begin(), 1024, std::byte{});
  replace_file(path(), bytes);
  EXPECT_EQ(describe_message(), "accepted");
  write({.user_block = 1024});
  bytes = file_bytes(path());
  bytes.erase(bytes.begin(), bytes.begin() + 1024);
  replace_file(path(), bytes);
  EXPECT_EQ(describe_message(), "accepted");
}

TEST_F(StoreStructure, accepts_groups_and_chunk_indexes_of_several_levels) {
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {20'000, 2}, .chunk = {1, 2}});
    file.write("images", patterned_bytes(40'000));
    for (int i = 0; i < 1500; ++i) file.create({.path = "d" + std::to_string(i), .shape = {1}});
  }
  EXPECT_EQ(describe_message(), "accepted");
  EXPECT_EQ(H5File::open(path())->list_datasets().size(), 1501U);
}

TEST_F(StoreStructure, leaves_a_file_with_a_metadata_cache_image_to_the_reader_process) {
  const Hid access(H5Pcreate(H5P_FILE_ACCESS));
  require(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "H5Pset_libver_bounds");
  H5AC_cache_image_config_t image = {H5AC__CURR_CACHE_IMAGE_CONFIG_VERSION, true, false,
                                     H5AC__CACHE_IMAGE__ENTRY_AGEOUT__NONE};
  require(H5Pset_mdc_image_config(access.get(), &image), "H5Pset_mdc_image_config");
  {
    const Hid file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()));
    const Hid group(H5Gcreate2(file.get(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  EXPECT_EQ(structure_damage(*open_file_source(path())), "");
  EXPECT_THAT(open_message(), HasSubstr("it has a metadata cache image, so that h5feed cannot examine it"));
}

}  // namespace
}  // namespace h5feed::test
