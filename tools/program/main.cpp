// SPDX-License-Identifier: Apache-2.0
// The h5feed program. Everything else is in h5feed_cli, so that tests can link it.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "store/hdf5/h5_file.hpp"
#include "tools/program/cli.hpp"

int main(int argc, char** argv) {
  const int code = h5feed::cli::run(argc, argv);
  if (!h5feed::libhdf5_has_failed()) return code;
  // Skips libhdf5's exit handlers; all files are closed.
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}
