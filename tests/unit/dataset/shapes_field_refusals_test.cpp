// SPDX-License-Identifier: Apache-2.0
// Named fields that cannot be delivered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/files/field_file.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST_F(Fields, that_do_not_fit_are_refused_in_one_line) {
  EXPECT_EQ(refusal({{.name = "short"}}),
            "a.h5: /short has 22 rows, /images has 23; a field needs one row per sample");
  EXPECT_THAT(refusal({{.name = "poses"}}), HasSubstr("a.h5: no dataset \"poses\"; it has "));
  EXPECT_THAT(refusal({{.name = "poses"}}), HasSubstr("Try field \"poses\": .data = \"pose\""));
  EXPECT_EQ(refusal({{.name = ""}}), "field 0 has no name; give it one, by which Batch::field finds it");
  EXPECT_EQ(refusal({{.name = "pose"}, {.name = "pose"}}), "field \"pose\" comes twice; name each once");
  EXPECT_EQ(
      refusal({{.name = "boxes"}}),
      "a.h5:/boxes: sample 1 has length 2, sample 0 has 0; set collate = pad or ragged for field \"boxes\"");
  EXPECT_EQ(
      refusal({{.name = "labels", .collate = Collate::ragged}}),
      "a.h5:/labels (23 i32): collate = ragged is for samples of one dimension and more that are delivered "
      "as stored; use collate = stack for field \"labels\"");
  EXPECT_EQ(refusal({{.name = "pose", .dtype = DType::i64, .normalize = Normalize{}}}),
            "field \"pose\": dtype must be f32, f16, bf16 or f64 with normalize; got i64");
  EXPECT_THAT(refusal({{.name = "camera", .input_layout = InputLayout::nhw}}),
              HasSubstr("input_layout NHW needs 3 dimensions"));
  EXPECT_THAT(refusal({{.name = "pose", .files = {dir_ / "no_*.h5"}}}), HasSubstr("no file matches"));
  const auto loading = [&](FieldOptions field) {
    return refusal_of<OptionError>([&] { DataLoader(Dataset::open(with({std::move(field)})), {}); });
  };
  EXPECT_THAT(
      loading({.name = "depth", .dtype = DType::i8}),
      HasSubstr("the depth of sample 0 is 1000, which i8 cannot hold; choose a wider dtype of the field"));
  EXPECT_THAT(loading({.name = "pose", .normalize = Normalize{.std = {0}}}), HasSubstr("std"));
}

