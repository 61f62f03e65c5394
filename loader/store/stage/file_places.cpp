// SPDX-License-Identifier: Apache-2.0
#include "store/stage/file_places.hpp"

#include <utility>
#include <vector>

#include "store/format/byte_source.hpp"

namespace h5feed {

FilePlaces::FilePlaces(const std::filesystem::path& stage_dir, StorageProbe probe)
    : probe_(std::move(probe)) {
  if (!stage_dir.empty()) stage_dir_.emplace(stage_dir, probe_);
}

void FilePlaces::prepare(std::span<const std::filesystem::path> files) {
  if (!stage_dir_) return;
  std::vector<std::filesystem::path> unknown;
  for (const std::filesystem::path& file : files) {
    if (!places_.contains(file.string())) unknown.push_back(file);
  }
  std::vector<std::filesystem::path> copies = stage_dir_->copies_of(unknown);
  for (std::size_t i = 0; i < copies.size(); ++i) places_.emplace(unknown[i].string(), std::move(copies[i]));
}

const std::filesystem::path& FilePlaces::place_of(const std::filesystem::path& file) {
  if (!stage_dir_) return file;
  prepare({&file, 1});
  return places_.at(file.string());
}

void FilePlaces::read_in_place(const std::filesystem::path& file) {
  if (remote_) return;
  const auto identity = find_file_identity(file);
  if (!identity || identity->device == last_device_) return;
  last_device_ = identity->device;
  StorageKind kind = storage_kind(file, probe_);
  if (kind.remote) remote_ = {file.string(), std::move(kind.name)};
}

}  // namespace h5feed
