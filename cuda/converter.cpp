// SPDX-License-Identifier: Apache-2.0
#include "cuda/converter.hpp"

#include <utility>
#include <vector>

#include "cuda/kernels/normalize.hpp"
#include "cuda/runtime/check.hpp"

namespace h5feed::gpu {
namespace {

// Returns the normalization; without one, the identity for the format's number of channels.
NormalizeParameters parameters_of(const DeviceFormat& format) {
  if (format.normalize) return *format.normalize;
  NormalizeParameters same;
  same.mean.assign(format.channels, 0);
  same.std.assign(format.channels, 1);
  return same;
}

void copy_on_device(void* to, const std::byte* from, std::size_t bytes, cudaStream_t stream,
                    const CallPlace& place) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync", place);
}

}  // namespace

Converter::Converter(const DeviceFormat& format, int device, cudaStream_t upload,
                     std::shared_ptr<MemoryLedger> ledger)
    : format_(format) {
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute", {device});
  check(cudaDeviceGetAttribute(&l2_cache_bytes_, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute",
        {device});
  if (!format.converts() && !format.gathers) return;
  const std::vector<std::byte> bytes =
      format.converts() ? normalize_coefficients(parameters_of(format), format.from, format.to)
                        : normalize_coefficients({.mean = {0}, .std = {1}}, DType::u8, DType::u8);
  coefficients_ = CountedMemory(bytes.size(), CallPlace{device}, std::move(ledger));
  // The only wait for the GPU, before the first batch: `bytes` is destroyed when this function returns.
  check(cudaMemcpyAsync(coefficients_.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice, upload),
        "cudaMemcpyAsync", {device});
  check(cudaStreamSynchronize(upload), "cudaStreamSynchronize", {device});
}

void Converter::enqueue(const StagedBatch& from, const DeviceOutput& to, const CallPlace& place) const {
  convert_data(from, to.data, to.stream, place);
  for (std::size_t i = 0; i < from.fields.size(); ++i)
    copy_on_device(to.fields[i], from.fields[i].values, from.fields[i].bytes, to.stream, place);
  if (from.target_elements == 0) return;
  const ConvertJob job{from.target, format_.target_from, to.target, format_.target_to, from.target_elements};
  check(launch_convert(job, to.stream), "the label kernel", place);
}

void Converter::convert_data(const StagedBatch& from, void* data, cudaStream_t stream,
                             const CallPlace& place) const {
  if (!format_.converts() && from.rows == nullptr) {
    const std::size_t bytes = static_cast<std::size_t>(from.samples) * staged_sample_bytes();
    copy_on_device(data, from.data, bytes, stream, place);
    return;
  }
  NormalizeJob job;
  job.in = from.data;
  job.rows = from.rows;
  job.out = data;
  job.coefficients = coefficients_.get();
  job.layout.samples = from.samples;
  if (format_.converts()) {
    const CropSizes& sizes = format_.sizes;
    job.from = format_.from;
    job.to = format_.to;
    job.transforms = from.transforms;
    job.layout.channels = static_cast<std::int64_t>(format_.channels);
    job.layout.in_height = static_cast<std::int64_t>(sizes.in_height);
    job.layout.in_width = static_cast<std::int64_t>(sizes.in_width);
    job.layout.out_height = static_cast<std::int64_t>(sizes.out_height);
    job.layout.out_width = static_cast<std::int64_t>(sizes.out_width);
    job.layout.in_channels_last = format_.in_channels_last;
    job.layout.out_channels_last = format_.out_channels_last;
    job.layout.resizes = sizes.resizes;
  } else {
    // Gathers samples of any type as bytes.
    job.from = job.to = DType::u8;
    job.layout.in_width = job.layout.out_width = static_cast<std::int64_t>(staged_sample_bytes());
  }
  // A batch that fits stays in the cache for the first layer of the model; a larger one would only evict
  // what else is there.
  job.past_caches = static_cast<std::uint64_t>(job.layout.out_elements()) * size_of(job.to) >
                    static_cast<std::uint64_t>(l2_cache_bytes_);
  check(launch_normalize(job, multiprocessors_, stream), "the normalize kernel", place);
}

std::size_t Converter::staged_sample_bytes() const noexcept {
  return format_.channels * format_.sizes.in_height * format_.sizes.in_width * size_of(format_.from);
}

SlotBytes Converter::delivered_bytes() const noexcept {
  const std::size_t sample =
      format_.channels * format_.sizes.out_height * format_.sizes.out_width * size_of(format_.to);
  return {format_.rows * sample,
          format_.slot.target / size_of(format_.target_from) * size_of(format_.target_to),
          format_.slot.fields};
}

}  // namespace h5feed::gpu
