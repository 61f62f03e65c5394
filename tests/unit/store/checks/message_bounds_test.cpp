// SPDX-License-Identifier: Apache-2.0
#include "store/checks/message_bounds.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "store/format/shared_message.hpp"
#include "store/format/superblock.hpp"
#include "support/files/bytes.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

using Type = HeaderMessage::Type;

// A message of these bytes, in hexadecimal digits with spaces.
std::string_view beyond(Type type, std::string digits) {
  std::erase(digits, ' ');
  return beyond_message({type, false, from_hex(digits)}, {});
}

TEST(MessageBounds, of_filters_of_the_newer_version_have_names_of_those_of_others_only) {
  EXPECT_EQ(beyond(Type::filters, "02 01 0100 0000 0100 04000000"), "");
  EXPECT_EQ(beyond(Type::filters, "02 01 0001 0200 0000 0000 6100"), "");
  EXPECT_EQ(beyond(Type::filters, "02 01 0001 0200 0000 0000 6162"), "a list of filters");
  EXPECT_EQ(beyond(Type::filters, "02 02 0100 0000 0100 04000000 0100"), "a list of filters");
  EXPECT_EQ(beyond(Type::filters, "02 01 0100 0000 0200 04000000"), "a list of filters");
  EXPECT_EQ(beyond(Type::filters, "03 01"), "") << "libhdf5 refuses an unknown version";
  EXPECT_EQ(beyond(Type::filters, "01 01 000000000000 0100 0000 0000 0100 04000000"), "")
      << "padding that is missing";
}

TEST(MessageBounds, of_fill_values_count_the_value) {
  EXPECT_EQ(beyond(Type::fill_value, "03 29 02000000 0102"), "");
  EXPECT_EQ(beyond(Type::fill_value, "03 29 03000000 0102"), "a fill value");
  EXPECT_EQ(beyond(Type::fill_value, "03 09"), "") << "no value";
  EXPECT_EQ(beyond(Type::fill_value, "02 02 02 01 02000000 0102"), "");
  EXPECT_EQ(beyond(Type::fill_value, "02 02 02 01 03000000 0102"), "a fill value");
  EXPECT_EQ(beyond(Type::fill_value, "02 02 02 01 ffffffff"), "") << "a size below zero: no value";
  EXPECT_EQ(beyond(Type::old_fill_value, "02000000 0102"), "");
  EXPECT_EQ(beyond(Type::old_fill_value, "ffffffff 0102"), "a fill value");
}

TEST(MessageBounds, of_datatypes_find_names_without_an_end) {
  const std::string uint8 = "10 000000 01000000 00000800";
  EXPECT_EQ(beyond(Type::datatype, uint8), "");
  EXPECT_EQ(beyond(Type::datatype, "36 010000 01000000 6100 00" + uint8), "");
  EXPECT_EQ(beyond(Type::datatype, "36 020000 01000000 6100 00" + uint8), "a datatype");
  EXPECT_EQ(beyond(Type::datatype, "36 010000 01000000 61616161616161616161"), "a datatype");
  EXPECT_EQ(beyond(Type::datatype, "38 020000 01000000" + uint8 + "6100 6200 0001"), "");
  EXPECT_EQ(beyond(Type::datatype, "38 020000 01000000" + uint8 + "6100 6200 00"), "a datatype");
  EXPECT_EQ(beyond(Type::datatype, "18 020000 01000000" + uint8 + "6100000000000000 6200000000000000 0001"),
            "");
  EXPECT_EQ(beyond(Type::datatype, "15 080000 01000000 6100000000000000"), "");
  EXPECT_EQ(beyond(Type::datatype, "15 100000 01000000 6100000000000000"), "a datatype");
  EXPECT_EQ(beyond(Type::datatype, "47 020000 0c000000"), "");
  EXPECT_EQ(beyond(Type::datatype, "5b 000000 01000000"), "") << "a version that is not known";
}

TEST(MessageBounds, of_datatypes_are_those_of_types_nested_a_thousand_times_at_most) {
  const auto nested = [](int times) {
    std::string digits;
    for (int i = 0; i < times; ++i) digits += "39 000000 10000000";  // sequences of sequences
    return digits + "10 000000 01000000 00000800";
  };
  EXPECT_EQ(beyond(Type::datatype, nested(900)), "");
  EXPECT_EQ(beyond(Type::datatype, nested(8000)), "a datatype");
}

TEST(MessageBounds, of_datatypes_of_variable_length_are_of_sequences_and_texts_only) {
  const std::string uint8 = "10 000000 01000000 00000800";
  EXPECT_EQ(beyond(Type::datatype, "19 000000 10000000" + uint8), "");
  EXPECT_EQ(beyond(Type::datatype, "19 010100 10000000" + uint8), "");
  for (const char* const kind : {"02", "0f"})
    EXPECT_EQ(beyond(Type::datatype, std::string("19 ") + kind + "0000 10000000" + uint8), "a datatype");
}

