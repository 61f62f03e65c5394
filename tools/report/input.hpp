// SPDX-License-Identifier: Apache-2.0
// Inputs of a report: results of `bench`, records of `monitor`, and lines of loaders.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Part of an epoch's time, by what the training did or waited for.
struct EpochPart {
  const char* key;   ///< Name in the lines of a loader: "wait_read_s"
  const char* text;  ///< Words for people
};
/// Causes for which a consumer waits, in the order of the data flow.
inline constexpr std::array<EpochPart, 7> kEpochWaits = {{{"wait_read_s", "waiting for reads"},
                                                          {"wait_decode_s", "for decoding"},
                                                          {"wait_gather_s", "for gathering"},
                                                          {"wait_transform_s", "for transforms"},
                                                          {"wait_transfer_s", "for copies to the GPU"},
                                                          {"wait_free_slot_s", "for a free GPU slot"},
                                                          {"wait_other_s", "for other things"}}};

/// An epoch that a loader delivered, or as much of it as the lines tell.
struct EpochFacts {
  std::string loader = {};   ///< Which loader: "rank 1", "process 4242, loader 0"
  std::string process = {};  ///< Its process: "process 4242"; empty: not known
  double number = 0;         ///< Number of the epoch
  bool finished = false, headroom = false;
  double samples = 0, seconds = 0, samples_per_s = 0, wait_share = 0;
  /// Seconds of each of `kEpochWaits`; unset in a record of `monitor`.
  std::optional<std::array<double, kEpochWaits.size()>> waits = {};
  std::optional<double> num_workers = {}, usable_cpus = {};
  std::string bottleneck = {};
  std::vector<std::string> advice = {};
};

/// Values of one quantity over time: seconds since the first line, and the value.
using TimeSeries = std::vector<std::pair<double, double>>;

/// A record of `monitor`.
struct MonitorFacts {
  /// By the names of `--scalars`: "gpu0/busy", "machine/cpu_busy".
  std::map<std::string, TimeSeries> series = {};
  std::map<int, std::string> gpus = {};  ///< PCI address by index
  double first_s = 0, last_s = 0;        ///< Seconds since 1970 of the first and the last line
  std::size_t readings = 0;              ///< Of the machine
  Json summary = {};                     ///< The last line; null if the run was cut off

  double seconds() const noexcept { return last_s - first_s; }
};

/// One input of a report.
struct Input {
  enum class Kind : std::uint8_t { bench, monitor, loader };

  std::string path;
  std::string label = {};  ///< Short name, different from those of the other inputs
  Kind kind = Kind::bench;
  std::vector<std::string> notes = {};  ///< What is missing or was left out, one sentence each
  Json bench = {};                      ///< The result, for `Kind::bench`
  MonitorFacts monitor = {};            ///< The record, for `Kind::monitor`
  std::vector<EpochFacts> epochs = {};  ///< Of loaders; also those that a record of `monitor` tells
};

/// Returns the name of a kind: "bench", "monitor" or "loader".
const char* name_of(Input::Kind kind) noexcept;

/// Reads an input of any kind. Throws FileError if it cannot be read or is none.
Input read_input(const std::filesystem::path& path);

/// Gives every input a label: the name of its file, with as many folders as tell it from the others.
void label_inputs(std::vector<Input>& inputs);

/// Returns a member that is a finite number; unset if there is none.
std::optional<double> number_in(const Json& json, std::string_view key);
/// Returns a member that is text; empty if there is none.
std::string text_in(const Json& json, std::string_view key);

}  // namespace h5feed::cli
