// SPDX-License-Identifier: Apache-2.0
// Name of the file system that holds a file, and whether it is a network file system.
#pragma once

#include <sys/vfs.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace h5feed {

/// System calls that `storage_kind` and the staging of files use. Tests replace the members.
struct StorageProbe {
  /// statfs(2): returns 0, or −1 with errno.
  int (*statfs)(const char* path, struct ::statfs* into) = &::statfs;
  /// List of the mounts of this process, in the format of proc(5), "mountinfo".
  std::filesystem::path mounts = "/proc/self/mountinfo";
};

/// Kind of the file system of a file.
struct StorageKind {
  std::string name = "unknown";  ///< Name: "ext4", "nfs", "fuse.sshfs"; "0x1234" for a type without a name
  bool remote = false;           ///< The file system is reached over a network, or may be (FUSE)

  bool operator==(const StorageKind&) const = default;
};

/// A file on a network file system.
struct RemoteFile {
  std::string file;     ///< Path as the user gave it
  std::string storage;  ///< Name of the file system: "nfs"
};

/// Returns the kind of the file system that holds the file or directory `path`; "unknown" if `path` cannot be
/// examined. Links are followed. Thread-safe. Blocks while a network file system answers.
StorageKind storage_kind(const std::filesystem::path& path, const StorageProbe& probe = {});

}  // namespace h5feed
