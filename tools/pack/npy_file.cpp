// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/npy_file.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "h5feed/error.hpp"
#include "store/format/byte_order.hpp"
#include "store/format/dataset_info.hpp"

namespace h5feed::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// NumPy itself refuses longer headers by default.
constexpr std::uint64_t kLargestHeader = 65'536;

// Returns what follows `'key':` in the header, a Python dictionary, with spaces skipped; empty if the key is
// missing.
std::string_view after_key(std::string_view header, std::string_view key) {
  const auto found = header.find(key);
  if (found == std::string_view::npos) return {};
  std::string_view rest = header.substr(found + key.size());
  const auto begin = rest.find_first_not_of(": ");
  return begin == std::string_view::npos ? std::string_view() : rest.substr(begin);
}

std::optional<DType> type_of(std::string_view code) {
  static constexpr std::array<std::pair<std::string_view, DType>, 12> kTypes = {{{"b1", DType::u8},
                                                                                 {"u1", DType::u8},
                                                                                 {"i1", DType::i8},
                                                                                 {"u2", DType::u16},
                                                                                 {"i2", DType::i16},
                                                                                 {"u4", DType::u32},
                                                                                 {"i4", DType::i32},
                                                                                 {"u8", DType::u64},
                                                                                 {"i8", DType::i64},
                                                                                 {"f2", DType::f16},
                                                                                 {"f4", DType::f32},
                                                                                 {"f8", DType::f64}}};
  for (const auto& [name, dtype] : kTypes) {
    if (code == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace

NpyFile::NpyFile(std::filesystem::path path) : path_(std::move(path)), bytes_(open_file_source(path_)) {
  std::array<std::byte, 12> start{};
  const std::uint64_t file_bytes = bytes_->size();
  if (file_bytes < start.size()) refuse("is too short for a .npy file");
  bytes_->read(0, start);
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(start[i]); };
  if (std::string_view(reinterpret_cast<const char*>(start.data()), kMagic.size()) != kMagic) {
    refuse("is not a .npy file");
  }
  const std::uint32_t version = byte(6);
  if (version < 1 || version > 3) refuse(fmt::format("is of format {}, which h5feed does not know", version));
  const std::uint64_t prefix = version == 1 ? 10 : 12;
  const std::uint64_t header_bytes =
      version == 1 ? byte(8) | byte(9) << 8U : byte(8) | byte(9) << 8U | byte(10) << 16U | byte(11) << 24U;
  if (header_bytes > kLargestHeader || prefix + header_bytes > file_bytes) refuse("has an impossible header");
  std::string header(static_cast<std::size_t>(header_bytes), '\0');
  bytes_->read(prefix, std::as_writable_bytes(std::span(header)));
  parse_header(header);
  position_ = prefix + header_bytes;

  std::uint64_t bytes = size_of(dtype_);
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (const std::uint64_t extent : shape_) {
    if (extent == 0) refuse("holds nothing: one of its dimensions is 0");
    if (extent > kMost / bytes) refuse("has an impossible shape");
    bytes *= extent;
  }
  if (bytes > file_bytes - position_) {
    refuse(fmt::format("is cut short: its header promises {} {}", format_shape(shape_), name_of(dtype_)));
  }
  if (bytes < file_bytes - position_) refuse("continues after its array");
}

void NpyFile::parse_header(const std::string& header) {
  const std::string_view type = after_key(header, "'descr'");
  // "'<f4'": byte order and code. Records are a list, which does not begin with a quote.
  const auto end = type.size() > 1 ? type.find('\'', 1) : std::string_view::npos;
  if (type.empty() || type.front() != '\'' || end == std::string_view::npos || end < 3) {
    refuse("has elements that are no numbers");
  }
  const char order = type[1];
  const auto dtype = type_of(type.substr(2, end - 2));
  if (!dtype) {
    refuse(fmt::format("has elements of type {}; h5feed packs integers, booleans and floats of 16 to 64 bits",
                       type.substr(1, end - 1)));
  }
  dtype_ = *dtype;
  constexpr char kOther = std::endian::native == std::endian::little ? '>' : '<';
  byte_swapped_ = order == kOther;
  if (!after_key(header, "'fortran_order'").starts_with("False")) {
    refuse("is in Fortran order; save it with numpy.ascontiguousarray");
  }
  std::string_view shape = after_key(header, "'shape'");
  const auto close = shape.find(')');
  if (shape.empty() || shape.front() != '(' || close == std::string_view::npos) refuse("has no shape");
  shape = shape.substr(1, close - 1);
  while (!shape.empty()) {
    const auto comma = shape.find(',');
    std::string_view number = shape.substr(0, comma);
    while (number.starts_with(' ')) number.remove_prefix(1);
    shape = comma == std::string_view::npos ? std::string_view() : shape.substr(comma + 1);
    if (number.empty()) continue;
    std::uint64_t extent = 0;
    const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), extent);
    if (error != std::errc() || rest != number.data() + number.size()) refuse("has an unreadable shape");
    shape_.push_back(extent);
  }
  if (shape_.empty()) refuse("is a single number; samples need a first dimension to count them");
}

void NpyFile::read(std::span<std::byte> out) {
  bytes_->read(position_, out);
  position_ += out.size();
  if (byte_swapped_) swap_byte_order(out, size_of(dtype_));
}

void NpyFile::expect_end() {
  if (position_ != bytes_->size()) refuse("became longer while it was read");
}

void NpyFile::refuse(const std::string& reason) const {
  throw FileError(fmt::format("{} {}; check the file", path_.string(), reason));
}

}  // namespace h5feed::cli
