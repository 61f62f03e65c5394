// SPDX-License-Identifier: Apache-2.0
// The rows of `bench --peer`: one loader with one number of workers, and its results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/python.hpp"
#include "tools/program/output.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {

/// Result of one repetition.
struct PeerRate {
  double samples_per_s = 0;             ///< of an epoch, the start of the loader included
  std::optional<double> after_start;    ///< samples/s after the batches prepared in advance; unset: too few
  double first_batch_s = 0;             ///< from before the loader is made to its first batch
  std::optional<double> limit_share{};  ///< share of the limit of this machine
};

/// Returns the samples/s of an epoch of `samples`, from the time to its first batch and the rate after that.
double epoch_rate(double samples, double batch_size, double first_batch_s, double after_start) noexcept;

/// One loader with one number of workers, and its results.
class PeerRow {
 public:
  /// `peer` is null for h5feed, and must outlive this otherwise.
  PeerRow(const Peer* peer, PeerWay way, std::int64_t num_workers);

  const Peer* peer() const noexcept { return peer_; }
  const PeerWay& way() const noexcept { return way_; }
  std::int64_t num_workers() const noexcept { return workers_; }
  const std::string& error() const noexcept { return error_; }

  void add(const PeerRate& rate) { rates_.push_back(rate); }
  void fail(std::string error) { error_ = std::move(error); }

  /// Median of samples/s; 0 without a result.
  double samples_per_s() const;
  Json to_json() const;
  std::vector<std::string> cells(const PeerRow* ours) const;

 private:
  std::vector<double> values() const;

  const Peer* peer_;
  PeerWay way_;
  std::int64_t workers_;
  std::string error_;
  std::vector<PeerRate> rates_;
};

/// Returns the table of all rows.
Table peer_table(const std::vector<PeerRow>& rows);
/// Returns how often each way of a peer, at its best number of workers, fits into h5feed's best row; null for
/// a way without a result.
Json ratios_json(const std::vector<PeerRow>& rows);
/// Returns these ratios, and the errors of rows that failed, one sentence a line.
std::string peer_verdict(const std::vector<PeerRow>& rows);

}  // namespace h5feed::cli
