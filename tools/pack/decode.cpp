// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/decode.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>

#include "base/files/file_descriptor.hpp"
#include "images/image_library.hpp"

namespace h5feed::cli {
namespace {

using namespace std::string_view_literals;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::uint64_t> PixelFormat::shape() const {
  if (channels_last) return {height, width, channels()};
  return {channels(), height, width};
}

std::vector<std::byte> read_image_file(const std::filesystem::path& file) {
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    throw BadImage(fmt::format("cannot be opened ({})", std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) throw BadImage("is not a regular file");
  if (status.st_size == 0) throw BadImage("is empty");
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw BadImage(count < 0 ? std::strerror(errno) : "became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

void check_image_bytes(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  // Cameras and editors append a few bytes after the end mark.
  constexpr std::size_t kTail = 4096;
  const std::string_view tail = text.substr(text.size() - std::min(kTail, text.size()));
  if (text.starts_with("\xFF\xD8\xFF"sv)) {
    if (tail.find("\xFF\xD9"sv) == std::string_view::npos)
      throw BadImage("is cut short: a JPEG without its end");
    return;
  }
  if (text.starts_with("\x89PNG\r\n\x1A\n"sv)) {
    if (tail.find("IEND"sv) == std::string_view::npos) throw BadImage("is cut short: a PNG without its end");
    return;
  }
  static constexpr std::array<std::string_view, 5> kOthers = {"BM"sv, "RIFF"sv, "II*\0"sv, "MM\0*"sv,
                                                              "\0\0\0\x0CjP"sv};
  const bool netpbm = text.size() > 2 && text[0] == 'P' && text[1] >= '1' && text[1] <= '7';
  if (netpbm ||
      std::any_of(kOthers.begin(), kOthers.end(), [&](auto mark) { return text.starts_with(mark); })) {
    return;
  }
  throw BadImage("is no image of a known kind");
}

void decode_image(std::span<const std::byte> bytes, const PixelFormat& format, std::span<std::byte> out) {
  check_image_bytes(bytes);
  const FittedPixels pixels{format.height, format.width, format.fit, format.gray, format.channels_last};
  ImageReason reason{};
  switch (image_calls().decode_fitted(bytes.data(), bytes.size(), &pixels, out.data(), &reason)) {
    case ImageOutcome::done:
      return;
    case ImageOutcome::no_memory:
      throw std::bad_alloc();
    case ImageOutcome::failed:
      throw BadImage(fmt::format("cannot be decoded ({})", reason.text));
    case ImageOutcome::no_image:
    case ImageOutcome::other_pixels:
      break;
  }
  throw BadImage("cannot be decoded");
}

void use_one_thread_an_image() { image_calls().use_one_thread(); }

}  // namespace h5feed::cli
