// SPDX-License-Identifier: Apache-2.0
// The image decoder: calls the codecs of h5feed_images.so and turns their outcomes into errors.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <string_view>
#include <vector>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "base/system_limits.hpp"
#include "images/image_header.hpp"
#include "images/image_library.hpp"
#include "images/jpeg_end.hpp"

namespace h5feed {
namespace {

using Color = ImageTarget::Color;

ImageError no_image_error(std::span<const std::byte> encoded) {
  if (const std::optional<ImageHeader> header = read_image_header(encoded)) {
    return ImageError(fmt::format(
        "its header says {}×{} pixels, but OpenCV cannot decode them: it is damaged or cut short, or of a "
        "rare kind; restore it, store it as JPEG or PNG, or leave it out",
        header->height, header->width));
  }
  return ImageError(
      "it is no JPEG, PNG, WebP, BMP, TIFF, JPEG 2000, PBM, PGM or PPM, or OpenCV cannot decode it; "
      "store it as JPEG or PNG, or leave it out");
}

// Throws the error of a call's outcome, unless it is `done`.
void require(ImageOutcome outcome, const ImageReason& reason, std::span<const std::byte> encoded = {}) {
  switch (outcome) {
    case ImageOutcome::done:
      return;
    case ImageOutcome::no_image:
      throw no_image_error(encoded);
    case ImageOutcome::other_pixels:
      throw ImageError("its pixels are neither of 8 nor of 16 bits; store it as PNG or JPEG");
    case ImageOutcome::no_memory:
      throw std::bad_alloc();
    case ImageOutcome::failed:
      break;
  }
  const std::string_view why = reason.text;
  throw ImageError(fmt::format("OpenCV failed{}{}; store it as JPEG or PNG, or leave it out",
                               why.empty() ? "" : ": ", why));
}

void check_bytes(std::span<const std::byte> encoded) {
  if (encoded.empty()) throw ImageError("it has no bytes; restore it, or leave it out");
  if (encoded.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw ImageError("it has more than 2 GiB; store a smaller image");
  if (!jpeg_is_whole(encoded)) throw ImageError("its JPEG is cut short; restore it, or leave it out");
}

// An image decoded by the codecs, from bytes that were checked.
class Decoded {
 public:
  Decoded(std::span<const std::byte> encoded, Color color) {
    ImageReason reason{};
    require(calls_.decode(encoded.data(), encoded.size(), color, &decoded_, &reason), reason, encoded);
  }
  Decoded(const Decoded&) = delete;
  Decoded& operator=(const Decoded&) = delete;
  ~Decoded() { calls_.release(decoded_.image); }

  const ImageExtent& extent() const noexcept { return decoded_.extent; }

  void write(const ImageExtent& extent, bool swap, std::span<std::byte> out) const {
    ImageReason reason{};
    require(calls_.write(decoded_.image, extent.height, extent.width, swap, out.data(), &reason), reason);
  }

 private:
  const ImageCalls& calls_ = image_calls();
  DecodedImage decoded_{};
};

class TargetDecoder final : public ImageDecoder {
 public:
  explicit TargetDecoder(const ImageTarget& target) : target_(target) {}

  ImageExtent extent_of(std::span<const std::byte> encoded) const override {
    check_bytes(encoded);
    check_needs(encoded);
    return scaled(Decoded(encoded, target_.color).extent());
  }

  ImageNeeds needs_of(std::span<const std::byte> encoded, const ImageExtent& extent) const override {
    const std::optional<ImageHeader> header = read_image_header(encoded);
    if (!header) return {};
    const bool unchanged = target_.color == Color::unchanged;
    const bool same_size = header->height == extent.height && header->width == extent.width;
    const std::uint64_t work = header->work_bytes();
    // Decoded straight into the sample, see ImageCalls::decode_quickly.
    if (header->jpeg && !header->may_turn && !unchanged && same_size)
      return {header->height, header->width, work};
    const std::uint64_t channels = unchanged                      ? header->channels
                                   : target_.color == Color::gray ? std::uint64_t{1}
                                                                  : std::uint64_t{3};
    const std::uint64_t image = header->pixels() * channels * (unchanged ? header->value_bytes : 1);
    // The image, and then: the decoder's own memory, a turned copy, one without the channels that OpenCV adds
    // to gray with alpha, or the scaled image whose channels are then swapped.
    const bool copied = unchanged ? channels == 4 : header->may_turn;
    const std::uint64_t copy = copied ? image : 0;
    const std::uint64_t scaled = same_size ? 0 : static_cast<std::uint64_t>(extent.bytes());
    return {header->height, header->width, image + std::max({work, copy, scaled})};
  }

  void decode(std::span<const std::byte> encoded, const ImageExtent& extent,
              std::span<std::byte> out) const override {
    check_bytes(encoded);
    const std::uint64_t channels = target_.color == Color::gray ? 1 : 3;
    if (extent.dtype == DType::u8 && extent.channels == channels &&
        image_calls().decode_quickly(encoded.data(), encoded.size(), target_.color, extent.height,
                                     extent.width, out.data())) {
      return;
    }
    const Decoded image(encoded, target_.color);
    check(scaled(image.extent()), extent);
    image.write(extent, target_.color != Color::bgr, out);
  }

  void scale(std::span<const std::byte> pixels, const ImageExtent& from, bool planar,
             const ImageExtent& extent, std::span<std::byte> out) const override {
    // OpenCV stores numbers of rows and columns as int.
    constexpr std::uint64_t kMaxSide = std::numeric_limits<std::int16_t>::max();
    if (from.height < 1 || from.height > kMaxSide || from.width < 1 || from.width > kMaxSide ||
        from.channels < 1 || from.channels > 4 || pixels.size() != from.bytes()) {
      throw ImageError(
          fmt::format("{} bytes cannot be an image of {}×{}×{}; correct its row in the table of shapes",
                      pixels.size(), from.height, from.width, from.channels));
    }
    check(scaled(from), extent);
    std::vector<std::byte> interleaved;
    if (planar && from.channels > 1) {
      const std::size_t plane = pixels.size() / from.channels;
      interleaved.resize(pixels.size());
      for (std::size_t channel = 0; channel < from.channels; ++channel) {
        for (std::size_t i = 0; i < plane; ++i)
          interleaved[i * from.channels + channel] = pixels[channel * plane + i];
      }
      pixels = interleaved;
    }
    if (scaled(from) == from) {
      std::memcpy(out.data(), pixels.data(), pixels.size());
      return;
    }
    ImageReason reason{};
    require(image_calls().resize(pixels.data(), &from, extent.height, extent.width, out.data(), &reason),
            reason);
  }

  ImageExtent scaled(ImageExtent extent) const override {
    if (target_.height == 0) return extent;
    extent.height = target_.height;
    extent.width = target_.width;
    return extent;
  }

 private:
  // Refuses an image that would take more than a loader's default memory budget.
  void check_needs(std::span<const std::byte> encoded) const {
    const std::optional<ImageHeader> header = read_image_header(encoded);
    if (!header) return;
    const std::uint64_t channels = target_.color == Color::gray ? 1 : 3;
    const ImageNeeds needs = needs_of(encoded, scaled({header->height, header->width, channels, DType::u8}));
    const std::uint64_t most = system_limits().available_bytes / 2;
    if (needs.bytes <= most) return;
    throw ImageError(
        fmt::format("its {}×{} pixels take {}, and half of the available memory is {}; store a smaller image",
                    header->height, header->width, format_bytes(needs.bytes), format_bytes(most)));
  }

  static void check(const ImageExtent& is, const ImageExtent& wanted) {
    if (is == wanted) return;
    const bool size = is.height != wanted.height || is.width != wanted.width;
    throw ImageError(fmt::format(
        "it is {}×{}×{} {}, but the first image is {}×{}×{} {}; {}", is.height, is.width, is.channels,
        name_of(is.dtype), wanted.height, wanted.width, wanted.channels, name_of(wanted.dtype),
        size ? fmt::format("set {} to scale all images to one size", spelled(kImageSize))
             : fmt::format("set {} so that all images have the same channels", spelled("images.color"))));
  }

  const ImageTarget target_;
};

}  // namespace

std::unique_ptr<const ImageDecoder> make_image_decoder(const ImageTarget& target) {
  return std::make_unique<const TargetDecoder>(target);
}

}  // namespace h5feed
