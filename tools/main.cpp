// The h5feed program. Everything lives in h5feed_cli, so that tests can link it.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "tools/cli.hpp"

int main(int argc, char** argv) {
  const int code = h5feed::cli::run(argc, argv);
  if (code != h5feed::cli::kFailed) return code;
  // libhdf5's exit handlers crash, or print, where it had to give up on a damaged file. All files are closed.
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}
