// SPDX-License-Identifier: Apache-2.0
// Datasets drawn at random, with bad chunks planted in a second copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "h5feed/dataset.hpp"
#include "store/write/h5_writer.hpp"
#include "stress/random_runs/draw.hpp"

namespace h5feed::test {

/// One dataset of several files, stored in a random way: /images, /labels whose value is the number of the
/// row, and perhaps /pose of fixed and /boxes of variable length. Immutable; thread-safe.
class RandomData {
 public:
  /// Draws the dataset and writes it twice into `folder`: whole and, if it can have bad chunks, with some.
  RandomData(Draw& draw, const std::filesystem::path& folder);

  /// Opens the copy without bad chunks, and the subset of it that was drawn.
  Dataset whole() const { return opened(false); }
  /// Opens the copy with bad chunks, likewise. Some of its reads may take a while, and
  /// another process may read its metadata.
  Dataset damaged() const { return opened(true); }

  /// Number of samples that take part.
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(chosen_.size()); }
  /// Sample numbers of those that take part, in the order of the subset.
  const std::vector<std::int64_t>& chosen() const noexcept { return chosen_; }
  bool has_bad() const noexcept { return !bad_rows_.empty(); }
  bool is_bad(std::int64_t sample) const { return bad_rows_.contains(row_of(sample)); }
  /// Planted bad chunks of the data.
  std::size_t bad_chunks() const noexcept { return bad_chunks_; }
  /// Chunks of rows of all files; K of `chunk:K` is at most this, if all samples take part.
  std::int64_t chunks() const noexcept { return chunks_; }
  bool is_subset() const noexcept { return subset_; }
  bool has_tiles() const noexcept { return per_row_ > 1; }
  bool are_images() const noexcept { return images_; }
  bool unfiltered() const noexcept { return filters_.empty() && !encoded_; }
  DType dtype() const noexcept { return dtype_; }
  std::uint64_t sample_bytes() const noexcept;

  /// Row of all files together that holds the sample, which is also its label.
  std::int64_t row_of(std::int64_t sample) const noexcept { return sample / per_row_; }
  /// Number of the file that holds the row, and the row in it.
  std::pair<std::size_t, std::int64_t> place_of(std::int64_t row) const;
  /// Stored bytes of a sample; none if delivery changes their order, or they are encoded.
  std::optional<std::vector<std::byte>> stored(std::int64_t sample) const;
  bool has_fields() const noexcept { return fields_; }
  Collate boxes_collate() const noexcept { return boxes_collate_; }
  static std::vector<float> pose(std::int64_t row);
  static std::vector<float> boxes(std::int64_t row);

  /// One line.
  const std::string& text() const noexcept { return text_; }

 private:
  void draw_shape(Draw& draw);
  void draw_storage(Draw& draw);
  void draw_tiles(Draw& draw);
  void draw_faults(Draw& draw);
  void draw_subset(Draw& draw);
  void describe();
  std::vector<std::byte> row_bytes(std::int64_t row) const;
  std::vector<std::byte> encoded_image(std::int64_t row) const;
  void write(const std::filesystem::path& folder, bool with_faults) const;
  void write_numbers(H5Writer& writer, std::size_t file, bool with_faults) const;
  void write_encoded(H5Writer& writer, std::size_t file, bool with_faults) const;
  Dataset opened(bool with_faults) const;
  std::int64_t rows() const noexcept { return first_rows_.back(); }
  bool is_bad_chunk(std::size_t file, const std::vector<std::uint64_t>& chunk) const;

  std::filesystem::path folder_;
  DType dtype_ = DType::u8;
  bool images_ = false;
  bool encoded_ = false;
  std::string encoding_;
  InputLayout layout_ = InputLayout::none;
  std::vector<std::uint64_t> sample_shape_;
  std::vector<std::uint64_t> chunk_shape_;  // with the rows; empty: contiguous
  std::vector<FilterSpec> filters_;
  std::vector<std::int64_t> first_rows_ = {0};  // of each file, and behind the last
  std::optional<TileOptions> tiles_;
  std::int64_t per_row_ = 1;
  std::int64_t chunks_ = 1;
  bool fields_ = false;
  Collate boxes_collate_ = Collate::ragged;
  bool slow_ = false;
  bool isolated_ = false;
  bool subset_ = false;
  std::vector<std::int64_t> chosen_;
  std::set<std::int64_t> bad_rows_;
  std::set<std::pair<std::size_t, std::vector<std::uint64_t>>> bad_places_;  // file and chunk
  std::size_t bad_chunks_ = 0;
  std::string text_;
};

}  // namespace h5feed::test
