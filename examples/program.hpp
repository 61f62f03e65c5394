// Shared by the main functions of the examples: option checks, errors, exit codes.
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

#include "h5feed/error.hpp"

namespace example {

/// Returns a validator of options that take a whole number of at least `least`.
inline CLI::Validator at_least(std::int64_t least) {
  const auto check = [least](const std::string& text) -> std::string {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && number >= least) return {};
    return text + " is not a number from " + std::to_string(least);
  };
  return CLI::Validator(check, "from " + std::to_string(least));
}

/// Returns the first line of the message. LibTorch's messages continue with a stack trace.
inline std::string one_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

/// Returns 2 for h5feed::OptionError, wrong usage, and 1 for any other exception.
inline int exit_code(const std::exception& error) {
  return dynamic_cast<const h5feed::OptionError*>(&error) != nullptr ? 2 : 1;
}

/// Parses the command line and calls `run`. Returns the exit code: 0 done, 1 failed, 2 wrong usage, as the
/// h5feed program. Prints an error as one line on stderr, with the program's name in front. Does not throw
/// std::exception.
template <typename Run>
int run_program(CLI::App& app, int argc, char** argv, const std::string& name, const Run& run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), one_line(error).c_str());
    return exit_code(error);
  }
  return 0;
}

}  // namespace example
