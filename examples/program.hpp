// What the main functions of the examples share.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

#include "h5feed/error.hpp"

namespace example {

/// Parses the command line and calls `run`. Exit codes are the h5feed program's: 0 done, 1 failed, 2 wrong
/// usage; errors are one line on stderr, with the program's name in front.
template <typename Run>
int run_program(CLI::App& app, int argc, char** argv, const std::string& name, const Run& run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    run();
  } catch (const h5feed::OptionError& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return 1;
  }
  return 0;
}

}  // namespace example
