// SPDX-License-Identifier: Apache-2.0
#include "plan/mixing.hpp"

#include <algorithm>

namespace h5feed {
namespace {

// Upper bound on the windows that are evaluated; more do not change the score visibly.
constexpr std::uint64_t kMaxWindows = 100'000;

double pairs(std::uint64_t count) noexcept {
  return count == 0 ? 0.0 : static_cast<double>(count) * static_cast<double>(count - 1) / 2;
}

// Counts the pairs of positions in [begin, end) that share a batch; batches begin at multiples of their size.
double pairs_in_batches(std::uint64_t begin, std::uint64_t end, std::uint64_t batch_size) noexcept {
  const std::uint64_t first_end = std::min(end, (begin / batch_size + 1) * batch_size);
  const std::uint64_t rest = end - first_end;
  const std::uint64_t whole_batches = rest / batch_size;
  return pairs(first_end - begin) + static_cast<double>(whole_batches) * pairs(batch_size) +
         pairs(rest % batch_size);
}

// Returns the share of pairs of rows that share a chunk, among `chunks` chunks one of which is `missing` rows
// short.
double same_chunk(std::uint64_t chunks, std::uint64_t rows_per_chunk, std::uint64_t missing) noexcept {
  const std::uint64_t rows = chunks * rows_per_chunk - missing;
  if (rows < 2) return 0;
  return (static_cast<double>(chunks - 1) * pairs(rows_per_chunk) + pairs(rows_per_chunk - missing)) /
         pairs(rows);
}

}  // namespace

double mixing_score(std::uint64_t num_samples, std::uint64_t rows_per_chunk, std::uint64_t batch_size,
                    const Shuffle& shuffle) {
  const bool sequential = shuffle.kind() == Shuffle::Kind::sequential;
  const auto chunks_in = [&](std::uint64_t rows) { return (rows - 1) / rows_per_chunk + 1; };
  const std::uint64_t window_chunks =
      sequential ? 1 : std::min(shuffle.window_chunks(), chunks_in(num_samples));
  if (shuffle.kind() == Shuffle::Kind::full || window_chunks == chunks_in(num_samples) || batch_size < 2)
    return 1;

  const std::uint64_t window_rows = window_chunks * rows_per_chunk;
  const std::uint64_t samples =
      num_samples / window_rows < kMaxWindows ? num_samples : kMaxWindows * window_rows;
  const std::uint64_t chunks = chunks_in(samples);
  const std::uint64_t missing = chunks * rows_per_chunk - samples;
  const double full_window = same_chunk(window_chunks, rows_per_chunk, 0);

  // The short chunk is the last one of a sequential order. With windows, each window holds it with a
  // probability equal to its share of the chunks; all later windows then begin `missing` rows earlier.
  double same = 0;
  double had_it = 0;  // probability that an earlier window holds the short chunk
  for (std::uint64_t first = 0; first < chunks; first += window_chunks) {
    const std::uint64_t here = std::min(window_chunks, chunks - first);
    const bool last = first + here == chunks;
    const double has_it =
        sequential ? (last ? 1.0 : 0.0) : static_cast<double>(here) / static_cast<double>(chunks);
    const std::uint64_t begin = first * rows_per_chunk;
    const std::uint64_t end = begin + here * rows_per_chunk;
    const double same_here = last ? same_chunk(here, rows_per_chunk, 0) : full_window;
    same += has_it * pairs_in_batches(begin, end - missing, batch_size) *
            same_chunk(here, rows_per_chunk, missing);
    if (!last) same += (1 - had_it - has_it) * pairs_in_batches(begin, end, batch_size) * same_here;
    if (first > 0) same += had_it * pairs_in_batches(begin - missing, end - missing, batch_size) * same_here;
    had_it += has_it;
  }
  const double different = 1 - same / pairs_in_batches(0, samples, batch_size);
  return different / (1 - same_chunk(chunks_in(num_samples), rows_per_chunk,
                                     chunks_in(num_samples) * rows_per_chunk - num_samples));
}

}  // namespace h5feed
