// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>

#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

// Every integer up to this one is a float64.
constexpr std::int64_t kLargestExact = std::int64_t{1} << 53;

enum class Kind { integer, fraction, text };

struct Parsed {
  Kind kind = Kind::text;
  std::int64_t whole = 0;
  double value = 0;
};

// The first bytes of a label, for a message.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? std::string(text) : fmt::format("{}...", text.substr(0, kMost));
}

[[noreturn]] void refuse_label(const LabelText& label, std::string_view problem) {
  throw FileError(fmt::format("{}: line {} has the label \"{}\", {}", label.list, label.line,
                              shown(label.text), problem));
}

// Parses a number that fills the whole text. "nan" and "inf" are names.
Parsed parse(const LabelText& label) {
  std::string_view text = label.text;
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* const last = text.data() + text.size();
  Parsed parsed;
  const auto whole = std::from_chars(text.data(), last, parsed.whole);
  if (whole.ptr == last) {
    if (whole.ec == std::errc::result_out_of_range)
      refuse_label(label, "which does not fit an integer of 64 bits; give smaller numbers");
    if (whole.ec == std::errc()) {
      parsed.kind = Kind::integer;
      parsed.value = static_cast<double>(parsed.whole);
      return parsed;
    }
  }
  const auto number = std::from_chars(text.data(), last, parsed.value);
  if (number.ptr != last || number.ec == std::errc::invalid_argument) return parsed;
  if (number.ec != std::errc()) refuse_label(label, "which is outside the range of float64; change it");
  if (std::isfinite(parsed.value)) parsed.kind = Kind::fraction;
  return parsed;
}

[[noreturn]] void refuse_mixed(const LabelText& number, const LabelText& text) {
  const std::string other = number.list == text.list ? "" : fmt::format("{}: ", text.list);
  const std::string_view header = text.line == 1 ? "; if it names the columns, call them path and label" : "";
  throw FileError(
      fmt::format("{}: line {} has the label \"{}\", a number, and {}line {} has \"{}\", which is no number; "
                  "give numbers in all lines, or names in all{}",
                  number.list, number.line, shown(number.text), other, text.line, shown(text.text), header));
}

Labels named(std::span<const LabelText> texts) {
  std::set<std::string_view> names;
  for (const LabelText& label : texts) names.insert(label.text);
  Labels labels;
  labels.class_names.assign(names.begin(), names.end());
  for (const LabelText& label : texts) {
    const auto place = std::ranges::lower_bound(labels.class_names, label.text);
    labels.labels.push_back(place - labels.class_names.begin());
  }
  return labels;
}

}  // namespace

Labels labels_of(std::span<const LabelText> texts) {
  const LabelText* number = nullptr;
  const LabelText* text = nullptr;
  bool fractions = false;
  std::vector<Parsed> all;
  all.reserve(texts.size());
  for (const LabelText& label : texts) {
    const Parsed& parsed = all.emplace_back(parse(label));
    fractions = fractions || parsed.kind == Kind::fraction;
    const LabelText*& first = parsed.kind == Kind::text ? text : number;
    if (first == nullptr) first = &label;
  }
  if (number != nullptr && text != nullptr) refuse_mixed(*number, *text);
  if (number == nullptr) return named(texts);
  Labels labels;
  for (std::size_t i = 0; i < all.size(); ++i) {
    labels.labels.push_back(fractions ? static_cast<std::int64_t>(i) : all[i].whole);
    if (!fractions) continue;
    if (all[i].whole > kLargestExact || all[i].whole < -kLargestExact)
      refuse_label(texts[i], "which float64, the type of labels with fractions, cannot hold; round it");
    labels.values.push_back(all[i].value);
  }
  return labels;
}

}  // namespace h5feed::cli
