// SPDX-License-Identifier: Apache-2.0
#include "tools/program/man_page.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <string_view>

#include "h5feed/config.hpp"

namespace h5feed::cli {
namespace {

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

}  // namespace h5feed::cli
