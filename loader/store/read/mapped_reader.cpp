// SPDX-License-Identifier: Apache-2.0
#include "store/read/mapped_reader.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/unfetched_chunk_reader.hpp"

namespace h5feed {
namespace {

std::vector<std::size_t> longer_than_one(const Selection& selection) {
  std::vector<std::size_t> dimensions;
  for (std::size_t d = 0; d < selection.size(); ++d) {
    if (selection[d].extent() > 1) dimensions.push_back(d);
  }
  return dimensions;
}

// Returns the bytes between neighbours along each dimension of a row-major array.
std::vector<std::size_t> steps_of(const std::vector<std::uint64_t>& shape, std::size_t element_bytes) {
  std::vector<std::size_t> steps(shape.size());
  std::size_t step = element_bytes;
  for (std::size_t d = shape.size(); d-- > 0;) {
    steps[d] = step;
    step *= shape[d];
  }
  return steps;
}

// The numbers [first, end) of a selected dimension whose indices are in one chunk of the source.
struct Slice {
  std::uint64_t chunk;  // Coordinate of the chunk in this dimension
  std::uint64_t base;   // Index of the chunk's first element; modulo 2^64, if rows in front of it are skipped
  std::uint64_t first;
  std::uint64_t end;
};

// The places of some selected indices in an array in memory: `step` bytes from one index to the next, the
// first byte being that of index `base`.
struct Side {
  const SelectedIndices* indices;
  std::uint64_t base;
  std::size_t step;

  std::size_t offset(std::uint64_t number) const noexcept { return (indices->at(number) - base) * step; }
};

// One dimension of a copy: `count` numbers of both selections from `first` on.
struct Loop {
  Side from;
  Side to;
  std::uint64_t first;
  std::uint64_t count;

  // Whether the places are one run of elements of `unit` bytes on both sides.
  bool dense(std::size_t unit) const noexcept {
    return from.step == unit && to.step == unit && from.indices->run_from(first) >= count &&
           to.indices->run_from(first) >= count;
  }
};

// A copy of elements from a chunk of a source into a chunk of the dataset.
struct Copy {
  std::vector<Loop> loops;
  std::size_t unit;  // Bytes that are copied at each place of the loops
  std::size_t from_offset = 0;
  std::size_t to_offset = 0;

  // Takes the innermost loops into `unit` as far as their elements follow each other.
  void merge() {
    while (!loops.empty() && loops.back().dense(unit)) {
      const Loop& loop = loops.back();
      from_offset += loop.from.offset(loop.first);
      to_offset += loop.to.offset(loop.first);
      unit *= loop.count;
      loops.pop_back();
    }
  }

  void run(const std::byte* from, std::byte* to) const noexcept {
    run(loops, from + from_offset, to + to_offset);
  }

 private:
  void run(std::span<const Loop> rest, const std::byte* from, std::byte* to) const noexcept {
    if (rest.empty()) {
      std::memcpy(to, from, unit);
      return;
    }
    const Loop& loop = rest.front();
    for (std::uint64_t number = loop.first; number < loop.first + loop.count; ++number)
      run(rest.subspan(1), from + loop.from.offset(number), to + loop.to.offset(number));
  }
};

// The last chunk of a source that was decoded.
struct Decoded {
  ByteBuffer values;
  const ChunkReader* source = nullptr;
  std::uint64_t chunk = 0;
};

// A mapping, and which of its dimensions correspond.
class Mapped {
 public:
  Mapped(SourceMapping mapping, std::size_t element_bytes)
      : mapping_(std::move(mapping)),
        element_bytes_(element_bytes),
        from_steps_(steps_of(mapping_.source->chunk_shape(), element_bytes)),
        to_of_(mapping_.from.size(), kNone) {
    const std::vector<std::size_t> from = longer_than_one(mapping_.from);
    const std::vector<std::size_t> to = longer_than_one(mapping_.to);
    for (std::size_t i = 0; i < from.size(); ++i) to_of_[from[i]] = to[i];
  }

  const ChunkReader& source() const noexcept { return *mapping_.source; }
  const SelectedIndices& rows() const noexcept { return mapping_.to.front(); }

