// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/peer_scripts.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "h5feed/error.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

constexpr std::string_view kPeerSuffix = "_peer.py";

ScratchFolder scratch_in(const std::filesystem::path& parent) {
  try {
    return {parent, "h5feed-peers"};
  } catch (const FileError& error) {
    throw FileError(fmt::format("{}; --scratch names another folder", error.what()));
  }
}

}  // namespace

std::vector<std::string> peer_names() {
  std::vector<std::string> names;
  for (const PeerScript& script : peer_scripts()) {
    const std::string_view name = script.name;
    if (name.ends_with(kPeerSuffix)) names.emplace_back(name.substr(0, name.size() - kPeerSuffix.size()));
  }
  return names;
}

PeerFolder::PeerFolder(const std::filesystem::path& parent) : folder_(scratch_in(parent)) {
  for (const PeerScript& script : peer_scripts()) write(script.name, script.text);
}

std::filesystem::path PeerFolder::script_of(const std::string& peer) const {
  return path() / (peer + std::string(kPeerSuffix));
}

void PeerFolder::write(const std::string& name, std::string_view bytes) const {
  std::ofstream out(path() / name, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (out) return;
  throw FileError(fmt::format("{}: cannot be written: {}; --scratch names another folder",
                              printable((path() / name).string()), ::strerror(errno)));
}

}  // namespace h5feed::cli
