// SPDX-License-Identifier: Apache-2.0
// The grammar of filters: parsing and formatting.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "h5feed/error.hpp"
#include "store/filters/entry.hpp"

namespace h5feed {
namespace {

// Returns the joined texts of all filters that have one: "gzip:0..9|lz4".
std::string joined(std::string_view FilterSpelling::*text, std::string_view separator) {
  std::string result;
  for (const FilterEntry* filter : all_filters()) {
    if ((filter->spelling.*text).empty()) continue;
    if (!result.empty()) result += separator;
    result += filter->spelling.*text;
  }
  return result;
}

[[noreturn]] void refuse(std::string_view text) {
  throw OptionError(
      fmt::format("filter \"{}\": accepted are none and [{}+]{}[+{}], for example shuffle+gzip:4", text,
                  joined(&FilterSpelling::before, "+|"), joined(&FilterSpelling::compressor, "|"),
                  joined(&FilterSpelling::after, "|+")));
}

// Removes the text up to the next '+' from the front and returns it.
std::string_view take_stage(std::string_view& rest) {
  const std::size_t plus = rest.find('+');
  const std::string_view stage = rest.substr(0, plus);
  rest = plus == std::string_view::npos ? std::string_view() : rest.substr(plus + 1);
  return stage;
}

// Marks compressors as optional on writing, as libhdf5 does for deflate: a writer may store a chunk without
// them.
FilterSpec spec_of(const FilterEntry& filter, std::vector<unsigned> params) {
  return {.id = filter.id,
          .optional = filter.verify == nullptr,
          .params = std::move(params),
          .name = std::string(filter.name)};
}

// Returns the filter with that name before a compressor, or after everything else.
std::optional<FilterSpec> parse_fixed(std::string_view FilterSpelling::*place, std::string_view stage,
                                      const StageContext& context) {
  for (const FilterEntry* filter : all_filters()) {
    if (stage.empty() || filter->spelling.*place != stage) continue;
    if (auto params = filter->parse(stage, context)) return spec_of(*filter, std::move(*params));
  }
  return std::nullopt;
}

std::optional<FilterSpec> parse_compressor(std::string_view stage, const StageContext& context) {
  for (const FilterEntry* filter : all_filters()) {
    if (filter->spelling.compressor.empty() || stage == filter->spelling.before) continue;
    if (auto params = filter->parse(stage, context)) return spec_of(*filter, std::move(*params));
  }
  return std::nullopt;
}

}  // namespace

std::optional<unsigned> level_of(std::string_view stage, std::string_view name, const LevelRange& range) {
  if (!stage.starts_with(name)) return std::nullopt;
  stage.remove_prefix(name.size());
  if (stage.empty()) return range.otherwise;
  if (!stage.starts_with(':')) return std::nullopt;
  stage.remove_prefix(1);
  unsigned level = 0;
  const auto [end, error] = std::from_chars(stage.data(), stage.data() + stage.size(), level);
  if (error != std::errc() || end != stage.data() + stage.size()) return std::nullopt;
  if (level < range.least || level > range.most) return std::nullopt;
  return level;
}

std::optional<std::vector<unsigned>> level_params(std::string_view stage, std::string_view name,
                                                  const LevelRange& range) {
  const std::optional<unsigned> level = level_of(stage, name, range);
  return level ? std::optional(std::vector{*level}) : std::nullopt;
}

std::optional<std::vector<unsigned>> params_of_name(std::string_view stage, std::string_view name,
                                                    std::vector<unsigned> params) {
  return stage == name ? std::optional(std::move(params)) : std::nullopt;
}

std::string level_text(const std::vector<unsigned>& params) {
  return params.empty() ? "" : fmt::format(":{}", params.front());
}

std::vector<FilterSpec> parse_filters(std::string_view text, std::size_t element_bytes) {
  if (text == "none") return {};
  if (text.empty() || text.ends_with('+')) refuse(text);
  std::vector<FilterSpec> filters;
  StageContext context{.element_bytes = element_bytes};
  std::string_view rest = text;
  std::string_view stage = take_stage(rest);
  if (auto shuffle = parse_fixed(&FilterSpelling::before, stage, context)) {
    filters.push_back(std::move(*shuffle));
    context.shuffled = true;
    stage = take_stage(rest);
  }
  std::optional<FilterSpec> last = parse_fixed(&FilterSpelling::after, stage, context);
  // A shuffle alone does not compress: a compressor must follow.
  if (last && context.shuffled) refuse(text);
  if (!last) {
    auto compressor = parse_compressor(stage, context);
    if (!compressor) refuse(text);
    filters.push_back(std::move(*compressor));
    if (rest.empty()) return filters;
    last = parse_fixed(&FilterSpelling::after, take_stage(rest), context);
  }
  if (!last || !rest.empty()) refuse(text);
  filters.push_back(std::move(*last));
  return filters;
}

std::string format_filters(const std::vector<FilterSpec>& filters) {
  if (filters.empty()) return "none";
  std::string text;
  for (const FilterSpec& filter : filters) {
    if (!text.empty()) text += '+';
    text += filter.name;
    const FilterEntry& entry = filter_entry(filter.id);
    if (entry.parameter_text != nullptr) text += entry.parameter_text(filter.params);
  }
  return text;
}

}  // namespace h5feed
