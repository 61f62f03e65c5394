// SPDX-License-Identifier: Apache-2.0
#include "flow/batches/field_batch.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/byte_buffer.hpp"
#include "flow/values/field_kernel.hpp"

namespace h5feed {
namespace {

std::shared_ptr<std::byte> zeros(std::uint64_t bytes) {
  std::shared_ptr<std::byte> made = make_bytes(static_cast<std::size_t>(bytes));
  std::memset(made.get(), 0, static_cast<std::size_t>(bytes));
  return made;
}

HostTensor numbers(const std::vector<std::int64_t>& values) {
  HostTensor tensor{
      zeros(values.size() * sizeof(std::int64_t)), DType::i64, {static_cast<std::int64_t>(values.size())}};
  if (!values.empty()) std::memcpy(tensor.bytes.get(), values.data(), values.size() * sizeof(std::int64_t));
  return tensor;
}

std::vector<std::int64_t> with_front(std::int64_t front, std::span<const std::int64_t> behind) {
  std::vector<std::int64_t> shape = {front};
  shape.insert(shape.end(), behind.begin(), behind.end());
  return shape;
}

// Returns the offset of each sample, and the total length last.
std::vector<std::int64_t> sums_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

// Sets shape, offsets and lengths of a field that is padded or ragged, whose samples have `lengths` elements
// of shape `element`. A single sample is not padded.
void arrange(BatchField& field, Collate collate, const std::vector<std::int64_t>& lengths,
             std::span<const std::int64_t> element, bool batched) {
  if (collate == Collate::ragged) {
    const std::vector<std::int64_t> offsets = sums_of(lengths);
    field.values.shape = with_front(offsets.back(), element);
    field.offsets = numbers(offsets);
    return;
  }
  const std::int64_t longest = lengths.empty() ? 0 : std::ranges::max(lengths);
  field.lengths = numbers(lengths);
  field.values.shape = batch_shape(lengths.size(), batched, with_front(longest, element));
}

}  // namespace

std::vector<std::int64_t> batch_shape(std::size_t count, bool batched,
                                      const std::vector<std::int64_t>& sample) {
  std::vector<std::int64_t> shape;
  if (batched) shape.push_back(static_cast<std::int64_t>(count));
  shape.insert(shape.end(), sample.begin(), sample.end());
  return shape;
}

std::shared_ptr<std::byte> make_bytes(std::size_t bytes) {
  const auto buffer = std::make_shared<ByteBuffer>(std::max<std::size_t>(bytes, 1));
  return {buffer, buffer->data()};
}

BatchField make_field(const NamedField& field, std::size_t count, bool batched,
                      std::shared_ptr<std::byte> bytes) {
  BatchField made{.name = field.options.name, .values = {}};
  made.values.bytes = std::move(bytes);
  made.values.dtype = field.dtype();
  const std::vector<std::int64_t> sample = field.rows->sample_shape();
  if (field.options.collate == Collate::stack) {
    made.values.shape = batch_shape(count, batched, sample);
  } else {
    const std::vector<std::int64_t> lengths(count, sample.front());
    arrange(made, field.options.collate, lengths, std::span(sample).subspan(1), batched);
  }
  return made;
}

BatchField make_ragged_field(const NamedField& field, const std::vector<std::int64_t>& samples,
                             const EpochKey& key, bool batched, std::shared_ptr<std::byte> memory) {
  const RaggedField& rows = *field.ragged;
  const std::vector<std::int64_t> element(rows.element_shape().begin(), rows.element_shape().end());
  BatchField made{.name = field.options.name, .values = {}};
  made.values.dtype = field.dtype();
  if (field.options.collate == Collate::stack) {
    const auto length = static_cast<std::int64_t>(rows.longest());  // of all samples
    made.values.shape = batch_shape(samples.size(), batched, with_front(length, element));
  } else {
    std::vector<std::int64_t> lengths;
    lengths.reserve(samples.size());
    for (const std::int64_t sample : samples)
      lengths.push_back(static_cast<std::int64_t>(
          rows.length(field.belonging.row_of(static_cast<std::uint64_t>(sample), key))));
    arrange(made, field.options.collate, lengths, element, batched);
  }
  if (memory) {
    made.values.bytes = std::move(memory);
    return made;
  }
  std::uint64_t bytes = size_of(made.values.dtype);
  for (const std::int64_t extent : made.values.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) throw std::bad_alloc();
  }
  made.values.bytes = zeros(bytes);
  return made;
}

RaggedRows::RaggedRows(const NamedField& field)
    : field_(field),
      kernel_(make_row_kernel(row_kernel_spec(field))),
      to_bytes_(static_cast<std::size_t>(field.ragged->element_values()) * size_of(field.dtype())),
      narrows_(is_integer(field.dtype()) && field.dtype() != field.ragged->dtype()) {}

// Checks at read time what `check_range` of field_kernel.hpp checks at once for fields in memory.
void RaggedRows::check_range(std::int64_t sample, std::uint64_t row,
                             std::span<const std::byte> stored) const {
  const DType from = field_.ragged->dtype();
  const auto misfit = first_out_of_range(from, stored, field_.dtype());
  if (!misfit) return;
  refuse_value(field_.ragged->place_of(row), field_.options.name, static_cast<std::uint64_t>(sample),
               number_text(from, stored.data() + *misfit * size_of(from)), field_.dtype(), kFieldDType);
}

ReadCost RaggedRows::read_stored(std::uint64_t row, ByteBuffer& stored) const {
  const RaggedField& rows = *field_.ragged;
  const std::size_t bytes = static_cast<std::size_t>(rows.length(row) * rows.element_bytes());
  if (bytes == 0) return {};
  stored.resize_discard(bytes);
  return rows.read(row, stored.span().first(bytes));
}

ReadCost RaggedRows::read(std::int64_t sample, const EpochKey& key, std::size_t position,
                          std::span<BatchField* const> outs) const {
  const RaggedField& rows = *field_.ragged;
  const std::uint64_t row = row_of(sample, key);
  const auto elements = static_cast<std::size_t>(rows.length(row));
  const std::size_t from_bytes = static_cast<std::size_t>(rows.element_bytes());
  if (elements == 0 || from_bytes == 0) return {};
  ByteBuffer stored;
  const ReadCost cost = read_stored(row, stored);
  if (narrows_) check_range(sample, row, stored.span().first(elements * from_bytes));
  for (BatchField* const out : outs) {
    std::size_t first = 0;  // index of the first element
    if (out->offsets.defined()) {
      first = static_cast<std::size_t>(out->offsets.as<std::int64_t>()[position]);
    } else {
      // Every sample has the room of the longest.
      const auto samples = static_cast<std::int64_t>(field_.ragged->element_shape().size()) + 2;
      const bool batched = static_cast<std::int64_t>(out->values.shape.size()) == samples;
      first = batched ? position * static_cast<std::size_t>(out->values.shape[1]) : 0;
    }
    std::byte* const to = out->values.bytes.get() + first * to_bytes_;
    if (kernel_->is_copy()) {
      std::memcpy(to, stored.data(), elements * from_bytes);
    } else {
      for (std::size_t i = 0; i < elements; ++i)
        kernel_->run(stored.data() + i * from_bytes, to + i * to_bytes_);
    }
  }
  return cost;
}

}  // namespace h5feed
