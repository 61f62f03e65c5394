// SPDX-License-Identifier: Apache-2.0
#include "flow/batches/sparse_batch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "flow/resolve/sparse_format.hpp"

namespace h5feed {
namespace {

// Values that one call of a kernel converts.
constexpr std::uint64_t kMany = 64;

RowKernelSpec kernel_of(const Conversion& conversion, std::uint64_t values) {
  RowKernelSpec spec = conversion.kernel();
  spec.channels = 1;
  spec.pixels = values;
  return spec;
}

template <typename Index>
void set_offsets(const SparseReader& reader, const std::vector<std::int64_t>& samples, std::byte* out) {
  auto* const offsets = reinterpret_cast<Index*>(out);
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    offsets[i] = static_cast<Index>(at);
    at += reader.length(static_cast<std::uint64_t>(samples[i]));
  }
  offsets[samples.size()] = static_cast<Index>(at);
}

HostTensor part_of(const std::shared_ptr<std::byte>& memory, std::size_t at, DType type,
                   std::uint64_t count) {
  return {.bytes = {memory, memory.get() + at}, .dtype = type, .shape = {static_cast<std::int64_t>(count)}};
}

}  // namespace

SparseBatch::SparseBatch(const SparseData& sparse, const DeliveryFormat& format, const Conversion& conversion)
    : sparse_(sparse),
      to_(format.data_dtype),
      index_(format.index_dtype),
      many_(make_row_kernel(kernel_of(conversion, kMany))),
      one_(make_row_kernel(kernel_of(conversion, 1))) {}

std::uint64_t SparseBatch::values_of(const std::vector<std::int64_t>& samples) const noexcept {
  std::uint64_t values = 0;
  for (const std::int64_t sample : samples)
    values += sparse_.reader->length(static_cast<std::uint64_t>(sample));
  return values;
}

// A reader of any samples may be asked for more than a loader has in a batch.
DType SparseBatch::index_of(std::uint64_t values) const noexcept {
  return index_ == DType::i32 ? index_dtype_for(values) : index_;
}

std::size_t SparseBatch::bytes(const std::vector<std::int64_t>& samples) const {
  const std::uint64_t values = values_of(samples);
  return SparsePlaces(values, samples.size(), to_, index_of(values)).bytes;
}

SparseRows SparseBatch::make(const std::vector<std::int64_t>& samples,
                             std::shared_ptr<std::byte> bytes) const {
  const std::uint64_t values = values_of(samples);
  const DType index = index_of(values);
  const SparsePlaces places(values, samples.size(), to_, index);
  SparseRows rows{.values = part_of(bytes, 0, to_, values),
                  .columns = part_of(bytes, places.columns, index, values),
                  .offsets = part_of(bytes, places.offsets, index, samples.size() + 1),
                  .num_columns = static_cast<std::int64_t>(sparse_.reader->columns())};
  if (index == DType::i32) {
    set_offsets<std::int32_t>(*sparse_.reader, samples, rows.offsets.bytes.get());
  } else {
    set_offsets<std::int64_t>(*sparse_.reader, samples, rows.offsets.bytes.get());
  }
  return rows;
}

void SparseBatch::convert(const std::byte* from, std::size_t count, std::byte* to) const {
  const std::size_t from_bytes = size_of(sparse_.reader->info().dtype);
  const std::size_t to_bytes = size_of(to_);
  if (many_->is_copy()) {
    if (count > 0) std::memcpy(to, from, count * from_bytes);
    return;
  }
  std::size_t i = 0;
  for (; i + kMany <= count; i += kMany) many_->run(from + i * from_bytes, to + i * to_bytes);
  for (; i < count; ++i) one_->run(from + i * from_bytes, to + i * to_bytes);
}

void SparseBatch::copy(const SparseReader::Row& row, std::size_t position, const SparseRows& out) const {
  const std::size_t count = row.columns.size();
  if (count == 0) return;
  if (out.offsets.dtype == DType::i32) {
    const auto at = static_cast<std::size_t>(out.offsets.as<std::int32_t>()[position]);
    convert(row.values, count, out.values.bytes.get() + at * size_of(to_));
    std::memcpy(out.columns.as<std::int32_t>().data() + at, row.columns.data(), row.columns.size_bytes());
  } else {
    const auto at = static_cast<std::size_t>(out.offsets.as<std::int64_t>()[position]);
    convert(row.values, count, out.values.bytes.get() + at * size_of(to_));
    std::ranges::copy(row.columns, out.columns.as<std::int64_t>().begin() + static_cast<std::ptrdiff_t>(at));
  }
}

}  // namespace h5feed
