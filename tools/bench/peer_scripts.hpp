// SPDX-License-Identifier: Apache-2.0
// The Python files of `bench --peer`, and a temporary folder that holds them while they run.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/scratch_folder.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {

/// A file of tools/bench/peers, embedded so that the installed program is a single file.
struct PeerScript {
  const char* name;
  const char* text;
};

/// Returns the files that the peers need.
const std::vector<PeerScript>& peer_scripts();

/// Returns the names that --peer takes.
std::vector<std::string> peer_names();

/// A new folder with the files of `peer_scripts()`; the destructor removes it with everything in it.
class PeerFolder {
 public:
  /// Creates the folder in `parent`. Throws FileError if that fails.
  explicit PeerFolder(const std::filesystem::path& parent);

  const std::filesystem::path& path() const noexcept { return folder_.path(); }
  /// Returns the script to run for a peer.
  std::filesystem::path script_of(const std::string& peer) const;
  /// Writes `bytes` to a new file of that name. Throws FileError if that fails.
  void write(const std::string& name, std::string_view bytes) const;

 private:
  const UnfinishedOutput unfinished_;
  ScratchFolder folder_;
};

}  // namespace h5feed::cli
