// SPDX-License-Identifier: Apache-2.0
// Datasets as their public writers lay them out, small: read in every order, with 0, 1 and 4 workers, equal
// to what a plain loop over libhdf5 reads. The names are those of the writers' repositories.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#ifdef H5FEED_TEST_IMAGES
#include <opencv2/imgcodecs.hpp>
#endif

#include "conformance/compatibility.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/shape.hpp"

namespace h5feed::test {
namespace {

TEST_F(Compatibility, reads_fuel_celeba) {
  {
    H5TestFile file(dir_ / "celeba_64.hdf5");
    add(file, {.path = "features", .shape = {41, 3, 16, 16}});
    add(file, {.path = "targets", .shape = {41, 40}});
  }
  expect_equal({.files = {"celeba_64.hdf5"}, .data = "features", .target = "targets"},
               reference({{"celeba_64.hdf5", "features"}}),
               widened<std::uint8_t>(reference({{"celeba_64.hdf5", "targets"}})));
}

// Values of variable length through H5Dread.
std::vector<Bytes> ragged_through_libhdf5(const std::filesystem::path& path, const std::string& name) {
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
  const Hid type(H5Dget_type(dataset.get()));
  const Hid space(H5Dget_space(dataset.get()));
  std::vector<hvl_t> elements(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())));
  test::require(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()),
                "H5Dread");
  std::vector<Bytes> values;
  for (const hvl_t& element : elements) {
    const auto* const begin = static_cast<const std::byte*>(element.p);
    values.emplace_back(begin, begin + element.len);
  }
  test::require(H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, elements.data()), "H5Dvlen_reclaim");
  return values;
}

#ifdef H5FEED_TEST_IMAGES
TEST_F(Compatibility, reads_fuel_ilsvrc_with_encoded_images) {
  {
    H5TestFile file(dir_ / "ilsvrc2012.hdf5");
    std::vector<Bytes> jpegs;
    for (unsigned i = 0; i < 19; ++i) jpegs.push_back(test::encoded(test::picture(20, 28, 3, i), ".jpg"));
    test::write_ragged(file, "encoded_images", jpegs);
    add(file, {.path = "targets", .file_type = H5T_STD_I16LE, .shape = {19, 1}});
  }
  Bytes pixels;
  for (const Bytes& jpeg : ragged_through_libhdf5(dir_ / "ilsvrc2012.hdf5", "encoded_images")) {
    const cv::Mat view(1, static_cast<int>(jpeg.size()), CV_8U, const_cast<std::byte*>(jpeg.data()));
    const Bytes planes = test::planes(cv::imdecode(view, cv::IMREAD_COLOR));
    pixels.insert(pixels.end(), planes.begin(), planes.end());
  }
  expect_equal({.files = {"ilsvrc2012.hdf5"}, .data = "encoded_images", .target = "targets"}, pixels,
               widened<std::int16_t>(reference({{"ilsvrc2012.hdf5", "targets"}})));
}
#endif

TEST_F(Compatibility, reads_fuel_dogs_vs_cats_ragged_with_shapes) {
  {
    H5TestFile file(dir_ / "dogs_vs_cats.hdf5");
    std::vector<Bytes> images;
    std::vector<std::int32_t> shapes;
    for (int i = 0; i < 13; ++i) {
      const int height = 20;
      const int width = 25;
      images.push_back(
          test::random_bytes(static_cast<std::size_t>(3 * height * width), static_cast<unsigned>(i)));
      shapes.insert(shapes.end(), {3, height, width});
    }
    test::write_ragged(file, "image_features", images);
    file.create({.path = "image_features_shapes", .file_type = H5T_STD_I32LE, .shape = {13, 3}});
    file.write("image_features_shapes", std::as_bytes(std::span(shapes)));
    add(file, {.path = "targets", .shape = {13, 1}});
  }
  Bytes pixels;
  for (const Bytes& image : ragged_through_libhdf5(dir_ / "dogs_vs_cats.hdf5", "image_features"))
    pixels.insert(pixels.end(), image.begin(), image.end());
  expect_equal({.files = {"dogs_vs_cats.hdf5"},
                .data = "image_features",
                .target = "targets",
                .input_layout = InputLayout::nchw,
                .images = {.shapes = "image_features_shapes"}},
               pixels, widened<std::uint8_t>(reference({{"dogs_vs_cats.hdf5", "targets"}})));
}

TEST_F(Compatibility, reads_biggan_ilsvrc128) {
  {
    H5TestFile file(dir_ / "ILSVRC128.hdf5");
    // Created with the first batch and resized as the next come.
    file.create(
        {.path = "imgs", .shape = {10, 3, 16, 16}, .max_shape = {37, 3, 16, 16}, .chunk = {10, 3, 16, 16}});
    file.create(
        {.path = "labels", .file_type = H5T_STD_I64LE, .shape = {10}, .max_shape = {37}, .chunk = {10}});
    const std::uint64_t images[] = {37, 3, 16, 16};
    const std::uint64_t labels[] = {37};
    file.set_extent("imgs", images);
    file.set_extent("labels", labels);
    file.write("imgs", test::patterned_bytes(37 * 3 * 256, 1));
    file.write("labels", test::patterned_bytes(37 * 8, 2));
  }
  expect_equal({.files = {"ILSVRC128.hdf5"}, .data = "imgs", .target = "labels"},
               reference({{"ILSVRC128.hdf5", "imgs"}}), reference({{"ILSVRC128.hdf5", "labels"}}));
}

