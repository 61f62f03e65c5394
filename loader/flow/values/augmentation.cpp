// SPDX-License-Identifier: Apache-2.0
#include "flow/values/augmentation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "batch/resample.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

constexpr std::int64_t kMaxExtent = std::numeric_limits<std::int32_t>::max() / 4;

// Purposes of the random bits of one sample.
enum Use : std::uint64_t { kFlip, kCropY, kCropX, kVerticalFlip, kScale, kRatio = kScale + 100 };

// Windows that are drawn before one is taken that fits any image, as in torchvision.
constexpr std::uint64_t kAttempts = 10;

// Returns a number below `count`, uniform up to an error of 2^-64 · count.
std::int64_t pick(std::uint64_t bits, std::uint64_t count) noexcept {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(Wide{bits} * count >> 64));
}

std::uint64_t window_extent(std::int64_t wanted, std::uint64_t image, std::int64_t padding,
                            const char* name) {
  const std::int64_t most = static_cast<std::int64_t>(image) + 2 * padding;
  if (wanted < 0 || wanted > most) {
    throw OptionError(
        fmt::format("augment.random_crop.{} must be 0 to {} (the image has {}, padding {}); got {}", name,
                    most, image, padding, wanted));
  }
  return wanted == 0 ? image : static_cast<std::uint64_t>(wanted);
}

// Returns the first row or column of the window, at a random position in the padded image.
std::int32_t place(std::uint64_t bits, std::uint64_t image, std::uint64_t window,
                   std::int64_t padding) noexcept {
  const std::uint64_t places = image + 2 * static_cast<std::uint64_t>(padding) - window + 1;
  return static_cast<std::int32_t>(pick(bits, places) - padding);
}

// Returns a probability. Throws OptionError.
double probability(double given, const char* name) {
  if (given >= 0 && given <= 1) return given;
  throw OptionError(fmt::format("augment.{} is a probability, 0 to 1; got {}", name, given));
}

// Returns a number in [0, 1).
double uniform(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 0x1p-53; }

// Returns 1 with a probability, else 0.
std::int32_t toss(std::uint64_t bits, double probability) noexcept {
  return uniform(bits) < probability ? 1 : 0;
}

// Returns an extent of the scaled output.
std::uint64_t resized_extent(std::int64_t wanted, std::uint64_t image, const char* name) {
  if (wanted >= 0 && wanted <= kMaxExtent) return wanted == 0 ? image : static_cast<std::uint64_t>(wanted);
  throw OptionError(
      fmt::format("augment.random_resized_crop.{} must be 0 to {}; got {}", name, kMaxExtent, wanted));
}

// Throws OptionError unless the elements that are summed up for one output pixel fit 64 bits, for elements of
// 16 bits.
void check_sums(const CropSizes& sizes) {
  const auto sum = [](std::uint64_t in, std::uint64_t out) {
    return ResampledAxis{static_cast<std::int64_t>(in), static_cast<std::int64_t>(out)}.largest_sum();
  };
  if (sum(sizes.in_height, sizes.out_height) * sum(sizes.in_width, sizes.out_width) < 0x1p44) return;
  throw OptionError(fmt::format(
      "augment.random_resized_crop does not scale {} x {} pixels to {} x {}; choose a size that is "
      "nearer to that of the images",
      sizes.in_height, sizes.in_width, sizes.out_height, sizes.out_width));
}

}  // namespace

Augmentation::Augmentation(const Augment& augment, std::uint64_t height, std::uint64_t width)
    : flip_(probability(augment.horizontal_flip, "horizontal_flip")),
      vertical_flip_(probability(augment.vertical_flip, "vertical_flip")),
      sizes_{height, width, height, width} {
  if (augment.random_resized_crop) {
    if (augment.random_crop) {
      throw OptionError("augment.random_crop and augment.random_resized_crop exclude each other; set one");
    }
    set_resized(*augment.random_resized_crop);
  }
  if (!augment.random_crop) return;
  const Augment::RandomCrop& crop = *augment.random_crop;
  if (crop.padding < 0 || crop.padding > kMaxExtent) {
    throw OptionError(
        fmt::format("augment.random_crop.padding must be 0 to {}; got {}", kMaxExtent, crop.padding));
  }
  padding_ = crop.padding;
  sizes_.out_height = window_extent(crop.height, height, padding_, "height");
  sizes_.out_width = window_extent(crop.width, width, padding_, "width");
}

