// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "tools/storage/image_choice.hpp"

namespace h5feed::cli {
namespace {

constexpr std::array<std::string_view, 14> kSampleWords = {
    "x",      "data",  "image",  "images", "img",     "imgs",    "input",
    "inputs", "pixel", "pixels", "sample", "samples", "feature", "features"};
constexpr std::array<std::string_view, 9> kLabelWords = {"y",      "label",   "labels", "lbl",    "lbls",
                                                         "target", "targets", "output", "outputs"};

template <std::size_t Count>
bool is_one_of(std::string_view word, const std::array<std::string_view, Count>& words) {
  return std::ranges::find(words, word) != words.end();
}

// Words of a path in lower case, cut at whatever is no letter and before capitals ("trainX"). Slashes stay as
// words of their own, so that groups count.
std::vector<std::string> words_of_path(std::string_view path) {
  std::vector<std::string> words;
  bool open = false;  // whether the last word goes on
  char before = 0;
  for (const char c : path) {
    const auto letter = static_cast<unsigned char>(c);
    if (c == '/') {
      words.emplace_back("/");
      open = false;
    } else if (std::isalnum(letter) == 0) {
      open = false;
    } else {
      const auto last = static_cast<unsigned char>(before);
      const bool cut = (std::isupper(letter) != 0 && std::islower(last) != 0) ||
                       (std::isdigit(letter) != 0) != (std::isdigit(last) != 0);
      if (!open || cut) words.emplace_back();
      words.back() += static_cast<char>(std::tolower(letter));
      open = true;
    }
    before = c;
  }
  return words;
}

// Returns, for each word of the path that is in `meaning`, the path without it: the name of the split, with
// the place of the word.
template <std::size_t Count>
std::set<std::vector<std::string>> splits_of(const NamedArray& array,
                                             const std::array<std::string_view, Count>& meaning) {
  const std::vector<std::string> words = words_of_path(array.path);
  std::set<std::vector<std::string>> splits;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_one_of(words[i], meaning)) continue;
    std::vector<std::string> rest = words;
    rest[i] = "*";
    splits.insert(std::move(rest));
  }
  return splits;
}

std::string_view group_of_array(const NamedArray& array) {
  return std::string_view(array.path).substr(0, array.path.rfind('/'));
}

bool belong_together(const NamedArray& labels, const NamedArray& samples) {
  if (samples.shape.size() < 2 || named_as_labels(samples.path)) return false;
  if (named_as_labels(labels.path) && group_of_array(labels) == group_of_array(samples)) return true;
  const auto of_labels = splits_of(labels, kLabelWords);
  const auto of_samples = splits_of(samples, kSampleWords);
  return std::ranges::any_of(of_labels, [&](const auto& split) { return of_samples.contains(split); });
}

}  // namespace

void check_pairs(std::span<const NamedArray> arrays) {
  for (const NamedArray& labels : arrays) {
    const NamedArray* other = nullptr;
    bool fits = false;
    for (const NamedArray& samples : arrays) {
      if (&samples == &labels || !belong_together(labels, samples)) continue;
      if (other == nullptr) other = &samples;
      fits = fits || samples.shape.front() == labels.shape.front();
    }
    if (other == nullptr || fits) continue;
    throw DatasetError(
        fmt::format("{} {} has {} rows, and {} {} has {}; pack files of one set, or into different groups",
                    labels.option, labels.path.substr(1), format_count(labels.shape.front()), other->option,
                    other->path.substr(1), format_count(other->shape.front())));
  }
}

}  // namespace h5feed::cli
