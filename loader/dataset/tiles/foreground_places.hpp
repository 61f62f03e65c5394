// SPDX-License-Identifier: Apache-2.0
// Labelled pixels that tiles at random places are centred on.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace h5feed {

/// Some pixels of each class of each image. Immutable and thread-safe.
class ForegroundPlaces {
 public:
  /// Most pixels that are kept of a class of an image.
  static constexpr std::uint64_t kMostPerClass = 10'000;

  /// Pixels of one class of an image: numbers in the row-major order of (depth, height, width).
  using OfClass = std::vector<std::uint64_t>;
  /// Takes the pixels of each class of each image; no class is empty. Throws std::bad_alloc.
  explicit ForegroundPlaces(const std::vector<std::vector<OfClass>>& images) {
    first_class_.push_back(0);
    first_place_.push_back(0);
    for (const std::vector<OfClass>& classes : images) {
      for (const OfClass& pixels : classes) {
        places_.insert(places_.end(), pixels.begin(), pixels.end());
        first_place_.push_back(places_.size());
      }
      first_class_.push_back(first_place_.size() - 1);
    }
  }

  /// Returns a pixel of an image: of a class drawn evenly by `class_bits`, one drawn evenly by `pixel_bits`.
  /// Returns nullopt if the image has no classes.
  std::optional<std::uint64_t> draw(std::uint64_t image, std::uint64_t class_bits,
                                    std::uint64_t pixel_bits) const noexcept {
    const auto pick = [](std::uint64_t bits, std::uint64_t first, std::uint64_t end) {
      __extension__ using Wide = unsigned __int128;
      return first + static_cast<std::uint64_t>(Wide{bits} * (end - first) >> 64);
    };
    const std::uint64_t first = first_class_[image];
    const std::uint64_t end = first_class_[image + 1];
    if (first == end) return std::nullopt;
    const std::uint64_t drawn = pick(class_bits, first, end);
    return places_[pick(pixel_bits, first_place_[drawn], first_place_[drawn + 1])];
  }

  /// Returns the bytes of memory taken.
  std::uint64_t bytes() const noexcept {
    return (first_class_.size() + first_place_.size() + places_.size()) * sizeof(std::uint64_t);
  }

 private:
  std::vector<std::uint64_t> first_class_;  // of each image; last: all classes
  std::vector<std::uint64_t> first_place_;  // of each class; last: all places
  std::vector<std::uint64_t> places_;
};

}  // namespace h5feed