  // Calls `use(chunk, copy)` for each chunk of the source that has elements of `rows`. `to_steps` belong to
  // an array that begins with the first of them.
  template <typename Use>
  void for_each_chunk(RowLayout::Rows rows, std::span<const std::size_t> to_steps, const Use& use) const {
    if (this->rows().below(rows.first) == this->rows().below(rows.end)) return;
    std::vector<std::vector<Slice>> slices(mapping_.from.size());
    for (std::size_t d = 0; d < slices.size(); ++d) {
      slices[d] = slices_of(d, rows);
      if (slices[d].empty()) return;
    }
    std::vector<std::size_t> chosen(slices.size(), 0);
    for (;;) {
      use_chunk(slices, chosen, rows.first, to_steps, use);
      std::size_t d = chosen.size();
      while (d > 0 && ++chosen[d - 1] == slices[d - 1].size()) chosen[--d] = 0;
      if (d == 0) return;
    }
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  // Divides the selected indices of dimension `d` that belong to `rows` by the chunks of the source.
  std::vector<Slice> slices_of(std::size_t d, RowLayout::Rows rows) const {
    const SelectedIndices& from = mapping_.from[d];
    const bool by_rows = to_of_[d] == 0;
    std::uint64_t number = by_rows ? this->rows().below(rows.first) : 0;
    const std::uint64_t end = by_rows ? this->rows().below(rows.end) : from.extent();
    std::vector<Slice> slices;
    while (number < end) {
      Slice slice = chunk_of(d, from.at(number));
      slice.first = number;
      slice.end = number = std::min(end, from.below(slice.end));
      slices.push_back(slice);
    }
    return slices;
  }

  // Returns the chunk of the source that has `index` of dimension `d`; its `end` is an index.
  Slice chunk_of(std::size_t d, std::uint64_t index) const {
    if (d == 0) {
      const RowLayout& layout = source().rows();
      const std::uint64_t chunk = layout.chunk_of(index);
      return {chunk, index - layout.place_in_chunk(index), 0, layout.rows_of(chunk).end};
    }
    const std::uint64_t extent = source().chunk_shape()[d];
    const std::uint64_t chunk = index / extent;
    return {chunk, chunk * extent, 0, (chunk + 1) * extent};
  }

  template <typename Use>
  void use_chunk(const std::vector<std::vector<Slice>>& slices, const std::vector<std::size_t>& chosen,
                 std::uint64_t first_row, std::span<const std::size_t> to_steps, const Use& use) const {
    Copy copy{.loops = {}, .unit = element_bytes_};
    std::uint64_t chunk = 0;
    for (std::size_t d = 0; d < slices.size(); ++d) {
      const Slice& slice = slices[d][chosen[d]];
      chunk = (d == 0 ? 0 : chunk * source().grid()[d]) + slice.chunk;
      const Side from{&mapping_.from[d], slice.base, from_steps_[d]};
      if (to_of_[d] == kNone) {
        copy.from_offset += from.offset(0);
      } else {
        const std::size_t t = to_of_[d];
        const Side to{&mapping_.to[t], t == 0 ? first_row : 0, to_steps[t]};
        copy.loops.push_back({from, to, slice.first, slice.end - slice.first});
      }
    }
    for (std::size_t t = 0; t < mapping_.to.size(); ++t) {
      if (mapping_.to[t].extent() == 1)
        copy.to_offset += Side{&mapping_.to[t], t == 0 ? first_row : 0, to_steps[t]}.offset(0);
    }
    copy.merge();
    use(chunk, copy);
  }

  const SourceMapping mapping_;
  const std::size_t element_bytes_;
  const std::vector<std::size_t> from_steps_;
  std::vector<std::size_t> to_of_;  // For each dimension of the source that of the dataset, or kNone
};

class MappedReader final : public UnfetchedChunkReader {
 public:
  MappedReader(DatasetInfo info, std::vector<std::uint64_t> chunk_shape, std::vector<SourceMapping> mappings)
      : UnfetchedChunkReader(std::move(info), std::move(chunk_shape)),
        steps_(steps_of(chunk_shape_, size_of(info_.dtype))) {
    max_stored_bytes_ = 0;
    mappings_.reserve(mappings.size());
    for (SourceMapping& mapping : mappings) {
      const ChunkReader& source = *mapping.source;
      scratch_bytes_ = std::max(scratch_bytes_, source.scratch_bytes() + source.chunk_bytes());
      if (!source.direct() && fallback_reason_.empty()) fallback_reason_ = source.fallback_reason();
      direct_ = direct_ && source.direct();
      mappings_.emplace_back(std::move(mapping), size_of(info_.dtype));
    }
    by_row_.reserve(mappings_.size());
    for (std::size_t i = 0; i < mappings_.size(); ++i)
      by_row_.push_back({mappings_[i].rows().start, mappings_[i].rows().end(), i});
    std::ranges::sort(by_row_, {}, &Place::first);
    std::uint64_t end = 0;
    for (Place& place : by_row_) place.end = end = std::max(end, place.end);
  }

