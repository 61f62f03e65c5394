// SPDX-License-Identifier: Apache-2.0
// Converts the text of command-line options to checked values. Every function throws OptionError that names
// the option, the text and the accepted values.
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

/// Returns the command-line spelling of a library option ("batch_size": "--batch-size") for the library's
/// messages (base/option_spelling.hpp); empty if no command has that option.
std::optional<std::string> command_line_option(std::string_view name);

/// Parses a whole number within [lowest, highest].
std::uint64_t parse_number(std::string_view option, std::string_view text, std::uint64_t lowest = 0,
                           std::uint64_t highest = UINT64_MAX);

/// Parses a whole number, which may be negative.
std::int64_t parse_integer(std::string_view option, std::string_view text);

/// Parses a whole number from 0 to 2^63 - 1.
std::int64_t parse_count(std::string_view option, std::string_view text);

/// Parses a finite number within [lowest, highest].
double parse_real(std::string_view option, std::string_view text, double lowest, double highest);

/// Parses a percentage above 0 and at most 100, "1%" or "0.5 %", as a share: 0.01, 0.005.
double parse_share(std::string_view option, std::string_view text);

/// Parses a number of bytes: "4096", "512KiB", "1.5GiB".
std::uint64_t parse_size(std::string_view option, std::string_view text);

/// Parses a time above 0: "3", "3s", "500ms", "2m".
std::chrono::nanoseconds parse_duration(std::string_view option, std::string_view text);

/// Parses "3,224,224" or "3x224x224": extents of at least 1 whose product fits in 63 bits. `form` describes
/// the expected text in the error message.
std::vector<std::uint64_t> parse_shape(std::string_view option, std::string_view text,
                                       const char* form = "the extents of one sample, such as 3,224,224");

/// Tile options as typed; all empty: no tiles.
struct TileText {
  std::string size;            ///< "512", "512x768": height and width, or "64x128x128": depth too
  std::string stride;          ///< As `size`
  std::string overlap;         ///< As `size`
  std::string edges;           ///< "drop", "pad" or "shift"
  std::string per_image;       ///< Tiles at random places of each image
  std::string foreground;      ///< Probability that they are centred on labels
  std::string min_foreground;  ///< Smallest share of labelled pixels in a tile
  std::string turns;           ///< "none", "flips", "planar" or "all"
};

/// Parses --tile-size and the other options of tiles, which require it; empty without a size.
std::optional<TileOptions> parse_tiles(const TileText& text);

/// Sample and image options as typed; all empty: the library's defaults.
struct SampleText {
  std::string unit;          ///< "row" or "dataset"
  std::string image_size;    ///< "224", or "224x320": height and width
  std::string image_color;   ///< "rgb", "bgr", "gray" or "unchanged"
  std::string image_shapes;  ///< a path
};

/// Parses --sample; a row if it is empty.
SampleUnit parse_unit(const SampleText& text);

/// Parses --image-size, --image-color and --image-shapes.
ImageOptions parse_images(const SampleText& text);

/// Parses "strided", "contiguous" or "by_chunk", in any case.
Shard parse_shard(std::string_view option, std::string_view text);

/// Parses "0,1,2,4": one or more numbers from 0 on.
std::vector<std::int64_t> parse_list(std::string_view option, std::string_view text);

/// Parses "0,2,auto": numbers of workers, one or more; `kAuto` for "auto".
std::vector<std::int64_t> parse_workers(std::string_view option, std::string_view text);

/// Parses one of `allowed`, by its name in h5feed or NumPy.
DType parse_dtype(std::string_view option, std::string_view text, const std::vector<DType>& allowed);

/// Parses a word of `InputLayout`, such as "auto", "NCHW" or "none", in any case.
InputLayout parse_layout(std::string_view option, std::string_view text);

/// Parses "lru", "clairvoyant" or "keep_first", in any case.
CachePolicy parse_cache_policy(std::string_view option, std::string_view text);

/// Parses "fail", "skip" or "replace", in any case.
OnError parse_on_error(std::string_view option, std::string_view text);

/// Parses samples per chunk: a number from 1 on; "none" (contiguous) gives 0; "auto" gives nullopt.
std::optional<std::uint64_t> parse_chunk(std::string_view option, std::string_view text, bool allow_auto);

}  // namespace h5feed::cli
