// SPDX-License-Identifier: Apache-2.0
#include "tools/info/open_lines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "h5feed/option_names.hpp"

namespace h5feed::cli {
namespace {

// Name of a type in C++, with `::` behind that of an enumeration; empty where braces say enough.
template <typename T>
constexpr std::string_view kTypeName = "";
template <>
constexpr std::string_view kTypeName<InputLayout> = "h5feed::InputLayout::";
template <>
constexpr std::string_view kTypeName<SampleUnit> = "h5feed::SampleUnit::";
template <>
constexpr std::string_view kTypeName<EpisodeOptions::Index> = "h5feed::EpisodeOptions::Index::";
template <>
constexpr std::string_view kTypeName<EpisodeOptions::Anchors> = "h5feed::EpisodeOptions::Anchors::";
template <>
constexpr std::string_view kTypeName<EpisodeOptions::Fill> = "h5feed::EpisodeOptions::Fill::";
template <>
constexpr std::string_view kTypeName<FieldUnit> = "h5feed::FieldUnit::";
template <>
constexpr std::string_view kTypeName<Isolation> = "h5feed::Isolation::";
template <>
constexpr std::string_view kTypeName<EpisodeOptions> = "h5feed::EpisodeOptions";
template <>
constexpr std::string_view kTypeName<TileOptions> = "h5feed::TileOptions";
template <>
constexpr std::string_view kTypeName<SparseOptions> = "h5feed::SparseOptions";

// A struct of options with names of its own.
template <typename T>
concept NamedOptions = requires(T& options) {
  visit_options(options, [](const char*, auto&) {});
};

enum class Language : std::uint8_t { cpp, python };

std::string string_literal(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

// A value as the language writes it.
class Writer {
 public:
  explicit Writer(Language language) : python_(language == Language::python) {}

  template <typename T>
  std::string text(const T& value) const {
    if constexpr (std::same_as<T, DType>) {
      return string_literal(std::string(name_of(value)));
    } else if constexpr (std::is_enum_v<T>) {
      for (const OptionWord<T>& word : kOptionWords<T>) {
        if (word.value != value) continue;
        return python_ ? string_literal(std::string(word.text))
                       : fmt::format("{}{}", kTypeName<T>, word.text);
      }
      return {};
    } else if constexpr (NamedOptions<T>) {
      return fmt::format("{}{{{}}}", python_ ? "" : kTypeName<T>,
                         fmt::join(members(value, python_ ? "\"{}\": {}" : ".{} = {}"), ", "));
    } else if constexpr (std::same_as<T, bool>) {
      return python_ ? (value ? "True" : "False") : (value ? "true" : "false");
    } else {
      return fmt::format("{}", value);
    }
  }
  std::string text(const std::string& value) const { return string_literal(value); }
  std::string text(const std::filesystem::path& value) const { return string_literal(value.string()); }
  std::string text(const TileExtent& value) const {
    const std::string depth = value.depth > 0 ? fmt::format("{}, ", value.depth) : std::string();
    const std::string extents = fmt::format("{}{}, {}", depth, value.height, value.width);
    return python_ ? '(' + extents + ')' : '{' + extents + '}';
  }
  std::string text(std::chrono::milliseconds value) const {
    return python_ ? fmt::format("{}", std::chrono::duration<double>(value).count())
                   : fmt::format("std::chrono::milliseconds({})", value.count());
  }
  std::string text(const SparseOptions::Column& value) const {
    return std::visit([this](const auto& column) { return text(column); }, value);
  }
  template <typename T>
  std::string text(const std::vector<T>& values) const {
    std::vector<std::string> texts;
    for (const T& value : values) texts.push_back(text(value));
    const std::string list = fmt::format("{}", fmt::join(texts, ", "));
    return python_ ? '[' + list + ']' : '{' + list + '}';
  }
  template <typename T>
  std::string text(const std::optional<T>& value) const {
    return value ? text(*value) : std::string();
  }

  // Returns the members that differ from the default, each as `form` of its name and value.
  template <NamedOptions T>
  std::vector<std::string> members(const T& value, const char* form) const {
    const T defaults{};
    std::vector<std::string> of_defaults;
    visit_options(defaults, [&](const char*, const auto& member) { of_defaults.push_back(text(member)); });
    std::vector<std::string> found;
    std::size_t next = 0;
    visit_options(value, [&](const char* name, const auto& member) {
      const std::string own = text(member);
      if (own != of_defaults[next++]) found.push_back(fmt::format(fmt::runtime(form), name, own));
    });
    return found;
  }

 private:
  bool python_;
};

}  // namespace

std::string lines_that_open(DatasetOptions options, const std::string& shown) {
  options.files = {shown};
  const std::vector<std::string> of_cpp = Writer(Language::cpp).members(options, ".{} = {}");
  options.files.clear();
  std::vector<std::string> of_python = Writer(Language::python).members(options, "{}={}");
  of_python.insert(of_python.begin(), string_literal(shown));
  return fmt::format("  C++:    h5feed::Dataset::open({{{}}})\n  Python: h5feed.Dataset.open({})\n",
                     fmt::join(of_cpp, ", "), fmt::join(of_python, ", "));
}

std::string lines_of(const OpenReading& reading, const std::string& shown) {
  return fmt::format("{}:\n{}", reading.what, lines_that_open(reading.options, shown));
}

}  // namespace h5feed::cli
