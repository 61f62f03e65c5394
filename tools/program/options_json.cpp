// SPDX-License-Identifier: Apache-2.0
#include "tools/program/options_json.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/terminal_text.hpp"
#include "h5feed/error.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

// A struct of options with names of its own.
template <typename T>
concept OptionStruct = requires(T& options) {
  visit_options(options, [](const char*, auto&) {});
};

// Values as JSON.

Json as_json(const std::filesystem::path& value);
Json as_json(const Shuffle& value);
Json as_json(const LoaderDevice& value);
Json as_json(const GpuCacheBytes& value);
Json as_json(std::chrono::milliseconds value);
Json as_json(const TileExtent& value);
Json as_json(const SparseOptions::Column& value);
Json as_json(const EpochSize& value);
template <typename T>
Json as_json(const std::vector<T>& values);
template <typename T>
Json as_json(const std::optional<T>& value);

template <typename T>
Json as_json(const T& value) {
  if constexpr (std::same_as<T, DType>) {
    return Json(name_of(value));
  } else if constexpr (std::is_enum_v<T>) {
    for (const OptionWord<T>& word : kOptionWords<T>) {
      if (word.value == value) return Json(word.text);
    }
    return {};
  } else if constexpr (OptionStruct<T>) {
    Json json = Json::object();
    const T defaults{};
    visit_options(value, [&](const char* name, const auto& member) { json[name] = as_json(member); });
    visit_options(defaults, [&](const char* name, const auto& member) {
      if (json[name] == as_json(member)) json.erase(name);
    });
    return json;
  } else {
    return value;
  }
}

Json as_json(const std::filesystem::path& value) { return value.string(); }
Json as_json(const Shuffle& value) { return value.to_string(); }
Json as_json(const LoaderDevice& value) { return value.name(); }
Json as_json(const GpuCacheBytes& value) { return value.automatic() ? Json("auto") : Json(value.bytes()); }
Json as_json(std::chrono::milliseconds value) { return std::chrono::duration<double>(value).count(); }
Json as_json(const TileExtent& value) {
  if (value.depth > 0) return {value.depth, value.height, value.width};
  return {value.height, value.width};
}

Json as_json(const SparseOptions::Column& value) {
  return std::visit([](const auto& column) { return Json(column); }, value);
}

Json as_json(const EpochSize& value) {
  if (value.kind() == EpochSize::Kind::samples) return value.samples();
  return value.kind() == EpochSize::Kind::longest ? "longest" : "shortest";
}

template <typename T>
Json as_json(const std::vector<T>& values) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(as_json(value));
  return json;
}

template <typename T>
Json as_json(const std::optional<T>& value) {
  return value ? as_json(*value) : Json();
}

// Values from JSON. `where` names the option in messages.

[[noreturn]] void refuse(const std::string& where, const Json& json, std::string_view expected) {
  const std::string text = printable(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  throw OptionError(fmt::format("{}: expected {}, got {}", printable(where), expected, abridged(text)));
}

// Returns the text of a path or a name, which the system and libhdf5 end at a null character.
std::string text_from(const std::string& where, const Json& json, std::string_view expected) {
  if (!json.is_string()) refuse(where, json, expected);
  const auto& text = json.get_ref<const std::string&>();
  if (text.find('\0') != std::string::npos)
    refuse(where, json, fmt::format("{} without a null character", expected));
  return text;
}

void set_value(const std::string& where, const Json& json, std::filesystem::path& into);
void set_value(const std::string& where, const Json& json, Shuffle& into);
void set_value(const std::string& where, const Json& json, LoaderDevice& into);
void set_value(const std::string& where, const Json& json, std::chrono::milliseconds& into);
void set_value(const std::string& where, const Json& json, std::optional<std::chrono::milliseconds>& into);
void set_value(const std::string& where, const Json& json, GpuCacheBytes& into);
void set_value(const std::string& where, const Json& json, TileExtent& into);
void set_value(const std::string& where, const Json& json, SparseOptions::Column& into);
void set_value(const std::string& where, const Json& json, EpochSize& into);
template <typename T>
void set_value(const std::string& where, const Json& json, std::vector<T>& into);
template <typename T>
void set_value(const std::string& where, const Json& json, std::optional<T>& into);
template <typename T>
void set_value(const std::string& where, const Json& json, T& into);

void set_value(const std::string& where, const Json& json, std::filesystem::path& into) {
  into = text_from(where, json, "a path");
}

void set_value(const std::string& where, const Json& json, Shuffle& into) {
  if (json.is_boolean()) {
    into = Shuffle(json.get<bool>());
  } else if (json.is_string()) {
    into = Shuffle(json.get<std::string>());
  } else {
    refuse(where, json, "true, false, \"full\", \"sequential\" or \"chunk:K\"");
  }
}

void set_value(const std::string& where, const Json& json, LoaderDevice& into) {
  if (!json.is_string()) refuse(where, json, "\"cpu\", \"cuda:N\" or \"auto\"");
  into = LoaderDevice(json.get<std::string>());
}

void set_value(const std::string& where, const Json& json, std::chrono::milliseconds& into) {
  constexpr double kMost = 1e12;  // far beyond any run, and within the range of milliseconds
  if (!json.is_number() || !(json.get<double>() > 0) || json.get<double>() > kMost)
    refuse(where, json, "seconds above 0");
  into = std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(json.get<double>() * 1000)));
}

