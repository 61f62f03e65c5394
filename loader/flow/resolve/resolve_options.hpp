// SPDX-License-Identifier: Apache-2.0
// Resolves the user's options to what the loader does, and checks every bound.
#pragma once

#include <cstdint>
#include <vector>

#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/resolve/loader_group.hpp"
#include "flow/values/conversion.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// Largest `echo.factor`.
inline constexpr std::int64_t kMaxEchoFactor = 1024;

/// Largest `num_workers`.
inline constexpr std::int64_t kMaxWorkers = 1024;

/// Type and size of one of `Batch::fields`.
struct FieldFormat {
  DType dtype = DType::u8;
  std::size_t row_bytes = 0;      ///< Bytes of one delivered sample; of one element if ragged
  std::uint64_t batch_bytes = 0;  ///< Bytes of the field in the largest possible batch
  bool stacked = true;            ///< All samples have one shape: a GPU gets the field with the data
};

/// Returns the bytes of decoded data that a loader keeps if `cache_bytes` is unset and the budget allows;
/// `available_bytes` is the memory that its process may count on.
std::uint64_t default_cache_bytes(std::uint64_t available_bytes) noexcept;

/// Returns `memory_budget_bytes` if it is unset.
std::uint64_t default_budget_bytes(std::uint64_t available_bytes) noexcept;

/// Types and sizes of delivered batches, and the memory that one batch takes while it is prepared.
struct DeliveryFormat {
  DType data_dtype = DType::u8;
  DType target_dtype = DType::i64;
  std::size_t data_row_bytes = 0;        ///< Bytes of one assembled sample
  std::size_t target_row_bytes = 0;      ///< Bytes of one delivered target; 0 without target
  DType index_dtype = DType::i64;        ///< Type of columns and offsets of samples delivered as CSR
  std::vector<FieldFormat> fields = {};  ///< Of the named fields, then of those of windows
  std::size_t staging_row_bytes = 0;     ///< Bytes per sample staged until all of its chunks are read
  std::size_t outputs = 1;               ///< Copies of a batch assembled on the host, the echoes included
  std::size_t slots_in_transfer = 0;     ///< Host slots of batches being copied to a GPU
};

/// Returns whether one batch may have a sample several times, if the options of a loader say no more of its
/// order than these: a sampler chooses it again, a rank pads its share, or it replaces one that cannot be
/// read.
bool may_repeat_in_batch(const DataLoaderOptions& options) noexcept;

/// Returns the bytes of the largest batch as it is delivered, repeats by `echo` included; at most 2⁶⁰.
std::uint64_t batch_bytes(const DeliveryFormat& format, const ResolvedOptions& resolved);

/// Returns the format that options and data imply. `on_host` is the part of the conversion that the CPU does;
/// `max_batch_rows` is the number of samples of the largest batch. Throws OptionError.
DeliveryFormat delivery_format(const DataLoaderOptions& options, const DatasetState& dataset,
                               const Conversion& on_host, std::uint64_t max_batch_rows);

/// Resolved options of a loader, and the memory it takes.
struct Resolution {
  ResolvedOptions options;
  MemoryUse memory;
};

/// Fills in defaults and checks every option. `order` is the result of `resolve_order` for the same options;
/// `others` is the memory of the dataset's other loaders. Calls no callback of the user but the log sink.
/// Throws OptionError that names the option and a value that works.
Resolution resolve_options(const DataLoaderOptions& options, const DatasetState& dataset,
                           const ResolvedOptions& order, const DeliveryFormat& format,
                           const SystemLimits& limits, const MemoryUse& others);

}  // namespace h5feed
