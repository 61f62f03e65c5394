// The Python that `bench --peer pytorch` measures with.
#pragma once

#include <chrono>
#include <string>

#include "tools/output.hpp"

namespace h5feed::cli {

/// tools/pytorch_peer.py, so that the installed program is one file.
extern const char* const kPytorchPeerScript;

/// An interpreter, the versions of its modules, and what starting it with them took.
struct Python {
  std::string program;
  Json versions;
  std::chrono::duration<double> start{};
};

/// The interpreter `named`, or where that is empty python3 of PATH, then Debian's, with PyTorch and h5py.
/// Blocks while it is started. Throws Error where there is none, with the line that installs what is missing.
Python find_python(const std::string& named);

}  // namespace h5feed::cli
