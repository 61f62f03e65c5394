// What a way of storing a dataset will give, by calculation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "h5feed/options.hpp"

namespace h5feed::cli {

/// One way to store a dataset.
struct Candidate {
  std::uint64_t chunk_rows = 1;
  std::string filter;  ///< as --filter takes it
};

/// What a candidate costs one thread for each chunk, and how small the chunk gets.
struct CandidateCosts {
  double decode_s = 0;      ///< a chunk, the fastest of several passes
  double encode_s = 0;      ///< a chunk
  double stored_share = 1;  ///< stored / decoded
};

/// How the loader is to be used.
struct LoaderUse {
  std::uint64_t batch_size = 256;
  Shuffle shuffle;
  std::uint64_t cache_bytes = 0;
  std::int64_t num_workers = 0;
  InputLayout layout = InputLayout::automatic;
};

/// What of a dataset matters to the prediction.
struct RowShape {
  std::uint64_t rows = 1;
  std::uint64_t row_bytes = 1;
};

/// What the machine takes beside decoding.
struct MachineCosts {
  /// What a loader takes to start and to end, once an epoch.
  double start_s = 0;
  /// One sample that is served from the cache, through the loader as it is used: gathering, order, hand-over.
  double serve_s = 0;
  /// What a chunk takes beside decoding it: finding it, reading it, its place in the cache, and memory that
  /// is touched for the first time. Known for some sizes, at least one; between them a straight line.
  struct PerChunk {
    struct Point {
      double bytes = 0;  ///< of the decoded chunk
      double seconds = 0;
    };
    std::vector<Point> points;  ///< by ascending size
    double seconds(double bytes) const;
  };
  PerChunk plain;  ///< read to where they are needed
  PerChunk coded;  ///< read, then decoded into memory of their own
  unsigned cpus = 1;
};

/// Samples a second of the first epoch, and what they take.
struct Prediction {
  double samples_per_s = 0;
  double decodes_per_chunk = 1;  ///< of the whole epoch: read amplification
  double decoded_bytes = 0;
  bool reads_rows = false;  ///< straight into the batch: uncompressed and shuffled beyond the cache
};

/// An epoch's time is the work of all samples divided among the threads: serving each, and decoding each
/// chunk as often as the cache loses it.
Prediction predict(const RowShape& data, const Candidate& candidate, const CandidateCosts& costs,
                   const LoaderUse& use, const MachineCosts& machine);

/// One candidate with all that is known of it.
struct Trial {
  Candidate candidate;
  CandidateCosts costs;
  Prediction predicted;         ///< of the whole dataset
  double sample_predicted = 0;  ///< samples/s of the sample, its cache smaller in proportion
  double correction = 1;        ///< of the two above, by what was measured before this candidate was
  double sample_measured = 0;   ///< 0: the time was over
  double size_bytes = 0;        ///< of the whole dataset, stored
  double write_seconds = 0;     ///< of the whole dataset, encoding alone
  bool pareto = false;          ///< none is both faster and smaller

  /// Of the whole dataset: predicted, and corrected by what the sample showed.
  double samples_per_s() const;
};

/// By how much the model's figures for `candidate` are to be multiplied, as the measured ones of `trials`
/// show: those of its filter and of like chunks count most. 1 where none was measured.
double shown_correction(std::span<const Trial> trials, const Candidate& candidate);

/// Multiplies the figures of a trial that was not measured yet by what `trials` show.
void correct(Trial& trial, std::span<const Trial> trials);

/// The fastest first. Marks those that none beats in both speed and size.
void rank(std::vector<Trial>& trials);

/// The smallest of those within `kTuneSlack` of the fastest, from ranked trials; measured ones only, where
/// there are any.
const Trial& recommended(std::span<const Trial> trials);
inline constexpr double kTuneSlack = 0.05;

/// Rows of chunks to try: 1, 2 or 5 times powers of ten, from about 16 KiB to 8 MiB and at most half of
/// `rows`; about `most` of them.
std::vector<std::uint64_t> chunk_rows_to_try(const RowShape& data, std::size_t most);

/// The chunk that `repack --chunk auto` takes: the same model with nominal costs, so that it depends on
/// nothing but the dataset. The fewest rows (1, 2 or 5 times a power of ten, at most 20,000) with which
/// reading and finding chunks costs little beside decoding them.
std::uint64_t automatic_chunk_rows(std::uint64_t rows, std::uint64_t row_bytes);

}  // namespace h5feed::cli
