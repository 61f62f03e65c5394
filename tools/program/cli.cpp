// SPDX-License-Identifier: Apache-2.0
#include "tools/program/cli.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_spelling.hpp"
#include "base/threads/thread_limit.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {
namespace {

constexpr std::array<std::string_view, 12> kCommands = {"doctor", "info",    "check",  "generate",
                                                        "pack",   "repack",  "tune",   "bench",
                                                        "env",    "monitor", "report", "completion"};

constexpr std::string_view kFirstSteps =
    R"(h5feed feeds deep-learning training from HDF5 files. Three commands to try:

  h5feed generate demo.h5 --samples 2000 --shape 3,64,64     write a file to play with
  h5feed doctor demo.h5                                      see whether something would slow a training down
  h5feed bench demo.h5 --target labels --shuffle chunk:16    see how fast it can be fed

h5feed --help lists everything.
)";

// Returns the single-character edits from one word to the other (Levenshtein distance), to guess the word
// behind a typo.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

bool is_command(std::string_view word) {
  return std::find(kCommands.begin(), kCommands.end(), word) != kCommands.end();
}

// `h5feed help` means `h5feed --help`, and `h5feed help COMMAND` means `h5feed COMMAND --help`. A file of
// that name goes first.
void expand_help(std::vector<std::string>& arguments) {
  std::error_code error;
  if (arguments.front() != "help" || std::filesystem::exists("help", error)) return;
  arguments.erase(arguments.begin());
  arguments.emplace_back("--help");
}

// `h5feed FILE` means `h5feed info FILE`. A word that can be neither command nor file is a typo.
void expand_shorthand(std::vector<std::string>& arguments) {
  const std::string& first = arguments.front();
  if (first.starts_with('-') || is_command(first)) return;
  std::error_code error;
  const bool file = std::filesystem::exists(first, error) || first.find_first_of("./") != std::string::npos;
  if (file) {
    arguments.insert(arguments.begin(), "info");
    return;
  }
  const auto closest = std::min_element(kCommands.begin(), kCommands.end(), [&](auto a, auto b) {
    return edit_distance(first, a) < edit_distance(first, b);
  });
  const bool typo = edit_distance(first, *closest) <= 2;
  throw OptionError(fmt::format(
      "unknown command \"{}\"; {}", first,
      typo ? fmt::format("did you mean {}?", *closest) : std::string("h5feed --help lists the commands")));
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

std::string help_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "h5feed --help" : fmt::format("h5feed {} --help", chosen.front()->get_name());
}

// Returns the first option that is given more than once but takes one value or none; null if there is none.
// The parser would let the last flag win, and reports a second value as a wrong number of values.
const CLI::Option* repeated_option(const CLI::App& app) {
  const CLI::App* const command = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
  for (const CLI::Option* const option : command->get_options()) {
    const bool collects = option->get_expected_max() > 1 ||
                          option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    if (option->count() > 1 && !collects) return option;
  }
  return nullptr;
}

std::string repetition_message(const CLI::Option& option) {
  return fmt::format("{} is given twice; give it once", option.get_name());
}

// Returns one line for an error of the parser: what is wrong and the next step.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  std::string what = first_line(error.what());
  // Unknown options come first: a required option that seems to be missing may just be misspelled.
  if (const auto rest = app.remaining(true); !rest.empty()) {
    const std::string& word = rest.front();
    what = word.starts_with('-') ? fmt::format("unknown option {}", word.substr(0, word.find('=')))
                                 : fmt::format("unexpected argument \"{}\"", word);
  } else if (const CLI::Option* const repeated = repeated_option(app); repeated != nullptr) {
    return repetition_message(*repeated);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    what = fmt::format("{} needs a value", what.substr(0, what.find(':')));
  }
  return fmt::format("{}; try {}", what, help_command(app));
}

// Refuses empty values, which would look like options that were not given.
void refuse_empty(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool option_before = i > 0 && arguments[i - 1].starts_with("--");
    if (word.empty() && !option_before) {
      throw OptionError("an argument is empty; name a file, or try h5feed --help");
    }
    const bool ends_empty = word.starts_with("--") && word.find('=') == word.size() - 1;
    if (word.empty() || ends_empty) {
      const std::string& option = word.empty() ? arguments[i - 1] : word;
      throw OptionError(
          fmt::format("{} needs a value; an empty one is none", option.substr(0, option.find('='))));
    }
  }
}

