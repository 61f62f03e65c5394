// SPDX-License-Identifier: Apache-2.0
#include "dataset/sparse_opener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/byte_units.hpp"
#include "base/files/natural_order.hpp"
#include "base/system_limits.hpp"
#include "base/with_type.hpp"
#include "dataset/dataset_state.hpp"
#include "dataset/episode_opener.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/path_pattern.hpp"
#include "store/read/read_all.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kMostColumns = std::numeric_limits<std::int32_t>::max();

std::string matrix_of(const SparsePart& part) {
  return fmt::format("{}:{}", part.file, short_path(part.path));
}

// Throws unless the dataset has one dimension, and with `integers` integers.
void check_list(const DatasetInfo& info, bool integers) {
  if (info.shape.size() == 1 && info.values_per_element == 1 && (!integers || is_integer(info.dtype))) return;
  throw DatasetError(
      fmt::format("{} ({}) must be {} of one dimension, as it is part of a sparse matrix; "
                  "write the file again",
                  info.place(), info.shape_text(), integers ? "integers" : "numbers"));
}

// Returns the table of rows, checked by itself.
std::vector<std::uint64_t> starts_of(const ChunkReader& indptr) {
  const DatasetInfo& info = indptr.info();
  const ByteBuffer bytes = read_all(indptr, system_limits().cpus);
  std::vector<std::uint64_t> starts;
  with_type_of(info.dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      const std::span stored(reinterpret_cast<const T*>(bytes.data()), static_cast<std::size_t>(info.rows()));
      if (stored.empty() || stored.front() != 0) {
        throw DatasetError(fmt::format("{} ({}) must begin with 0; restore the file from a good copy",
                                       info.place(), info.shape_text()));
      }
      const auto falls = std::ranges::is_sorted_until(stored);
      if (falls != stored.end()) {
        throw DatasetError(fmt::format("{} falls from {} to {} at row {}; restore the file from a good copy",
                                       info.place(), *(falls - 1), *falls, falls - stored.begin() - 1));
      }
      starts.assign(stored.begin(), stored.end());
    }
  });
  return starts;
}

// Throws unless shape, table of rows, values and columns fit together.
void check_sizes(const SparseGroup& group, const SparsePart& part) {
  const std::uint64_t values = part.values->info().rows();
  const std::uint64_t columns = part.indices->info().rows();
  const std::string name = matrix_of(part);
  if (part.rows() != group.rows) {
    throw DatasetError(fmt::format(
        "{} has {} rows by its shape, and indptr has {} entries, not {}; restore the file from a good copy",
        name, format_count(group.rows), format_count(part.starts.size()), format_count(group.rows + 1)));
  }
  if (columns != values) {
    throw DatasetError(
        fmt::format("{} has {} values in data, and {} columns in indices; restore the file from a good copy",
                    name, format_count(values), format_count(columns)));
  }
  if (part.starts.back() > values) {
    throw DatasetError(
        fmt::format("{}: indptr ends at {}, beyond the {} values of data; restore the file from a good copy",
                    name, format_count(part.starts.back()), format_count(values)));
  }
}

std::string shown(const SparseOptions::Column& column) {
  if (const auto* const number = std::get_if<std::int64_t>(&column)) return std::to_string(*number);
  return fmt::format("\"{}\"", std::get<std::string>(column));
}

// Throws unless the codes of a categorical column are integers from −1, for missing values, to below the
// number of names. Fields that are not in memory are not read for it.
void check_codes(const Field& field, std::uint64_t names) {
  const DatasetInfo& info = field.info();
  if (!is_integer(info.dtype)) {
    throw DatasetError(
        fmt::format("{} ({}) must be integers, as it holds the codes of categories; write the file again",
                    info.place(), info.shape_text()));
  }
  if (!field.is_resident()) return;
  with_type_of(info.dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      const std::span codes(reinterpret_cast<const T*>(field.resident.data()),
                            field.resident.size() / sizeof(T));
      for (std::size_t row = 0; row < codes.size(); ++row) {
        const auto code = static_cast<std::int64_t>(codes[row]);
        if (code == -1 || (code >= 0 && static_cast<std::uint64_t>(code) < names)) continue;
        throw DatasetError(fmt::format(
            "{}: row {} has the code {}, and there are {} categories; restore the file from a good copy",
            info.place(), row, codes[row], names));
      }
    }
  });
}

// Returns the categorical column at `path`, or where a link there leads into another file.
std::optional<CategoricalColumn> column_in(const std::filesystem::path& file, const std::string& path,
                                           FilePool& pool) {
  const std::shared_ptr<H5File> opened = pool.open(file);
  const PlacedObject there = pool.follow_links(opened, path);
  std::optional<CategoricalColumn> column = find_categorical(*there.file, there.path);
  // The codes are read by their path in the first file.
  if (column && there.file != opened) column->codes.replace(0, rooted(there.path).size(), rooted(path));
  return column;
}

