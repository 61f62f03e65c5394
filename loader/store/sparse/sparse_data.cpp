// SPDX-License-Identifier: Apache-2.0
#include "store/sparse/sparse_data.hpp"

#include <cstring>
#include <type_traits>

#include "base/with_type.hpp"

namespace h5feed {

void SparseData::expand(const SparseReader::Row& row, std::byte* out) const {
  const DatasetInfo& info = reader->info();
  std::memset(out, 0, static_cast<std::size_t>(info.row_bytes()));
  with_type_of(info.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::size_t i = 0; i < row.columns.size(); ++i) {
      const auto column = static_cast<std::size_t>(row.columns[i]);
      const std::ptrdiff_t place =
          places.empty() ? static_cast<std::ptrdiff_t>(column) : std::ptrdiff_t{places[column]};
      if (place < 0) continue;
      std::byte* const to = out + place * static_cast<std::ptrdiff_t>(sizeof(T));
      const std::byte* const from = row.values + i * sizeof(T);
      if constexpr (std::is_arithmetic_v<T>) {
        T sum;
        T value;
        std::memcpy(&sum, to, sizeof(T));
        std::memcpy(&value, from, sizeof(T));
        sum = static_cast<T>(sum + value);
        std::memcpy(to, &sum, sizeof(T));
      } else {
        // Types of 16 bits that C++ cannot add: files of these come from writers that sum before.
        std::memcpy(to, from, sizeof(T));
      }
    }
  });
}

}  // namespace h5feed
