// SPDX-License-Identifier: Apache-2.0
#include "support/loaders/loaded_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "dataset/dataset_state.hpp"

namespace h5feed::test {
namespace {

void keep(const HostTensor& tensor, const std::vector<std::int64_t>& indices,
          std::map<std::int64_t, std::vector<std::byte>>& rows) {
  if (!tensor.defined() || indices.empty()) return;
  const std::size_t bytes =
      static_cast<std::size_t>(tensor.elements()) * size_of(tensor.dtype) / indices.size();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::byte* const row = tensor.bytes.get() + i * bytes;
    std::vector<std::byte> copy(row, row + bytes);
    const auto [place, fresh] = rows.emplace(indices[i], copy);
    if (!fresh && place->second != copy)
      throw std::runtime_error(fmt::format("sample {} came twice and differs", indices[i]));
  }
}

std::string difference(const std::map<std::int64_t, std::vector<std::byte>>& rows, std::size_t count,
                       const std::vector<std::byte>& expected, const char* what) {
  if (rows.size() != count) return fmt::format("{} {} of {} came", rows.size(), what, count);
  const std::size_t bytes = expected.size() / count;
  for (const auto& [number, row] : rows) {
    const auto begin = expected.begin() + number * static_cast<std::ptrdiff_t>(bytes);
    if (!std::equal(row.begin(), row.end(), begin, begin + static_cast<std::ptrdiff_t>(bytes)))
      return fmt::format("{} of sample {} differs", what, number);
  }
  return {};
}

}  // namespace

LoadedRows load_rows(const Dataset& dataset, const DataLoaderOptions& options) {
  DataLoader loader(dataset, options);
  LoadedRows rows;
  for (Batch& batch : loader) {
    keep(batch.data, batch.indices, rows.data);
    keep(batch.target, batch.indices, rows.target);
  }
  return rows;
}

std::string first_difference(const Dataset& dataset, const std::vector<std::byte>& expected,
                             const std::vector<std::byte>& expected_target) {
  const auto count = static_cast<std::size_t>(dataset.size());
  const std::uint64_t chunk_bytes = DatasetAccess::state(dataset)->data.reader->chunk_bytes();
  struct Case {
    Shuffle shuffle;
    std::int64_t workers;
    std::uint64_t cache_bytes;
    CachePolicy policy;
    RowReads row_reads;
  };
  const std::uint64_t ample = std::uint64_t{64} << 20;
  std::vector<Case> cases;
  for (const std::int64_t workers : {0, 1, 4}) {
    cases.push_back({false, workers, 0, CachePolicy::lru, RowReads::never});
    cases.push_back({true, workers, ample, CachePolicy::lru, RowReads::never});
    if (!dataset.tile_grid())
      cases.push_back({true, workers, 2 * chunk_bytes, CachePolicy::clairvoyant, RowReads::never});
    cases.push_back({true, workers, chunk_bytes, CachePolicy::keep_first, RowReads::never});
    if (DatasetAccess::state(dataset)->data.map.rows().num_chunks() > 1)
      cases.push_back({"chunk:2", workers, ample, CachePolicy::lru, RowReads::never});
    if (DatasetAccess::state(dataset)->data.reader->rows_readable())
      cases.push_back({true, workers, 0, CachePolicy::lru, RowReads::always});
  }
  for (const Case& run : cases) {
    const LoadedRows rows = load_rows(dataset, {.batch_size = 7,
                                                .shuffle = run.shuffle,
                                                .seed = 3,
                                                .num_workers = run.workers,
                                                .cache_bytes = run.cache_bytes,
                                                .cache_policy = run.policy,
                                                .row_reads = run.row_reads});
    std::string text = difference(rows.data, count, expected, "samples");
    if (text.empty() && !expected_target.empty())
      text = difference(rows.target, count, expected_target, "targets");
    if (!text.empty())
      return fmt::format("{} (shuffle {}, {} workers, cache {}, policy {})", text, run.shuffle.to_string(),
                         run.workers, run.cache_bytes, name_of(run.policy));
  }
  return {};
}

}  // namespace h5feed::test
