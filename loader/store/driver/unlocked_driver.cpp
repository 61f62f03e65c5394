// SPDX-License-Identifier: Apache-2.0
#include "store/driver/unlocked_driver.hpp"

// The header has H5FD_class_t since 1.13.
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <array>
#include <climits>
#include <compare>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace h5feed {
namespace {

constexpr haddr_t kMaxAddress = std::numeric_limits<std::int64_t>::max();

// Adds the reason to libhdf5's list of errors, and returns false. Those that use the list name the file.
bool refuse(const DrivenFile& file, hid_t minor, std::string_view reason) noexcept {
  const std::string_view name = file.name;
  if (reason.starts_with(name) && reason.substr(name.size()).starts_with(": "))
    reason.remove_prefix(name.size() + 2);
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_VFL, minor, "%.*s",
           static_cast<int>(reason.size()), reason.data());
  return false;
}

static_assert(std::is_standard_layout_v<DrivenFile>, "its address must be that of its first member");

DrivenFile* driven(H5FD_t* file) noexcept { return reinterpret_cast<DrivenFile*>(file); }
const DrivenFile* driven(const H5FD_t* file) noexcept { return reinterpret_cast<const DrivenFile*>(file); }

// H5FD_class_t has C callbacks: nothing may be thrown through them.
H5FD_t* open_file(const char* name, unsigned flags, hid_t, haddr_t) noexcept {
  std::unique_ptr<DrivenFile> file(new (std::nothrow) DrivenFile);
  return file != nullptr && open_driven(*file, name, flags) ? &file.release()->base : nullptr;
}

herr_t close_file(H5FD_t* file) noexcept {
  delete driven(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) noexcept {
  const auto key = [](const FileIdentity& file) {
    return std::tuple(file.device, file.inode, file.bytes, file.modified_s, file.modified_ns);
  };
  const auto order = key(driven(a)->identity) <=> key(driven(b)->identity);
  return std::is_lt(order) ? -1 : std::is_gt(order) ? 1 : 0;
}

// Since 1.14 libhdf5 also asks without a file.
herr_t query(const H5FD_t*, unsigned long* flags) noexcept {
  // Without the first libhdf5 refuses files whose free space is managed in pages, without the second those
  // that a SWMR writer has open. The others join small reads.
  *flags = H5FD_FEAT_DEFAULT_VFD_COMPATIBLE | H5FD_FEAT_SUPPORTS_SWMR_IO | H5FD_FEAT_ACCUMULATE_METADATA |
           H5FD_FEAT_DATA_SIEVE;
  return 0;
}

haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t) noexcept {
  return driven(file)->end_of_allocation;
}

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) noexcept {
  driven(file)->end_of_allocation = address;
  return 0;
}

haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) noexcept { return driven(file)->identity.bytes; }

herr_t get_handle(H5FD_t* file, hid_t, void** handle) noexcept {
  *handle = driven(file);
  return 0;
}

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* buffer) noexcept {
  return read_driven(*driven(file), address, {static_cast<std::byte*>(buffer), size}) ? 0 : -1;
}

herr_t refuse_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) noexcept { return -1; }

// Registered for the life of the library, which unregisters it itself.
hid_t unlocked_driver() {
  static const H5FD_class_t driver = unlocked_driver_class();
  static const hid_t id = H5FDregister(&driver);
  return id;
}

bool opened_by_unlocked_driver(hid_t file) noexcept {
  const hid_t access = H5Fget_access_plist(file);
  if (access < 0) return false;
  const bool same = H5Pget_driver(access) == unlocked_driver();
  H5Pclose(access);
  return same;
}

// Tells whether an open object is in a file. Takes no reference of it: the host program may close its file
// meanwhile, and expects it to be closed then.
class IsIn {
 public:
  explicit IsIn(const FileIdentity& file) : file_(file) {}

