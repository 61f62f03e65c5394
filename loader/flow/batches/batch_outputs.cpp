// SPDX-License-Identifier: Apache-2.0
#include "flow/batches/batch_outputs.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "batch/strides.hpp"
#include "flow/batches/field_batch.hpp"

namespace h5feed {
BatchOutputs::BatchOutputs(const DatasetState& dataset, const Resolved& resolved, Device* device)
    : dataset_(dataset),
      resolved_(resolved),
      device_(device),
      with_valid_(dataset.fields_with_valid()),
      pools_(resolved.format.fields.size()) {
  if (dataset.delivers_csr()) sparse_.emplace(*dataset.sparse, resolved.format, resolved.placement.on_host());
  if (device == nullptr) return;
  // As many as a host device keeps: the prefetched batches, the one at the consumer, and the one it is
  // about to release.
  const std::size_t kept = (resolved_.options.prefetch_batches + 2) * resolved_.format.outputs;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const FieldFormat& format = resolved_.format.fields[i];
    const bool ragged = i < dataset_.fields.size() && dataset_.fields[i].ragged;
    const bool in_slot = resolved_.placement.gpu && format.stacked;
    if (ragged || in_slot) continue;
    // At least one byte, so that an empty tensor has an address.
    pools_[i] = std::make_unique<BufferPool>(
        static_cast<std::size_t>(std::max<std::uint64_t>(format.batch_bytes, 1)), kept);
  }
}

bool BatchOutputs::prepare(BatchJob& job, bool wait) const {
  BatchSlot slot = take_slot(job.batch, job.first_turn, wait);
  if (!slot.free) return false;
  job.data_places = std::move(slot.places);
  put_into(job.batch, std::move(slot), job.key());
  const bool repeats_here = resolved_.format.outputs > 1;  // a GPU repeats from its own copy
  for (std::int64_t repeat = job.first_repeat + 1; repeats_here && repeat < job.end_repeat; ++repeat) {
    Batch& echo = job.echoes.emplace_back();
    echo.indices = job.batch.indices;
    echo.origins = job.batch.origins;
    echo.sets = job.batch.sets;
    echo.epoch = job.batch.epoch;
    echo.number = job.batch.number;
    put_into(echo, take_slot(echo, job.first_turn, true), job.key());
  }
  draw_transforms(job);
  return true;
}

BatchSlot BatchOutputs::take_slot(const Batch& batch, std::uint64_t first_turn, bool wait) const {
  if (device_ == nullptr) {
    BatchSlot own;
    own.data.bytes = make_bytes(sparse_ ? sparse_->bytes(batch.indices)
                                        : batch.indices.size() * resolved_.format.data_row_bytes);
    if (dataset_.target)
      own.target.bytes = make_bytes(batch.indices.size() * resolved_.format.target_row_bytes);
    return own;
  }
  // Slots have room for the largest batch.
  const std::size_t room =
      resolved_.format.data_row_bytes * static_cast<std::size_t>(resolved_.options.max_batch_rows);
  if (sparse_ && sparse_->bytes(batch.indices) > room)
    throw std::logic_error("BatchOutputs: a batch of sparse rows has more values than the largest one");
  return device_->acquire_slot({.epoch = batch.epoch,
                                .batch = batch.number,
                                .wait = wait,
                                .samples = batch.indices,
                                .first_turn = first_turn});
}

void BatchOutputs::put_into(Batch& batch, BatchSlot slot, const EpochKey& key) const {
  const std::size_t count = batch.indices.size();
  const Conversion& conversion = resolved_.placement.conversion;
  batch.gpu = std::move(slot.gpu);
  if (sparse_) {
    batch.sparse = sparse_->make(batch.indices, std::move(slot.data.bytes));
  } else {
    batch.data = std::move(slot.data);
    batch.data.dtype = resolved_.format.data_dtype;
    batch.data.shape = batch_shape(count, resolved_.options.batched, conversion.sample_shape());
    if (conversion.out_channels_last) batch.data.strides = dense_strides(batch.data.shape, true);
  }
  for (std::size_t number = 0; number < dataset_.fields.size(); ++number)
    batch.fields.push_back(take_field(number, batch.indices, key, slot));
  append_valid(batch, key, slot);
  if (!dataset_.target) return;
  batch.target = std::move(slot.target);
  batch.target.dtype = resolved_.format.target_dtype;
  batch.target.shape = batch_shape(count, resolved_.options.batched, dataset_.target->sample_shape());
}

// Appends the fields that say which rows of windows exist to a batch that has all its named fields.
void BatchOutputs::append_valid(Batch& batch, const EpochKey& key, const BatchSlot& slot) const {
  const std::size_t samples = batch.indices.size();
  for (const std::size_t number : with_valid_) {
    const SampleRows& belonging = dataset_.field(number)->belonging;
    const std::size_t rows = belonging.per_sample();
    BatchField valid{.name = dataset_.field_name(number) + ".valid", .values = {}};
    valid.values.bytes = field_bytes(batch.fields.size(), samples, slot);
    valid.values.dtype = DType::u8;
    valid.values.shape = batch_shape(samples, resolved_.options.batched, {static_cast<std::int64_t>(rows)});
    const std::span out(valid.values.bytes.get(), samples * rows);
    for (std::size_t i = 0; i < samples; ++i) {
      belonging.write_valid(static_cast<std::uint64_t>(batch.indices[i]), key, out.subspan(i * rows, rows));
    }
    batch.fields.push_back(std::move(valid));
  }
}

// Returns the memory of one of `Batch::fields` whose samples have one shape.
std::shared_ptr<std::byte> BatchOutputs::field_bytes(std::size_t number, std::size_t samples,
                                                     const BatchSlot& slot) const {
  if (number < slot.fields.size() && slot.fields[number]) return slot.fields[number];
  if (pools_[number]) return pools_[number]->acquire();
  return make_bytes(samples * resolved_.format.fields[number].row_bytes);
}

BatchField BatchOutputs::take_field(std::size_t number, const std::vector<std::int64_t>& samples,
                                    const EpochKey& key, const BatchSlot& slot) const {
  const NamedField& field = dataset_.fields[number];
  const bool batched = resolved_.options.batched;
  if (field.rows)
    return make_field(field, samples.size(), batched, field_bytes(number, samples.size(), slot));
  return make_ragged_field(field, samples, key, batched,
                           number < slot.fields.size() ? slot.fields[number] : nullptr);
}

// A GPU that converts gets the transforms of all deliveries in one list.
void BatchOutputs::draw_transforms(BatchJob& job) const {
  const auto& augmentation = resolved_.placement.conversion.augmentation;
  if (!augmentation) return;
  const auto draw = [&](std::int64_t repeat) {
    return augmentation->draw_all(job.seed, job.batch.epoch, repeat, job.batch.indices);
  };
  std::int64_t repeat = job.first_repeat;
  job.batch.transforms = draw(repeat);
  for (Batch& echo : job.echoes) echo.transforms = draw(++repeat);
  if (!resolved_.placement.gpu_converts) return;
  while (++repeat < job.end_repeat) {
    std::ranges::copy(draw(repeat), std::back_inserter(job.batch.transforms));
  }
}

}  // namespace h5feed
