// SPDX-License-Identifier: Apache-2.0
// h5feed completion: prints what shells need to complete the program's commands and options; and the manual
// page, which is made from the same.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {
namespace {

// Returns the options of one command: "--chunk", "--filter", ….
std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* const command : commands) names.push_back(command->get_name());
  return names;
}

std::string bash_script(const std::vector<const CLI::App*>& commands) {
  std::string cases;
  for (const CLI::App* const command : commands) {
    cases +=
        fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), fmt::join(options_of(*command), " "));
  }
  return fmt::format(
      R"(# Completion of h5feed for bash: source it, or put it into a file of bash_completion.d.
_h5feed() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$current") $(compgen -f -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _h5feed h5feed
)",
      fmt::join(names_of(commands), " "), cases);
}

std::string zsh_script(const std::vector<const CLI::App*>& commands) {
  std::string cases, described;
  for (const CLI::App* const command : commands) {
    cases += fmt::format("    {}) words_of_command=({}) ;;\n", command->get_name(),
                         fmt::join(options_of(*command), " "));
    std::string text = command->get_description();
    for (std::size_t at = text.find('\''); at != std::string::npos; at = text.find('\'', at))
      text.erase(at, 1);
    described += fmt::format("    '{}:{}'\n", command->get_name(), text);
  }
  return fmt::format(
      R"(#compdef h5feed
# Completion of h5feed for zsh: a file named _h5feed in a folder of $fpath.
_h5feed() {{
  local -a commands words_of_command
  commands=(
{})
  if (( CURRENT == 2 )); then
    _describe -t commands 'command' commands
    _files
    return
  fi
  case ${{words[2]}} in
{}  esac
  if [[ ${{words[CURRENT]}} == -* ]]; then
    compadd -- $words_of_command
  else
    _files
  fi
}}
# Loaded from $fpath, this file is the function's body of the first call; sourced, it only defines it.
if [[ ${{funcstack[1]}} == _h5feed ]]; then
  _h5feed "$@"
else
  compdef _h5feed h5feed
fi
)",
      described, cases);
}

// Returns text in which roff sees no commands.
std::string roff_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";  // a minus, which can be copied, in place of a hyphen
    } else {
      safe += c;
    }
  }
  return safe.starts_with('.') || safe.starts_with('\'') ? "\\&" + safe : safe;
}

// Returns a text of help: lines that begin with a blank stay as they are, as examples do; others are filled.
std::string paragraphs(std::string_view text) {
  std::string page;
  bool kept = false;
  const auto keep = [&](bool lines) {
    if (lines != kept) page += lines ? ".nf\n" : ".fi\n";
    kept = lines;
  };
  bool between = true;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty()) {
      between = true;
      continue;
    }
    const bool example = line.starts_with(' ');
    if (between || example != kept) {
      keep(false);
      page += ".PP\n";
      keep(example);
    }
    between = false;
    page += roff_text(line) + '\n';
  }
  keep(false);
  return page;
}

std::string option_lines(const CLI::App& command) {
  const CLI::Formatter formatter;
  std::string page;
  for (const CLI::Option* const option : command.get_options()) {
    page += fmt::format(
        ".TP\n\\fB{}\\fR{}\n{}\n", roff_text(formatter.make_option_name(option, option->get_positional())),
        roff_text(formatter.make_option_opts(option)), roff_text(formatter.make_option_desc(option)));
  }
  return page;
}

}  // namespace

std::string man_page(const CLI::App& program) {
  std::string page = fmt::format(".TH H5FEED 1 \"\" \"h5feed {}\" \"h5feed\"\n", H5FEED_VERSION);
  page += ".SH NAME\nh5feed \\- feeds deep\\-learning training from HDF5 files\n";
  page += ".SH SYNOPSIS\n.B h5feed\nCOMMAND [OPTIONS]\n.br\n.B h5feed\nFILE\n";
  page += ".SH DESCRIPTION\n" + paragraphs(program.get_footer());
  page += ".SH OPTIONS\n" + option_lines(program);
  page += ".SH COMMANDS\n";
  for (const CLI::App* const command : program.get_subcommands([](const CLI::App*) { return true; })) {
    page += fmt::format(".SS h5feed {}\n{}.\n", roff_text(command->get_name()),
                        roff_text(command->get_description()));
    page += option_lines(*command) + paragraphs(command->get_footer());
  }
  return page;
}

void add_completion(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* const command = app.add_subcommand("completion", "Print a completion script for a shell");
  command->add_option("SHELL", *shell, "bash or zsh")->required();
  command->footer(
      "Examples:\n"
      "  source <(h5feed completion bash)\n"
      "  h5feed completion zsh > ~/.zfunc/_h5feed");
  command->callback([shell, &app, &action] {
    action = [shell, &app] {
      const CLI::App& program = app;
      const std::vector<const CLI::App*> commands =
          program.get_subcommands([](const CLI::App*) { return true; });
      if (*shell == "bash") {
        print(bash_script(commands));
      } else if (*shell == "zsh") {
        print(zsh_script(commands));
      } else {
        throw OptionError(fmt::format("completion \"{}\": give bash or zsh", *shell));
      }
      return kDone;
    };
  });
}

}  // namespace h5feed::cli
