// The table of filters: what h5feed knows of each. Internal to the filters.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/filter_codecs.hpp"
#include "store/filters.hpp"

namespace h5feed {

/// What the codecs of one decoding thread keep from chunk to chunk. Not thread-safe.
struct CodecState {
  Workspace workspace;
  DeflateDecoder deflate;
  ZstdDecoder zstd;
};

/// Size of what a filter makes on writing.
struct EncodedSize {
  std::size_t bytes = 0;
  bool exact = false;  ///< false: `bytes` is the most that it can be
};

/// The usual `encoded_size` of a compressor: it adds little to bytes that it cannot shrink. With room to
/// spare for any encoder.
inline EncodedSize compressed_size(const FilterSpec&, std::size_t bytes) noexcept {
  return {.bytes = bytes + bytes / 64 + 64};
}

/// Memory that `decode` needs beside its input and its output, in bytes.
struct DecodeMemory {
  std::size_t kept = 0;       ///< in CodecState, for the next stage and the next chunk
  std::size_t transient = 0;  ///< allocated and freed by the codec's library
};

/// The place of a filter's name in the grammar of `--filter`. Empty texts: it has none there.
struct FilterSpelling {
  std::string_view before;      ///< in front of a compressor: "shuffle"
  std::string_view compressor;  ///< forms of a compressor, for the message that lists them: "gzip:0..9"
  std::string_view after;       ///< behind all else: "fletcher32"
};

/// What surrounds a stage of a pipeline that is read from text.
struct StageContext {
  std::size_t element_bytes = 1;
  bool shuffled = false;  ///< a shuffle stands before it
};

/// One filter. Each is defined beside its codec and listed in filter_table.cpp; functions that are null
/// stand for the usual case. Functions may run on many threads at once.
struct FilterEntry {
  /// Registered identification, and the name that people and the grammar know it by.
  unsigned id = 0;
  std::string_view name = {};

  /// Why h5feed cannot decode the filter with its parameters, to stand behind its name: "has elements of 0
  /// bytes". Empty where it can. Null: it can with any parameters.
  std::string (*unsupported)(const FilterSpec& filter) = nullptr;

  /// What in the parameters contradicts the dataset; empty where nothing does. Null: nothing ever does.
  std::string (*contradiction)(const FilterSpec& filter, const DatasetInfo& info) = nullptr;

  /// Whether the filter, with its parameters, changes nothing and may be left out. Null: it never does.
  bool (*does_nothing)(const FilterSpec& filter) noexcept = nullptr;

  /// Writes what the filter was given on writing to the front of `out`, and returns its size. Never writes
  /// beyond `out`. Throws FilterError and std::bad_alloc. Null for a filter that has `verify`.
  std::size_t (*decode)(const FilterSpec& filter, std::span<const std::byte> in, std::span<std::byte> out,
                        CodecState& state) = nullptr;

  /// For a filter that leaves the data as they are and adds a checksum: the data, a part of `in`. Throws
  /// FilterError where the checksum does not match.
  std::span<const std::byte> (*verify)(std::span<const std::byte> in) = nullptr;

  /// Throws FilterError and std::bad_alloc. Null: h5feed does not write this filter.
  std::vector<std::byte> (*encode)(const FilterSpec& filter, std::vector<std::byte> data) = nullptr;

  /// Size of `bytes` once encoded. Null: their own, exactly.
  EncodedSize (*encoded_size)(const FilterSpec& filter, std::size_t bytes) noexcept = nullptr;

  /// What decoding to `bytes` needs. Null: nothing beside the state of the deflate and zstd decoders.
  DecodeMemory (*decode_memory)(const FilterSpec& filter, std::size_t bytes) noexcept = nullptr;

  /// Adds the element's size where a writer may leave it out of the parameters. Null: it may not.
  void (*complete)(FilterSpec& filter, std::size_t element_bytes) = nullptr;

  /// The parameter that holds the chunk's size, and is 0 until that is known.
  std::optional<std::size_t> chunk_bytes_place = {};

  /// Leading parameters that the filter's public plugin puts in front by itself on writing.
  std::size_t plugin_params = 0;

  FilterSpelling spelling = {};

  /// The parameters that one stage of text, such as "gzip:4", stands for; nothing where it is not of this
  /// filter. Null without a spelling.
  std::optional<std::vector<unsigned>> (*parse)(std::string_view stage,
                                                const StageContext& context) = nullptr;

  /// What the grammar says of the parameters behind the name: ":4". Null: nothing.
  std::string (*parameter_text)(const std::vector<unsigned>& params) = nullptr;
};

/// Every filter that h5feed decodes, in the order in which the grammar's message lists them.
std::span<const FilterEntry* const> all_filters() noexcept;

/// The filter of that identification; for one that h5feed does not decode an entry without name whose
/// `unsupported` and `decode` say so.
const FilterEntry& filter_entry(unsigned id) noexcept;

/// Parameter number `place`, or `otherwise` where the filter has fewer.
inline unsigned param(const FilterSpec& filter, std::size_t place, unsigned otherwise) noexcept {
  return place < filter.params.size() ? filter.params[place] : otherwise;
}

/// The parameters of a filter by `Params::from`. Throws FilterError where that gives nothing, as it does for
/// filters that are not supported.
template <typename Params>
Params parsed(const FilterSpec& filter) {
  const std::optional<Params> params = Params::from(filter.params);
  if (params) return *params;
  throw FilterError(
      fmt::format("filter {} ({}) with these parameters is not built in", filter.id, filter.name));
}

/// The reason of `unsupported` for filters whose parameters libhdf5 derives from the dataset.
std::string foreign_parameters(const FilterSpec& filter);

/// Levels of a compressor in the grammar.
struct LevelRange {
  unsigned least;
  unsigned most;
  unsigned otherwise;  ///< where the text names none
};

/// The level behind "name:" in `stage`; the usual one for the bare name; nothing for other text.
std::optional<unsigned> level_of(std::string_view stage, std::string_view name, const LevelRange& range);

/// The same as the parameters of a filter that has no others.
std::optional<std::vector<unsigned>> level_params(std::string_view stage, std::string_view name,
                                                  const LevelRange& range);

/// `params` where the stage is the bare name; nothing for other text.
std::optional<std::vector<unsigned>> params_of_name(std::string_view stage, std::string_view name,
                                                    std::vector<unsigned> params);

/// Levels of zstd, alone and within bitshuffle.
inline constexpr LevelRange kZstdLevels{1, 22, 3};

/// ":4" for a filter whose first parameter is its level; "" where there is none.
std::string level_text(const std::vector<unsigned>& params);

}  // namespace h5feed