TEST_F(Compatibility, reads_pcam_in_two_files) {
  {
    H5TestFile x(dir_ / "camelyonpatch_level_2_split_train_x.h5");
    // h5py's automatic chunks cut the images.
    add(x, {.path = "x", .shape = {67, 12, 12, 3}, .chunk = {32, 6, 6, 1}, .filters = gzip()});
    H5TestFile y(dir_ / "camelyonpatch_level_2_split_train_y.h5");
    add(y, {.path = "y", .shape = {67, 1, 1, 1}, .chunk = {67, 1, 1, 1}, .filters = gzip()});
  }
  expect_equal({.files = {"camelyonpatch_level_2_split_train_x.h5"},
                .data = "x",
                .target = "y",
                .target_files = {"camelyonpatch_level_2_split_train_y.h5"}},
               reference({{"camelyonpatch_level_2_split_train_x.h5", "x"}}),
               widened<std::uint8_t>(reference({{"camelyonpatch_level_2_split_train_y.h5", "y"}})));
}

TEST_F(Compatibility, reads_nyu_depth_v2_in_matlab_7_3) {
  {
    // 512 bytes in front, and axes in MATLAB's order: images are (N,3,W,H).
    H5TestFile file(dir_ / "nyu_depth_v2_labeled.mat", {.user_block = 512});
    add(file, {.path = "images", .shape = {11, 3, 16, 12}, .chunk = {2, 3, 16, 12}, .filters = gzip()});
    add(file, {.path = "depths",
               .file_type = H5T_IEEE_F32LE,
               .shape = {11, 16, 12},
               .chunk = {1, 16, 12},
               .filters = gzip()});
  }
  expect_equal({.files = {"nyu_depth_v2_labeled.mat"}, .data = "images", .target = "depths"},
               reference({{"nyu_depth_v2_labeled.mat", "images"}}),
               reference({{"nyu_depth_v2_labeled.mat", "depths"}}));
}

TEST_F(Compatibility, reads_dlio_in_the_latest_format) {
  std::vector<Place> records;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "img_" + std::to_string(i) + "_of_3.hdf5";
    H5TestFile file(dir_ / name, {.latest = true});
    add(file, {.path = "records", .shape = {9, 12, 12}, .chunk = {1, 12, 12}, .filters = gzip()});
    add(file, {.path = "labels", .file_type = H5T_STD_I64LE, .shape = {9}});
    records.push_back({name, "records"});
  }
  expect_equal({.files = {"img_*.hdf5"}, .data = "records", .target = "labels"}, reference(records));
}

TEST_F(Compatibility, reads_ann_benchmarks) {
  {
    H5TestFile file(dir_ / "sift-128-euclidean.hdf5");
    add(file, {.path = "train", .file_type = H5T_IEEE_F32LE, .shape = {103, 32}});
    add(file, {.path = "test", .file_type = H5T_IEEE_F32LE, .shape = {13, 32}});
    add(file, {.path = "neighbors", .file_type = H5T_STD_I32LE, .shape = {13, 10}});
  }
  expect_equal({.files = {"sift-128-euclidean.hdf5"}, .data = "train"},
               reference({{"sift-128-euclidean.hdf5", "train"}}));
  expect_equal({.files = {"sift-128-euclidean.hdf5"}, .data = "test", .target = "neighbors"},
               reference({{"sift-128-euclidean.hdf5", "test"}}),
               widened<std::int32_t>(reference({{"sift-128-euclidean.hdf5", "neighbors"}})));
}

TEST_F(Compatibility, reads_panns_audioset_waveforms) {
  {
    H5TestFile file(dir_ / "balanced_train.h5");
    add(file, {.path = "waveform",
               .file_type = H5T_STD_I16LE,
               .shape = {0 + 17, 320},
               .max_shape = {kUnlimited, 320},
               .chunk = {1, 320}});
    const Hid boolean = test::boolean_type();
    add(file, {.path = "target", .file_type = boolean.get(), .shape = {17, 27}});
  }
  expect_equal({.files = {"balanced_train.h5"}, .data = "waveform", .target = "target"},
               reference({{"balanced_train.h5", "waveform"}}),
               widened<std::uint8_t>(reference({{"balanced_train.h5", "target"}})));
}

TEST_F(Compatibility, reads_modelnet40_in_shards) {
  std::vector<Place> data;
  std::vector<Place> label;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "ply_data_train" + std::to_string(i) + ".h5";
    H5TestFile file(dir_ / name);
    const std::uint64_t rows = i == 4 ? 7 : 16;
    add(file, {.path = "data",
               .file_type = H5T_IEEE_F32LE,
               .shape = {rows, 64, 3},
               .chunk = {4, 64, 3},
               .filters = gzip()});
    add(file, {.path = "label", .shape = {rows, 1}, .chunk = {rows, 1}, .filters = gzip()});
    data.push_back({name, "data"});
    label.push_back({name, "label"});
  }
  expect_equal({.files = {"ply_data_train*.h5"}, .data = "data", .target = "label"}, reference(data),
               widened<std::uint8_t>(reference(label)));
}

}  // namespace
}  // namespace h5feed::test
