// SPDX-License-Identifier: Apache-2.0
// Conversion between HDF5 datatypes and DType. Internal to store/; callers hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <optional>
#include <string>

#include "h5feed/dtype.hpp"
#include "store/format/dataset_info.hpp"

namespace h5feed {

/// A stored datatype and its DType.
struct StoredType {
  std::optional<DType> dtype;  ///< Type of one value; empty if not numeric
  bool byte_swapped = false;   ///< Stored in the opposite of host byte order
  std::string text;  ///< Type as text: "u8", "bool", "complex64", "variable-length", "string", "compound", …
  unsigned values = 1;  ///< Numbers in one element: 2 for complex types
  bool plain = true;    ///< Integer or float of all its bits; not an enumeration, bitfield or complex number
  ValueBits bits = {};  ///< Where the value of an integer that does not fill its bytes is
};

/// Classifies the dataset's type. Numeric types, in either byte order, are: integers of 1, 2, 4 or 8 bytes,
/// of which values may use a part of the bits; bitfields of 8, 16, 32 or 64 bits (unsigned integers); IEEE
/// floats of 16, 32 and 64 bits and bfloat16; enumerations of 8, 16, 32 or 64-bit integers (h5py's bool is u8
/// with 0 and 1); complex numbers, stored as by h5py: compounds of two such floats "r" and "i" without gaps.
/// Throws H5::Exception.
StoredType classify_type(const H5::DataSet& dataset);

/// Classifies the elements of a variable-length dataset. Throws H5::Exception.
StoredType classify_vlen_element(const H5::DataSet& dataset);

/// Returns the type that H5Dread converts to: the dataset's type in host byte order, for an enumeration its
/// integer type. Integers that do not fill their bytes keep their bits, for `take_value_bits`: libhdf5 1.10
/// does not extend the sign of those in the other byte order. Throws H5::Exception.
H5::DataType memory_type(const H5::DataSet& dataset);

/// Returns the type to create a dataset with, in host byte order. Throws H5::Exception.
H5::DataType file_type(DType dtype);

}  // namespace h5feed
