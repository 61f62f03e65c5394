// Values of command-line options: text in, checked values out. Every function throws OptionError that
// names the option, the text and what is accepted.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/options.hpp"

namespace h5feed::cli {

/// What the command line calls an option of the library ("batch_size": "--batch-size"), for the messages of
/// the library (base/option_spelling.hpp); empty for those that no command has.
std::optional<std::string> command_line_option(std::string_view name);

/// A whole number within [lowest, highest].
std::uint64_t parse_number(std::string_view option, std::string_view text, std::uint64_t lowest = 0,
                           std::uint64_t highest = UINT64_MAX);

/// A whole number, negative ones too.
std::int64_t parse_integer(std::string_view option, std::string_view text);

/// A whole number from 0 to 2^63 - 1.
std::int64_t parse_count(std::string_view option, std::string_view text);

/// A finite number within [lowest, highest].
double parse_real(std::string_view option, std::string_view text, double lowest, double highest);

/// A percentage above 0 and at most 100, "1%" or "0.5 %", as a share: 0.01, 0.005.
double parse_share(std::string_view option, std::string_view text);

/// Bytes: "4096", "512KiB", "1.5GiB".
std::uint64_t parse_size(std::string_view option, std::string_view text);

/// A time above 0: "3", "3s", "500ms", "2m".
std::chrono::nanoseconds parse_duration(std::string_view option, std::string_view text);

/// "3,224,224" or "3x224x224": extents of at least 1 whose product fits 63 bits. `form`: what a wrong one is
/// told to be.
std::vector<std::uint64_t> parse_shape(std::string_view option, std::string_view text,
                                       const char* form = "the extents of one sample, such as 3,224,224");

/// Tiles as a command line has them; all empty: none.
struct TileText {
  std::string size;     ///< "512", or "512x768": height and width
  std::string stride;   ///< likewise
  std::string overlap;  ///< likewise
  std::string edges;    ///< "drop", "pad" or "shift"
};

/// From --tile-size, --tile-stride, --tile-overlap and --tile-edges; empty without a size, which the others
/// need.
std::optional<TileOptions> parse_tiles(const TileText& text);

/// What one sample is, as a command line has it; all empty: the library's defaults.
struct SampleText {
  std::string unit;          ///< "row" or "dataset"
  std::string image_size;    ///< "224", or "224x320": height and width
  std::string image_color;   ///< "rgb", "bgr", "gray" or "unchanged"
  std::string image_shapes;  ///< a path

  bool empty() const {
    return unit.empty() && image_size.empty() && image_color.empty() && image_shapes.empty();
  }
};

/// From --sample; a row where it is empty.
SampleUnit parse_unit(const SampleText& text);

/// From --image-size, --image-color and --image-shapes.
ImageOptions parse_images(const SampleText& text);

/// "strided", "contiguous" or "by_chunk".
Shard parse_shard(std::string_view option, std::string_view text);

/// "0,1,2,4": numbers from 0 on, at least one.
std::vector<std::int64_t> parse_list(std::string_view option, std::string_view text);

/// One of `allowed`, by h5feed's or NumPy's name.
DType parse_dtype(std::string_view option, std::string_view text, const std::vector<DType>& allowed);

/// "auto", "NCHW", "NHWC", "NHW", "none", in any case.
InputLayout parse_layout(std::string_view option, std::string_view text);

/// Names of the library in either case: "lru", "clairvoyant", "never".
CachePolicy parse_cache_policy(std::string_view option, std::string_view text);

/// Samples per chunk: a number from 1 on; "none" (contiguous) gives 0; "auto" gives nullopt.
std::optional<std::uint64_t> parse_chunk(std::string_view option, std::string_view text, bool allow_auto);

}  // namespace h5feed::cli