void set_value(const std::string& where, const Json& json, std::optional<std::chrono::milliseconds>& into) {
  into.reset();
  if (json.is_null() || json == 0) return;  // 0 is no limit, as in Python
  set_value(where, json, into.emplace());
}

void set_value(const std::string& where, const Json& json, GpuCacheBytes& into) {
  if (json.is_string()) {
    into = GpuCacheBytes(json.get<std::string>());
    return;
  }
  std::uint64_t bytes = 0;
  set_value(where, json, bytes);
  into = bytes;
}

void set_value(const std::string& where, const Json& json, SparseOptions::Column& into) {
  if (json.is_string()) {
    into = text_from(where, json, "a name");
  } else {
    set_value(where, json, into.emplace<std::int64_t>());
  }
}

void set_value(const std::string& where, const Json& json, EpochSize& into) {
  if (json.is_string()) {
    into = json.get<std::string>();
    return;
  }
  std::int64_t samples = 0;
  set_value(where, json, samples);
  into = samples;
}

void set_value(const std::string& where, const Json& json, TileExtent& into) {
  std::vector<std::int64_t> extents;
  if (json.is_array()) {
    for (const Json& extent : json) set_value(where, extent, extents.emplace_back());
  } else {
    set_value(where, json, extents.emplace_back());
    extents.push_back(extents.front());
  }
  if (extents.size() != 2 && extents.size() != 3)
    refuse(where, json, "pixels, [height, width] or [depth, height, width]");
  into = extents.size() == 2 ? TileExtent(extents[0], extents[1])
                             : TileExtent(extents[0], extents[1], extents[2]);
}

template <typename T>
void set_value(const std::string& where, const Json& json, std::vector<T>& into) {
  into.clear();
  // As in Python, one value may stand for a list of one.
  if (!json.is_array()) {
    set_value(where, json, into.emplace_back());
    return;
  }
  for (std::size_t i = 0; i < json.size(); ++i)
    set_value(fmt::format("{}[{}]", where, i), json[i], into.emplace_back());
}

template <typename T>
void set_value(const std::string& where, const Json& json, std::optional<T>& into) {
  if (json.is_null()) {
    into.reset();
  } else {
    T value{};
    set_value(where, json, value);
    into = std::move(value);
  }
}

template <typename T>
void set_word(const std::string& where, const Json& json, T& into) {
  if (json.is_string()) {
    if (const std::optional<T> value = option_value<T>(json.get_ref<const std::string&>())) {
      into = *value;
      return;
    }
  }
  std::string choices;
  for (const OptionWord<T>& word : kOptionWords<T>)
    choices += fmt::format("{}\"{}\"", choices.empty() ? "" : ", ", word.text);
  refuse(where, json, "one of " + choices);
}

template <typename T>
void set_struct(const std::string& where, const Json& json, T& into) {
  if (!json.is_object()) refuse(where, json, "an object of options");
  std::size_t found = 0;
  std::string names;
  visit_options(into, [&](const char* name, auto& member) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    const auto given = json.find(name);
    if (given == json.end()) return;
    ++found;
    set_value(fmt::format("{}.{}", where, name), *given, member);
  });
  if (found == json.size()) return;
  for (const auto& item : json.items()) {
    const std::string& name = item.key();
    bool known = false;
    visit_options(into, [&](const char* option, auto&) { known = known || name == option; });
    if (!known)
      throw OptionError(fmt::format("{} has no option \"{}\"; it has {}", printable(where),
                                    abridged(printable(name)), names));
  }
}

