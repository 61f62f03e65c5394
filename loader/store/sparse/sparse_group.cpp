// SPDX-License-Identifier: Apache-2.0
#include "store/sparse/sparse_group.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/with_type.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/object_tree.hpp"
#include "store/hdf5/text_list.hpp"
#include "store/hdf5/within_file.hpp"

namespace h5feed {
namespace {

// Returns the path of the group that holds the object.
std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string_view last_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Objects of one file, looked at within one session.
class Objects {
 public:
  explicit Objects(const H5File& file) H5FEED_REQUIRES(hdf5_mutex) : handle_(H5FileAccess::handle(file)) {}

  bool is(const std::string& path, H5I_type_t type) const H5FEED_REQUIRES(hdf5_mutex) {
    return !path.empty() && path != "/" && within_.has_object(handle_, path) &&
           within_.type_of(handle_, path) == type;
  }

  // Returns the text of an attribute of a group or dataset; nullopt if it has none of this name.
  std::optional<std::string> text(const std::string& path, const char* name) const
      H5FEED_REQUIRES(hdf5_mutex) {
    const auto read = [&](const H5::H5Object& object) -> std::optional<std::string> {
      if (!object.attrExists(name)) return std::nullopt;
      const H5::Attribute attribute = object.openAttribute(name);
      if (attribute.getTypeClass() != H5T_STRING || attribute.getSpace().getSimpleExtentNpoints() != 1)
        return std::nullopt;
      std::string value;
      attribute.read(attribute.getStrType(), value);
      return value.substr(0, value.find('\0'));
    };
    if (is(path, H5I_GROUP)) return read(handle_.openGroup(path));
    return read(handle_.openDataSet(path, within_.datasets()));
  }

  // Returns an attribute of two integers of a group.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> shape(const std::string& path,
                                                               const char* name) const
      H5FEED_REQUIRES(hdf5_mutex) {
    const H5::Group group = handle_.openGroup(path);
    if (!group.attrExists(name)) return std::nullopt;
    const H5::Attribute attribute = group.openAttribute(name);
    if (attribute.getTypeClass() != H5T_INTEGER || attribute.getSpace().getSimpleExtentNpoints() != 2)
      return std::nullopt;
    std::uint64_t extents[2] = {};
    attribute.read(H5::PredType::NATIVE_UINT64, extents);
    return std::pair(extents[0], extents[1]);
  }

  const H5::H5File& handle() const noexcept { return handle_; }

