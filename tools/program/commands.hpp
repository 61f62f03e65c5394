// SPDX-License-Identifier: Apache-2.0
// The subcommands, one file each. A command adds its options to the parser and stores its work in `action`,
// which runs after the whole command line has been parsed.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace h5feed::cli {

/// The chosen command's work; returns the exit code. Throws h5feed::Error (OptionError means wrong usage) and
/// Interrupted.
using Action = std::function<int()>;

/// Adds `info`; the functions below add the command of their name in the same way. `app` borrows `action`,
/// which is set when the command was chosen.
void add_info(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_pack(CLI::App& app, Action& action);
void add_repack(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_env(CLI::App& app, Action& action);
/// Adds `doctor`. `tried_command` holds the words after "--".
void add_doctor(CLI::App& app, Action& action, std::vector<std::string> tried_command);
void add_report(CLI::App& app, Action& action);
/// Adds `monitor`. `watched_command` holds the words after "--".
void add_monitor(CLI::App& app, Action& action, std::vector<std::string> watched_command);

/// Returns the manual page, in the macros of man(7), of a program with its commands: what --help prints of
/// each.
std::string man_page(const CLI::App& program);

/// First argument of the processes in which `bench` measures its rows; internal, not for users.
inline constexpr const char* kBenchRowCommand = "__bench-row";

/// Measures one row and prints it as JSON. `arguments` come from `to_arguments`. Returns the exit code.
int run_bench_row(const std::vector<std::string>& arguments);

}  // namespace h5feed::cli
