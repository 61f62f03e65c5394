// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/sparse_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/option_spelling.hpp"
#include "flow/resolve/memory_budget.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// Every part of a batch begins at a multiple of this.
constexpr std::size_t kSparseAlignment = 64;

std::size_t aligned_up(std::size_t bytes) noexcept {
  return (bytes + kSparseAlignment - 1) / kSparseAlignment * kSparseAlignment;
}

}  // namespace

SparsePlaces::SparsePlaces(std::uint64_t values, std::uint64_t samples, DType value_type,
                           DType index_type) noexcept
    : columns(aligned_up(static_cast<std::size_t>(capped_product(values, size_of(value_type))))),
      offsets(columns + aligned_up(static_cast<std::size_t>(capped_product(values, size_of(index_type))))),
      bytes(offsets + static_cast<std::size_t>(samples + 1) * size_of(index_type)) {}

DType index_dtype_for(std::uint64_t values) noexcept {
  return values <= static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()) ? DType::i32
                                                                                        : DType::i64;
}

void set_sparse_format(DeliveryFormat& format, const SparseData& sparse, const DataLoaderOptions& options,
                       std::uint64_t max_batch_rows) {
  const SparseReader& reader = *sparse.reader;
  const std::uint64_t values = may_repeat_in_batch(options) ? capped_product(max_batch_rows, reader.longest())
                                                            : reader.most_values(max_batch_rows);
  format.index_dtype = index_dtype_for(values);
  const SparsePlaces places(values, max_batch_rows, format.data_dtype, format.index_dtype);
  format.data_row_bytes = (places.bytes - 1) / max_batch_rows + 1;
}

void check_sparse(const DataLoaderOptions& options, const DatasetState& dataset, const Placement& placement) {
  if (!dataset.sparse) return;
  const std::string matrix =
      fmt::format("{}:{}", dataset.data.info().file, short_path(dataset.data.info().path));
  if (options.cache_policy == CachePolicy::clairvoyant) {
    throw OptionError(
        fmt::format("{} keeps samples of one size apart, and those of the sparse matrix {} "
                    "differ in size; use {}",
                    spelled("cache_policy", "clairvoyant"), matrix, spelled("cache_policy", "lru")));
  }
  if (!dataset.delivers_csr()) return;
  const auto refuse = [&](std::string_view option, std::string_view why) {
    throw OptionError(
        fmt::format("{} {}, and the rows of {} are delivered as CSR; set sparse.format = dense, or "
                    "leave it unset",
                    option, why, matrix));
  };
  if (options.normalize) refuse("normalize", "also changes zeros");
  if (options.transform) refuse("transform", "needs samples of one shape");
  if (options.pin_memory) refuse("pin_memory", "is for samples of one shape");
  if (placement.gpu) refuse("device", "sends samples of one shape to a GPU");
}

}  // namespace h5feed