template <typename T>
void set_value(const std::string& where, const Json& json, T& into) {
  if constexpr (std::same_as<T, bool>) {
    if (!json.is_boolean()) refuse(where, json, "true or false");
    into = json.get<bool>();
  } else if constexpr (std::same_as<T, std::string>) {
    into = text_from(where, json, "text");
  } else if constexpr (std::same_as<T, double>) {
    if (!json.is_number()) refuse(where, json, "a number");
    into = json.get<double>();
  } else if constexpr (std::same_as<T, DType>) {
    const auto dtype = json.is_string() ? dtype_from_name(json.get<std::string>()) : std::nullopt;
    if (!dtype) refuse(where, json, "an element type, such as \"float32\"");
    into = *dtype;
  } else if constexpr (std::is_enum_v<T>) {
    set_word(where, json, into);
  } else if constexpr (std::integral<T>) {
    const bool fits = json.is_number_unsigned()
                          ? json.get<std::uint64_t>() <= std::uint64_t{INT64_MAX} || std::unsigned_integral<T>
                          : json.is_number_integer() && std::signed_integral<T>;
    if (!fits) refuse(where, json, "a whole number");
    into = json.get<T>();
  } else if constexpr (std::same_as<T, Echo>) {
    if (json.is_object()) {
      set_struct(where, json, into);
    } else {
      set_value(where, json, into.factor);
    }
  } else {
    set_struct(where, json, into);
  }
}

// The name `num_workers` has a word that its type, a number, does not have.
Json with_workers(const std::string& where, Json json) {
  const auto workers = json.is_object() ? json.find("num_workers") : json.end();
  if (workers == json.end()) return json;
  // A negative number means a word in C++ only.
  const bool negative = workers->is_number_integer() && *workers < 0;
  if (negative || (workers->is_string() && *workers != "auto"))
    refuse(where + ".num_workers", *workers, "a number of at least 0 or \"auto\"");
  if (workers->is_string()) *workers = kAuto;
  return json;
}

}  // namespace

Json options_json(const DatasetOptions& options) { return as_json(options); }

Json options_json(const DataLoaderOptions& options) {
  Json json = as_json(options);
  if (options.num_workers == kAuto) json["num_workers"] = "auto";
  return json;
}

Json options_json(const MixtureOptions& options) { return as_json(options); }

void read_options(const std::string& where, const Json& json, DatasetOptions& options) {
  set_struct(where, json, options);
}

void read_options(const std::string& where, const Json& json, DataLoaderOptions& options) {
  set_struct(where, with_workers(where, json), options);
}

void read_options(const std::string& where, const Json& json, MixtureOptions& options) {
  set_struct(where, json, options);
}

bool is_loader_option(const std::string& name) {
  bool found = false;
  DataLoaderOptions options;
  visit_options(options, [&](const char* option, auto&) { found = found || name == option; });
  return found;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  const auto add = [&](const char* option, auto&) { names.emplace_back(option); };
  DatasetOptions dataset;
  DataLoaderOptions loader;
  visit_options(dataset, add);
  visit_options(loader, add);
  return names;
}

Config read_config(const std::filesystem::path& file, Config defaults) {
  Config config = std::move(defaults);
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string name = printable(file.string());
  if (!in) throw FileError(fmt::format("{}: cannot be read; give a configuration file", name));
  std::string too_deep;
  const Json json = json_from(text, &too_deep);
  if (!json.is_object()) {
    throw OptionError(fmt::format("{}: {}; h5feed info FILE --write-config writes a configuration", name,
                                  too_deep.empty() ? "not a JSON object" : too_deep));
  }
  for (const auto& [key, value] : json.items()) {
    if (key == "dataset") {
      read_options(file.string() + ": dataset", value, config.dataset);
    } else if (key == "mixture") {
      read_options(file.string() + ": mixture", value, config.mixture.emplace());
    } else if (key == "loader") {
      read_options(file.string() + ": loader", value, config.loader);
    } else {
      throw OptionError(
          fmt::format("{}: no part \"{}\"; a configuration has \"dataset\" or \"mixture\", and \"loader\"",
                      name, abridged(printable(key))));
    }
  }
  if (json.contains("dataset") && json.contains("mixture")) {
    throw OptionError(fmt::format(
        "{}: \"dataset\" and \"mixture\" exclude each other; describe each set in mixture.sets", name));
  }
  return config;
}

void write_config(const std::filesystem::path& file, const DatasetOptions& dataset,
                  const DataLoaderOptions& loader) {
  const Json json = {{"dataset", options_json(dataset)}, {"loader", options_json(loader)}};
  try {
    write_file(file, json.dump(2) + '\n');
  } catch (const Json::type_error&) {
    throw OptionError(
        fmt::format("{}: a path of the dataset is not UTF-8, which JSON cannot hold; rename or link the file",
                    printable(file.string())));
  }
}

}  // namespace h5feed::cli
