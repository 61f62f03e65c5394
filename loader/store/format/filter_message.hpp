// SPDX-License-Identifier: Apache-2.0
// The message of an object header that lists the filters of a dataset.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace h5feed {

/// Returns the number of the first filter, counted from 0, whose description goes beyond the message or has a
/// name without an end; nothing if there is none, or if the message is of an unknown version, which libhdf5
/// refuses. libhdf5 1.10 looks for the end of such a name outside the message (HDF5 File Format
/// Specification, section IV.A.2.l, "The Data Storage - Filter Pipeline Message").
std::optional<std::size_t> filter_beyond_message(std::span<const std::byte> body) noexcept;

}  // namespace h5feed
