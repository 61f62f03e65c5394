// SPDX-License-Identifier: Apache-2.0
#include "dataset/null_characters.hpp"

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/option_spelling.hpp"
#include "base/terminal_text.hpp"
#include "h5feed/error.hpp"
#include "h5feed/option_names.hpp"

namespace h5feed {
namespace {

// Refuses null characters in every text of `value`, which messages call `name`.
struct NullCharacters {
  static void refuse(const std::string& name, const std::string& text) {
    if (text.find('\0') == std::string::npos) return;
    throw OptionError(
        fmt::format("{}: \"{}\" has a null character, which no path and no name can have; leave it out",
                    spelled(name), abridged(text)));
  }

  static void refuse(const std::string& name, const std::filesystem::path& path) {
    refuse(name, path.string());
  }

  static void refuse(const std::string& name, const SparseOptions::Column& column) {
    if (const auto* const text = std::get_if<std::string>(&column)) refuse(name, *text);
  }

  template <typename T>
  static void refuse(const std::string& name, const std::optional<T>& value) {
    if (value) refuse(name, *value);
  }

  template <typename T>
  static void refuse(const std::string& name, const std::vector<T>& values) {
    if constexpr (!std::integral<T> && !std::floating_point<T>) {
      for (std::size_t i = 0; i < values.size(); ++i)
        refuse(values.size() == 1 ? name : fmt::format("{}[{}]", name, i), values[i]);
    }
  }

  // Structs of options have names of their own; other values have no text.
  template <typename T>
  static void refuse(const std::string& name, const T& value) {
    if constexpr (requires { visit_options(value, [](const char*, const auto&) {}); }) {
      visit_options(value, [&](const char* member, const auto& part) {
        refuse(name.empty() ? std::string(member) : fmt::format("{}.{}", name, member), part);
      });
    }
  }
};

}  // namespace

void refuse_null_characters(const DatasetOptions& options) { NullCharacters::refuse({}, options); }
void refuse_null_characters(const DataLoaderOptions& options) { NullCharacters::refuse({}, options); }

}  // namespace h5feed
