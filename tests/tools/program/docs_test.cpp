// SPDX-License-Identifier: Apache-2.0
// README.md and docs/ speak of commands, options, files and headings that exist, and of every option there
// is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/files/file_text.hpp"
#include "tools/program/commands.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;
using ::testing::IsEmpty;

const fs::path kRoot = H5FEED_SOURCE_DIR;

// Paths from the root of the repository.
std::vector<fs::path> pages() {
  std::vector<fs::path> found = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
                                 "THIRD_PARTY.md"};
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") found.push_back(fs::relative(entry.path(), kRoot));
  }
  return found;
}

Names matches(const std::string& text, const std::regex& pattern, std::size_t group) {
  Names found;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    found.insert((*it)[group]);
  }
  return found;
}

// The program's parser, without running anything.
class Parser {
 public:
  Parser() {
    cli::add_doctor(app_, action_, {});
    cli::add_info(app_, action_);
    cli::add_check(app_, action_);
    cli::add_generate(app_, action_);
    cli::add_pack(app_, action_);
    cli::add_repack(app_, action_);
    cli::add_tune(app_, action_);
    cli::add_bench(app_, action_);
    cli::add_env(app_, action_);
    cli::add_monitor(app_, action_, {});
    cli::add_report(app_, action_);
    cli::add_completion(app_, action_);
  }

  std::vector<const CLI::App*> commands() const {
    const CLI::App& app = app_;
    return app.get_subcommands([](const CLI::App*) { return true; });
  }

  // Null where there is none.
  const CLI::App* command(const std::string& name) const {
    const auto all = commands();
    const auto found = std::ranges::find(all, name, &CLI::App::get_name);
    return found != all.end() ? *found : nullptr;
  }

 private:
  CLI::App app_{"", "h5feed"};
  cli::Action action_;
};

// What is wrong with one call, given as the words that follow "h5feed"; empty where nothing is.
std::string fault_of(const Parser& program, const std::vector<std::string>& words) {
  static const std::regex command_name("[a-z]+");
  if (words.empty() || !std::regex_match(words[0], command_name)) return {};  // h5feed FILE, h5feed --help
  if (words[0] == "help") return fault_of(program, {words.begin() + 1, words.end()});
  const CLI::App* const command = program.command(words[0]);
  if (command == nullptr) return "h5feed has no command " + words[0];
  for (const std::string& word : words) {
    if (word == "--") break;  // the command that monitor starts
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with('-') && command->get_option_no_throw(name) == nullptr) {
      return "h5feed " + words[0] + " has no option " + name;
    }
  }
  return {};
}

// The calls of h5feed in a line of shell, each as the words that follow the program's name.
std::vector<std::vector<std::string>> calls_in(const std::string& line) {
  std::vector<std::vector<std::string>> calls;
  std::istringstream in(line);
  bool inside = false;
  for (std::string word; in >> word && !word.starts_with('#');) {
    word.erase(0, word.find_first_not_of("<("));
    while (word.ends_with(')')) word.pop_back();
    if (word == "h5feed" || word.ends_with("/h5feed")) {
      calls.emplace_back();
      inside = true;
    } else if (word == "&&" || word == "|" || word == ";" || word == ">") {
      inside = false;
    } else if (inside) {
      calls.back().push_back(word);
    }
  }
  return calls;
}

// Lines of shell blocks, with their continuations, and inline code.
std::vector<std::string> shell_of(const fs::path& page) {
  static const std::regex inline_code("`(h5feed [^`]*)`");
  std::vector<std::string> found;
  std::string language;
  bool in_block = false;
  bool continues = false;
  for (std::string line : lines_of(text_of(kRoot / page))) {
    if (line.starts_with("```")) {
      in_block = !in_block;
      language = line.substr(3);
      continue;
    }
    if (!in_block) {
      for (const std::string& code : matches(line, inline_code, 1)) found.push_back(code);
      continue;
    }
    if (language != "sh") continue;
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.pop_back();
    if (continues) {
      found.back() += line;
    } else {
      found.push_back(line);
    }
    continues = goes_on;
  }
  return found;
}

TEST(Docs, name_only_commands_and_options_that_the_program_has) {
  const Parser program;
  std::size_t calls = 0;
  for (const fs::path& page : pages()) {
    for (const std::string& line : shell_of(page)) {
      for (const std::vector<std::string>& call : calls_in(line)) {
        ++calls;
        EXPECT_EQ(fault_of(program, call), "") << page << ": " << line;
      }
    }
  }
  EXPECT_GT(calls, 30u);
}

TEST(Docs, find_faults_in_calls) {
  const Parser program;
  EXPECT_EQ(fault_of(program, {"inof", "a.h5"}), "h5feed has no command inof");
  EXPECT_EQ(fault_of(program, {"info", "a.h5", "--frob=1"}), "h5feed info has no option --frob");
  EXPECT_EQ(fault_of(program, {"help", "inof"}), "h5feed has no command inof");
  EXPECT_EQ(fault_of(program, {"monitor", "--", "./train", "--frob"}), "");
  EXPECT_EQ(calls_in("build/h5feed info a.h5 && x | y <(h5feed completion bash)  # h5feed z"),
            (std::vector<std::vector<std::string>>{{"info", "a.h5"}, {"completion", "bash"}}));
}

// The text under each heading of the second level.
std::map<std::string, std::string> sections_of(const fs::path& page) {
  std::map<std::string, std::string> sections;
  std::string heading;
  for (const std::string& line : lines_of(text_of(kRoot / page))) {
    if (line.starts_with("## ")) heading = line.substr(3);
    sections[heading] += line + "\n";
  }
  return sections;
}