 private:
  const H5::H5File handle_;
  const WithinFile within_;
};

[[noreturn]] void refuse_names(const std::string& file, const std::string& path) {
  throw DatasetError(fmt::format(
      "{}:{} must be a list of names, or of numbers, of one dimension; write the file again", file, path));
}

[[noreturn]] void refuse_shape(const DatasetInfo& shape) {
  throw DatasetError(
      fmt::format("{} ({}) must be two integers, the number of genes and of cells; write the file again",
                  shape.place(), shape.shape_text()));
}

// Refuses to read a list of names that takes more memory than any real one.
void check_length(const std::string& file, const std::string& path, std::uint64_t count,
                  std::uint64_t bytes) {
  if (count <= kMostTextBytes / std::max<std::uint64_t>(1, bytes)) return;
  throw DatasetError(fmt::format("{}:{}: a list of {} names is too long; restore the file from a good copy",
                                 file, path, format_count(count)));
}

// Returns the strings of a dataset of one dimension.
std::vector<std::string> strings_of(const H5::DataSet& dataset, const std::string& file,
                                    const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
  const H5::StrType type = dataset.getStrType();
  const H5::DataSpace space = dataset.getSpace();
  const auto count = static_cast<std::size_t>(space.getSimpleExtentNpoints());
  check_length(file, path, count, std::max(sizeof(std::string), type.getSize()));
  std::vector<std::string> names;
  names.reserve(count);
  if (count == 0) return names;
  if (type.isVariableStr()) {
    std::vector<char*> values(count, nullptr);
    dataset.read(values.data(), type);
    for (const char* const value : values) names.emplace_back(value == nullptr ? "" : value);
    H5Dvlen_reclaim(type.getId(), space.getId(), H5P_DEFAULT, values.data());
    return names;
  }
  const std::size_t bytes = type.getSize();
  std::string values(count * bytes, '\0');
  dataset.read(values.data(), type);
  for (std::size_t i = 0; i < count; ++i) {
    std::string_view value = std::string_view(values).substr(i * bytes, bytes);
    value = value.substr(0, value.find('\0'));
    if (type.getStrpad() == H5T_STR_SPACEPAD) value = value.substr(0, value.find_last_not_of(' ') + 1);
    names.emplace_back(value);
  }
  return names;
}

[[noreturn]] void refuse_csc(const std::string& file, const std::string& path) {
  std::string member = "X";
  if (last_name(parent_of(path)) == "layers") member = fmt::format("layers[\"{}\"]", last_name(path));
  throw DatasetError(fmt::format(
      "{}:{} is a CSC matrix, which stores the values gene by gene, so that each cell is spread over all "
      "chunks; convert it once in Python: import anndata; a = anndata.read_h5ad(\"{}\"); a.{} = "
      "a.{}.tocsr(); a.write_h5ad(\"csr.h5ad\", compression=\"gzip\")",
      file, path, file, member, member));
}

// Returns the group of the table that describes the columns of an AnnData matrix: "/var" for "/X" and
// "/layers/counts", "/raw/var" for "/raw/X".
std::string table_of_columns(const std::string& path) {
  std::string parent = parent_of(path);
  if (last_name(parent) == "layers") parent = parent_of(parent);
  return parent + "/var";
}

// Returns the members that make a matrix and that the group lacks.
std::string missing_parts(const Objects& objects, const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
  std::string missing;
  for (const char* const part : {"data", "indices", "indptr"}) {
    if (!objects.is(fmt::format("{}/{}", path, part), H5I_DATASET))
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", part);
  }
  return missing;
}

SparseGroup anndata_group(const Objects& objects, const std::string& file, const std::string& path)
    H5FEED_REQUIRES(hdf5_mutex) {
  auto shape = objects.shape(path, "shape");
  if (!shape) shape = objects.shape(path, "h5sparse_shape");
  if (!shape) {
    throw DatasetError(fmt::format(
        "{}:{} is a CSR matrix without the attribute \"shape\" of two integers; write it again with AnnData",
        file, path));
  }
  SparseGroup group{.path = path, .rows = shape->first, .columns = shape->second};
  const std::string table = table_of_columns(path);
  if (objects.is(table, H5I_GROUP)) {
    const std::string names = table + '/' + objects.text(table, "_index").value_or("_index");
    if (objects.is(names, H5I_DATASET)) group.names.push_back(names);
  }
  return group;
}

// Returns the values of a dataset of one dimension as text.
std::vector<std::string> numbers_as_text(const H5File& file, const std::string& path) {
  const DatasetInfo info = file.describe(path);
  check_length(info.file, path, info.rows(), std::max<std::uint64_t>(sizeof(std::string), info.row_bytes()));
  ByteBuffer bytes(static_cast<std::size_t>(info.total_bytes()));
  file.read_rows(info, 0, info.rows(), bytes.span());
  std::vector<std::string> names;
  with_type_of(info.dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_arithmetic_v<T>) {
      const T* const from = reinterpret_cast<const T*>(bytes.data());
      for (std::uint64_t i = 0; i < info.rows(); ++i) names.push_back(fmt::format("{}", from[i]));
    }
  });
  if (names.size() != info.rows()) refuse_names(info.file, path);
  return names;
}

// Finds the matrix of a 10x file, (genes, cells) with the values cell by cell; nullopt if the group is none.
struct CellRanger {
  std::string shape;
  std::vector<std::string> names;
};
std::optional<CellRanger> cell_ranger(const Objects& objects, const std::string& path)
    H5FEED_REQUIRES(hdf5_mutex) {
  const std::string shape = path + "/shape";
  if (!objects.is(shape, H5I_DATASET) || !objects.is(path + "/barcodes", H5I_DATASET) ||
      !missing_parts(objects, path).empty()) {
    return std::nullopt;
  }
  CellRanger found{.shape = shape, .names = {}};
  for (const char* const names : {"features/name", "features/id", "gene_names", "genes"}) {
    const std::string named = fmt::format("{}/{}", path, names);
    if (objects.is(named, H5I_DATASET)) found.names.push_back(named);
  }
  return found;
}

}  // namespace