void Augmentation::set_resized(const Augment::RandomResizedCrop& crop) {
  if (!(crop.min_scale > 0 && crop.min_scale <= crop.max_scale && crop.max_scale <= 1)) {
    throw OptionError(
        fmt::format("augment.random_resized_crop: min_scale and max_scale must be above 0, at most 1, and in "
                    "this order; got {} and {}",
                    crop.min_scale, crop.max_scale));
  }
  if (!(crop.min_ratio > 0 && crop.min_ratio <= crop.max_ratio && std::isfinite(crop.max_ratio))) {
    throw OptionError(fmt::format(
        "augment.random_resized_crop: min_ratio and max_ratio must be above 0, finite, and in this "
        "order; got {} and {}",
        crop.min_ratio, crop.max_ratio));
  }
  resized_ = crop;
  sizes_.resizes = true;
  sizes_.out_height = resized_extent(crop.height, sizes_.in_height, "height");
  sizes_.out_width = resized_extent(crop.width, sizes_.in_width, "width");
  check_sums(sizes_);
}

// Draws the window that is scaled.
void Augmentation::draw_window(std::uint64_t key, SampleTransform& transform) const noexcept {
  const auto height = static_cast<double>(sizes_.in_height), width = static_cast<double>(sizes_.in_width);
  const double low = std::log(resized_->min_ratio), high = std::log(resized_->max_ratio);
  double window_height = 0, window_width = 0;
  bool fits = false;
  for (std::uint64_t attempt = 0; attempt < kAttempts && !fits; ++attempt) {
    const double scale = resized_->min_scale + uniform(mix_key(key, kAugment, kScale + attempt)) *
                                                   (resized_->max_scale - resized_->min_scale);
    const double ratio = std::exp(low + uniform(mix_key(key, kAugment, kRatio + attempt)) * (high - low));
    window_width = std::round(std::sqrt(height * width * scale * ratio));
    window_height = std::round(std::sqrt(height * width * scale / ratio));
    fits = window_width >= 1 && window_width <= width && window_height >= 1 && window_height <= height;
  }
  if (!fits) {  // the largest window of an allowed shape
    window_height = std::clamp(std::round(width / resized_->min_ratio), 1.0, height);
    window_width = std::clamp(std::round(height * resized_->max_ratio), 1.0, width);
  }
  transform.crop_height = static_cast<std::int32_t>(window_height);
  transform.crop_width = static_cast<std::int32_t>(window_width);
  const auto places = [](std::uint64_t image, std::int32_t window) {
    return image - static_cast<std::uint64_t>(window) + 1;
  };
  const std::uint64_t rows = places(sizes_.in_height, transform.crop_height);
  const std::uint64_t columns = places(sizes_.in_width, transform.crop_width);
  const auto first_of = [&](std::uint64_t use, std::uint64_t count) {
    const auto middle = static_cast<std::int64_t>((count - 1) / 2);
    return static_cast<std::int32_t>(fits ? pick(mix_key(key, kAugment, use), count) : middle);
  };
  transform.crop_y = first_of(kCropY, rows);
  transform.crop_x = first_of(kCropX, columns);
}

SampleTransform Augmentation::draw(std::uint64_t seed, std::uint64_t epoch, std::int64_t repeat,
                                   std::int64_t sample) const noexcept {
  const std::uint64_t of_epoch =
      mix_key(mix_key(seed, kAugment, epoch), kAugment, static_cast<std::uint64_t>(repeat));
  const std::uint64_t key = mix_key(of_epoch, kAugment, static_cast<std::uint64_t>(sample));
  SampleTransform transform;
  if (resized_) {
    draw_window(key, transform);
  } else {
    transform.crop_y = place(mix_key(key, kAugment, kCropY), sizes_.in_height, sizes_.out_height, padding_);
    transform.crop_x = place(mix_key(key, kAugment, kCropX), sizes_.in_width, sizes_.out_width, padding_);
  }
  transform.flip = toss(mix_key(key, kAugment, kFlip), flip_);
  transform.vertical_flip = toss(mix_key(key, kAugment, kVerticalFlip), vertical_flip_);
  return transform;
}

std::vector<SampleTransform> Augmentation::draw_all(std::uint64_t seed, std::uint64_t epoch,
                                                    std::int64_t repeat,
                                                    const std::vector<std::int64_t>& samples) const {
  std::vector<SampleTransform> transforms;
  transforms.reserve(samples.size());
  for (const std::int64_t sample : samples) transforms.push_back(draw(seed, epoch, repeat, sample));
  return transforms;
}

}  // namespace h5feed
