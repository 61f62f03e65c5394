// SPDX-License-Identifier: Apache-2.0
#include "tools/info/file_lines.hpp"

#include <fmt/format.h>

#include "base/byte_units.hpp"
#include "store/hdf5/dataset_names.hpp"

namespace h5feed::cli {
namespace {

std::string storage_text(const StorageKind& storage) {
  if (!storage.remote) return printable(storage.name);
  return fmt::format("{}, a network file system (DatasetOptions::stage_dir copies files to a local disk)",
                     printable(storage.name));
}

}  // namespace

std::string file_lines(const H5File& file, const std::string& name, std::uint64_t bytes,
                       std::size_t num_datasets, const std::vector<ExternalLink>& links,
                       const StorageKind& storage) {
  std::string text = fmt::format("{}: {}, {} {}, on {}\n", printable(name), format_bytes(bytes), num_datasets,
                                 num_datasets == 1 ? "dataset" : "datasets", storage_text(storage));
  if (!links.empty()) {
    text += fmt::format("links into other files, which loaders and check follow and info does not: {}\n",
                        printable(list_text(links)));
  }
  if (file.swmr_writer()) {
    text += fmt::format(
        "a SWMR writer has it open: loaders read the rows that are complete when they open it, and later "
        "ones "
        "after refresh(); if no writer runs: h5clear -s --increment=0 {}\n",
        printable(name));
  }
  return text;
}

Json links_json(const std::vector<ExternalLink>& links) {
  Json json = Json::array();
  for (const ExternalLink& link : links)
    json.push_back({{"path", link.path}, {"other_file", link.other_file}, {"other_path", link.other_path}});
  return json;
}

}  // namespace h5feed::cli
