// SPDX-License-Identifier: Apache-2.0
#include "support/files/h5_test_file.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <random>
#include <stdexcept>

#include "store/hdf5/hdf5_versions.hpp"

namespace h5feed::test {
namespace {

std::vector<hsize_t> to_hsize(std::span<const std::uint64_t> values) {
  return {values.begin(), values.end()};
}

Hid create_space(std::span<const std::uint64_t> shape, std::span<const std::uint64_t> max_shape = {}) {
  if (shape.empty()) return Hid(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> dims = to_hsize(shape);
  const std::vector<hsize_t> max_dims = to_hsize(max_shape);
  return Hid(H5Screate_simple(static_cast<int>(dims.size()), dims.data(),
                              max_dims.empty() ? nullptr : max_dims.data()));
}

Hid host_order_type(const Hid& dataset) {
  const Hid stored(H5Dget_type(dataset.get()));
  Hid type(H5Tcopy(stored.get()));
  constexpr bool kLittle = std::endian::native == std::endian::little;
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind == H5T_INTEGER || kind == H5T_FLOAT || kind == H5T_BITFIELD || kind == H5T_COMPOUND) {
    require(H5Tset_order(type.get(), kLittle ? H5T_ORDER_LE : H5T_ORDER_BE), "H5Tset_order");
  }
  if (kind == H5T_INTEGER) {  // also of values that do not fill their bytes
    require(H5Tset_offset(type.get(), 0), "H5Tset_offset");
    require(H5Tset_precision(type.get(), 8 * H5Tget_size(type.get())), "H5Tset_precision");
  }
  return type;
}

Hid creation_list(const TestDataset& dataset) {
  Hid plist(H5Pcreate(H5P_DATASET_CREATE));
  if (dataset.compact) require(H5Pset_layout(plist.get(), H5D_COMPACT), "H5Pset_layout");
  if (!dataset.chunk.empty()) {
    const std::vector<hsize_t> chunk = to_hsize(dataset.chunk);
    require(H5Pset_chunk(plist.get(), static_cast<int>(chunk.size()), chunk.data()), "H5Pset_chunk");
  }
  for (const FilterSpec& filter : dataset.filters) {
    require(H5Pset_filter(plist.get(), static_cast<H5Z_filter_t>(filter.id),
                          filter.optional ? H5Z_FLAG_OPTIONAL : H5Z_FLAG_MANDATORY, filter.params.size(),
                          filter.params.data()),
            "H5Pset_filter");
  }
  if (dataset.unfiltered_edges) {
    require(H5Pset_chunk_opts(plist.get(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS), "H5Pset_chunk_opts");
  }
  if (dataset.early_allocation) {
    require(H5Pset_alloc_time(plist.get(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  }
  if (!dataset.fill_value.empty()) {
    require(H5Pset_fill_value(plist.get(), dataset.file_type, dataset.fill_value.data()),
            "H5Pset_fill_value");
  }
  if (dataset.undefined_fill_value) {
    require(H5Pset_fill_value(plist.get(), dataset.file_type, nullptr), "H5Pset_fill_value");
  }
  if (!dataset.external_file.empty()) {
    require(H5Pset_external(plist.get(), dataset.external_file.c_str(), 0, H5F_UNLIMITED), "H5Pset_external");
  }
  return plist;
}

}  // namespace

Hid::Hid(hid_t id) : id_(id) {
  if (id < 0) throw std::runtime_error("libhdf5 refused while handling a test file");
}

Hid& Hid::operator=(Hid&& other) noexcept {
  std::swap(id_, other.id_);
  return *this;
}

Hid::~Hid() {
  if (id_ >= 0) H5Idec_ref(id_);
}

void require(herr_t status, const char* call) {
  if (status < 0) throw std::runtime_error(std::string(call) + " failed on a test file");
}

hid_t float16_type(std::size_t mantissa_bits, std::size_t bias, H5T_order_t order) {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  require(H5Tset_fields(type, 15, mantissa_bits, 15 - mantissa_bits, 0, mantissa_bits), "H5Tset_fields");
  require(H5Tset_size(type, 2), "H5Tset_size");
  require(H5Tset_ebias(type, bias), "H5Tset_ebias");
  require(H5Tset_order(type, order), "H5Tset_order");
  return type;
}

H5TestFile::H5TestFile(const std::filesystem::path& path, TestFileOptions options) {
  const Hid creation(H5Pcreate(H5P_FILE_CREATE));
  require(H5Pset_userblock(creation.get(), options.user_block), "H5Pset_userblock");
  const Hid access(H5Pcreate(H5P_FILE_ACCESS));
  require(accept_unused_bits(access.get()), "accept_unused_bits");
  if (options.latest) {
    require(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "H5Pset_libver_bounds");
  }
  file_ = Hid(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
}

void H5TestFile::create(const TestDataset& dataset) {
  const Hid links(H5Pcreate(H5P_LINK_CREATE));
  require(H5Pset_create_intermediate_group(links.get(), 1), "H5Pset_create_intermediate_group");
  const Hid space = create_space(dataset.shape, dataset.max_shape);
  const Hid plist = creation_list(dataset);
  const Hid created(H5Dcreate2(file_.get(), dataset.path.c_str(), dataset.file_type, space.get(), links.get(),
                               plist.get(), H5P_DEFAULT));
}

Hid H5TestFile::open(const std::string& path) const {
  return Hid(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT));
}

void H5TestFile::create_converted(const std::string& path, const std::vector<std::uint64_t>& shape,
                                  std::span<const std::byte> values) {
  const std::string source = path + "_wide";
  create({.path = source, .file_type = H5T_STD_U16LE, .shape = shape});
  require(H5Dwrite(open(source).get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
          "H5Dwrite");
  const Hid space = create_space(shape);
  const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
  require(H5Pset_virtual(plist.get(), space.get(), ".", source.c_str(), space.get()), "H5Pset_virtual");
  const Hid dataset(H5Dcreate2(file_.get(), path.c_str(), H5T_STD_U8LE, space.get(), H5P_DEFAULT, plist.get(),
                               H5P_DEFAULT));
}

void H5TestFile::write(const std::string& path, std::span<const std::byte> bytes) {
  const Hid dataset = open(path);
  require(
      H5Dwrite(dataset.get(), host_order_type(dataset).get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()),
      "H5Dwrite");
}

void H5TestFile::write_box(const std::string& path, std::span<const std::uint64_t> start,
                           std::span<const std::uint64_t> count, std::span<const std::byte> bytes) {
  const Hid dataset = open(path);
  const Hid file_space(H5Dget_space(dataset.get()));
  const std::vector<hsize_t> first = to_hsize(start);
  const std::vector<hsize_t> extent = to_hsize(count);
  require(
      H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, first.data(), nullptr, extent.data(), nullptr),
      "H5Sselect_hyperslab");
  const Hid memory_space = create_space(count);
  require(H5Dwrite(dataset.get(), host_order_type(dataset).get(), memory_space.get(), file_space.get(),
                   H5P_DEFAULT, bytes.data()),
          "H5Dwrite");
}

void H5TestFile::write_chunk(const std::string& path, std::span<const std::uint64_t> offset,
                             std::span<const std::byte> stored, std::uint32_t filter_mask) {
  const Hid dataset = open(path);
  const std::vector<hsize_t> first = to_hsize(offset);
  require(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, filter_mask, first.data(), stored.size(), stored.data()),
          "H5Dwrite_chunk");
}

void H5TestFile::set_extent(const std::string& path, std::span<const std::uint64_t> shape) {
  require(H5Dset_extent(open(path).get(), to_hsize(shape).data()), "H5Dset_extent");
}

std::vector<FilterSpec> H5TestFile::filters(const std::string& path) const {
  const Hid dataset = open(path);
  const Hid plist(H5Dget_create_plist(dataset.get()));
  std::vector<FilterSpec> filters;
  const int count = H5Pget_nfilters(plist.get());
  require(count, "H5Pget_nfilters");
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    std::vector<unsigned> params(20);  // more than any filter in use takes
    std::size_t used = params.size();
    const H5Z_filter_t id = H5Pget_filter2(plist.get(), static_cast<unsigned>(i), &flags, &used,
                                           params.data(), 0, nullptr, nullptr);
    require(id, "H5Pget_filter2");
    params.resize(std::min(used, params.size()));
    filters.push_back({.id = static_cast<unsigned>(id),
                       .optional = (flags & H5Z_FLAG_OPTIONAL) != 0,
                       .params = std::move(params),
                       .name = {}});
  }
  return filters;
}

H5D_chunk_index_t H5TestFile::index_type(const std::string& path) const {
  H5D_chunk_index_t type = H5D_CHUNK_IDX_BTREE;
  require(H5Dget_chunk_index_type(open(path).get(), &type), "H5Dget_chunk_index_type");
  return type;
}

std::vector<std::byte> read_through_libhdf5(const std::filesystem::path& file, const std::string& dataset) {
  const Hid access(H5Pcreate(H5P_FILE_ACCESS));
  require(accept_unused_bits(access.get()), "accept_unused_bits");
  const Hid opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.get()));
  const Hid id(H5Dopen2(opened.get(), dataset.c_str(), H5P_DEFAULT));
  const Hid space(H5Dget_space(id.get()));
  const Hid type = host_order_type(id);
  std::vector<std::byte> bytes(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())) *
                               H5Tget_size(type.get()));
  if (bytes.empty()) return bytes;
  require(H5Dread(id.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), "H5Dread");
  return bytes;
}

std::vector<std::byte> patterned_bytes(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i / 3 + i % 7 * 16 + seed * 13 + i / 251);
  return bytes;
}

std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 generator(seed + 1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

std::vector<std::byte> file_bytes(const std::filesystem::path& path) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  std::vector<std::byte> bytes(missing ? 0 : size);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  return bytes;
}

void replace_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace h5feed::test
