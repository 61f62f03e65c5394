// SPDX-License-Identifier: Apache-2.0
// HDF5 filter pipelines without libhdf5: thread-safe, with every length checked, as stored bytes may be
// hostile.
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
#include "store/format/dataset_info.hpp"

namespace h5feed {

/// Filter ids: HDF5's own, and those of HDF Group's "Registered Filter Plugins".
namespace filter_id {
inline constexpr unsigned kDeflate = 1, kShuffle = 2, kFletcher32 = 3, kSzip = 4, kNbit = 5, kScaleOffset = 6,
                          kBzip2 = 307, kLzf = 32000, kBlosc = 32001, kLz4 = 32004, kBitshuffle = 32008,
                          kZfp = 32013, kZstd = 32015, kBlosc2 = 32026;
}  // namespace filter_id

struct FilterEntry;

/// Thrown for stored bytes that no writer could have produced. The message has the filter and the reason
/// only; the chunk reader adds file, dataset and chunk and throws ChunkError.
class FilterError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Buffers and codec state of one decoding thread. Not thread-safe; reuse it from chunk to chunk. Move-only.
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

/// The filter pipeline of one dataset. Immutable and thread-safe.
class FilterPipeline {
 public:
  /// Creates the pipeline. `chunk_bytes` is the decoded size of every chunk; `element_bytes` is the size of
  /// one element, used if a shuffle's parameters lack it. Throws FilterError for more than 32 filters.
  FilterPipeline(std::vector<FilterSpec> filters, std::size_t chunk_bytes, std::size_t element_bytes);

  /// Returns whether h5feed itself decodes this filter with these parameters.
  static bool supports(const FilterSpec& filter);

  /// Returns whether `encode` supports this filter. False for szip, nbit, scaleoffset, blosc2 and zfp, which
  /// h5feed decodes but does not write.
  static bool encodes(const FilterSpec& filter);

  /// Returns whether a chunk with this mask is stored without any filter.
  bool skips_all(std::uint32_t filter_mask) const noexcept;

  /// Returns whether the pipeline has no filters: stored bytes are then the chunk's bytes.
  bool empty() const noexcept { return filters_.empty(); }
  /// Returns the filters in the order in which they are applied on writing, with missing parameters filled
  /// in.
  const std::vector<FilterSpec>& filters() const noexcept { return filters_; }

  /// Decodes a chunk: undoes the filters that `filter_mask` does not skip, last to first, and verifies
  /// checksums. `out.size()` must be the chunk size; `raw` is only borrowed for the call. Throws FilterError
  /// on corrupt bytes.
  void decode(std::span<const std::byte> raw, std::uint32_t filter_mask, std::span<std::byte> out,
              DecodeScratch& scratch) const;

  /// Encodes a chunk with every filter, first to last. A deflate stage that would grow the chunk is kept, as
  /// in libhdf5, so the result's filter mask is always 0. Throws std::bad_alloc; FilterError for a filter
  /// that `encodes` rejects, or if all filters together would make the chunk several times larger.
  std::vector<std::byte> encode(std::span<const std::byte> chunk) const;

  /// Returns an upper bound of the stored bytes of a chunk, by any encoder.
  std::size_t max_encoded_bytes() const noexcept { return max_encoded_bytes_; }

  /// Returns an upper bound of the memory in bytes that `decode` needs in addition to `raw` and `out`.
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
  std::uint32_t idle_ = 0;     // Mask of the filters that change nothing
  std::vector<Stage> stages_;  // Stages of chunks whose filter mask is 0
  std::size_t max_encoded_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
};

/// Returns why `FilterPipeline::supports` rejects the filter, as a predicate to follow the filter's name: "is
/// not built in", "has blocks that are no multiple of 8 elements (12)". Returns an empty string if it is
/// supported.
std::string unsupported_reason(const FilterSpec& filter);

/// Returns how a filter's parameters, which libhdf5 derives from the dataset, contradict `info`; an empty
/// string if they do not. No reader can decode the chunks of such a dataset.
std::string contradiction(const FilterSpec& filter, const DatasetInfo& info);

/// Returns `filter` with parameters that writers derive from the dataset filled in if missing or zero: the
/// element size of a shuffle, the chunk size (which readers may ignore) of LZF and blosc.
FilterSpec completed(FilterSpec filter, std::size_t chunk_bytes, std::size_t element_bytes);

/// Returns `filter` with the chunk size, if it is a parameter, set to 0 (unknown); `completed` sets it later.
FilterSpec without_chunk_size(FilterSpec filter);

/// Returns how many of a filter's leading parameters its public libhdf5 plugin adds itself when writing.
std::size_t plugin_params(unsigned id) noexcept;

/// Parses the command line's filter grammar, "none" or "[shuffle+|bitshuffle+]COMPRESSOR[+fletcher32]",
/// into a pipeline for elements of `element_bytes`, with the parameters that the public HDF5 plugins
/// expect. COMPRESSOR is gzip[:0-9], lz4, zstd[:1-22], lzf, bzip2[:1-9], bitshuffle:lz4,
/// bitshuffle:zstd[:1-22] or blosc[:CODEC[:0-9]] with the codec blosclz, lz4, lz4hc, zlib or zstd; it
/// may be left out before "fletcher32". Levels default to gzip 4, zstd 3, bzip2 9, blosc 5, its codec to
/// lz4; blosc shuffles bytes itself unless a shuffle precedes it. Throws OptionError naming what is
/// accepted.
std::vector<FilterSpec> parse_filters(std::string_view text, std::size_t element_bytes);

/// Formats a pipeline for people, in the grammar of `parse_filters`: "shuffle+gzip:4"; "none" for an empty
/// pipeline. Omits parameters that the grammar cannot express.
std::string format_filters(const std::vector<FilterSpec>& filters);

/// Returns the common name of a registered filter, such as "gzip" or "blosc2"; empty for an unknown id.
std::string_view filter_name(unsigned id) noexcept;

/// Returns the ids of all filters that `filter_name` knows; those that h5feed decodes come first.
std::vector<unsigned> named_filters();

/// Returns whether h5feed itself decodes the filter, at least with some parameters.
bool has_own_decoder(unsigned id) noexcept;

/// Returns whether the filter is a compressor; true for a filter that h5feed does not know.
bool compresses(unsigned id) noexcept;

/// Returns the keyword arguments of h5py's `create_dataset` that write the filter:
/// `compression="gzip", compression_opts=4`. Throws std::bad_alloc.
std::string h5py_arguments(const FilterSpec& filter);

}  // namespace h5feed