std::optional<SparseGroup> find_sparse_group(const H5File& file, const std::string& name) {
  if (const IsolatedFile* const remote = H5FileAccess::remote(file))
    return remote->ask<std::optional<SparseGroup>>(Request::sparse_group, name);
  const std::string path = rooted(name);
  const std::string in_file = file.path().string();
  std::optional<CellRanger> cells;
  {
    const Hdf5Session session;
    try {
      const Objects objects(file);
      if (!objects.is(path, H5I_GROUP)) return std::nullopt;
      std::string encoding = objects.text(path, "encoding-type").value_or("");
      // AnnData before 0.8 says "csr" or "csc".
      if (encoding.empty()) encoding = objects.text(path, "h5sparse_format").value_or("");
      if (encoding == "csc_matrix" || encoding == "csc") refuse_csc(in_file, path);
      if (encoding == "csr_matrix" || encoding == "csr") {
        const std::string missing = missing_parts(objects, path);
        if (!missing.empty()) {
          throw DatasetError(
              fmt::format("{}:{} is a CSR matrix without {}; write the file again", in_file, path, missing));
        }
        return anndata_group(objects, in_file, path);
      }
      cells = cell_ranger(objects, path);
    } catch (const H5::Exception&) {
      throw FileError(Hdf5Calls(session, in_file).problem(path, kCannotOpen));
    }
  }
  if (!cells) return std::nullopt;
  const DatasetInfo shape = file.describe(cells->shape);
  if (shape.dtype != DType::i32 && shape.dtype != DType::i64 && shape.dtype != DType::u64)
    refuse_shape(shape);
  if (shape.shape != std::vector<std::uint64_t>{2}) refuse_shape(shape);
  std::array<std::byte, 2 * sizeof(std::uint64_t)> bytes = {};
  file.read_rows(shape, 0, 2, std::span(bytes).first(shape.total_bytes()));
  std::array<std::uint64_t, 2> extents = {};
  if (shape.dtype == DType::i32) {
    std::array<std::int32_t, 2> narrow = {};
    std::memcpy(narrow.data(), bytes.data(), sizeof(narrow));
    extents = {static_cast<std::uint64_t>(narrow[0]), static_cast<std::uint64_t>(narrow[1])};
  } else {
    std::memcpy(extents.data(), bytes.data(), sizeof(extents));
  }
  return SparseGroup{
      .path = path, .rows = extents[1], .columns = extents[0], .names = std::move(cells->names)};
}

std::vector<std::string> read_names(const H5File& file, const std::string& path) {
  if (const IsolatedFile* const remote = H5FileAccess::remote(file))
    return remote->ask<std::vector<std::string>>(Request::sparse_names, path);
  const std::string in_file = file.path().string();
  {
    const Hdf5Session session;
    try {
      const H5::DataSet dataset = H5FileAccess::handle(file).openDataSet(path);
      if (dataset.getSpace().getSimpleExtentNdims() != 1) refuse_names(in_file, path);
      if (dataset.getTypeClass() == H5T_STRING) return strings_of(dataset, in_file, path);
    } catch (const H5::Exception&) {
      throw FileError(Hdf5Calls(session, in_file).problem(path, kCannotOpen));
    }
  }
  return numbers_as_text(file, path);
}

std::string rooted(const std::string& path) {
  std::string absolute = path.starts_with('/') ? path : '/' + path;
  while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  return absolute;
}

std::optional<CategoricalColumn> find_categorical(const H5File& file, const std::string& name) {
  if (const IsolatedFile* const remote = H5FileAccess::remote(file))
    return remote->ask<std::optional<CategoricalColumn>>(Request::categorical, name);
  const std::string path = rooted(name);
  CategoricalColumn column;
  std::string names;
  {
    const Hdf5Session session;
    try {
      const Objects objects(file);
      if (objects.is(path, H5I_GROUP)) {
        if (objects.text(path, "encoding-type") != "categorical") return std::nullopt;
        column.codes = path + "/codes";
        names = path + "/categories";
      } else if (objects.is(path, H5I_DATASET)) {
        column.codes = path;
        names = fmt::format("{}/__categories/{}", parent_of(path), last_name(path));
      }
      if (names.empty() || !objects.is(names, H5I_DATASET)) return std::nullopt;
    } catch (const H5::Exception&) {
      throw FileError(Hdf5Calls(session, file.path().string()).problem(path, kCannotOpen));
    }
  }
  column.names = read_names(file, names);
  return column;
}

}  // namespace h5feed
