// SPDX-License-Identifier: Apache-2.0
// The description of a dataset as a message between processes, and what a received one has to fulfil.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "base/option_spelling.hpp"
#include "store/format/dataset_info.hpp"
#include "store/isolation/wire.hpp"

namespace h5feed {

template <>
struct WireLast<DType> {
  static constexpr DType value = DType::bf16;
};
template <>
struct WireLast<StorageLayout> {
  static constexpr StorageLayout value = StorageLayout::virtual_dataset;
};

template <>
struct WireMembers<FilterSpec> {
  static auto of(auto& value) { return std::tie(value.id, value.optional, value.params, value.name); }
};

template <>
struct WireMembers<ValueBits> {
  static auto of(auto& value) { return std::tie(value.first, value.count); }
};

template <>
struct WireMembers<DatasetInfo> {
  static auto of(auto& v) {
    return std::tie(v.file, v.path, v.dtype, v.byte_swapped, v.bits, v.values_per_element, v.plain_type,
                    v.shape, v.max_shape, v.layout, v.chunk_shape, v.filters, v.index_kind,
                    v.unfiltered_edge_chunks, v.fill_value, v.stored_bytes);
  }
  /// Returns whether ranks, sizes and the fill value go together, as in everything that `H5File::describe`
  /// returns.
  static bool valid(const DatasetInfo& info);
};

template <>
struct WireMembers<PathOption> {
  static auto of(auto& v) { return std::tie(v.name, v.owner, v.typed); }
};

}  // namespace h5feed
