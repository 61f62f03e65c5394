// SPDX-License-Identifier: Apache-2.0
// Verdict on an epoch: waits of the consumer by their cause, and advice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "h5feed/export.hpp"

namespace h5feed {

/// The time of one epoch, from the consumer's side: which stage each of its waits in `next()` was for, how
/// fast the consumer is without them, and what would help. Times are seconds of wall time.
///
/// A wait is charged to the stages that the workers were in since the wait before it, in proportion to their
/// time. Idle workers count as reading while stored chunks are being read ahead of decoding. Waits for GPU
/// slots are measured as such.
struct H5FEED_EXPORT Verdict {
  /// Bottleneck of an epoch. `consumer`: the training itself. `read`: storage. `decode`: the filters of
  /// the file, or the image decoder. `gather`: copying, converting and normalizing on the CPU. `transform`:
  /// the user's `transform` and `collate_fn`. `transfer`: copies to the GPU. `other`: none of these, such as
  /// a sampler, or a chunk that another loader of the dataset was loading.
  enum class Cause : std::uint8_t { consumer, read, decode, gather, transform, transfer, other };

  /// Seconds that the consumer waited in `next()`, by what it waited for.
  struct Waits {
    double read = 0;       ///< Storage, or reading ahead of decoding
    double decode = 0;     ///< The filters of the file, or the image decoder
    double gather = 0;     ///< Copying, converting and normalizing on the CPU
    double transform = 0;  ///< The user's `transform` and `collate_fn`
    double transfer = 0;   ///< Copies to the GPU
    double free_slot = 0;  ///< No GPU slot was free, as copies waited for the consumer's own work on the GPU
    double other = 0;      ///< No worker was in any of these stages

    /// Returns the sum of all.
    double total() const noexcept {
      return read + decode + gather + transform + transfer + free_slot + other;
    }
  };

  std::uint64_t epoch = 0;  ///< number of the epoch
  std::int64_t rank = 0;    ///< rank of this process
  bool finished = false;    ///< whether the epoch was delivered to its end
  bool headroom = false;    ///< whether one batch was repeated (`DataLoaderOptions::headroom`)
  /// Number of the loader among all that this process has made, from 0 on.
  std::uint64_t loader = 0;
  std::string data;  ///< what the loader delivers, "train.h5:/images"; of several files the first
  std::uint64_t dataset_samples = 0;  ///< samples of its dataset or subset, over all ranks
  std::uint64_t samples = 0;          ///< samples delivered, repeats by `echo` included
  std::uint64_t batches = 0;          ///< batches delivered, repeats by `echo` included
  double seconds = 0;                 ///< time of the epoch
  Waits waits;                        ///< seconds that the consumer waited in the epoch, by stage
  /// Stage that the consumer waited for most; `consumer` if its waits without `free_slot` were less than 5 %
  /// of the time, or less than `free_slot`.
  Cause bottleneck = Cause::consumer;

  std::int64_t num_workers = 0;  ///< workers in use at the end
  std::int64_t usable_cpus = 0;  ///< CPUs that this process may use, its share among `local_world_size`
  /// Workers that this consumer would keep busy, if none of them waited for another; 0 if not known.
  double needed_workers = 0;
  double read_bytes_per_s = 0;  ///< bytes read from files per second of the epoch
  /// Bytes per second that the consumer would need from files to never wait; 0 if not known.
  double needed_bytes_per_s = 0;

  /// Advice: changes that would shorten the epoch, one clause each, the most effective first. Empty if
  /// `bottleneck` is `consumer` or `other`.
  std::vector<std::string> advice;

  /// Returns the samples delivered per second; 0 before the first.
  double samples_per_s() const noexcept;
  /// Returns the samples per second that the consumer would take from a loader that never lets it wait; 0
  /// before the first.
  double consumer_samples_per_s() const noexcept;
  /// Returns the share of the time that the consumer waited, 0 … 1.
  double wait_share() const noexcept;

  /// Returns one line without a line break: the bottleneck, its share, and what would help.
  std::string to_string() const;
  /// Returns one line without a line break: a JSON object with every member and function value above as a
  /// number, string or Boolean, the waits as `wait_read_s` and so on, and `advice` as an array of strings.
  std::string to_json() const;
};

/// Returns the name of a cause: "consumer", "read", …
H5FEED_EXPORT const char* name_of(Verdict::Cause cause) noexcept;

}  // namespace h5feed
