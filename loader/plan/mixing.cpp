#include "plan/mixing.hpp"

#include <algorithm>
#include <numeric>

namespace h5feed {
namespace {

double pairs(std::uint64_t count) noexcept {
  return count == 0 ? 0.0 : static_cast<double>(count) * static_cast<double>(count - 1) / 2;
}

// Pairs of rows in one chunk, among `rows` rows that fill chunks one after the other.
double pairs_in_chunks(std::uint64_t rows, std::uint64_t rows_per_chunk) noexcept {
  return static_cast<double>(rows / rows_per_chunk) * pairs(rows_per_chunk) + pairs(rows % rows_per_chunk);
}

// Pairs of positions [begin, end) in one batch and in one window; batches and windows begin at 0.
double pairs_in_windows(std::uint64_t begin, std::uint64_t end, std::uint64_t batch_size,
                        std::uint64_t window_rows) noexcept {
  double count = 0;
  while (begin < end) {
    const std::uint64_t batch_end = (begin / batch_size + 1) * batch_size;
    const std::uint64_t window_end = (begin / window_rows + 1) * window_rows;
    const std::uint64_t stop = std::min({batch_end, window_end, end});
    count += pairs(stop - begin);
    begin = stop;
  }
  return count;
}

}  // namespace

double mixing_score(std::uint64_t num_samples, std::uint64_t rows_per_chunk, std::uint64_t batch_size,
                    const Shuffle& shuffle) {
  const std::uint64_t num_chunks = (num_samples - 1) / rows_per_chunk + 1;
  const std::uint64_t window_chunks =
      shuffle.kind() == Shuffle::Kind::sequential ? 1 : std::min(shuffle.window_chunks(), num_chunks);
  if (shuffle.kind() == Shuffle::Kind::full || window_chunks == num_chunks || batch_size < 2) return 1;

  const std::uint64_t window_rows = window_chunks * rows_per_chunk;
  const std::uint64_t full_rows = num_samples / window_rows * window_rows;  // in windows of K full chunks
  const std::uint64_t last_rows = num_samples - full_rows;
  // Batches and windows meet in the same way again and again.
  const std::uint64_t period = std::lcm(batch_size, window_rows);
  double in_full_windows = pairs_in_windows(0, full_rows % period, batch_size, window_rows);
  if (full_rows >= period) {
    in_full_windows +=
        static_cast<double>(full_rows / period) * pairs_in_windows(0, period, batch_size, window_rows);
  }
  const double in_last_window = pairs_in_windows(full_rows, num_samples, batch_size, window_rows);

  const auto same_chunk = [&](std::uint64_t rows) {
    return rows < 2 ? 0.0 : pairs_in_chunks(rows, rows_per_chunk) / pairs(rows);
  };
  const double in_batches =
      static_cast<double>(num_samples / batch_size) * pairs(batch_size) + pairs(num_samples % batch_size);
  const double same =
      (in_full_windows * same_chunk(window_rows) + in_last_window * same_chunk(last_rows)) / in_batches;
  return (1 - same) / (1 - same_chunk(num_samples));
}

}  // namespace h5feed
