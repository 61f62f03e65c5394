// Named fields beside data and target: each with its own type, transform and collate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/h5_test_file.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

namespace h5feed {
namespace {

using test::Hid;
using test::refusal_of;
using test::require;
using test::TempDir;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kSamples = 23;

// Sizes that differ from sample to sample, some of them 0.
std::size_t length_of(std::int64_t sample) { return static_cast<std::size_t>(sample * 7 % 5); }

template <typename T>
std::vector<T> counted(std::size_t count, T first) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

void put(hid_t file, const std::string& path, hid_t file_type, hid_t type, const std::vector<hsize_t>& shape,
         const void* values, const std::vector<hsize_t>& chunk = {}) {
  const Hid links(H5Pcreate(H5P_LINK_CREATE));
  require(H5Pset_create_intermediate_group(links.get(), 1), "H5Pset_create_intermediate_group");
  const Hid space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
  if (!chunk.empty()) {
    require(H5Pset_chunk(plist.get(), static_cast<int>(chunk.size()), chunk.data()), "H5Pset_chunk");
    require(H5Pset_deflate(plist.get(), 1), "H5Pset_deflate");
  }
  const Hid set(
      H5Dcreate2(file, path.c_str(), file_type, space.get(), links.get(), plist.get(), H5P_DEFAULT));
  if (values != nullptr)
    require(H5Dwrite(set.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dwrite");
}

// Numbers of variable length, written as h5py writes them.
template <typename T>
void put_vlen(hid_t file, const std::string& path, hid_t file_element, hid_t element,
              std::vector<std::vector<T>> rows) {
  const Hid file_type(H5Tvlen_create(file_element));
  const Hid type(H5Tvlen_create(element));
  std::vector<hvl_t> values;
  for (std::vector<T>& row : rows) values.push_back({row.size(), row.data()});
  put(file, path, file_type.get(), type.get(), {values.size()}, values.data());
}

// The same through H5Dread, one by one.
template <typename T>
std::vector<std::vector<T>> read_vlen(const std::filesystem::path& path, const std::string& name,
                                      hid_t element) {
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid set(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
  const Hid space(H5Dget_space(set.get()));
  const Hid type(H5Tvlen_create(element));
  std::vector<hvl_t> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())));
  require(H5Dread(set.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dread");
  std::vector<std::vector<T>> rows;
  for (const hvl_t& value : values) {
    const T* const begin = static_cast<const T*>(value.p);
    rows.emplace_back(begin, begin + value.len);
  }
  require(H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, values.data()), "H5Dvlen_reclaim");
  return rows;
}

class Fields : public testing::Test {
 protected:
  Fields() {
    const Hid file(H5Fcreate(path().c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    put(file.get(), "images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {kSamples, 4, 5},
        counted<std::uint8_t>(kSamples * 20, 0).data(), {5, 4, 5});
    put(file.get(), "labels", H5T_STD_I32LE, H5T_NATIVE_INT, {kSamples}, counted<int>(kSamples, 100).data());
    put(file.get(), "pose", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, {kSamples, 3},
        counted<float>(kSamples * 3, -10).data(), {4, 2});
    put(file.get(), "depth", H5T_STD_U16LE, H5T_NATIVE_UINT16, {kSamples, 2, 3},
        counted<std::uint16_t>(kSamples * 6, 1000).data(), {6, 2, 3});
    put(file.get(), "camera", H5T_STD_U8LE, H5T_NATIVE_UINT8, {kSamples, 2, 2, 3},
        counted<std::uint8_t>(kSamples * 12, 5).data(), {3, 2, 2, 3});
    std::vector<std::vector<float>> boxes;
    std::vector<std::vector<std::int16_t>> words;
    for (std::int64_t sample = 0; sample < kSamples; ++sample) {
      boxes.push_back(counted<float>(length_of(sample), static_cast<float>(sample * 100)));
      words.push_back(counted<std::int16_t>(2, static_cast<std::int16_t>(sample)));
    }
    put_vlen(file.get(), "boxes", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, boxes);
    put_vlen(file.get(), "words", H5T_STD_I16LE, H5T_NATIVE_INT16, words);
    put(file.get(), "short", H5T_STD_I32LE, H5T_NATIVE_INT, {kSamples - 1},
        counted<int>(kSamples - 1, 0).data());
  }

  std::filesystem::path path() const { return dir_ / "a.h5"; }

  DatasetOptions with(std::vector<FieldOptions> fields) const {
    return {.files = {path()}, .data = "images", .target = "labels", .fields = std::move(fields)};
  }

  std::string refusal(std::vector<FieldOptions> fields) const {
    std::string text = refusal_of<Error>([&] { Dataset::open(with(std::move(fields))); });
    const std::string prefix = dir_.path().string() + "/";
    for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }

  TempDir dir_;
};

// What belongs to a sample, from the file by libhdf5.
struct Expected {
  std::vector<std::vector<float>> boxes;
  std::vector<float> pose;
  std::vector<std::uint16_t> depth;
};

void expect_batch(const Batch& batch, const Expected& expected, bool batched) {
  ASSERT_EQ(batch.fields.size(), 4u);
  const auto samples = batch.indices.size();
  const BatchField& pose = batch.field("pose");
  const BatchField& depth = batch.field("depth");
  const BatchField& ragged = batch.field("boxes");
  const BatchField& padded = batch.field("padded");
  const auto offsets = ragged.offsets.as<std::int64_t>();
  const auto lengths = padded.lengths.as<std::int64_t>();
  ASSERT_EQ(offsets.size(), samples + 1);
  ASSERT_EQ(lengths.size(), samples);
  EXPECT_EQ(offsets.front(), 0);
  EXPECT_EQ(offsets.back(), ragged.values.shape.front());
  const auto longest = static_cast<std::size_t>(padded.values.shape[batched ? 1 : 0]);
  for (std::size_t i = 0; i < samples; ++i) {
    const auto sample = static_cast<std::size_t>(batch.indices[i]);
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_EQ(pose.values.as<double>()[i * 3 + k], expected.pose[sample * 3 + k]);
    for (std::size_t k = 0; k < 6; ++k) {
      const float scaled = static_cast<float>((expected.depth[sample * 6 + k] * 0.5 - 4) / 2);
      EXPECT_EQ(depth.values.as<float>()[i * 6 + k], scaled);
    }
    const std::vector<float>& boxes = expected.boxes[sample];
    ASSERT_EQ(static_cast<std::size_t>(offsets[i + 1] - offsets[i]), boxes.size());
    ASSERT_EQ(static_cast<std::size_t>(lengths[i]), boxes.size());
    for (std::size_t k = 0; k < longest; ++k) {
      if (k < boxes.size()) {
        EXPECT_EQ(ragged.values.as<float>()[static_cast<std::size_t>(offsets[i]) + k], boxes[k]);
        EXPECT_EQ(padded.values.as<std::int32_t>()[i * longest + k], static_cast<std::int32_t>(boxes[k]));
      } else {
        EXPECT_EQ(padded.values.as<std::int32_t>()[i * longest + k], 0);
      }
    }
  }
}

TEST_F(Fields, equal_a_loop_of_libhdf5_in_any_order_with_any_number_of_workers) {
  Expected expected{.boxes = read_vlen<float>(path(), "boxes", H5T_NATIVE_FLOAT), .pose = {}, .depth = {}};
  const std::vector<std::byte> pose = test::read_through_libhdf5(path(), "pose");
  const std::vector<std::byte> depth = test::read_through_libhdf5(path(), "depth");
  expected.pose.resize(pose.size() / sizeof(float));
  std::memcpy(expected.pose.data(), pose.data(), pose.size());
  expected.depth.resize(depth.size() / 2);
  std::memcpy(expected.depth.data(), depth.data(), depth.size());
  const Dataset dataset = Dataset::open(
      with({{.name = "pose", .dtype = DType::f64},
            {.name = "depth", .normalize = Normalize{.scale = 0.5, .mean = {4}, .std = {2}}},
            {.name = "boxes", .collate = Collate::ragged},
            {.name = "padded", .data = "boxes", .collate = Collate::pad, .dtype = DType::i32}}));
  for (const char* const order : {"sequential", "full", "chunk:2"}) {
    for (const std::int64_t workers : {0, 1, 4}) {
      for (const std::optional<std::int64_t> batch_size : {std::optional<std::int64_t>(5), {}}) {
        SCOPED_TRACE(order + std::to_string(workers));
        DataLoader loader(
            dataset, {.batch_size = batch_size, .shuffle = order, .num_workers = workers, .cache_bytes = 0});
        std::int64_t seen = 0;
        for (const Batch& batch : loader) {
          ASSERT_NO_FATAL_FAILURE(expect_batch(batch, expected, batch_size.has_value()));
          seen += batch.size();
          EXPECT_EQ(batch.target.as<std::int64_t>()[0], batch.indices[0] + 100);
        }
        EXPECT_EQ(seen, kSamples);  // the last batch has 3
      }
    }
  }
  const std::vector<std::int64_t> wanted = {22, 3, 3, 0};
  expect_batch(SampleReader(dataset).read(wanted), expected, true);
}

TEST_F(Fields, have_the_shapes_that_their_collate_says) {
  const Dataset dataset =
      Dataset::open(with({{.name = "depth", .collate = Collate::ragged},
                          {.name = "again", .data = "depth", .collate = Collate::pad},
                          {.name = "camera", .input_layout = InputLayout::nhwc, .normalize = Normalize{}},
                          {.name = "stored", .data = "camera"},
                          {.name = "words"},
                          {.name = "boxes", .collate = Collate::pad}}));
  DataLoader loader(dataset, {.batch_size = 3, .num_workers = 2});
  const auto batch = loader.next();
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(batch->field("depth").values.shape, (Shape{6, 3}));
  EXPECT_THAT(batch->field("depth").offsets.as<std::int64_t>(), ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(batch->field("again").values.shape, (Shape{3, 2, 3}));
  EXPECT_THAT(batch->field("again").lengths.as<std::int64_t>(), ElementsAre(2, 2, 2));
  EXPECT_EQ(batch->field("camera").values.shape, (Shape{3, 3, 2, 2}));
  EXPECT_EQ(batch->field("camera").values.dtype, DType::f32);
  EXPECT_EQ(batch->field("camera").values.as<float>()[1],
            static_cast<float>(batch->field("stored").values.as<std::uint8_t>()[3] / 255.0));
  EXPECT_EQ(batch->field("stored").values.shape, (Shape{3, 2, 2, 3}));
  EXPECT_EQ(batch->field("words").values.shape, (Shape{3, 2}));
  EXPECT_THAT(batch->field("words").values.as<std::int16_t>(), ElementsAre(0, 1, 1, 2, 2, 3));
  EXPECT_FALSE(batch->field("words").offsets.defined());
  // Lengths 0, 2 and 4: filled up to the longest of this batch.
  EXPECT_EQ(batch->field("boxes").values.shape, (Shape{3, 4}));
  EXPECT_THROW(batch->field("nothing"), std::out_of_range);
}

TEST_F(Fields, come_in_files_of_their_own_and_from_lists) {
  const auto write_part = [&](const std::string& name, std::int64_t first, std::int64_t count) {
    const Hid file(H5Fcreate((dir_ / name).c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    std::vector<std::vector<std::int64_t>> rows;
    for (std::int64_t sample = first; sample < first + count; ++sample)
      rows.push_back(counted<std::int64_t>(length_of(sample), sample));
    put_vlen(file.get(), "tokens", H5T_STD_I64LE, H5T_NATIVE_INT64, rows);
    put(file.get(), "weight", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {static_cast<hsize_t>(count)},
        counted<double>(static_cast<std::size_t>(count), static_cast<double>(first)).data());
  };
  write_part("part_0.h5", 0, 10);
  write_part("part_1.h5", 10, 13);
  const std::vector<std::filesystem::path> files = {dir_ / "part_*.h5"};
  const Dataset dataset = Dataset::open(with({{.name = "tokens", .files = files, .collate = Collate::ragged},
                                              {.name = "weight", .files = files, .dtype = DType::f32}}));
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .num_workers = 2, .provenance = true});
  for (const Batch& batch : loader) {
    const auto offsets = batch.field("tokens").offsets.as<std::int64_t>();
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      EXPECT_EQ(batch.field("weight").values.as<float>()[i], static_cast<float>(batch.indices[i]));
      ASSERT_EQ(static_cast<std::size_t>(offsets[i + 1] - offsets[i]), length_of(batch.indices[i]));
      if (offsets[i + 1] > offsets[i]) {
        EXPECT_EQ(batch.field("tokens").values.as<std::int64_t>()[static_cast<std::size_t>(offsets[i])],
                  batch.indices[i]);
      }
      EXPECT_EQ(batch.origins[i].path, "/images");
      EXPECT_EQ(batch.origins[i].row, batch.indices[i]);
    }
  }
}

TEST_F(Fields, of_groups_differ_in_length_from_group_to_group) {
  const std::filesystem::path groups = dir_ / "groups.h5";
  {
    const Hid file(H5Fcreate(groups.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    for (int group = 0; group < 12; ++group) {
      const std::string prefix = "sample_" + std::to_string(group);
      put(file.get(), prefix + "/image", H5T_STD_U8LE, H5T_NATIVE_UINT8, {6, 4},
          counted<std::uint8_t>(24, static_cast<std::uint8_t>(group)).data());
      const auto length = static_cast<hsize_t>(group % 4);
      put(file.get(), prefix + "/points", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {length, 3},
          length == 0 ? nullptr : counted<float>(length * 3, static_cast<float>(group * 10)).data());
      put(file.get(), prefix + "/mass", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {1},
          counted<double>(1, group + 0.5).data());
    }
  }
  const Dataset dataset =
      Dataset::open({.files = {groups},
                     .data = "sample_*/image",
                     .sample = SampleUnit::dataset,
                     .input_layout = InputLayout::none,
                     .fields = {{.name = "points", .data = "sample_*/points", .collate = Collate::ragged},
                                {.name = "padded", .data = "sample_*/points", .collate = Collate::pad},
                                {.name = "mass", .data = "sample_*/mass"}}});
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(dataset,
                      {.batch_size = 5, .shuffle = true, .num_workers = workers, .provenance = true});
    for (const Batch& batch : loader) {
      const BatchField& points = batch.field("points");
      const auto offsets = points.offsets.as<std::int64_t>();
      EXPECT_EQ(points.values.shape, (std::vector<std::int64_t>{offsets.back(), 3}));
      const BatchField& padded = batch.field("padded");
      const auto longest = static_cast<std::size_t>(padded.values.shape[1]);
      for (std::size_t i = 0; i < batch.indices.size(); ++i) {
        const std::int64_t group = batch.indices[i];
        EXPECT_EQ(batch.origins[i].path, "/sample_" + std::to_string(group) + "/image");
        ASSERT_EQ(offsets[i + 1] - offsets[i], group % 4);
        for (std::size_t k = 0; k < static_cast<std::size_t>(group % 4) * 3; ++k) {
          const auto value = static_cast<float>(group * 10 + static_cast<std::int64_t>(k));
          EXPECT_EQ(points.values.as<float>()[static_cast<std::size_t>(offsets[i]) * 3 + k], value);
          EXPECT_EQ(padded.values.as<float>()[i * longest * 3 + k], value);
        }
        EXPECT_EQ(batch.field("mass").values.as<double>()[i], static_cast<double>(group) + 0.5);
      }
    }
  }
}

TEST_F(Fields, belong_to_all_tiles_of_an_image_or_are_cut_with_it) {
  DatasetOptions options = with(
      {{.name = "mask", .data = "images"}, {.name = "pose"}, {.name = "boxes", .collate = Collate::ragged}});
  options.tiles = TileOptions{.size = {2, 5}};
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.size(), 2 * kSamples);
  DataLoader loader(dataset, {.batch_size = 7, .shuffle = true, .num_workers = 2, .provenance = true});
  for (const Batch& batch : loader) {
    const auto offsets = batch.field("boxes").offsets.as<std::int64_t>();
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const std::int64_t image = batch.origins[i].image;
      EXPECT_EQ(image, batch.indices[i] / 2);
      EXPECT_EQ(
          std::memcmp(batch.field("mask").values.bytes.get() + i * 10, batch.data.bytes.get() + i * 10, 10),
          0);
      EXPECT_EQ(batch.field("pose").values.as<float>()[i * 3], static_cast<float>(image * 3 - 10));
      EXPECT_EQ(static_cast<std::size_t>(offsets[i + 1] - offsets[i]), length_of(image));
    }
  }
}

TEST_F(Fields, travel_with_every_echo_in_memory_of_its_own) {
  const Dataset dataset =
      Dataset::open(with({{.name = "pose"}, {.name = "boxes", .collate = Collate::ragged}}));
  DataLoader loader(dataset, {.batch_size = 4, .num_workers = 2, .echo = {.factor = 2}});
  std::vector<float> first;
  for (Batch& batch : loader) {
    const auto pose = batch.field("pose").values.as<float>();
    const auto boxes = batch.field("boxes").values.as<float>();
    std::vector<float> values(pose.begin(), pose.end());
    values.insert(values.end(), boxes.begin(), boxes.end());
    if (batch.repeat == 0) {
      first = values;
    } else {
      EXPECT_EQ(values, first);
    }
    std::ranges::fill(pose, -1.0F);  // which no repeat may see
    std::ranges::fill(boxes, -1.0F);
  }
}

TEST_F(Fields, that_do_not_fit_are_refused_in_one_line) {
  EXPECT_EQ(refusal({{.name = "short"}}),
            "a.h5: /short has 22 rows, /images has 23; a field needs one row per sample");
  EXPECT_THAT(refusal({{.name = "poses"}}), HasSubstr("a.h5: no dataset \"poses\"; it has "));
  EXPECT_THAT(refusal({{.name = "poses"}}), HasSubstr("Try field \"poses\": data = pose"));
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
  EXPECT_THAT(loading({.name = "depth", .dtype = DType::i8}),
              HasSubstr("the depth of sample 0 does not fit i8; choose a wider dtype of the field"));
  EXPECT_THAT(loading({.name = "pose", .normalize = Normalize{.std = {0}}}), HasSubstr("std"));
}

TEST_F(Fields, without_any_element_are_delivered_as_such) {
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    put(file.get(), "nothing", H5T_STD_I32LE, H5T_NATIVE_INT, {kSamples, 0}, nullptr);
    const Hid type(H5Tvlen_create(H5T_NATIVE_DOUBLE));
    put(file.get(), "unwritten", type.get(), type.get(), {kSamples}, nullptr);
  }
  const Dataset dataset =
      Dataset::open(with({{.name = "nothing"},
                          {.name = "none", .data = "nothing", .collate = Collate::ragged},
                          {.name = "unwritten", .collate = Collate::ragged},
                          {.name = "padded", .data = "unwritten", .collate = Collate::pad}}));
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .num_workers = workers, .preload = true});
    std::int64_t seen = 0;
    for (const Batch& batch : loader) {
      seen += batch.size();
      EXPECT_EQ(batch.field("nothing").values.shape, (std::vector<std::int64_t>{batch.size(), 0}));
      EXPECT_EQ(batch.field("none").values.elements(), 0);
      EXPECT_EQ(batch.field("unwritten").values.elements(), 0);
      EXPECT_EQ(batch.field("padded").values.shape, (std::vector<std::int64_t>{batch.size(), 0}));
    }
    EXPECT_EQ(seen, kSamples);
  }
  EXPECT_EQ(SampleReader(dataset).read(std::vector<std::int64_t>{4, 4}).field("nothing").values.elements(),
            0);
}

// As many numbers as a file can claim: what they take is refused, not allocated.
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
                                 HasSubstr("a sample lies in 2,199,023,255,552 chunks")))
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
}  // namespace h5feed
