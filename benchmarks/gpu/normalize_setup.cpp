// SPDX-License-Identifier: Apache-2.0
#include "gpu/normalize_setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "gpu/kernels.hpp"

namespace h5feed::bench {
namespace {

using namespace gpu;  // NOLINT: this file is about its kernel

constexpr std::int64_t kChannels = 3;
constexpr std::int32_t kPadding = 4;  // padding of the random crops

gpu::DeviceMemory upload(const void* from, std::size_t bytes, int device, cudaStream_t stream) {
  gpu::DeviceMemory memory = gpu::make_device_memory(bytes, device);
  check(cudaMemcpyAsync(memory.get(), from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync",
        {device});
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", {device});
  return memory;
}

// Fills memory with noise, the slowest input for table lookups: one random block, then copies of everything
// written so far.
void fill_randomly(void* to, std::size_t bytes, int device, cudaStream_t stream) {
  std::mt19937 random(2);
  std::vector<std::byte> block(std::min<std::size_t>(bytes, 1 << 20));
  for (std::byte& byte : block) byte = static_cast<std::byte>(random());
  check(cudaMemcpyAsync(to, block.data(), block.size(), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync",
        {device});
  for (std::size_t done = block.size(); done < bytes;) {
    const std::size_t more = std::min(done, bytes - done);
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, to, more, cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync", {device});
    done += more;
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", {device});
}

std::vector<SampleTransform> random_transforms(std::int64_t samples) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int32_t> offset(-kPadding, kPadding);
  std::vector<SampleTransform> transforms;
  for (std::int64_t i = 0; i < samples; ++i) {
    transforms.push_back({.crop_y = offset(random), .crop_x = offset(random), .flip = offset(random) & 1});
  }
  return transforms;
}

// Returns the addresses of the uint8 samples of a batch in random order.
std::vector<const std::byte*> shuffled_rows(const std::byte* batch, const gpu::ImageLayout& layout) {
  std::vector<const std::byte*> rows;
  const std::int64_t sample_bytes = layout.in_elements() / layout.samples;
  for (std::int64_t i = 0; i < layout.samples; ++i) rows.push_back(batch + i * sample_bytes);
  std::ranges::shuffle(rows, std::mt19937(3));
  return rows;
}

}  // namespace

NormalizeSetup::NormalizeSetup(const Bench& bench, const NormalizeCase& what, cudaStream_t stream)
    : what_(what), device_(bench.device), launches_(bench.sizes.launches), stream_(stream) {
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device_),
        "cudaDeviceGetAttribute", {device_});
  const std::int64_t side = bench.sizes.kernel_side;
  job_.from = DType::u8;
  job_.to = what.to;
  job_.past_caches = what.past_caches;
  job_.layout = {.samples = bench.sizes.kernel_samples,
                 .channels = kChannels,
                 .in_height = side,
                 .in_width = side,
                 .out_height = side,
                 .out_width = side,
                 .in_channels_last = what.in_channels_last,
                 .out_channels_last = what.out_channels_last};
  const auto in_bytes = static_cast<std::size_t>(job_.layout.in_elements());
  const auto out_bytes = static_cast<std::size_t>(job_.layout.out_elements()) * size_of(what.to);
  moved_bytes_ = in_bytes + out_bytes;
  in_ = gpu::make_device_memory(in_bytes + 16, device_);  // the kernel reads whole words
  out_ = gpu::make_device_memory(out_bytes, device_);
  copy_from_ = gpu::make_device_memory(moved_bytes_ / 2, device_);
  copy_to_ = gpu::make_device_memory(moved_bytes_ / 2, device_);
  fill_randomly(in_.get(), in_bytes, device_, stream);
  fill_randomly(copy_from_.get(), moved_bytes_ / 2, device_, stream);

  const NormalizeParameters parameters{
      .scale = 1.0 / 255, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  const std::vector<std::byte> table = gpu::normalize_coefficients(parameters, job_.from, job_.to);
  coefficients_ = upload(table.data(), table.size(), device_, stream);
  job_.in = in_.get();
  job_.out = out_.get();
  job_.coefficients = coefficients_.get();
  if (what.augmented) {
    const auto transforms = random_transforms(job_.layout.samples);
    crops_ = upload(transforms.data(), transforms.size() * sizeof(SampleTransform), device_, stream);
    job_.transforms = static_cast<const SampleTransform*>(crops_.get());
  }
  if (what.gathered) {
    const auto rows = shuffled_rows(static_cast<const std::byte*>(in_.get()), job_.layout);
    rows_ = upload(rows.data(), rows.size() * sizeof(rows[0]), device_, stream);
    job_.rows = static_cast<const std::byte* const*>(rows_.get());
  }
  // A GPU without work runs at a fraction of its clock, and takes longer to leave it than some launches take.
  const auto spin_time = static_cast<std::uint64_t>(std::chrono::nanoseconds(bench.sizes.spin_time).count());
  check(launch_spin(spin_time, multiprocessors_, stream), "spin", {device_});
}

double NormalizeSetup::kernel_seconds() {
  return seconds(
      [this] { check(gpu::launch_normalize(job_, multiprocessors_, stream_), what_.name, {device_}); });
}

double NormalizeSetup::copy_seconds() {
  return seconds([this] {
    check(cudaMemcpyAsync(copy_to_.get(), copy_from_.get(), moved_bytes_ / 2, cudaMemcpyDeviceToDevice,
                          stream_),
          "cudaMemcpyAsync", {device_});
  });
}

double NormalizeSetup::seconds(const std::function<void()>& launch) {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize", {device_});
  const Seconds clock;
  for (int i = 0; i < launches_; ++i) launch();
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize", {device_});
  return clock.elapsed() / launches_;
}

std::string NormalizeSetup::description() const {
  const auto layout = [](bool channels_last) { return channels_last ? "NHWC" : "NCHW"; };
  return fmt::format(
      "u8 to {} of {}x{}x{}x{}, {} to {}{}{}{}", h5feed::name_of(what_.to), job_.layout.samples, kChannels,
      job_.layout.in_height, job_.layout.in_width, layout(what_.in_channels_last),
      layout(what_.out_channels_last), what_.augmented ? " with flip and crop" : "",
      what_.gathered ? ", samples in random order" : "", what_.past_caches ? ", streaming stores" : "");
}

}  // namespace h5feed::bench
