// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/virtual_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <system_error>

#include "base/files/folder_of.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file_handles.hpp"

namespace h5feed {
namespace {

namespace fs = std::filesystem;

// Returns where a selection ends in each dimension, also one that is not regular; nothing if it is of all
// elements or without limit.
std::vector<std::uint64_t> ends_of(hid_t space) {
  std::array<hsize_t, H5S_MAX_RANK> first = {}, last = {};
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 1 || H5Sget_select_type(space) == H5S_SEL_ALL || H5Sget_select_npoints(space) <= 0 ||
      H5Sget_select_bounds(space, first.data(), last.data()) < 0) {
    return {};
  }
  std::vector<std::uint64_t> ends(last.begin(), last.begin() + rank);
  for (std::uint64_t& end : ends) ++end;
  return ends;
}

// Returns the selection if it is regular in each dimension and has a limit, else an empty one.
Selection selection_of(hid_t space) {
  std::array<hsize_t, H5S_MAX_RANK> start = {}, stride = {}, count = {}, block = {};
  const int rank = H5Sget_simple_extent_ndims(space);
  const hssize_t points = H5Sget_select_npoints(space);
  // A selection without limit has no number of points.
  if (rank < 1 || points <= 0) return {};
  Selection selection;
  hsize_t selected = 1;
  const bool regular = H5Sget_select_type(space) == H5S_SEL_HYPERSLABS && H5Sis_regular_hyperslab(space) > 0;
  if (regular) {
    if (H5Sget_regular_hyperslab(space, start.data(), stride.data(), count.data(), block.data()) < 0)
      return {};
  } else {
    // Whatever is as large as the box around it is this box.
    if (H5Sget_select_bounds(space, start.data(), block.data()) < 0) return {};
  }
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    selection.push_back(
        regular
            ? SelectedIndices{.start = start[d], .stride = stride[d], .count = count[d], .block = block[d]}
            : SelectedIndices::run_of(start[d], block[d] - start[d] + 1));
    if (!selection.back().valid()) return {};
    selected *= selection.back().extent();
  }
  if (selected != static_cast<hsize_t>(points)) return {};
  return selection;
}

// Returns the text that `get(buffer, bytes)` writes; `get` returns its length.
template <typename Get>
std::string text_of(const Get& get) {
  const auto length = get(nullptr, 0);
  if (length < 0) throw H5::PropListIException("H5Pget_virtual", "failed");
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  if (get(text.data(), text.size()) < 0) throw H5::PropListIException("H5Pget_virtual", "failed");
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// Returns the folders that the environment variable `name` lists.
std::vector<fs::path> listed_folders(const char* name, const fs::path& origin) {
  std::vector<fs::path> folders;
  const char* const variable = std::getenv(name);
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    std::string folder(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    folder = with_origin(std::move(folder), origin);
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return folders;
}

}  // namespace

std::vector<StoredMapping> read_mappings(const H5File& file, const DatasetInfo& info) {
  if (const IsolatedFile* const remote = H5FileAccess::remote(file))
    return remote->ask<std::vector<StoredMapping>>(Request::virtual_mappings, info);
  const Hdf5Session session;
  try {
    const H5::DataSet dataset = H5FileAccess::handle(file).openDataSet(info.path);
    const H5::DSetCreatPropList plist = dataset.getCreatePlist();
    std::size_t count = 0;
    if (H5Pget_virtual_count(plist.getId(), &count) < 0)
      throw H5::PropListIException("H5Pget_virtual_count", "failed");
    std::vector<StoredMapping> mappings(count);
    for (std::size_t i = 0; i < count; ++i) {
      mappings[i].file = text_of([&](char* text, std::size_t bytes) {
        return H5Pget_virtual_filename(plist.getId(), i, text, bytes);
      });
      mappings[i].dataset = text_of([&](char* text, std::size_t bytes) {
        return H5Pget_virtual_dsetname(plist.getId(), i, text, bytes);
      });
      const H5::DataSpace in_virtual(H5Pget_virtual_vspace(plist.getId(), i));
      const H5::DataSpace in_source(H5Pget_virtual_srcspace(plist.getId(), i));
      mappings[i].in_virtual = selection_of(in_virtual.getId());
      mappings[i].nothing = H5Sget_select_npoints(in_virtual.getId()) == 0;
      // libhdf5 stores no extent for a selection of everything.
      mappings[i].whole_source = H5Sget_select_type(in_source.getId()) == H5S_SEL_ALL;
      mappings[i].in_source = selection_of(in_source.getId());
      mappings[i].source_ends = ends_of(in_source.getId());
      // The objects hold references of their own.
      H5Idec_ref(in_virtual.getId());
      H5Idec_ref(in_source.getId());
    }
    return mappings;
  } catch (const H5::Exception&) {
    throw FileError(
        fmt::format("{}:{}: libhdf5 cannot tell the sources of the virtual dataset: {}; restore "
                    "the file from a good copy",
                    info.file, short_path(info.path), session.error()));
  }
}

std::string with_origin(std::string folder, const fs::path& origin) {
  constexpr std::string_view kOrigin = "${ORIGIN}";
  if (folder.starts_with(kOrigin)) folder.replace(0, kOrigin.size(), origin.string());
  return folder;
}

fs::path find_named_file(const fs::path& main_file, const std::string& name, const char* prefixes) {
  std::vector<fs::path> candidates;
  const fs::path wanted(name);
  const fs::path origin = folder_of(main_file);
  if (wanted.is_absolute()) candidates.push_back(wanted);
  // libhdf5 looks for the last component of an absolute name elsewhere, as the files may have been moved.
  const fs::path relative = wanted.is_absolute() ? wanted.filename() : wanted;
  for (const fs::path& folder : listed_folders(prefixes, origin)) candidates.push_back(folder / relative);
  candidates.push_back(origin / relative);
  candidates.push_back(relative);
  std::error_code error;
  const fs::path real = fs::canonical(main_file, error);
  if (!error) candidates.push_back(real.parent_path() / relative);
  for (const fs::path& candidate : candidates) {
    if (fs::exists(candidate, error)) return candidate;
  }
  return {};
}

namespace {

// Names of sources have "%b" for a number, which makes them patterns, and "%%" for "%" (HDF5 reference,
// "H5Pset_virtual").
std::string without_escapes(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    text += name[i];
    if (name.compare(i, 2, "%%") == 0) ++i;
  }
  return text;
}

bool is_pattern(const std::string& name) {
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] != '%') continue;
    if (name[++i] == 'b') return true;
  }
  return false;
}