// Throws if the options do not fit data that is a sparse matrix.
void check_sparse_options(const DatasetOptions& options) {
  const auto refuse = [](std::string_view option, std::string_view why) {
    throw OptionError(fmt::format("{} {}; leave it unset for a sparse matrix", option, why));
  };
  const bool stated =
      options.input_layout != InputLayout::automatic && options.input_layout != InputLayout::none;
  if (options.tiles) refuse("tiles", "cuts images");
  if (stated) refuse("input_layout", "is for images and volumes");
  if (options.sample != SampleUnit::row) refuse("sample = dataset", "makes a sample of a whole dataset");
  if (options.images.height != 0 || options.images.width != 0 || !options.images.shapes.empty())
    refuse("images", "is for encoded images");
  if (in_episodes(options)) refuse("window", "is for rows of arrays");
  if (!options.channels.empty()) refuse("channels", "is for images and arrays");
  const SparseOptions sparse = options.sparse.value_or(SparseOptions());
  if (sparse.format == SparseFormat::dense) return;
  if (!sparse.columns.empty()) {
    throw OptionError(
        "sparse.columns chooses columns of dense samples; set sparse.format = dense, or leave columns out");
  }
  if (options.unit_range) refuse("unit_range", "scales dense samples");
}

}  // namespace

SparseOpener::Matrix SparseOpener::open_one(const std::shared_ptr<H5File>& in, const std::string& name,
                                            const DatasetAccess::WrapSource& wrap) const {
  const auto [file, path] = pool_->follow_links(in, name);
  const std::optional<SparseGroup> group = find_sparse_group(*file, path);
  if (!group) {
    throw DatasetError(fmt::format("{}:{} holds no sparse matrix, as the first file does; leave it out",
                                   file->path().string(), short_path(path)));
  }
  if (group->columns == 0 || group->columns > kMostColumns) {
    throw DatasetError(fmt::format("{}:{} has {} columns; a sparse matrix needs 1 to {}; name another one",
                                   file->path().string(), short_path(group->path),
                                   format_count(group->columns), format_count(kMostColumns)));
  }
  const ReaderSettings settings{.pool = pool_};
  const auto open = [&, &group_file = file](const std::string& dataset, bool integers) {
    const PlacedObject there = pool_->follow_links(group_file, dataset);
    DatasetInfo info = there.file->describe(there.path, spec().option);
    check_list(info, integers);
    return alone() || wrap ? open_chunk_reader(there.file, std::move(info),
                                               wrap ? wrap(there.file->bytes()) : nullptr, settings)
                           : pool_->reader(there.file, std::move(info), settings);
  };
  Matrix matrix{.part = {.values = open(group->data(), false),
                         .indices = open(group->indices(), true),
                         .starts = starts_of(*open(group->indptr(), true)),
                         .file = file->path().string(),
                         .path = group->path},
                .columns = group->columns,
                .names = {}};
  check_sizes(*group, matrix.part);
  // Names are needed to find columns, and to see that the columns of several matrices are the same.
  const bool by_name = std::ranges::any_of(options_.columns, [](const SparseOptions::Column& column) {
    return std::holds_alternative<std::string>(column);
  });
  if (by_name || !alone()) {
    for (const std::string& names : group->names) {
      const PlacedObject there = pool_->follow_links(file, names);
      matrix.names.push_back(read_names(*there.file, there.path));
    }
    for (const std::vector<std::string>& names : matrix.names) {
      if (names.size() == matrix.columns) continue;
      throw DatasetError(fmt::format(
          "{} has {} columns, and {} has {} names; restore the file from a good copy", matrix_of(matrix.part),
          format_count(matrix.columns), group->names[static_cast<std::size_t>(&names - matrix.names.data())],
          format_count(names.size())));
    }
  }
  return matrix;
}

std::uint64_t SparseOpener::look(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap) {
  found_.clear();
  begin_look();
  std::uint64_t rows = 0;
  for (const std::string& path : expand_path(*file, spec().path, spec().option)) {
    Matrix matrix = open_one(file, path, wrap);
    const Matrix& first = !matrices_.empty() ? matrices_.front() : !found_.empty() ? found_.front() : matrix;
    const DType type = matrix.part.values->info().dtype;
    const DType first_type = first.part.values->info().dtype;
    if (matrix.columns != first.columns || type != first_type || matrix.names != first.names) {
      const std::string difference =
          matrix.columns != first.columns || type != first_type
              ? fmt::format("has {} columns of {}, {} has {} of {}", format_count(matrix.columns),
                            name_of(type), matrix_of(first.part), format_count(first.columns),
                            name_of(first_type))
              : fmt::format("has columns of other names than {}", matrix_of(first.part));
      throw DatasetError(
          fmt::format("{} {}; matrices that are read as one need the same columns and type; "
                      "leave it out or open it by itself",
                      matrix_of(matrix.part), difference));
    }
    rows += matrix.part.rows();
    note_part(matrix.part.path, matrix.part.rows());
    found_.push_back(std::move(matrix));
  }
  return rows;
}

void SparseOpener::keep_found() {
  for (Matrix& matrix : found_) matrices_.push_back(std::move(matrix));
  found_.clear();
}

