// SPDX-License-Identifier: Apache-2.0
// Attributes whose values lie in the global heap: libhdf5 1.10 crashes or loops over most of the damaged
// ones.
#include "store/checks/attribute_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <string>
#include <vector>

#include "support/files/structure_file.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

class AttributeValues : public StoreStructure {
 protected:
  // /images, with texts of variable length as h5py writes them; with `named`, their datatype is a shared one.
  void write_texts(bool named = false) const {
    H5TestFile file(path(), {});
    file.create({.path = "images", .shape = {4, 2}});
    const Hid type(H5Tcopy(H5T_C_S1));
    require(H5Tset_size(type.get(), H5T_VARIABLE), "H5Tset_size");
    if (named)
      require(H5Tcommit2(file.id(), "text", type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "H5Tcommit2");
    const hsize_t count = 3;
    const Hid space(H5Screate_simple(1, &count, nullptr));
    const Hid set(H5Dopen2(file.id(), "images", H5P_DEFAULT));
    const Hid attribute(H5Acreate2(set.get(), "texts", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
    const std::array<const char*, 3> texts = {"first", "", "another text"};
    require(H5Awrite(attribute.get(), type.get(), texts.data()), "H5Awrite");
  }
  std::uint64_t heap() const { return find("GCOL"); }
  // The head of the first object, whose contents follow 16 bytes later.
  std::uint64_t first_object() const { return heap() + 16; }
  // Where the attribute tells of its first text: bytes, heap, object.
  std::uint64_t first_value() const {
    std::string value = {5, 0, 0, 0};
    for (int byte = 0; byte < 8; ++byte) value += static_cast<char>(heap() >> (8 * byte));
    return find(value);
  }
};

TEST_F(AttributeValues, are_read) {
  for (const bool named : {false, true}) {
    write_texts(named);
    EXPECT_EQ(describe_message(), "accepted");
  }
}

TEST_F(AttributeValues, that_are_damaged_in_the_heap_are_refused) {
  for (const bool named : {false, true}) {
    write_texts(named);
    const std::vector<std::byte> intact = file_bytes(path());
    const auto refused = [&](std::uint64_t at, auto number, const std::string& why) {
      put(at, number);
      EXPECT_THAT(open_message(), HasSubstr("an attribute has values that, in the heap at byte " +
                                            std::to_string(heap()) + ", " + why));
      replace_file(path(), intact);
    };
    refused(first_object() + 8, std::uint64_t{4000}, "lie in a heap with free space of no size");
    refused(first_object() + 8, ~std::uint64_t{0}, "lie in a heap whose objects go beyond its end");
    refused(first_object(), std::uint16_t{77}, "are not there");
    // libhdf5 writes the last text first, of 12 bytes.
    refused(first_object() + 8, std::uint64_t{13}, "are longer than it claims");
  }
}

TEST_F(AttributeValues, that_claim_more_than_the_file_has_are_refused) {
  write_texts();
  put<std::uint32_t>(first_value(), 0xfffffff0);
  EXPECT_THAT(open_message(),
              HasSubstr("an attribute claims a value of 4294967280 bytes, more than the file"));
}

}  // namespace
}  // namespace h5feed::test
