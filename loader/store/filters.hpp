// HDF5 filter pipelines without libhdf5: thread-safe, length-checked on hostile input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_buffer.hpp"
#include "store/dataset_info.hpp"

namespace h5feed {

/// Filter identifications: HDF5's own, and those of HDF Group's "Registered Filter Plugins".
namespace filter_id {
inline constexpr unsigned kDeflate = 1, kShuffle = 2, kFletcher32 = 3, kSzip = 4, kScaleOffset = 6,
                          kBzip2 = 307, kLzf = 32000, kBlosc = 32001, kLz4 = 32004, kBitshuffle = 32008,
                          kZstd = 32015;
}  // namespace filter_id

struct FilterEntry;

/// Stored bytes that no writer could have produced. Carries the filter and the reason only; the
/// chunk reader adds file, dataset and chunk and throws ChunkError.
class FilterError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Buffers and codec state of one decoding thread. Not thread-safe; reuse it across chunks.
class DecodeScratch {
 public:
  DecodeScratch();
  DecodeScratch(DecodeScratch&&) noexcept;
  DecodeScratch& operator=(DecodeScratch&&) noexcept;
  ~DecodeScratch();

 private:
  friend class FilterPipeline;
  struct State;
  std::unique_ptr<State> state_;
};

/// The filters of one dataset. Immutable; `decode` and `encode` may run on many threads at once.
class FilterPipeline {
 public:
  /// `chunk_bytes` is the decoded size of every chunk; `element_bytes` that of one element, used by a
  /// shuffle whose parameters do not say. Throws FilterError for more than 32 filters.
  FilterPipeline(std::vector<FilterSpec> filters, std::size_t chunk_bytes, std::size_t element_bytes);

  /// Whether h5feed decodes this filter, with these parameters, itself.
  static bool supports(const FilterSpec& filter);

  /// Whether `encode` applies this filter: h5feed decodes szip and scaleoffset, and writes neither.
  static bool encodes(const FilterSpec& filter);

  /// Whether a chunk with this mask is stored without any filter.
  bool skips_all(std::uint32_t filter_mask) const noexcept;

  /// True when there is no filter: stored bytes are the chunk's bytes.
  bool empty() const noexcept { return filters_.empty(); }
  const std::vector<FilterSpec>& filters() const noexcept { return filters_; }

  /// Undoes the filters that `filter_mask` does not skip, last to first. `out.size()` must be the
  /// chunk size; `raw` is not kept. Checksums are verified. Throws FilterError on corrupt bytes.
  void decode(std::span<const std::byte> raw, std::uint32_t filter_mask, std::span<std::byte> out,
              DecodeScratch& scratch) const;

  /// Applies every filter, first to last. A deflate stage that would grow the chunk is kept, as
  /// libhdf5 keeps it, so the result's mask is always 0. Throws std::bad_alloc, and FilterError for
  /// a filter that `encodes` refuses, and for filters that together make several times as much of a chunk.
  std::vector<std::byte> encode(std::span<const std::byte> chunk) const;

  /// Upper bound of what any encoder makes of a chunk.
  std::size_t max_encoded_bytes() const noexcept { return max_encoded_bytes_; }

  /// Upper bound of memory `decode` needs beside `raw` and `out`.
  std::size_t scratch_bytes() const noexcept { return scratch_bytes_; }

 private:
  // One filter of the table, and the size of what it was given on writing: exact, unless a compressor ran
  // before, else the most that it can be.
  struct Stage {
    const FilterEntry* entry;
    std::size_t given_bytes;
    bool exact;
  };

  // One for each of `filters_`, where `mask` skips some, and one without entry for what is stored.
  std::vector<Stage> stages_under(std::uint32_t mask) const;

  std::size_t scratch_for(const std::vector<Stage>& stages) const noexcept;

  std::vector<FilterSpec> filters_;
  std::size_t chunk_bytes_;
  std::uint32_t idle_ = 0;     // a mask of the filters that change nothing
  std::vector<Stage> stages_;  // under `idle_`: what all chunks need whose mask is 0
  std::size_t max_encoded_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
};

/// Why `supports` refuses the filter, to stand behind its name: "is not built in", "has blocks that are no
/// multiple of 8 elements (12)". Empty where it does not.
std::string unsupported_reason(const FilterSpec& filter);

/// What in a filter's parameters, which libhdf5 derives from the dataset, contradicts `info`; empty where
/// nothing does. Chunks of such a dataset cannot be decoded by anyone.
std::string contradiction(const FilterSpec& filter, const DatasetInfo& info);

/// `filter` with the parameters that writers derive from the dataset where it has none or zero: the
/// element's size of a shuffle, the chunk's size (which readers may ignore) of LZF and blosc.
FilterSpec completed(FilterSpec filter, std::size_t chunk_bytes, std::size_t element_bytes);

/// `filter` for chunks of a size that is not known yet: `completed` then sets it.
FilterSpec without_chunk_size(FilterSpec filter);

/// How many of a filter's leading parameters its public plugin for libhdf5 puts in front by itself on
/// writing.
std::size_t plugin_params(unsigned id) noexcept;

/// Parses the command line's filter grammar, "none" or "[shuffle+|bitshuffle+]COMPRESSOR[+fletcher32]",
/// into a pipeline for elements of `element_bytes`, with the parameters that the public HDF5 plugins
/// expect. COMPRESSOR is gzip[:0-9], lz4, zstd[:1-22], lzf, bzip2[:1-9], bitshuffle:lz4,
/// bitshuffle:zstd[:1-22] or blosc[:CODEC[:0-9]] with the codec blosclz, lz4, lz4hc, zlib or zstd; it
/// may be left out before "fletcher32". Levels default to gzip 4, zstd 3, bzip2 9, blosc 5, its codec to
/// lz4; blosc shuffles bytes itself unless a shuffle precedes it. Throws OptionError naming what is
/// accepted.
std::vector<FilterSpec> parse_filters(std::string_view text, std::size_t element_bytes);

/// The inverse, for people: "shuffle+gzip:4"; "none" for an empty pipeline. Parameters that the grammar
/// cannot say are left out.
std::string format_filters(const std::vector<FilterSpec>& filters);

/// Common name of a registered filter, "gzip" or "blosc2"; empty for an unknown identification.
std::string_view filter_name(unsigned id) noexcept;

/// The identifications that have one, those that h5feed decodes first.
std::vector<unsigned> named_filters();

/// Whether h5feed decodes the filter itself, at least with some parameters.
bool has_own_decoder(unsigned id) noexcept;

}  // namespace h5feed