TEST(Docs, describe_every_option_of_every_command) {
  static const std::regex option("(--?[a-z][a-z0-9-]*)");
  const auto sections = sections_of("docs/program.md");
  const Names everywhere = matches(sections.at(""), option, 1);  // before the first heading
  const Parser program;
  for (const CLI::App* const command : program.commands()) {
    const std::string& name = command->get_name();
    if (!sections.contains(name)) {
      ADD_FAILURE() << "docs/program.md has no section " << name;
      continue;
    }
    const Names described = matches(sections.at(name), option, 1);
    for (const CLI::Option* const one : command->get_options()) {
      Names spelled;
      for (const std::string& text : one->get_lnames()) spelled.insert("--" + text);
      for (const std::string& text : one->get_snames()) spelled.insert("-" + text);
      if (spelled.empty()) continue;  // FILE
      const bool found = std::ranges::any_of(spelled, [&](const std::string& text) {
        return described.contains(text) || everywhere.contains(text);
      });
      EXPECT_TRUE(found) << "docs/program.md does not describe " << one->get_name() << " of h5feed " << name;
    }
  }
}

// The fields of a struct of a public header.
Names fields_of(const std::string& header, const std::string& name) {
  static const std::regex field("  [^/ =][^=]*[ >]([a-z][a-z0-9_]*)( = [^;]*)?;.*");
  Names fields;
  bool inside = false;
  for (const std::string& line : lines_of(text_of(kRoot / "loader/include/h5feed" / header))) {
    if (line == "struct " + name + " {") inside = true;
    if (line == "};") inside = false;
    std::smatch match;
    if (inside && std::regex_match(line, match, field)) fields.insert(match[1]);
  }
  EXPECT_THAT(fields, ::testing::Not(IsEmpty())) << "h5feed/" << header << " has no struct " << name;
  return fields;
}

TEST(Docs, describe_every_option_of_the_library_and_no_other) {
  const std::map<std::string, std::string> struct_of = {
      {"Loader", "DataLoaderOptions"},  {"Dataset", "DatasetOptions"},  {"Encoded images", "ImageOptions"},
      {"Tiles", "TileOptions"},         {"Episodes", "EpisodeOptions"}, {"Sparse rows", "SparseOptions"},
      {"Named fields", "FieldOptions"}, {"Mixture", "MixOptions"}};
  static const std::regex name("`([a-z0-9_]+)`");
  std::map<std::string, Names> described;
  std::string section;
  for (const std::string& line : lines_of(text_of(kRoot / "docs/options.md"))) {
    if (line.starts_with("#")) {
      const auto found = struct_of.find(line.substr(std::min(line.size(), line.find(' ') + 1)));
      if (found != struct_of.end()) {
        section = found->second;
      } else if (line.starts_with("## ")) {
        section.clear();  // options of something else
      }
    }
    if (line.starts_with("| `"))
      described[section].merge(matches(line.substr(0, line.find('|', 1)), name, 1));
  }
  EXPECT_EQ(described["DataLoaderOptions"], fields_of("options.hpp", "DataLoaderOptions"));
  for (const std::string one : {"DatasetOptions", "ImageOptions", "FieldOptions"}) {
    EXPECT_EQ(described[one], fields_of("dataset.hpp", one)) << one;
  }
  EXPECT_EQ(described["TileOptions"], fields_of("tiles.hpp", "TileOptions"));
  EXPECT_EQ(described["EpisodeOptions"], fields_of("episodes.hpp", "EpisodeOptions"));
  EXPECT_EQ(described["SparseOptions"], fields_of("sparse.hpp", "SparseOptions"));
  Names mixture = fields_of("mixture.hpp", "MixedSet");
  mixture.merge(fields_of("mixture.hpp", "MixOptions"));
  EXPECT_EQ(described["MixOptions"], mixture);
}

// As GitHub makes anchors of headings.
Names anchors_of(const fs::path& page) {
  Names anchors;
  for (const std::string& line : lines_of(text_of(page))) {
    if (!line.starts_with("#") || line.find(' ') == std::string::npos) continue;
    std::string anchor;
    for (const char c : line.substr(line.find(' ') + 1)) {
      const int code = static_cast<unsigned char>(c);
      if (c == ' ' || c == '-') anchor += '-';
      if (std::isalnum(code) != 0 || c == '_') anchor += static_cast<char>(std::tolower(code));
    }
    anchors.insert(anchor);
  }
  return anchors;
}

TEST(Docs, link_to_files_and_headings_that_exist) {
  static const std::regex link("\\]\\(([^):#]*)(#([^)]*))?\\)");
  for (const fs::path& page : pages()) {
    const std::string text = text_of(kRoot / page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const fs::path target = (*it)[1].length() > 0 ? page.parent_path() / (*it)[1].str() : page;
      EXPECT_TRUE(fs::exists(kRoot / target)) << page << " links to " << target;
      if ((*it)[3].length() > 0 && fs::exists(kRoot / target)) {
        EXPECT_TRUE(anchors_of(kRoot / target).contains((*it)[3])) << page << " links to " << (*it)[0];
      }
    }
  }
}

TEST(Docs, name_files_of_the_repository_that_exist) {
  static const std::regex file(
      "[^A-Za-z0-9_/.-]((tools|benchmarks|examples|tests|loader|cuda|cmake|docs)/[A-Za-z0-9_./-]*"
      "\\.(sh|py|cpp|hpp|json|md|cmake|txt))");
  for (const fs::path& page : pages()) {
    for (const std::string& name : matches(text_of(kRoot / page), file, 1)) {
      if (name.find("NAME") != std::string::npos) continue;  // a pattern
      EXPECT_TRUE(fs::exists(kRoot / name)) << page << " names " << name;
    }
  }
}

}  // namespace
}  // namespace h5feed::test
