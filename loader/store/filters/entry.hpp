// SPDX-License-Identifier: Apache-2.0
// The table of filters and their properties. Internal to the filters.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/filters/codecs.hpp"
#include "store/filters/filters.hpp"

namespace h5feed {

/// Codec state that one decoding thread keeps from chunk to chunk. Not thread-safe.
struct CodecState {
  Workspace workspace;
  DeflateDecoder deflate;
  ZstdDecoder zstd;
#if H5FEED_HAS_BLOSC2
  Blosc2Decoder blosc2;
#endif
};

/// Size of encoded data.
struct EncodedSize {
  std::size_t bytes = 0;
  bool exact = false;  ///< False: `bytes` is an upper bound
};

/// The default `encoded_size` of a compressor: a generous upper bound for data that does not compress.
inline EncodedSize compressed_size(const FilterSpec&, std::size_t bytes) noexcept {
  return {.bytes = bytes + bytes / 64 + 64};
}

/// Memory in bytes that `decode` needs in addition to its input and output.
struct DecodeMemory {
  std::size_t kept = 0;       ///< Kept in CodecState for the next stage and chunk
  std::size_t transient = 0;  ///< Allocated and freed by the codec's library
};

/// Position and spelling of a filter's name in the grammar of `--filter`. Empty texts: the name is not
/// allowed in that position.
struct FilterSpelling {
  std::string_view before;      ///< Text before a compressor: "shuffle"
  std::string_view compressor;  ///< Forms as a compressor, for the message that lists them: "gzip:0..9"
  std::string_view after;       ///< Text after everything else: "fletcher32"
};

/// Context of one pipeline stage that is parsed from text.
struct StageContext {
  std::size_t element_bytes = 1;
  bool shuffled = false;  ///< A shuffle precedes the stage
};

/// Describes one filter. Each entry is defined next to its codec and listed in table.cpp; a null function
/// means the default case. Functions are thread-safe as long as each thread passes its own CodecState.
struct FilterEntry {
  /// Registered filter id.
  unsigned id = 0;
  std::string_view name = {};  ///< Name in messages and in the grammar

  /// Returns why h5feed cannot decode the filter with its parameters, as a predicate to follow the filter's
  /// name: "has elements of 0 bytes". Returns an empty string if it can. Null: all parameters are supported.
  std::string (*unsupported)(const FilterSpec& filter) = nullptr;

  /// Returns how the parameters contradict the dataset; an empty string if they do not. Null: they never do.
  std::string (*contradiction)(const FilterSpec& filter, const DatasetInfo& info) = nullptr;

  /// Returns whether the filter, with its parameters, leaves data unchanged and may be skipped. Null: it
  /// always changes data.
  bool (*does_nothing)(const FilterSpec& filter) noexcept = nullptr;

  /// Decodes `in` to the front of `out` and returns the decoded size. Never writes beyond `out`. Throws
  /// FilterError and std::bad_alloc. Null for a filter that has `verify`.
  std::size_t (*decode)(const FilterSpec& filter, std::span<const std::byte> in, std::span<std::byte> out,
                        CodecState& state) = nullptr;

  /// Verifies the checksum of a filter that only adds one, and returns the data, a part of `in`. Throws
  /// FilterError if the checksum does not match. Null for a filter that has `decode`.
  std::span<const std::byte> (*verify)(std::span<const std::byte> in) = nullptr;

  /// Returns `data` encoded. Throws FilterError and std::bad_alloc. Null: h5feed does not write this filter.
  std::vector<std::byte> (*encode)(const FilterSpec& filter, std::vector<std::byte> data) = nullptr;

  /// Returns the encoded size of `bytes` bytes of data. Null: exactly `bytes`.
  EncodedSize (*encoded_size)(const FilterSpec& filter, std::size_t bytes) noexcept = nullptr;

