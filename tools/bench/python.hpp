// SPDX-License-Identifier: Apache-2.0
// A peer of `bench --peer`: the Python interpreter that runs it, and how it can be used.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/bench/peer_scripts.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// One way to use a peer, as its script describes it.
struct PeerWay {
  std::string mode;         ///< as the script calls it, unique among all peers; empty: h5feed
  std::string name;         ///< as the table calls it
  std::string order;        ///< order of the samples
  bool same_order = false;  ///< delivers the samples in the order of h5feed's first epoch
  bool converts = false;    ///< reads a copy of the samples in the peer's own format
  bool slow_start = false;  ///< takes seconds to start, such as to read the whole file
};

/// A peer whose packages are installed.
struct Peer {
  std::string name;  ///< as --peer names it
  std::string python;
  std::string script;
  Json versions;  ///< of Python and the peer's packages
  std::vector<PeerWay> ways;
  std::chrono::duration<double> start{};  ///< time that starting Python and importing the packages took
};

/// Returns the peer `name` with its ways for the order of --shuffle, run by the interpreter `python`; if that
/// is empty, by the first of python3 in PATH and /usr/bin/python3 that has the packages. Starts candidates
/// and blocks for up to 120 s each. Throws Error if an interpreter or package is missing, with the command
/// that installs it, and if a candidate does not answer or cannot run the script.
Peer find_peer(const std::string& name, const std::string& python, const PeerFolder& folder,
               const std::string& order);

}  // namespace h5feed::cli
