// SPDX-License-Identifier: Apache-2.0
// A file driver for libhdf5 that opens files for reading, without a lock and apart from those that the rest
// of the program has open; it does not look at the mark of a file that its writer has not closed. Internal to
// store/. All callers hold the HDF5 mutex (store/hdf5/hdf5_session.hpp), and libhdf5 calls the driver under
// its own lock.
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
/// Blocks. Behind the end of a file that is growing, and has not become shorter, the bytes are zero. Returns
/// false, with an entry in libhdf5's list of errors, if they cannot be read or the file ends before.
bool read_driven(const DrivenFile& file, haddr_t address, std::span<std::byte> out) noexcept;

/// Returns the driver's functions, for drivers whose files begin with a `DrivenFile`: these have their own
/// `name`, `open` and `close`. Their handle (H5Fget_vfd_handle) is the `DrivenFile`. libhdf5 shares what it
/// knows of a file between those that open it, unless it was modified in between.
H5FD_class_t unlocked_driver_class() noexcept;

/// Makes libhdf5 open files by this driver. libhdf5 hands it on to the sources of virtual datasets and to
/// files behind links. Throws H5::Exception.
void use_unlocked_driver(const H5::FileAccPropList& access);

/// Makes libhdf5 write to the file what the program has written by it so far, if the program has the file, or
/// an object in it, open by libhdf5 under a name that still leads to it. Returns whether it has. Takes the
/// longer, the more objects are open. Blocks. Throws H5::FileIException if libhdf5 cannot write, and
/// std::bad_alloc.
bool flush_for_program(const FileIdentity& file);

}  // namespace h5feed
