// SPDX-License-Identifier: Apache-2.0
#include "tools/info/open_lines.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "h5feed/option_names.hpp"
#include "tools/program/options_json.hpp"

namespace h5feed::cli {
namespace {

// Name of a type of options in C++.
template <typename T>
constexpr std::string_view kTypeName = "";
template <>
constexpr std::string_view kTypeName<InputLayout> = "h5feed::InputLayout";
template <>
constexpr std::string_view kTypeName<SampleUnit> = "h5feed::SampleUnit";
template <>
constexpr std::string_view kTypeName<TileOptions> = "h5feed::TileOptions";
template <>
constexpr std::string_view kTypeName<EpisodeOptions> = "h5feed::EpisodeOptions";
template <>
constexpr std::string_view kTypeName<EpisodeOptions::Index> = "h5feed::EpisodeOptions::Index";

template <typename T>
std::string cpp_literal(const T& value);

std::string cpp_literal(const std::string& value) { return literal(value); }
std::string cpp_literal(const std::filesystem::path& value) { return literal(value.string()); }
std::string cpp_literal(const TileExtent& value) {
  return value.depth > 0 ? fmt::format("{{{}, {}, {}}}", value.depth, value.height, value.width)
                         : fmt::format("{{{}, {}}}", value.height, value.width);
}

template <typename T>
std::string cpp_literal(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + cpp_literal(value);
  return fmt::format("{{{}}}", text);
}

template <typename T>
std::string cpp_literal(const std::optional<T>& value) {
  return value ? cpp_literal(*value) : "std::nullopt";
}

// The members that differ from their defaults, as designated initializers.
template <typename T>
std::string cpp_members(const T& options) {
  std::vector<std::string> defaults;
  const T none{};
  visit_options(none, [&](const char*, const auto& member) { defaults.push_back(cpp_literal(member)); });
  std::string text;
  std::size_t number = 0;
  visit_options(options, [&](const char* name, const auto& member) {
    const std::string value = cpp_literal(member);
    if (value != defaults[number++]) text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", name, value);
  });
  return text;
}

template <typename T>
std::string cpp_literal(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    for (const OptionWord<T>& word : kOptionWords<T>) {
      if (word.value == value) return fmt::format("{}::{}", kTypeName<T>, word.text);
    }
    return {};
  } else if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format("{}", value);
  } else if constexpr (std::is_same_v<T, SparseOptions::Column> || std::is_same_v<T, DType>) {
    return {};
  } else {
    return fmt::format("{}{{{}}}", kTypeName<T>, cpp_members(value));
  }
}

std::string python_literal(const Json& value) {
  if (value.is_string()) return literal(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_structured()) return value.is_null() ? "None" : value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += text.empty() ? "" : ", ";
    if (value.is_object()) text += literal(key) + ": ";
    text += python_literal(item);
  }
  return value.is_object() ? fmt::format("{{{}}}", text) : fmt::format("[{}]", text);
}

}  // namespace

std::string literal(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string lines_that_open(const DatasetOptions& options, const std::string& shown) {
  DatasetOptions named = options;
  named.files = {shown};
  std::string python = literal(shown);
  const Json json = options_json(options);
  for (const auto& [name, value] : json.items()) {
    if (name != "files") python += fmt::format(", {}={}", name, python_literal(value));
  }
  return fmt::format("  C++:    h5feed::Dataset::open({{{}}})\n  Python: h5feed.Dataset.open({})\n",
                     cpp_members(named), python);
}

std::string text_of(const std::vector<FoundSamples>& found, const std::string& shown) {
  std::string text;
  for (const FoundSamples& samples : found)
    text += fmt::format("{}:\n{}", samples.what, lines_that_open(samples.options, shown));
  return text;
}

}  // namespace h5feed::cli