std::uint64_t SparseOpener::column_number(const SparseOptions::Column& column) const {
  const Matrix& first = matrices_.front();
  if (const auto* const number = std::get_if<std::int64_t>(&column)) {
    if (*number >= 0 && static_cast<std::uint64_t>(*number) < first.columns)
      return static_cast<std::uint64_t>(*number);
    throw OptionError(fmt::format("sparse.columns: there is no column {}; {} has {}", *number,
                                  matrix_of(first.part), format_count(first.columns)));
  }
  for (const std::vector<std::string>& names : first.names) {
    const auto found = std::ranges::find(names, std::get<std::string>(column));
    if (found == names.end()) continue;
    if (std::find(found + 1, names.end(), *found) != names.end()) {
      throw OptionError(fmt::format(
          "sparse.columns: {} has several columns named {}; give the number of the one that you want",
          matrix_of(first.part), shown(column)));
    }
    return static_cast<std::uint64_t>(found - names.begin());
  }
  throw OptionError(fmt::format("sparse.columns: {} has no column {}{}", matrix_of(first.part), shown(column),
                                first.names.empty()
                                    ? ", because its columns have no names; give numbers"
                                    : "; its first column is \"" + first.names.front().front() + "\""));
}

std::vector<std::int32_t> SparseOpener::places() const {
  if (options_.columns.empty()) return {};
  std::vector<std::int32_t> places(static_cast<std::size_t>(matrices_.front().columns), -1);
  std::int32_t next = 0;
  for (const SparseOptions::Column& column : options_.columns) {
    std::int32_t& place = places[static_cast<std::size_t>(column_number(column))];
    if (place >= 0) {
      throw OptionError(fmt::format("sparse.columns: column {} comes twice; name each once", shown(column)));
    }
    place = next++;
  }
  return places;
}

SparseData SparseOpener::finish() {
  const bool none =
      std::ranges::all_of(matrices_, [](const Matrix& matrix) { return matrix.part.rows() == 0; });
  if (none)
    throw DatasetError(
        fmt::format("{} holds no samples; name another matrix", matrix_of(matrices_.front().part)));
  SparseData data{.reader = {}, .format = options_.format, .places = places()};
  const Matrix& first = matrices_.front();
  DatasetInfo info = first.part.values->info();
  const std::uint64_t columns = first.columns;
  const std::uint64_t delivered = options_.columns.empty() ? columns : options_.columns.size();
  info.path = first.part.path;
  if (spec().num_files > 1)
    info.file += fmt::format(" and {} more {}", format_count(spec().num_files - 1),
                             spec().num_files == 2 ? "file" : "files");
  std::uint64_t rows = 0;
  std::vector<SparsePart> parts;
  for (Matrix& matrix : matrices_) {
    rows += matrix.part.rows();
    parts.push_back(std::move(matrix.part));
  }
  info.shape = {rows, delivered};
  info.max_shape = info.shape;
  info.layout = StorageLayout::contiguous;
  info.chunk_shape = {};
  info.filters = {};
  data.reader = SparseReader::make(std::move(parts), std::move(info), columns);
  data.reader->check_columns(kResidentFieldBytes);
  return data;
}

std::unique_ptr<SparseOpener> sparse_opener(const DatasetOptions& options, const FieldSpec& spec,
                                            const std::filesystem::path& file,
                                            const std::shared_ptr<FilePool>& pool) {
  const auto is_matrix = [&] {
    const PlacedObject there = pool->follow_links(pool->open(file), spec.path);
    return find_sparse_group(*there.file, there.path).has_value();
  };
  if (has_wildcard(spec.path) || !is_matrix()) {
    if (!options.sparse) return nullptr;
    throw OptionError(
        fmt::format("sparse is for data that is a sparse matrix, and {}:{} is none; leave it unset",
                    file.string(), short_path(spec.path)));
  }
  check_sparse_options(options);
  return std::make_unique<SparseOpener>(spec, options.sparse.value_or(SparseOptions()), pool);
}

CategoricalColumn column_of(const std::string& path, const std::vector<std::filesystem::path>& files,
                            FilePool& pool) {
  CategoricalColumn column{.codes = path, .names = {}};
  if (has_wildcard(path)) return column;
  for (const std::filesystem::path& file : files) {
    std::optional<CategoricalColumn> own = column_in(file, path, pool);
    const bool first = &file == &files.front();
    if (first && !own) return column;
    if (first) column = *own;
    if (own && own->codes == column.codes && own->names == column.names) continue;
    throw DatasetError(fmt::format(
        "{}:{} has other categories than {}; write the files with the same categories in the same order, or "
        "open them one by one",
        file.string(), short_path(path), files.front().string()));
  }
  return column;
}

void name_codes(DatasetState& state, CategoricalColumn target, std::vector<CategoricalColumn> fields) {
  if (!target.names.empty()) check_codes(*state.target, target.names.size());
  state.target_names = std::move(target.names);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    NamedField& field = state.fields[i];
    if (!fields[i].names.empty() && field.rows) check_codes(*field.rows, fields[i].names.size());
    field.names = std::move(fields[i].names);
  }
}

}  // namespace h5feed
