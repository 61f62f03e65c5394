// SPDX-License-Identifier: Apache-2.0
// Model that predicts the speed of ways to store a dataset.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/options.hpp"

namespace h5feed::cli {

/// One way to store a dataset.
struct Candidate {
  std::uint64_t chunk_rows = 1;
  std::string filter;  ///< filter in the syntax of --filter
};

/// One thread's cost of a candidate's chunk, and how small it gets.
struct CandidateCosts {
  double decode_s = 0;      ///< seconds to decode a chunk, the fastest of several passes
  double encode_s = 0;      ///< seconds to encode a chunk
  double stored_share = 1;  ///< stored bytes / decoded bytes
};

/// Loader settings to tune for.
struct LoaderUse {
  std::uint64_t batch_size = 256;
  Shuffle shuffle;
  std::uint64_t cache_bytes = 0;
  std::optional<std::uint64_t> memory_budget_bytes = {};  ///< unset: the loader's default
  std::int64_t num_workers = 0;
  InputLayout layout = InputLayout::automatic;
  std::vector<std::int64_t> window = {};  ///< rows of a sample; empty: one row
};

/// Properties of a dataset that the prediction uses.
struct RowShape {
  std::uint64_t rows = 1;
  std::uint64_t row_bytes = 1;
};

/// Time that the machine takes in addition to decoding.
struct MachineCosts {
  /// Seconds to start and end a loader, once per epoch.
  double start_s = 0;
  /// Seconds to serve one sample from the cache through the loader: gathering, ordering, hand-over.
  double serve_s = 0;
  /// Seconds per chunk in addition to decoding: finding it, reading it, its place in the cache, and
  /// first-touch of memory. Measured at one or more sizes and interpolated linearly between them.
  struct PerChunk {
    struct Point {
      double bytes = 0;  ///< bytes of the decoded chunk
      double seconds = 0;
    };
    std::vector<Point> points;  ///< sorted by ascending size
    double seconds(double bytes) const;
  };
  PerChunk plain;  ///< chunks without filters, read directly to their destination
  PerChunk coded;  ///< chunks with filters, read and then decoded into separate memory
  unsigned cpus = 1;
};

/// Predicted speed of the first epoch, and its decoding work.
struct Prediction {
  double samples_per_s = 0;
  double decodes_per_chunk = 1;  ///< mean number of decodes per chunk in the epoch: read amplification
  double decoded_bytes = 0;
  /// Rows are read straight into the batch: uncompressed and shuffled beyond the cache.
  bool reads_rows = false;
};

/// Predicts how often an epoch decodes each chunk of `chunk_rows` rows.
double decodes_per_chunk(const RowShape& data, std::uint64_t chunk_rows, const LoaderUse& use);

/// Predicts the first epoch. Its time is the work of all samples divided among the threads: serving each
/// sample, and decoding each chunk as often as the cache loses it.
Prediction predict(const RowShape& data, const Candidate& candidate, const CandidateCosts& costs,
                   const LoaderUse& use, const MachineCosts& machine);

/// One candidate with its predictions and measurements.
struct Trial {
  Candidate candidate;
  CandidateCosts costs;
  Prediction predicted;  ///< prediction for the whole dataset
  /// Predicted samples/s of the sample, with a cache that is smaller in proportion.
  double sample_predicted = 0;
  /// Factor of both predictions, derived from what was measured before this candidate.
  double correction = 1;
  double sample_measured = 0;  ///< measured samples/s of the sample; 0: time ran out before it
  double size_bytes = 0;       ///< stored bytes of the whole dataset
  double write_seconds = 0;    ///< seconds to write the whole dataset, encoding alone
  bool pareto = false;         ///< no other candidate is both faster and smaller

  /// Returns samples/s for the whole dataset: the prediction, corrected by what the sample showed.
  double samples_per_s() const;
};

/// Returns the factor by which to multiply the model's predictions for `candidate`, from the measured ones of
/// `trials`: those with its filter and similar chunks count most. 1 if none was measured.
double shown_correction(std::span<const Trial> trials, const Candidate& candidate);

/// Corrects the predictions of a trial that was not measured yet, by `shown_correction` of `trials`.
void correct(Trial& trial, std::span<const Trial> trials);

/// Sorts the trials, fastest first, and marks those that no other trial beats in both speed and size.
void rank(std::vector<Trial>& trials);

/// Returns the fastest trial from ranked ones. Only measured trials count, if there are any, and no filters
/// that save less than a tenth of what the same chunks take without: they can be faster by chance only.
const Trial& fastest(std::span<const Trial> trials);

/// Returns the smallest trial within `kTuneSlack` of the `fastest`, among those that count for it.
const Trial& recommended(std::span<const Trial> trials);
inline constexpr double kTuneSlack = 0.05;

/// Returns 1, 2, 5, 10, 20, 50, … up to `most`.
std::vector<std::uint64_t> round_numbers(std::uint64_t most);

/// Returns chunk sizes to try, in rows: 1, 2 or 5 times powers of ten, from about 16 KiB to 8 MiB and at most
/// half of `rows`; about `most` of them.
std::vector<std::uint64_t> chunk_rows_to_try(const RowShape& data, std::size_t most);

/// Returns the rows per chunk that `repack --chunk auto` uses: the same model with nominal costs, so that it
/// depends only on the dataset. The fewest rows (1, 2 or 5 times a power of ten, at most 20,000) with which
/// reading and finding chunks costs little compared with decoding them.
std::uint64_t automatic_chunk_rows(std::uint64_t rows, std::uint64_t row_bytes);

}  // namespace h5feed::cli