  /// Returns the memory needed to decode to `bytes` bytes. Null: none except the state of the deflate and
  /// zstd decoders.
  DecodeMemory (*decode_memory)(const FilterSpec& filter, std::size_t bytes) noexcept = nullptr;

  /// Adds the element size to the parameters if a writer left it out. Null: writers always store it, or the
  /// filter has no such parameter.
  void (*complete)(FilterSpec& filter, std::size_t element_bytes) = nullptr;

  /// Index of the parameter that holds the chunk size in bytes, or 0 while that size is unknown. Empty: the
  /// filter has no such parameter.
  std::optional<std::size_t> chunk_bytes_place = {};

  /// Number of leading parameters that the filter's public plugin adds itself when writing.
  std::size_t plugin_params = 0;

  /// Spelling in the grammar of `--filter`. Default: not in the grammar.
  FilterSpelling spelling = {};

  /// Parses one stage of text, such as "gzip:4", and returns its parameters; empty if the stage is not of
  /// this filter. Null for a filter without spelling.
  std::optional<std::vector<unsigned>> (*parse)(std::string_view stage,
                                                const StageContext& context) = nullptr;

  /// Returns the grammar's text for the parameters, to follow the filter's name: ":4". Null: no text.
  std::string (*parameter_text)(const std::vector<unsigned>& params) = nullptr;

  /// Whether the filter makes data smaller. False for filters that only rearrange or check it.
  bool compresses = true;

  /// Keyword arguments of h5py's `create_dataset` that write the filter; "{}" stands for its first parameter.
  /// Default: the filter is given by its number.
  std::string_view h5py = {};
};

/// Returns every filter that h5feed decodes, in the order in which the grammar's message lists them.
std::span<const FilterEntry* const> all_filters() noexcept;

/// Returns the entry of the filter `id`; for a filter that h5feed does not decode, an entry without a name
/// whose `unsupported` and `decode` report that.
const FilterEntry& filter_entry(unsigned id) noexcept;

/// Returns parameter number `place` (from 0), or `otherwise` if the filter has fewer.
inline unsigned param(const FilterSpec& filter, std::size_t place, unsigned otherwise) noexcept {
  return place < filter.params.size() ? filter.params[place] : otherwise;
}

/// Returns the filter's parameters parsed by `Params::from`. Throws FilterError if that returns empty, as it
/// does for unsupported parameters.
template <typename Params>
Params parsed(const FilterSpec& filter) {
  const std::optional<Params> params = Params::from(filter.params);
  if (params) return *params;
  throw FilterError(
      fmt::format("filter {} ({}) with these parameters is not built in", filter.id, filter.name));
}

/// Returns the `unsupported` reason of filters whose parameters libhdf5 derives from the dataset.
std::string foreign_parameters(const FilterSpec& filter);

/// Range and default of a compressor's level in the grammar.
struct LevelRange {
  unsigned least;      ///< Lowest level
  unsigned most;       ///< Highest level
  unsigned otherwise;  ///< Default level
};

/// Returns the level in `stage`, "name:LEVEL"; the default level for the bare name; empty for other text or a
/// level out of range.
std::optional<unsigned> level_of(std::string_view stage, std::string_view name, const LevelRange& range);

/// Returns the level in `stage`, "name" or "name:LEVEL", as the only parameter of a filter; empty for other
/// text or a level out of range.
std::optional<std::vector<unsigned>> level_params(std::string_view stage, std::string_view name,
                                                  const LevelRange& range);

/// Returns `params` if the stage is the bare name; empty for other text.
std::optional<std::vector<unsigned>> params_of_name(std::string_view stage, std::string_view name,
                                                    std::vector<unsigned> params);

/// Levels of zstd, both alone and within bitshuffle.
inline constexpr LevelRange kZstdLevels{1, 22, 3};

/// Returns ":4" for a filter whose first parameter is its level, 4 here; an empty string if there is none.
std::string level_text(const std::vector<unsigned>& params);

}  // namespace h5feed
