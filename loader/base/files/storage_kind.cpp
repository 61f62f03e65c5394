// SPDX-License-Identifier: Apache-2.0
#include "base/files/storage_kind.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>

namespace h5feed {
namespace {

struct KnownType {
  std::uint32_t magic;
  std::string_view name;
  bool remote;
};

// Values of statfs(2), f_type. Those of the kernel's own file systems are in linux/magic.h and statfs(2);
// those of Lustre, GPFS, BeeGFS, PanFS, StorNext, IBRIX, ACFS, OrangeFS and the shares of virtual machines
// are in coreutils, src/stat.c, which also says which file systems are remote. FUSE and virtiofs have one
// value for local and remote ones; the name of the mount tells them apart (`mount_type`). WekaFS publishes
// no value: it, too, is known by the name of its mount. File systems on shared disks (GFS2, OCFS2) are local
// here, as their data does not pass through a server.
constexpr auto kKnown = std::to_array<KnownType>({
    {0x00006969, "nfs", true},        {0x0000517b, "smb", true},       {0xff534d42, "cifs", true},
    {0xfe534d42, "smb2", true},       {0x0bd00bd0, "lustre", true},    {0x47504653, "gpfs", true},
    {0x19830326, "beegfs", true},     {0x00c36400, "ceph", true},      {0x65735546, "fuse", true},
    {0x01021997, "9p", true},         {0x5346414f, "afs", true},       {0x6b414653, "afs", true},
    {0x73757245, "coda", true},       {0x20030528, "orangefs", true},  {0xaad7aaea, "panfs", true},
    {0xbeefdead, "stornext", true},   {0x013111a8, "ibrix", true},     {0x61636673, "acfs", true},
    {0x0000564c, "ncp", true},        {0xbacbacbc, "vmhgfs", true},    {0x786f4256, "vboxsf", true},
    {0x7c7c6673, "prl_fs", true},     {0x0000ef53, "ext4", false},     {0x58465342, "xfs", false},
    {0x9123683e, "btrfs", false},     {0xf2f52010, "f2fs", false},     {0x2fc12fc1, "zfs", false},
    {0xca451a4e, "bcachefs", false},  {0x01021994, "tmpfs", false},    {0x858458f6, "ramfs", false},
    {0x794c7630, "overlayfs", false}, {0x73717368, "squashfs", false}, {0xe0f5e1e2, "erofs", false},
    {0x3153464a, "jfs", false},       {0x52654973, "reiserfs", false}, {0x01161970, "gfs2", false},
    {0x7461636f, "ocfs2", false},     {0x00009660, "isofs", false},    {0x15013346, "udf", false},
    {0x00004d44, "vfat", false},      {0x2011bab0, "exfat", false},    {0x5346544e, "ntfs", false},
    {0x7366746e, "ntfs3", false},
});

constexpr std::uint32_t kFuse = 0x65735546;
constexpr std::uint32_t kExt = 0xef53;  // ext2, ext3 and ext4

// Types of mounts, and beginnings of types, that statfs(2) does not tell apart from others.
constexpr auto kRemoteMounts = std::to_array<std::string_view>({"wekafs", "juicefs", "fuse.", "virtiofs"});
// Local file systems that use FUSE.
constexpr auto kLocalMounts = std::to_array<std::string_view>(
    {"fuseblk", "fuse.fuse-overlayfs", "fuse.ntfs", "fuse.exfat", "fuse.zfs", "fuse.bindfs", "fuse.mergerfs",
     "fuse.squashfuse", "fuse.gocryptfs", "fuse.encfs"});

// Returns the type of the mount that holds `path`, by its device number (proc(5), "mountinfo"); an empty text
// if it is not listed. Btrfs, whose files have other device numbers than their mount, is known by statfs(2).
std::string mount_type(const std::filesystem::path& path, const std::filesystem::path& mounts) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return {};
  const std::string device = fmt::format("{}:{}", major(status.st_dev), minor(status.st_dev));
  std::ifstream list(mounts);
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string id, parent, of_device, word;
    words >> id >> parent >> of_device;
    if (of_device != device) continue;
    while (words >> word && word != "-") {
    }
    words >> word;
    return words ? word : std::string();
  }
  return {};
}

bool begins_like_one_of(std::string_view type, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view begin) { return type.starts_with(begin); });
}

}  // namespace

StorageKind storage_kind(const std::filesystem::path& path, const StorageProbe& probe) {
  struct ::statfs status = {};
  if (probe.statfs(path.c_str(), &status) != 0) return {};
  const auto magic = static_cast<std::uint32_t>(status.f_type);
  const auto known = std::ranges::find(kKnown, magic, &KnownType::magic);
  if (known != kKnown.end() && magic != kFuse && magic != kExt)
    return {std::string(known->name), known->remote};
  const std::string type = mount_type(path, probe.mounts);
  if (!type.empty()) {
    const bool remote = !begins_like_one_of(type, kLocalMounts) &&
                        (magic == kFuse || begins_like_one_of(type, kRemoteMounts));
    return {type, remote};
  }
  if (known != kKnown.end()) return {std::string(known->name), known->remote};
  return {fmt::format("{:#x}", magic), false};
}

}  // namespace h5feed
