// SPDX-License-Identifier: Apache-2.0
#include "support/files/sample_set.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "support/files/shape.hpp"

namespace h5feed::test {
namespace {

hid_t check(hid_t id) {
  if (id < 0) throw std::runtime_error("libhdf5 refused while writing a test file");
  return id;
}

hid_t native_type(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return H5T_NATIVE_UINT8;
    case DType::i8:
      return H5T_NATIVE_INT8;
    case DType::u16:
      return H5T_NATIVE_UINT16;
    case DType::i16:
      return H5T_NATIVE_INT16;
    case DType::u32:
      return H5T_NATIVE_UINT32;
    case DType::i32:
      return H5T_NATIVE_INT32;
    case DType::u64:
      return H5T_NATIVE_UINT64;
    case DType::i64:
      return H5T_NATIVE_INT64;
    case DType::f32:
      return H5T_NATIVE_FLOAT;
    case DType::f64:
      return H5T_NATIVE_DOUBLE;
    case DType::f16:
    case DType::bf16:
      break;
  }
  throw std::runtime_error("test files have no 16-bit floats");
}

// Labels are small integers, so that every element type holds them exactly. Sample i has the label first + i
// % count.
struct LabelRule {
  std::uint64_t first = 0;
  std::uint64_t count = 10;
};

template <typename T>
void fill(std::vector<std::byte>& bytes, std::uint64_t row_elements, const std::optional<LabelRule>& labels) {
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t row = i / row_elements;
    const std::uint64_t at = i % row_elements;
    const std::uint64_t value =
        labels ? labels->first + row % labels->count : (row * 31 + at * 7 + at / 5) % 127;
    const T typed = static_cast<T>(value);
    std::memcpy(bytes.data() + i * sizeof(T), &typed, sizeof(T));
  }
}

std::vector<std::byte> content(DType dtype, const std::vector<std::uint64_t>& shape,
                               const std::optional<LabelRule>& labels) {
  const std::uint64_t elements = product(shape);
  const std::uint64_t row_elements = elements / shape.front();
  std::vector<std::byte> bytes(elements * size_of(dtype));
  switch (dtype) {
    case DType::u8:
      fill<std::uint8_t>(bytes, row_elements, labels);
      break;
    case DType::i8:
      fill<std::int8_t>(bytes, row_elements, labels);
      break;
    case DType::u16:
      fill<std::uint16_t>(bytes, row_elements, labels);
      break;
    case DType::i16:
      fill<std::int16_t>(bytes, row_elements, labels);
      break;
    case DType::u32:
      fill<std::uint32_t>(bytes, row_elements, labels);
      break;
    case DType::i32:
      fill<std::int32_t>(bytes, row_elements, labels);
      break;
    case DType::u64:
      fill<std::uint64_t>(bytes, row_elements, labels);
      break;
    case DType::i64:
      fill<std::int64_t>(bytes, row_elements, labels);
      break;
    case DType::f32:
      fill<float>(bytes, row_elements, labels);
      break;
    case DType::f64:
      fill<double>(bytes, row_elements, labels);
      break;
    case DType::f16:
    case DType::bf16:
      break;
  }
  return bytes;
}

void write(hid_t file, const char* name, DType dtype, const std::vector<std::uint64_t>& shape, hid_t creation,
           const std::vector<std::byte>& bytes) {
  const std::vector<hsize_t> extent(shape.begin(), shape.end());
  const hid_t space = check(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
  const hid_t type = native_type(dtype);
  const hid_t dataset = check(H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT));
  check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()));
  H5Dclose(dataset);
  H5Sclose(space);
}

hid_t creation_list(const SampleSetSpec& spec) {
  const hid_t creation = check(H5Pcreate(H5P_DATASET_CREATE));
  if (spec.compact) check(H5Pset_layout(creation, H5D_COMPACT));
  if (!spec.chunk_shape.empty()) {
    const std::vector<hsize_t> chunk(spec.chunk_shape.begin(), spec.chunk_shape.end());
    check(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()));
    if (spec.shuffle) check(H5Pset_shuffle(creation));
    if (spec.gzip >= 0) check(H5Pset_deflate(creation, static_cast<unsigned>(spec.gzip)));
    if (spec.fletcher32) check(H5Pset_fletcher32(creation));
  }
  return creation;
}

}  // namespace

std::filesystem::path unique_path(const std::string& suffix) {
  static std::atomic<int> counter = 0;
  return std::filesystem::path(testing::TempDir()) /
         ("h5feed_" + std::to_string(getpid()) + "_" + std::to_string(counter++) + suffix);
}

SampleSet::SampleSet(const SampleSetSpec& spec)
    : spec_(spec), path_(unique_path(".h5")), images_(content(spec.dtype, spec.shape, {})) {
  std::vector<std::uint64_t> label_shape = spec.label_shape;
  if (label_shape.empty()) label_shape = {spec.shape.front()};
  const hid_t file = check(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  const hid_t creation = creation_list(spec);
  write(file, "images", spec.dtype, spec.shape, creation, images_);
  write(file, "labels", spec.label_dtype, label_shape, H5P_DEFAULT,
        content(spec.label_dtype, label_shape, LabelRule{spec.first_label, spec.label_count}));
  H5Pclose(creation);
  H5Fclose(file);
}

SampleSet::~SampleSet() { std::filesystem::remove(path_); }

void damage(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t count) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  std::vector<char> bytes(count);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  for (char& byte : bytes) byte = static_cast<char>(~byte);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(count));
  if (!file) throw std::runtime_error("cannot damage " + path.string());
}

}  // namespace h5feed::test