TEST(MessageBounds, of_external_files_have_a_place_for_each) {
  const std::string entry(48, '0');
  EXPECT_EQ(beyond(Type::external_files, "01 000000 0200 0100 6000000000000000" + entry), "");
  EXPECT_EQ(beyond(Type::external_files, "01 000000 0200 0200 6000000000000000" + entry),
            "a list of external files");
  EXPECT_EQ(beyond(Type::external_files, "01 000000 0000 0100 6000000000000000" + entry),
            "a list of external files");
}

TEST(MessageBounds, of_attributes_count_the_values) {
  const std::string name_type_space = "02 00 0200 0c00 0400 6100 10 000000 01000000 00000800 02000000";
  EXPECT_EQ(beyond(Type::attribute, name_type_space + "07"), "");
  EXPECT_EQ(beyond(Type::attribute, name_type_space), "an attribute");
  EXPECT_EQ(beyond(Type::attribute, "02 00 0200 0c00 0400 6161"), "an attribute");
  EXPECT_EQ(beyond(Type::attribute, "09 00"), "") << "a version that libhdf5 refuses";
}

TEST(MessageBounds, of_attributes_are_counted_without_wrapping_around) {
  const std::string name_type = "02 00 0200 0c00 0c00 6100 10 000000 10000000 00000800",
                    space = "02 01 00 01";
  const std::string two_values(64, '0');
  EXPECT_EQ(beyond(Type::attribute, name_type + space + "0200000000000000" + two_values), "");
  EXPECT_EQ(beyond(Type::attribute, name_type + space + "0200000000000010" + two_values), "an attribute");
}

TEST(MessageBounds, of_attributes_with_a_shared_datatype_count_the_values_of_its_size) {
  const std::string name = "02 01 0200 0a00 0c00 6100", type = "03 02 6000000000000000",
                    space = "02 01 00 01";
  const auto fits = [&](const char* values, std::uint64_t value_bytes) {
    std::string digits = name + type + space + "0200000000000000" + values;
    std::erase(digits, ' ');
    EXPECT_EQ(beyond(Type::attribute, digits), "");
    return !values_beyond_attribute(from_hex(digits), value_bytes, {});
  };
  EXPECT_TRUE(fits("01020304", 2));
  EXPECT_FALSE(fits("01020304", 3));
  EXPECT_TRUE(fits("01020304", 100)) << "longer than the message: libhdf5 refuses them";
  EXPECT_EQ(beyond(Type::attribute, name + "03 02 60000000"), "an attribute");
  EXPECT_EQ(beyond(Type::attribute, name + type + "02 01 00"), "an attribute");
}

TEST(MessageBounds, of_shared_messages_are_those_of_the_reference) {
  const auto shared = [](std::string digits) {
    std::erase(digits, ' ');
    return beyond_message({Type::datatype, true, from_hex(digits)}, {});
  };
  EXPECT_EQ(beyond(Type::comment, "61"), "a comment");
  EXPECT_EQ(shared("03 02 6000000000000000"), "");
  EXPECT_EQ(shared("03 02 60000000000000"), "a shared message");
  EXPECT_EQ(shared("03 01 60000000000000"), "a shared message");
  EXPECT_EQ(shared("04"), "a shared message");
  EXPECT_EQ(shared("04 02"), "") << "a version that libhdf5 refuses";
}

TEST(SharedPlace, is_another_header_or_the_table_of_the_file) {
  const auto place = [](std::string digits) {
    std::erase(digits, ' ');
    const std::vector<std::byte> bytes = from_hex(digits);
    MessageContents contents(bytes);
    return take_shared_place(contents, {});
  };
  EXPECT_EQ(place("03 02 6000000000000000")->header, 0x60U);
  EXPECT_EQ(place("02 00 6000000000000000")->header, 0x60U);
  EXPECT_EQ(place("01 00 000000000000 ffffffffffffffff 6000000000000000")->header, 0x60U);
  EXPECT_TRUE(place("03 01 6000000000000000")->in_table);
  EXPECT_FALSE(place("04 02 6000000000000000"));
}