// Refuses --flag=value: the parser takes some values for true, and words its refusal of others in its own
// way.
void refuse_values_of_flags(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* const command =
      is_command(arguments.front()) ? app.get_subcommand(arguments.front()) : &app;
  for (const std::string& word : arguments) {
    const auto equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos) continue;
    const CLI::Option* const option = command->get_option_no_throw(word.substr(0, equals));
    if (option == nullptr || option->get_items_expected_max() > 0) continue;
    throw OptionError(fmt::format("{} takes no value; try h5feed{} --help", word.substr(0, equals),
                                  command == &app ? "" : " " + command->get_name()));
  }
}

// Opens stand-ins for closed standard streams, so that a file opened later does not become one of them. Reads
// and writes of a stand-in fail: unwritable output must be an error.
void fill_standard_streams() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != fd && opened >= 0) ::close(opened);
  }
}

// Removes and returns the words after "--", the command that doctor or monitor runs.
std::vector<std::string> cut_off_command(std::vector<std::string>& arguments) {
  if (arguments.front() != "monitor" && arguments.front() != "doctor") return {};
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  if (mark == arguments.end()) return {};
  std::vector<std::string> command(mark + 1, arguments.end());
  arguments.erase(mark, arguments.end());
  if (command.empty()) throw OptionError("-- is followed by no command; name one, or leave out the --");
  return command;
}

int run_command(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    print(kFirstSteps);
    return kDone;
  }
  if (arguments.front() == kBenchRowCommand) {
    arguments.erase(arguments.begin());
    return run_bench_row(arguments);
  }
  const std::vector<std::string> command = cut_off_command(arguments);
  refuse_empty(arguments);
  catch_interrupts();
  expand_help(arguments);
  expand_shorthand(arguments);

  CLI::App app("Feeds deep-learning training from HDF5 files.", "h5feed");
  app.set_version_flag("--version", fmt::format("h5feed {} ({})", H5FEED_VERSION, H5FEED_COMMIT),
                       "Print version and commit");
  app.add_flag_callback(
      "--man", [] {}, "Print the manual page: h5feed --man | man -l -");
  app.get_formatter()->column_width(34);
  app.require_subcommand(1);
  app.footer(
      "h5feed FILE is h5feed info FILE. Each command has its own --help, with examples.\n"
      "Exit code: 0 done, 1 failed or a difference found, 2 wrong usage.");
  Action action;
  add_doctor(app, action, command);
  add_info(app, action);
  add_check(app, action);
  add_generate(app, action);
  add_pack(app, action);
  add_repack(app, action);
  add_tune(app, action);
  add_bench(app, action);
  add_env(app, action);
  add_monitor(app, action, command);
  add_report(app, action);
  add_completion(app, action);
  refuse_values_of_flags(app, arguments);
  if (arguments == std::vector<std::string>{"--man"}) {
    print(man_page(app));
    return kDone;
  }
  try {
    std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
    app.parse(std::move(arguments));
  } catch (const CLI::Success& request) {
    std::ostringstream text;  // --help, --version
    const int code = app.exit(request, text, text);
    print(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    say(usage_message(app, error));
    return kUsage;
  }
  if (const CLI::Option* const repeated = repeated_option(app); repeated != nullptr)
    throw OptionError(repetition_message(*repeated));
  return action();
}

}  // namespace

int run(int argc, char** argv) noexcept {
  fill_standard_streams();
  // Turns writes to a closed pipe, or beyond the file-size limit (ulimit -f), into errors that unwind the
  // stack, so that unfinished files are removed.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  spell_options(command_line_option);
  try {
    return run_command(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  } catch (const Interrupted& interrupted) {
    say("interrupted");
    // The sender of a signal other than Ctrl-C's (a scheduler, a supervisor) must see that it was obeyed.
    if (interrupted.signal() != SIGINT) end_by_signal(interrupted.signal());
  } catch (const OptionError& error) {
    say(error.what());
    return kUsage;
  } catch (const std::filesystem::filesystem_error& error) {
    say(fmt::format("{}: {}; check the path and its permissions", error.path1().string(),
                    error.code().message()));
  } catch (const std::bad_alloc&) {
    say("not enough memory; close other programs or ask for less");
  } catch (const std::exception& error) {
    const std::string thread_limit = thread_limit_message(error);
    say(thread_limit.empty() ? first_line(error.what()) : thread_limit);
  }
  return kFailed;
}

int run_to_end(int argc, char** argv) noexcept {
  keep_plugins_off();
  const int code = run(argc, argv);
  if (!libhdf5_has_failed()) return code;
  // All files are closed.
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace h5feed::cli
