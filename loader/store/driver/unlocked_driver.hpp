// SPDX-License-Identifier: Apache-2.0
// A file driver for libhdf5 that opens files for reading, without a lock and apart from those that the rest
// of the program has open. Internal to store/. All callers hold the HDF5 mutex (store/hdf5/hdf5_session.hpp),
// and libhdf5 calls the driver under its own lock.
#pragma once

#include <H5Cpp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "store/format/byte_source.hpp"

namespace h5feed {

/// A file that a driver of h5feed has open. libhdf5 sees `base` only, which must come first.
struct DrivenFile {
  H5FD_t base = {};
  std::string name;
  FileIdentity identity;  ///< When it was opened
  std::shared_ptr<const ByteSource> bytes;
  haddr_t end_of_allocation = 0;
  bool growing = false;  ///< Opened beside a SWMR writer
};

/// Opens a regular file for reading, as the callback `open` of a driver does. Returns false, with an entry in
/// libhdf5's list of errors, if it cannot be opened.
bool open_driven(DrivenFile& file, const char* name, unsigned flags) noexcept;

/// Reads bytes of the file; reads that fail for a moment are repeated (store/format/retrying_source.hpp).
/// Blocks. Behind the end of a file that is growing the bytes are zero. Returns false, with an entry in
/// libhdf5's list of errors, if they cannot be read or the file ends before.
bool read_driven(const DrivenFile& file, haddr_t address, std::span<std::byte> out) noexcept;

/// Returns the driver's functions, for drivers whose files begin with a `DrivenFile`: these have their own
/// `name`, `open` and `close`. Their handle (H5Fget_vfd_handle) is the `DrivenFile`. libhdf5 shares what it
/// knows of a file between those that open it, unless it was modified in between.
H5FD_class_t unlocked_driver_class() noexcept;

/// Makes libhdf5 open files by this driver. libhdf5 hands it on to the sources of virtual datasets and to
/// files behind links. Throws H5::Exception.
void use_unlocked_driver(const H5::FileAccPropList& access);

/// Returns whether `file` was opened by this driver. Never throws.
bool opened_by_unlocked_driver(hid_t file) noexcept;

/// Returns whether the program seems to have the file open by another driver, itself or an object in it: what
/// the program has written may then be in memory only. The names by which files were opened must still lead
/// to them. Takes the longer, the more objects are open. Throws std::bad_alloc.
bool host_has_open(const FileIdentity& file);

}  // namespace h5feed
