// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/augmentation.hpp"

#include <fmt/format.h>

#include <limits>

#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

constexpr std::int64_t kMaxExtent = std::numeric_limits<std::int32_t>::max() / 4;

// Purposes of the random bits of one sample.
enum Use : std::uint64_t { kFlip, kCropY, kCropX, kVerticalFlip };

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

// Returns 1 with a probability, else 0.
std::int32_t toss(std::uint64_t bits, double probability) noexcept {
  return static_cast<double>(bits >> 11) * 0x1p-53 < probability ? 1 : 0;
}

}  // namespace

Augmentation::Augmentation(const Augment& augment, std::uint64_t height, std::uint64_t width)
    : flip_(probability(augment.horizontal_flip, "horizontal_flip")),
      vertical_flip_(probability(augment.vertical_flip, "vertical_flip")),
      sizes_{height, width, height, width} {
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

SampleTransform Augmentation::draw(std::uint64_t seed, std::uint64_t epoch, std::int64_t repeat,
                                   std::int64_t sample) const noexcept {
  const std::uint64_t of_epoch =
      mix_key(mix_key(seed, kAugment, epoch), kAugment, static_cast<std::uint64_t>(repeat));
  const std::uint64_t key = mix_key(of_epoch, kAugment, static_cast<std::uint64_t>(sample));
  SampleTransform transform;
  transform.crop_y = place(mix_key(key, kAugment, kCropY), sizes_.in_height, sizes_.out_height, padding_);
  transform.crop_x = place(mix_key(key, kAugment, kCropX), sizes_.in_width, sizes_.out_width, padding_);
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
