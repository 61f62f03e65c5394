// SPDX-License-Identifier: Apache-2.0
// HDF5 datatypes as h5feed's. Internal to this folder; callers hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <optional>
#include <string>

#include "h5feed/dtype.hpp"

namespace h5feed {

/// A stored datatype, classified.
struct StoredType {
  std::optional<DType> dtype;  ///< of one value; empty unless numeric
  bool byte_swapped = false;   ///< other byte order than the host's
  std::string text;            ///< "u8", "bool", "complex64", "variable-length", "string", "compound", …
  unsigned values = 1;         ///< numbers in one element: 2 for a complex one
  bool plain = true;           ///< an integer or float; neither enumeration, bitfield nor complex number
};

/// Numeric types are integers and bitfields of 8, 16, 32 or 64 bits that fill their bytes, IEEE floats of
/// 16, 32 and 64 bits and bfloat16, all in either byte order; enumerations of such integers (bool, which h5py
/// stores as one, is u8 with 0 and 1); and complex numbers, compounds of two such floats "r" and "i" without
/// gaps, as h5py stores them. A bitfield is an unsigned integer. Throws H5::Exception.
StoredType classify_type(const H5::DataSet& dataset);

/// The numbers of a dataset of variable length. Throws H5::Exception.
StoredType classify_vlen_element(const H5::DataSet& dataset);

/// The dataset's type in the host's byte order, of an enumeration its integers: what H5Dread converts to.
/// Throws H5::Exception.
H5::DataType memory_type(const H5::DataSet& dataset);

/// The type a dataset is created with, in the host's byte order. Throws H5::Exception.
H5::DataType file_type(DType dtype);

}  // namespace h5feed
