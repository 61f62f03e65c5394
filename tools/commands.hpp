// The subcommands, one file each. A command adds its options to the parser and leaves what to do in
// `action`, which runs once the whole command line has been read.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace h5feed::cli {

/// The chosen command's work. Throws h5feed::Error (OptionError means wrong usage) and Interrupted.
using Action = std::function<int()>;

void add_info(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_pack(CLI::App& app, Action& action);
void add_repack(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_env(CLI::App& app, Action& action);
/// `watched_command` is what followed "--".
void add_monitor(CLI::App& app, Action& action, std::vector<std::string> watched_command);

/// First argument of the processes in which `bench` measures its rows; not for people.
inline constexpr const char* kBenchRowCommand = "__bench-row";

/// Measures one row and prints it as JSON. `arguments` are what `to_arguments` made of the request.
int run_bench_row(const std::vector<std::string>& arguments);

}  // namespace h5feed::cli
