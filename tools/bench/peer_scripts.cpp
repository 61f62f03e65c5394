// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/peer_scripts.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "h5feed/error.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

constexpr std::string_view kPeerSuffix = "_peer.py";

[[noreturn]] void throw_no_scratch(const std::filesystem::path& path) {
  throw FileError(fmt::format("{}: cannot be written: {}; --scratch names another folder",
                              printable(path.string()), ::strerror(errno)));
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

PeerFolder::PeerFolder(const std::filesystem::path& parent) {
  std::string pattern = (std::filesystem::absolute(parent) / "h5feed-peers-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw_no_scratch(parent);
  path_ = pattern;
  for (const PeerScript& script : peer_scripts()) write(script.name, script.text);
}

PeerFolder::~PeerFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path PeerFolder::script_of(const std::string& peer) const {
  return path_ / (peer + std::string(kPeerSuffix));
}

void PeerFolder::write(const std::string& name, std::string_view bytes) const {
  std::ofstream out(path_ / name, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw_no_scratch(path_ / name);
}

}  // namespace h5feed::cli