// As many numbers as a file can claim: what they take is refused, not allocated.
TEST_F(Fields, of_scalars_say_what_they_need) {
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const Hid space(H5Screate(H5S_SCALAR));
    const Hid set(
        H5Dcreate2(file.get(), "one", H5T_STD_I32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  EXPECT_EQ(refusal({{.name = "one"}}),
            "a.h5:/one is a scalar; a field needs one row per sample; name another dataset, or set sample = "
            "dataset where each is one sample");
  const auto opened = [&](DatasetOptions options) {
    options.files = {path()};
    return test::refusal_in<DatasetError>(dir_.path(), [&] { Dataset::open(options); });
  };
  EXPECT_THAT(opened({.data = "one"}),
              HasSubstr("/one is a scalar; samples need a first dimension to count them; "));
  EXPECT_THAT(opened({.data = "images", .target = "one"}),
              HasSubstr("/one is a scalar; a target needs one row per sample; "));
}

// What wrapped around would train a wrong model in silence.
TEST_F(Fields, that_their_integer_type_cannot_hold_are_refused_where_they_are_read) {
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    std::vector<std::vector<std::int32_t>> counts(kSamples);
    counts[7] = {1, 70000, 3};
    put_vlen(file.get(), "counts", H5T_STD_I32BE, H5T_NATIVE_INT32, counts);
    std::vector<std::vector<double>> weights(kSamples);
    weights[9] = {1.5, -1e10};
    put_vlen(file.get(), "weights", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, weights);
  }
  struct Case {
    FieldOptions field;
    std::string says;
  };
  for (const Collate collate : {Collate::ragged, Collate::pad}) {
    for (const Case& one : {Case{{.name = "counts", .collate = collate, .dtype = DType::i16},
                                 "a.h5:/counts: the counts of sample 7 is 70000, which i16 cannot hold; "
                                 "choose a wider dtype of the "
                                 "field"},
                            Case{{.name = "w", .data = "weights", .collate = collate, .dtype = DType::i32},
                                 "a.h5:/weights: the w of sample 9 is -10000000000, which i32 cannot hold; "
                                 "choose a wider dtype of "
                                 "the field"}}) {
      const Dataset dataset = Dataset::open(with({one.field}));
      for (const std::int64_t workers : {0, 2}) {
        DataLoader loader(dataset, {.batch_size = kSamples, .num_workers = workers});
        EXPECT_EQ(test::refusal_in<OptionError>(dir_.path(), [&] { loader.next(); }), one.says);
      }
      EXPECT_EQ(test::refusal_in<OptionError>(dir_.path(),
                                              [&] {
                                                SampleReader(dataset).read(std::vector<std::int64_t>{9, 7});
                                              }),
                one.says);
    }
  }
  const Dataset wide =
      Dataset::open(with({{.name = "counts", .collate = Collate::ragged, .dtype = DType::u32}}));
  DataLoader loader(wide, {.batch_size = kSamples});
  const Batch batch = loader.next().value();
  EXPECT_THAT(batch.field("counts").values.as<std::uint32_t>(), testing::ElementsAre(1, 70000, 3));
}

TEST_F(Fields, larger_than_memory_are_refused) {
  const std::filesystem::path groups = dir_ / "huge.h5";
  {
    const Hid file(H5Fcreate(groups.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    for (const char* const name : {"a", "b"}) {
      put(file.get(), std::string(name) + "/x", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2, 3},
          counted<std::uint8_t>(6, 0).data());
      put(file.get(), std::string(name) + "/huge", H5T_STD_U8LE, H5T_NATIVE_UINT8, {1ULL << 61}, nullptr);
      put(file.get(), std::string(name) + "/wide", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2, 1ULL << 60}, nullptr);
    }
  }
  for (const char* const name : {"huge", "wide"}) {
    for (const Collate collate : {Collate::stack, Collate::pad, Collate::ragged}) {
      const auto open = [&] {
        return Dataset::open({.files = {groups},
                              .data = "*/x",
                              .sample = SampleUnit::dataset,
                              .input_layout = InputLayout::none,
                              .fields = {{.name = "field",
                                          .data = std::string("*/") + name,
                                          .collate = collate,
                                          .dtype = DType::f64}}});
      };
      EXPECT_THAT(refusal_of<Error>([&] { DataLoader(open(), {.batch_size = 2}); }),
                  testing::AnyOf(HasSubstr("memory_budget_bytes"),
                                 HasSubstr("a sample spans 2,199,023,255,552 chunks")))
          << name;
    }
  }
}

TEST_F(Fields, that_are_too_many_bytes_together_are_refused) {
  const std::filesystem::path groups = dir_ / "huge.h5";
  {
    const Hid file(H5Fcreate(groups.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    for (const char* const name : {"a", "b", "c", "d", "e"})
      put(file.get(), std::string(name) + "/x", H5T_STD_U8LE, H5T_NATIVE_UINT8, {(1ULL << 62) - 1}, nullptr);
  }
  EXPECT_THAT(refusal_of<DatasetError>([&] {
                Dataset::open({.files = {groups},
                               .data = "*/x",
                               .sample = SampleUnit::dataset,
                               .input_layout = InputLayout::none});
              }),
              HasSubstr("together are more than can be counted; leave some out"));
}

// A reference that claims more than the file has must not be believed.
TEST_F(Fields, whose_lengths_are_damaged_are_refused) {
  std::vector<std::byte> bytes = test::file_bytes(path());
  // Sample 3 of the words: length 2, then the address of its heap; its object is the fourth of them.
  const std::vector<std::vector<std::int16_t>> words =
      read_vlen<std::int16_t>(path(), "words", H5T_NATIVE_INT16);
  ASSERT_EQ(words.size(), static_cast<std::size_t>(kSamples));
  const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid set(H5Dopen2(file.get(), "words", H5P_DEFAULT));
  const haddr_t offset = H5Dget_offset(set.get());
  ASSERT_NE(offset, HADDR_UNDEF);
  const auto damage = [&](std::size_t row, std::uint32_t length) {
    std::vector<std::byte> damaged = bytes;
    std::memcpy(damaged.data() + offset + row * 16, &length, sizeof(length));
    const std::filesystem::path copy = dir_ / ("damaged_" + std::to_string(length) + ".h5");
    test::replace_file(copy, damaged);
    return copy;
  };
  DatasetOptions options = with({{.name = "words", .collate = Collate::ragged}});
  options.files = {damage(3, 0xFFFFFFFF)};
  EXPECT_THAT(
      refusal_of<ChunkError>([&] { Dataset::open(options); }),
      HasSubstr("/words: sample 3 is corrupt: it claims 4,294,967,295 values, more than the file has"));
  options.files = {damage(3, 100)};
  DataLoader loader(Dataset::open(options), {.batch_size = kSamples, .num_workers = 2});
  EXPECT_THAT(refusal_of<ChunkError>([&] { loader.next(); }), HasSubstr("/words: sample 3 is corrupt"));
}

}  // namespace
}  // namespace h5feed::test
