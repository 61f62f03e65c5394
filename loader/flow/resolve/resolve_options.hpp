// SPDX-License-Identifier: Apache-2.0
// From what the user set to what the loader does, with every bound checked.
#pragma once

#include <vector>

#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/resolve/conversion.hpp"
#include "flow/resolve/loader_group.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// The largest `echo.factor`.
inline constexpr std::int64_t kMaxEchoFactor = 1024;

/// The part of a batch that a named field takes.
struct FieldFormat {
  DType dtype = DType::u8;
  std::size_t row_bytes = 0;      ///< of one delivered sample; of a ragged field, of one element
  std::uint64_t batch_bytes = 0;  ///< of the largest batch there can be
};

/// Types and sizes of what is delivered, and the memory one batch takes while it is prepared.
struct DeliveryFormat {
  DType data_dtype = DType::u8;
  DType target_dtype = DType::i64;
  std::size_t data_row_bytes = 0;    ///< of one delivered sample
  std::size_t target_row_bytes = 0;  ///< 0 without target
  std::vector<FieldFormat> fields = {};
  std::size_t staging_row_bytes = 0;  ///< of stored rows that wait for their other chunks
  std::size_t outputs = 1;            ///< times a batch is assembled, differently augmented: its echoes
  std::size_t slots_in_transfer = 0;  ///< host memory of batches that are being copied to a GPU
};

/// Derives types from options and data; `on_host` is what the CPU does to the data, `max_batch_rows` the
/// samples of the largest batch. Throws OptionError.
DeliveryFormat delivery_format(const DataLoaderOptions& options, const DatasetState& dataset,
                               const Conversion& on_host, std::uint64_t max_batch_rows);

/// What a loader does, and the memory it takes.
struct Resolution {
  ResolvedOptions options;
  MemoryUse memory;
};

/// Fills in defaults and checks everything. `order` is what `resolve_order` made of the same options;
/// `others` is what other loaders of the dataset take. Calls nothing of the user's. Throws OptionError naming
/// the option and a value that works.
Resolution resolve_options(const DataLoaderOptions& options, const DatasetState& dataset,
                           const ResolvedOptions& order, const DeliveryFormat& format,
                           const SystemLimits& limits, const MemoryUse& others);

}  // namespace h5feed
