// SPDX-License-Identifier: Apache-2.0
// Conversion of options that are one of a few words.
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "h5feed/error.hpp"
#include "h5feed/option_names.hpp"
#include "python/src/convert.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {
namespace {

template <typename Enum>
void convert_word(const char* name, nb::handle value, Enum& into) {
  std::string choices;
  for (const OptionWord<Enum>& word : kOptionWords<Enum>) {
    choices += (choices.empty() ? "\"" : ", \"") + std::string(word.text) + "\"";
  }
  if (!nb::isinstance<nb::str>(value)) wrong_type(name, choices.c_str(), value);
  const std::string text = bytes_of(name, value);
  if (const std::optional<Enum> word = option_value<Enum>(text)) {
    into = *word;
    return;
  }
  throw OptionError(std::string(name) + ": \"" + text + "\" is not one of " + choices);
}

template <typename Enum>
const char* word_in_options(Enum value) {
  return std::ranges::find(kOptionWords<Enum>, value, &OptionWord<Enum>::value)->text.data();
}

}  // namespace

void convert(const char* name, nb::handle value, InputLayout& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, SampleUnit& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, Isolation& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, ImageColor& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, TileEdges& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, TileTurns& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, EpisodeOptions::Index& into) {
  convert_word(name, value, into);
}

void convert(const char* name, nb::handle value, EpisodeOptions::Anchors& into) {
  convert_word(name, value, into);
}

void convert(const char* name, nb::handle value, EpisodeOptions::Fill& into) {
  convert_word(name, value, into);
}

void convert(const char* name, nb::handle value, FieldUnit& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, SplitBy& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, SparseFormat& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, Collate& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, Shard& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, Uneven& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, CachePolicy& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, RowReads& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, OnError& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, OutputLayout& into) { convert_word(name, value, into); }

void convert(const char* name, nb::handle value, OutputMemory& into) { convert_word(name, value, into); }

const char* word_of(Shard shard) { return word_in_options(shard); }

const char* word_of(Uneven uneven) { return word_in_options(uneven); }

}  // namespace h5feed::python
