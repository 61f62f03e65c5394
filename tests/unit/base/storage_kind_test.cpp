// SPDX-License-Identifier: Apache-2.0
// Kinds of file systems, by what statfs(2) and the list of mounts say.
#include "base/files/storage_kind.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

std::uint32_t answered = 0;

StorageProbe answering(std::uint32_t magic, std::filesystem::path mounts = "/dev/null") {
  answered = magic;
  return {.statfs =
              [](const char*, struct ::statfs* into) {
                into->f_type = answered;
                return 0;
              },
          .mounts = std::move(mounts)};
}

TEST(StorageKind, names_network_file_systems) {
  const TempDir dir;
  const std::pair<std::uint32_t, const char*> remote[] = {
      {0x6969, "nfs"},        {0x517b, "smb"},      {0xff534d42, "cifs"},   {0xfe534d42, "smb2"},
      {0x0bd00bd0, "lustre"}, {0x47504653, "gpfs"}, {0x19830326, "beegfs"}, {0x00c36400, "ceph"},
      {0x65735546, "fuse"},   {0x01021997, "9p"}};
  for (const auto& [magic, name] : remote)
    EXPECT_EQ(storage_kind(dir.path(), answering(magic)), (StorageKind{name, true})) << name;
  const std::pair<std::uint32_t, const char*> local[] = {
      {0xef53, "ext4"}, {0x58465342, "xfs"}, {0x9123683e, "btrfs"}, {0x01021994, "tmpfs"}};
  for (const auto& [magic, name] : local)
    EXPECT_EQ(storage_kind(dir.path(), answering(magic)), (StorageKind{name, false})) << name;
  EXPECT_EQ(storage_kind(dir.path(), answering(0x1234)), (StorageKind{"0x1234", false}));
}

TEST(StorageKind, asks_the_mounts_for_what_statfs_does_not_tell) {
  const TempDir dir;
  struct stat status = {};
  ASSERT_EQ(::stat(dir.path().c_str(), &status), 0);
  const auto kind = [&](std::uint32_t magic, const std::string& type) {
    std::ofstream(dir / "mounts") << "22 1 0:99999 / /proc rw - proc proc rw\n23 1 " << major(status.st_dev)
                                  << ':' << minor(status.st_dev) << " / / rw,relatime shared:1 - " << type
                                  << " server:/share rw\n";
    return storage_kind(dir.path(), answering(magic, dir / "mounts"));
  };
  EXPECT_EQ(kind(0x65735546, "fuse.sshfs"), (StorageKind{"fuse.sshfs", true}));
  EXPECT_EQ(kind(0x65735546, "virtiofs"), (StorageKind{"virtiofs", true}));
  EXPECT_EQ(kind(0x65735546, "fuseblk"), (StorageKind{"fuseblk", false}));
  EXPECT_EQ(kind(0x65735546, "fuse.fuse-overlayfs"), (StorageKind{"fuse.fuse-overlayfs", false}));
  EXPECT_EQ(kind(0x12345678, "wekafs"), (StorageKind{"wekafs", true}));
  EXPECT_EQ(kind(0x12345678, "newfs"), (StorageKind{"newfs", false}));
  EXPECT_EQ(kind(0xef53, "ext3"), (StorageKind{"ext3", false}));
}

TEST(StorageKind, is_unknown_where_the_system_does_not_answer) {
  EXPECT_EQ(storage_kind("/no/such/file"), StorageKind{});
  const StorageProbe failing{.statfs = [](const char*, struct ::statfs*) {
    errno = EIO;
    return -1;
  }};
  EXPECT_EQ(storage_kind("/", failing), StorageKind{});
  EXPECT_EQ(storage_kind("/proc").name, "proc");
}

}  // namespace
}  // namespace h5feed::test
