// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/text_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/h5_metadata.hpp"
#include "store/hdf5/object_tree.hpp"
#include "store/hdf5/refused_open.hpp"
#include "store/hdf5/within_file.hpp"

namespace h5feed {
namespace {

std::vector<std::string> fixed_strings(const H5::DataSet& dataset, const H5::StrType& type,
                                       std::size_t count) {
  const std::size_t bytes = type.getSize();
  std::vector<char> text(count * bytes);
  if (!text.empty()) dataset.read(text.data(), type);
  const bool by_spaces = type.getStrpad() == H5T_STR_SPACEPAD;
  std::vector<std::string> strings;
  strings.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* const begin = text.data() + i * bytes;
    std::string one(begin, strnlen(begin, bytes));
    while (by_spaces && one.ends_with(' ')) one.pop_back();
    strings.push_back(std::move(one));
  }
  return strings;
}

std::vector<std::string> variable_strings(const H5::DataSet& dataset, const H5::StrType& type,
                                          std::size_t count) {
  std::vector<char*> texts(count, nullptr);
  if (count > 0) dataset.read(texts.data(), type);
  std::vector<std::string> strings;
  strings.reserve(count);
  for (const char* const text : texts) strings.emplace_back(text == nullptr ? "" : text);
  if (count > 0) H5Dvlen_reclaim(type.getId(), dataset.getSpace().getId(), H5P_DEFAULT, texts.data());
  return strings;
}

}  // namespace

std::optional<std::vector<std::string>> read_text_list(const H5File& file, const std::string& name,
                                                       const PathOption& option) {
  if (const IsolatedFile* const remote = H5FileAccess::remote(file))
    return remote->ask<std::optional<std::vector<std::string>>>(Request::text_list, name, option.as_typed());
  const Hdf5Session session;
  const std::string file_name = file.path().string();
  const std::string path = absolute_path(name);
  const H5::H5File handle = H5FileAccess::handle(file);
  const WithinFile within;
  try {
    refuse_damaged_header(handle, within, {session, file_name}, H5FileAccess::headers(file), path);
    if (path == "/" || within.type_of(handle, path) == H5I_GROUP)
      throw_is_group(handle, {session, file_name}, H5FileAccess::headers(file), name, option);
    const H5::DataSet dataset = handle.openDataSet(path, within.datasets());
    if (dataset.getTypeClass() != H5T_STRING) return std::nullopt;
    const Extent extent = read_extent(dataset);
    if (extent.null || extent.shape.size() != 1) return std::nullopt;
    const H5::StrType type = dataset.getStrType();
    const bool variable = type.isVariableStr();
    // In memory a text takes more than the pointer or the few bytes that are read.
    const std::uint64_t bytes = std::max<std::uint64_t>(sizeof(std::string), variable ? 0 : type.getSize());
    if (extent.shape.front() > kMostTextBytes / bytes) {
      throw DatasetError(fmt::format("{}:{}: a list of {} strings is too long; name another dataset",
                                     file_name, short_path(path), format_count(extent.shape.front())));
    }
    const auto count = static_cast<std::size_t>(extent.shape.front());
    return variable ? variable_strings(dataset, type, count) : fixed_strings(dataset, type, count);
  } catch (const H5::Exception&) {
    throw_not_opened(handle, within, {session, file_name}, H5FileAccess::headers(file), name, option);
  }
}

}  // namespace h5feed