// Writes datasets with every kind of message by libhdf5, and returns their names.
std::vector<std::string> write_all(const std::string& path, bool latest) {
  const Hid access(H5Pcreate(H5P_FILE_ACCESS));
  if (latest) H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const Hid file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()));

  std::vector<std::string> written;
  const Hid numbers(H5Tcreate(H5T_COMPOUND, 24));
  const hsize_t three = 3;
  const Hid array(H5Tarray_create2(H5T_STD_I16BE, 1, &three));
  const Hid sequence(H5Tvlen_create(H5T_IEEE_F32LE));
  H5Tinsert(numbers.get(), "an array", 0, array.get());
  H5Tinsert(numbers.get(), "a sequence", 8, sequence.get());
  const Hid names(H5Tenum_create(H5T_STD_U8LE));
  for (std::uint8_t value = 0; value < 3; ++value)
    H5Tenum_insert(names.get(), std::string(value + 1U, 'x').c_str(), &value);
  const Hid opaque(H5Tcreate(H5T_OPAQUE, 3));
  H5Tset_tag(opaque.get(), "a tag of some length");
  const Hid text(H5Tcopy(H5T_C_S1));
  H5Tset_size(text.get(), H5T_VARIABLE);

  const hsize_t extent[] = {6, 4};
  const hsize_t most[] = {H5S_UNLIMITED, 4};
  const Hid fixed(H5Screate_simple(2, extent, nullptr));
  const Hid growing(H5Screate_simple(2, extent, most));
  const Hid none(H5Screate(H5S_NULL));
  const Hid one(H5Screate(H5S_SCALAR));
  const std::map<std::string, hid_t> types = {{"numbers", numbers.get()},    {"names", names.get()},
                                              {"opaque", opaque.get()},      {"text", text.get()},
                                              {"real", H5T_IEEE_F64BE},      {"bits", H5T_STD_B16LE},
                                              {"reference", H5T_STD_REF_OBJ}};
  for (const auto& each : types) {
    const std::string& name = each.first;
    const hid_t type = each.second;
    const Hid chunked(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[] = {2, 4};
    H5Pset_chunk(chunked.get(), 2, chunk);
    H5Pset_shuffle(chunked.get());
    H5Pset_deflate(chunked.get(), 1);
    if (name == "real") {
      const double fill = 0.5;
      H5Pset_fill_value(chunked.get(), H5T_NATIVE_DOUBLE, &fill);
    }
    const Hid compact(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_layout(compact.get(), H5D_COMPACT);
    const Hid external(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_external(external.get(), "one.raw", 0, 100);
    H5Pset_external(external.get(), "two.raw", 0, H5F_UNLIMITED);
    const auto create = [&](const char* ending, hid_t space, hid_t how) {
      const Hid dataset(
          H5Dcreate2(file.get(), (name + ending).c_str(), type, space, H5P_DEFAULT, how, H5P_DEFAULT));
      for (const hid_t values : {fixed.get(), none.get(), one.get()}) {
        const std::string attribute = "attribute " + std::to_string(values);
        const Hid made(H5Acreate2(dataset.get(), attribute.c_str(), type, values, H5P_DEFAULT, H5P_DEFAULT));
      }
      H5Oset_comment(dataset.get(), "what it is");
      written.push_back(name + ending);
    };
    create(" chunked", growing.get(), chunked.get());
    create(" compact", fixed.get(), compact.get());
    create(" flat", fixed.get(), H5P_DEFAULT);
    if (name == "bits") create(" external", fixed.get(), external.get());
  }
  return written;
}

// Returns all messages of these objects.
std::vector<HeaderMessage> messages_of(const std::string& path, const std::vector<std::string>& names) {
  std::vector<HeaderMessage> messages;
  const auto source = open_file_source(path);
  const auto block = read_superblock(*source);
  if (!block) return messages;
  const MetadataBytes bytes(*source, *block);
  for (const std::string& name : names) {
    const ObjectHeader header = read_object_header(bytes, header_address(path, name.c_str()));
    EXPECT_EQ(header.damage, "");
    messages.insert(messages.end(), header.messages.begin(), header.messages.end());
  }
  return messages;
}

class MessagesOfLibhdf5 : public testing::TestWithParam<bool> {};

TEST_P(MessagesOfLibhdf5, are_whole_and_their_beginnings_are_not) {
  const TempDir dir;
  const std::string path = (dir / "all.h5").string();
  const std::vector<std::string> names = write_all(path, GetParam());
  std::map<std::string_view, int> found;
  for (HeaderMessage message : messages_of(path, names)) {
    EXPECT_EQ(beyond_message(message, {}), "") << "of type " << message.type;
    message.body.resize(message.body.size() / 3);
    const std::string_view what = beyond_message(message, {});
    if (!what.empty()) ++found[what];
  }
  for (const char* const what : {"a dataspace", "a datatype", "a fill value", "a list of external files",
                                 "a layout", "a list of filters", "an attribute", "a comment"})
    EXPECT_GT(found[what], 0) << what;
}

INSTANTIATE_TEST_SUITE_P(Each, MessagesOfLibhdf5, testing::Bool(),
                         [](const auto& each) { return each.param ? "latest" : "earliest"; });

}  // namespace
}  // namespace h5feed::test
