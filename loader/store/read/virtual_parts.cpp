// SPDX-License-Identifier: Apache-2.0
#include "store/read/virtual_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/byte_units.hpp"
#include "store/format/chunk_geometry.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kMostChunkBytes = 128 * kMiB;

// Rows [first, end) and the numbers of the mappings that have elements of them, and of no others.
struct RowGroup {
  std::uint64_t first;
  std::uint64_t end;
  std::vector<std::size_t> mappings;
};

// Divides `rows` rows so that each mapping is in one group. Rows without a source are groups without one.
std::vector<RowGroup> grouped(std::uint64_t rows, const std::vector<SourceMapping>& mappings) {
  std::vector<std::size_t> order(mappings.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return mappings[i].to.front().start; });
  std::vector<RowGroup> groups;
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    const SelectedIndices& taken = mappings[i].to.front();
    if (taken.start > end) groups.push_back({end, taken.start, {}});
    if (taken.start >= end) groups.push_back({taken.start, taken.end(), {}});
    end = std::max(end, taken.end());
    groups.back().end = end;
    groups.back().mappings.push_back(i);
  }
  if (end < rows) groups.push_back({end, rows, {}});
  for (RowGroup& group : groups) std::ranges::sort(group.mappings);
  return groups;
}

bool covers(const Selection& selection, const std::vector<std::uint64_t>& shape, std::size_t dimension) {
  for (std::size_t d = dimension; d < selection.size(); ++d) {
    if (!selection[d].covers(shape[d])) return false;
  }
  return true;
}

bool same_inner_shape(const DatasetInfo& source, const DatasetInfo& whole, std::size_t dimension) {
  return std::equal(source.shape.begin() + static_cast<std::ptrdiff_t>(dimension), source.shape.end(),
                    whole.shape.begin() + 1, whole.shape.end());
}

// Returns the mapping as a part, if its elements are consecutive whole rows of its source, or the source is
// one row as a whole; else a part without a reader.
JoinedPart as_whole_rows(const DatasetInfo& info, const SourceMapping& mapping) {
  const DatasetInfo& source = mapping.source->info();
  const SelectedIndices& rows = mapping.to.front();
  if (!rows.consecutive() || !covers(mapping.to, info.shape, 1)) return {};
  if (mapping.from.size() == mapping.to.size()) {
    const SelectedIndices& taken = mapping.from.front();
    if (!taken.consecutive() || !same_inner_shape(source, info, 1)) return {};
    if (!covers(mapping.from, source.shape, 1)) return {};
    return {mapping.source, taken.start, rows.extent()};
  }
  if (rows.extent() != 1 || !same_inner_shape(source, info, 0) || !covers(mapping.from, source.shape, 0))
    return {};
  return {as_one_row(mapping.source), 0, 1};
}

// Where chunks of the dataset begin that have the same elements as those of the source.
struct Chunking {
  std::uint64_t rows = 1;     // Of each chunk
  std::uint64_t skipped = 0;  // Rows of the first chunk in front of the group

  bool operator==(const Chunking&) const = default;
};

Chunking chunking_of(const SourceMapping& mapping, const RowGroup& group) {
  const SelectedIndices& to = mapping.to.front();
  if (to.extent() == 1) return {};
  // The first dimension of the source that has more than one index corresponds to the rows.
  std::size_t d = 0;
  while (mapping.from[d].extent() == 1) ++d;
  const SelectedIndices& from = mapping.from[d];
  const std::uint64_t height =
      d == 0 ? mapping.source->rows().rows_per_chunk() : mapping.source->chunk_shape()[d];
  const std::uint64_t most = group.end - group.first;
  if (to.consecutive() && from.consecutive()) {
    if (height >= most) return {most, 0};
    const bool regular = d > 0 || mapping.source->rows().regular();
    return {height,
            regular ? (from.start % height + height - (to.start - group.first) % height) % height : 0};
  }
  // As many rows as have the selected indices of one chunk.
  const auto spread = [](const SelectedIndices& indices) {
    return indices.consecutive() ? 1.0
                                 : static_cast<double>(indices.stride) / static_cast<double>(indices.block);
  };
  const double rows = static_cast<double>(height) * spread(to) / spread(from);
  return {
      rows >= static_cast<double>(most) ? most : std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rows)),
      0};
}

// Returns the chunking of the mapping with the highest chunks, without skipped rows if another one begins its
// chunks elsewhere.
Chunking common_chunking(const DatasetInfo& info, const std::vector<SourceMapping>& mappings,
                         const RowGroup& group) {
  if (group.mappings.empty()) return {std::min(rows_as_chunks(info).front(), group.end - group.first), 0};
  Chunking common;
  for (const std::size_t i : group.mappings) {
    const Chunking own = chunking_of(mappings[i], group);
    if (own.rows > common.rows) {
      common = own;
    } else if (own.rows == common.rows && own != common) {
      common.skipped = 0;
    }
  }
  const std::uint64_t most =
      std::max<std::uint64_t>(kMostChunkBytes / std::max<std::uint64_t>(info.row_bytes(), 1), 1);
  return common.rows > most ? Chunking{most, 0} : common;
}

// Shifts rows so that the first of the group becomes row number `place`.
void shift_rows(SourceMapping& mapping, std::uint64_t first, std::uint64_t place) {
  mapping.to.front().start = mapping.to.front().start - first + place;
}

JoinedPart put_together(const DatasetInfo& info, std::vector<SourceMapping>& mappings,
                        const RowGroup& group) {
  const Chunking chunking = common_chunking(info, mappings, group);
  DatasetInfo part = info;
  part.shape.front() = group.end - group.first + chunking.skipped;
  part.max_shape = part.shape;
  part.byte_swapped = false;
  double stored = 0;
  std::vector<SourceMapping> own;
  own.reserve(group.mappings.size());
  for (const std::size_t i : group.mappings) {
    double share = 1;
    const DatasetInfo& source = mappings[i].source->info();
    for (std::size_t d = 0; d < source.shape.size(); ++d)
      share *= static_cast<double>(mappings[i].from[d].extent()) / static_cast<double>(source.shape[d]);
    stored += share * static_cast<double>(source.stored_bytes);
    own.push_back(std::move(mappings[i]));
    shift_rows(own.back(), group.first, chunking.skipped);
  }
  part.stored_bytes = static_cast<std::uint64_t>(stored);
  return {make_mapped_reader(std::move(part), chunking.rows, std::move(own)), chunking.skipped,
          group.end - group.first};
}

}  // namespace

RowParts parts_of_rows(const DatasetInfo& info, std::vector<SourceMapping> mappings) {
  RowParts rows;
  if (info.row_elements() == 0) mappings.clear();  // No source has elements of such rows
  for (const RowGroup& group : grouped(info.rows(), mappings)) {
    JoinedPart part;
    if (group.mappings.size() == 1) part = as_whole_rows(info, mappings[group.mappings.front()]);
    if (part.reader == nullptr) {
      part = put_together(info, mappings, group);
      rows.put_together = true;
    }
    rows.parts.push_back(std::move(part));
  }
  return rows;
}

}  // namespace h5feed