// Returns whether it is stored which elements of the virtual dataset come from which of the source.
bool selects_known_elements(const StoredMapping& mapping, const DatasetInfo& info) {
  if (mapping.in_virtual.empty() || mapping.in_virtual.size() != info.file_rank()) return false;
  for (std::size_t d = 0; d < mapping.in_virtual.size(); ++d) {
    if (mapping.in_virtual[d].end() > info.shape[d]) return false;
  }
  return mapping.whole_source || !mapping.in_source.empty();
}

}  // namespace

VirtualMapping read_virtual_mapping(const H5File& file, const DatasetInfo& info) {
  const std::vector<StoredMapping> mappings = read_mappings(file, info);
  VirtualMapping result;
  if (info.file_rank() == 0) result.other_reason = "it is a virtual dataset of one element";
  for (std::size_t i = 0; i < mappings.size(); ++i) {
    const StoredMapping& mapping = mappings[i];
    if (mapping.nothing) continue;
    if (!selects_known_elements(mapping, info))
      result.other_reason = "it is a virtual dataset whose sources are not regular selections";
    // A pattern of names stands for any number of sources, of which none can be missing.
    const bool pattern =
        mapping.in_virtual.empty() && (is_pattern(mapping.file) || is_pattern(mapping.dataset));
    if (pattern) continue;
    const std::string name = without_escapes(mapping.file);
    VirtualSource source{
        .number = i,
        .file = name == "." ? file.path() : find_named_file(file.path(), name, "HDF5_VDS_PREFIX"),
        .path = without_escapes(mapping.dataset),
        .to = mapping.in_virtual,
        .from = mapping.whole_source ? Selection() : mapping.in_source,
        .whole = mapping.whole_source,
        .ends = mapping.source_ends};
    if (source.file.empty()) {
      throw FileError(
          fmt::format("{}:{}: source {} of the virtual dataset, {}, is missing; put it next to the file, or "
                      "set HDF5_VDS_PREFIX to its folder",
                      info.file, short_path(info.path), i, name));
    }
    std::error_code ignored;
    // libhdf5 would wait for the writer of a pipe.
    if (!fs::is_regular_file(source.file, ignored)) {
      throw FileError(fmt::format(
          "{}:{}: source {} of the virtual dataset, {}, is not a regular file; restore it, or set "
          "HDF5_VDS_PREFIX to the folder that has it",
          info.file, short_path(info.path), i, name));
    }
    result.sources.push_back(std::move(source));
  }
  return result;
}

}  // namespace h5feed