  std::uint64_t scratch_bytes() const noexcept override { return scratch_bytes_; }
  bool direct() const noexcept override { return direct_; }
  std::string fallback_reason() const override { return fallback_reason_; }
  std::vector<FilterSpec> decoded_filters() const override {
    std::vector<FilterSpec> filters;
    for (const Mapped& mapped : mappings_) add_filters(filters, mapped.source().decoded_filters());
    return filters;
  }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    const RowLayout::Rows rows = rows_.rows_of(chunk);
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    fill_with(info_.fill_value, out.first(rows.count() * info_.row_bytes()));
    cost.decode_ns += now_ns() - begin;
    // Taken, because a source may be put together likewise and use the same place.
    Decoded decoded{.values = std::exchange(scratch.part, {})};
    for (const std::size_t number : mappings_of(rows)) {
      const Mapped& mapped = mappings_[number];
      mapped.for_each_chunk(rows, steps_, [&](std::uint64_t from_chunk, const Copy& copy) {
        cost += take(mapped.source(), from_chunk, copy, out, decoded, scratch);
      });
    }
    scratch.part = std::move(decoded.values);
    return cost;
  }

 private:
  // A mapping in the order of first rows.
  struct Place {
    std::uint64_t first;
    std::uint64_t end;  // Of this and all mappings before it
    std::size_t mapping;
  };

  // Returns the mappings that may have elements of `rows`, in the order in which they count.
  std::vector<std::size_t> mappings_of(RowLayout::Rows rows) const {
    auto place = std::ranges::upper_bound(by_row_, rows.first, {}, &Place::end);
    std::vector<std::size_t> numbers;
    for (; place != by_row_.end() && place->first < rows.end; ++place) numbers.push_back(place->mapping);
    std::ranges::sort(numbers);
    return numbers;
  }

  static ReadCost take(const ChunkReader& source, std::uint64_t chunk, const Copy& copy,
                       std::span<std::byte> out, Decoded& decoded, ReadScratch& scratch) {
    const bool there = decoded.source == &source && decoded.chunk == chunk;
    if (!there) {
      // Sources may be put together themselves, and be read many times.
      check_interrupt();
    }
    if (!there && copy.loops.empty() && copy.unit == source.chunk_bytes())
      return source.read_chunk(chunk, out.subspan(copy.to_offset, copy.unit), scratch);
    ReadCost cost;
    if (!there) {
      decoded.source = nullptr;
      decoded.values.resize_discard(static_cast<std::size_t>(source.chunk_bytes()));
      cost = source.read_chunk(chunk, decoded.values.span(), scratch);
      decoded.source = &source;
      decoded.chunk = chunk;
    }
    const std::uint64_t begin = now_ns();
    copy.run(decoded.values.data(), out.data());
    cost.decode_ns += now_ns() - begin;
    return cost;
  }

  const std::vector<std::size_t> steps_;
  std::vector<Mapped> mappings_;
  std::vector<Place> by_row_;
  std::uint64_t scratch_bytes_ = 0;
  std::string fallback_reason_;
  bool direct_ = true;
};

}  // namespace

bool dimensions_correspond(const Selection& to, const Selection& from) {
  return std::ranges::equal(longer_than_one(to), longer_than_one(from),
                            [&](std::size_t t, std::size_t f) { return to[t].extent() == from[f].extent(); });
}

std::shared_ptr<const ChunkReader> make_mapped_reader(DatasetInfo info, std::uint64_t rows_per_chunk,
                                                      std::vector<SourceMapping> mappings) {
  std::vector<std::uint64_t> chunk_shape;
  for (const std::uint64_t extent : info.shape) chunk_shape.push_back(std::max<std::uint64_t>(extent, 1));
  chunk_shape.front() = rows_per_chunk;
  return std::make_shared<const MappedReader>(std::move(info), std::move(chunk_shape), std::move(mappings));
}

std::shared_ptr<const ChunkReader> on_grid(std::shared_ptr<const ChunkReader> reader) {
  if (reader->regular()) return reader;
  DatasetInfo info = reader->info();
  Selection all;
  for (const std::uint64_t extent : info.shape) all.push_back(SelectedIndices::run_of(0, extent));
  const std::uint64_t rows_per_chunk = reader->rows().rows_per_chunk();
  return make_mapped_reader(std::move(info), rows_per_chunk, {{std::move(reader), all, all}});
}

}  // namespace h5feed
