// SPDX-License-Identifier: Apache-2.0
// The Python interpreter that `bench --peer pytorch` runs.
#pragma once

#include <chrono>
#include <string>

#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Text of tools/bench/pytorch_peer.py, embedded so that the installed program is a single file.
extern const char* const kPytorchPeerScript;

/// A Python interpreter, the versions of its modules, and the time that starting it and importing them took.
struct Python {
  std::string program;
  Json versions;
  std::chrono::duration<double> start{};
};

/// Returns the interpreter `named`; if that is empty, the first of python3 in PATH and /usr/bin/python3 that
/// has PyTorch and h5py. Starts candidates and blocks for up to 120 s each. Throws Error if an interpreter or
/// module is missing, with the command that installs it, and if a candidate does not answer or cannot run the
/// script.
Python find_python(const std::string& named);

}  // namespace h5feed::cli