  bool operator()(hid_t object) {
    const ssize_t length = H5Fget_name(object, name_.data(), name_.size());
    if (length <= 0 || static_cast<std::size_t>(length) >= name_.size()) return false;
    const auto [known, added] = known_.try_emplace(std::string(name_.data()), false);
    if (added) {
      const std::optional<FileIdentity> now = find_file_identity(known->first);
      known->second = now && now->device == file_.device && now->inode == file_.inode;
    }
    return known->second;
  }

 private:
  const FileIdentity& file_;
  std::map<std::string, bool> known_;  // Names of files, and whether they are the one
  std::array<char, PATH_MAX> name_ = {};
};

std::vector<hid_t> open_objects(unsigned kinds) {
  const auto all = static_cast<hid_t>(H5F_OBJ_ALL);
  std::vector<hid_t> objects(static_cast<std::size_t>(std::max<ssize_t>(H5Fget_obj_count(all, kinds), 0)));
  if (objects.empty()) return objects;
  const ssize_t count = H5Fget_obj_ids(all, kinds, objects.size(), objects.data());
  objects.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return objects;
}

}  // namespace

bool open_driven(DrivenFile& file, const char* name, unsigned flags) noexcept try {
  if ((flags & (H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE)) != 0)
    return refuse(file, H5E_CANTOPENFILE, "h5feed opens files for reading only");
  file.name = name;
  file.growing = (flags & H5F_ACC_SWMR_READ) != 0;
  file.identity = file_identity(file.name);
  file.bytes = open_file_source(file.name, file.identity);
  return true;
} catch (const std::exception& error) {
  return refuse(file, H5E_CANTOPENFILE, error.what());
}

bool read_driven(const DrivenFile& file, haddr_t address, std::span<std::byte> out) noexcept {
  try {
    file.bytes->read(address, out);
    return true;
  } catch (const std::exception& error) {
    const std::optional<FileIdentity> now = find_file_identity(file.name);
    // The writer has not yet written as much.
    const bool behind = file.growing && now && now->device == file.identity.device &&
                        now->inode == file.identity.inode && now->bytes >= file.identity.bytes &&
                        now->bytes < address + out.size();
    if (!behind) return refuse(file, H5E_READERROR, error.what());
    const std::size_t there = now->bytes - std::min<haddr_t>(now->bytes, address);
    std::ranges::fill(out.subspan(there), std::byte{});
    return there == 0 || read_driven(file, address, out.first(there));
  }
}

H5FD_class_t unlocked_driver_class() noexcept {
  H5FD_class_t driver = {};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(512);  // The first that is not registered by anyone
#endif
  driver.name = "h5feed";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.open = open_file;
  driver.close = close_file;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = get_end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = get_end_of_file;
  driver.get_handle = get_handle;
  driver.read = read;
  driver.write = refuse_write;
  constexpr H5FD_mem_t kTypeMap[] = H5FD_FLMAP_DICHOTOMY;
  static_assert(std::size(kTypeMap) == H5FD_MEM_NTYPES);
  std::copy(std::begin(kTypeMap), std::end(kTypeMap), driver.fl_map);
  return driver;
}

void use_unlocked_driver(const H5::FileAccPropList& access) { access.setDriver(unlocked_driver(), nullptr); }

bool flush_for_program(const FileIdentity& file) {
  IsIn is_in(file);
  bool own = false;
  bool found = false;
  const auto flush = [&found](hid_t object) {
    found = true;
    // The program may have closed it meanwhile.
    if (H5Fflush(object, H5F_SCOPE_GLOBAL) < 0 && H5Iis_valid(object) > 0)
      throw H5::FileIException("H5Fflush", "failed");
  };
  for (const hid_t opened : open_objects(H5F_OBJ_FILE)) {
    if (!is_in(opened)) continue;
    if (opened_by_unlocked_driver(opened)) {
      own = true;
    } else {
      flush(opened);
    }
  }
  if (own || found) return found;
  // Objects keep open what the program has closed. Types are left out: those of libhdf5 itself are in no
  // file.
  for (const hid_t object : open_objects(H5F_OBJ_DATASET | H5F_OBJ_GROUP | H5F_OBJ_ATTR)) {
    if (!is_in(object)) continue;
    flush(object);
    break;
  }
  return found;
}

}  // namespace h5feed
