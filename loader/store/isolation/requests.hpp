// SPDX-License-Identifier: Apache-2.0
// Requests to the process that reads metadata, and the header of each message.
#pragma once

#include <cstdint>

#include "store/isolation/wire.hpp"

namespace h5feed {

/// Exit code of h5feed-reader that was started in another way than this version starts it.
inline constexpr int kReaderWrongUse = 64;

/// The functions that the reading process calls for the other. A request is its number, the number of the
/// file, and the arguments of the function.
enum class Request : std::uint8_t {
  open,
  close,  ///< Without a reply
  list_datasets,
  list_external_links,
  list_one,
  describe,
  describe_vlen,
  heap_format,
  contiguous_offset,
  read_stored_chunk,
  read_hyperslab,
  chunk_locations,
  has_filter,
  text_list,
  virtual_mappings,
  external_parts,
  expand_path,
  sparse_group,
  sparse_names,
  categorical,
  object_numbers,
  rehearse_copy,
  end_of_path,
};

template <>
struct WireLast<Request> {
  static constexpr Request value = Request::end_of_path;
};

/// How a request went. A reply is this, the size of what follows (8 bytes), and the result, or the message of
/// the error.
enum class Outcome : std::uint8_t {
  done,
  file_error,
  dataset_error,
  version_error,
  invalid_argument,
  out_of_memory
};

template <>
struct WireLast<Outcome> {
  static constexpr Outcome value = Outcome::out_of_memory;
};

/// Bytes of the outcome and the size at the start of a reply.
inline constexpr std::size_t kReplyHeadBytes = 1 + 8;

/// Descriptor of the reading process's end of the connection.
inline constexpr int kIsolationDescriptor = 3;

/// First argument of the reading process: it refuses to run for a library of another version.
inline constexpr const char* kIsolationVersion = "h5feed-reader 4";

}  // namespace h5feed
