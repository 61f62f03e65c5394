// SPDX-License-Identifier: Apache-2.0
// Conversion of options that are one of a few words.
#include <algorithm>
#include <array>
#include <string>

#include "h5feed/error.hpp"
#include "python/src/convert.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {
namespace {

template <typename Enum>
struct Word {
  const char* text;
  Enum value;
};

constexpr std::array<Word<Shard>, 3> kShards = {
    {{"strided", Shard::strided}, {"contiguous", Shard::contiguous}, {"by_chunk", Shard::by_chunk}}};
constexpr std::array<Word<Uneven>, 3> kUneven = {
    {{"exact", Uneven::exact}, {"pad", Uneven::pad}, {"drop", Uneven::drop}}};

template <typename Enum, std::size_t N>
void convert_word(const char* name, nb::handle value, const std::array<Word<Enum>, N>& words, Enum& into) {
  std::string choices;
  for (const Word<Enum>& word : words) {
    choices += (choices.empty() ? "\"" : ", \"") + std::string(word.text) + "\"";
  }
  if (!nb::isinstance<nb::str>(value)) wrong_type(name, choices.c_str(), value);
  const std::string text = bytes_of(name, value);
  for (const Word<Enum>& word : words) {
    if (word.text == text) {
      into = word.value;
      return;
    }
  }
  throw OptionError(std::string(name) + ": \"" + text + "\" is not one of " + choices);
}

}  // namespace

void convert(const char* name, nb::handle value, InputLayout& into) {
  static constexpr std::array<Word<InputLayout>, 9> kWords = {{{"automatic", InputLayout::automatic},
                                                               {"auto", InputLayout::automatic},
                                                               {"nchw", InputLayout::nchw},
                                                               {"nhwc", InputLayout::nhwc},
                                                               {"nhw", InputLayout::nhw},
                                                               {"ncdhw", InputLayout::ncdhw},
                                                               {"ndhwc", InputLayout::ndhwc},
                                                               {"ndhw", InputLayout::ndhw},
                                                               {"none", InputLayout::none}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, SampleUnit& into) {
  static constexpr std::array<Word<SampleUnit>, 2> kWords = {
      {{"row", SampleUnit::row}, {"dataset", SampleUnit::dataset}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, ImageColor& into) {
  static constexpr std::array<Word<ImageColor>, 4> kWords = {{{"rgb", ImageColor::rgb},
                                                              {"bgr", ImageColor::bgr},
                                                              {"gray", ImageColor::gray},
                                                              {"unchanged", ImageColor::unchanged}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, TileEdges& into) {
  static constexpr std::array<Word<TileEdges>, 3> kWords = {
      {{"drop", TileEdges::drop}, {"pad", TileEdges::pad}, {"shift", TileEdges::shift}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, TileTurns& into) {
  static constexpr std::array<Word<TileTurns>, 4> kWords = {{{"none", TileTurns::none},
                                                             {"flips", TileTurns::flips},
                                                             {"planar", TileTurns::planar},
                                                             {"all", TileTurns::all}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, EpisodeOptions::Index& into) {
  using enum EpisodeOptions::Index;
  static constexpr std::array<Word<EpisodeOptions::Index>, 4> kWords = {
      {{"datasets", datasets}, {"lengths", lengths}, {"ends", ends}, {"ids", ids}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, EpisodeOptions::Anchors& into) {
  static constexpr std::array<Word<EpisodeOptions::Anchors>, 2> kWords = {
      {{"every", EpisodeOptions::Anchors::every}, {"one_random", EpisodeOptions::Anchors::one_random}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, EpisodeOptions::Fill& into) {
  static constexpr std::array<Word<EpisodeOptions::Fill>, 2> kWords = {
      {{"repeat", EpisodeOptions::Fill::repeat}, {"zero", EpisodeOptions::Fill::zero}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, FieldUnit& into) {
  static constexpr std::array<Word<FieldUnit>, 3> kWords = {
      {{"row", FieldUnit::row}, {"episode", FieldUnit::episode}, {"file", FieldUnit::file}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, SplitBy& into) {
  using enum SplitBy;
  static constexpr std::array<Word<SplitBy>, 4> kWords = {
      {{"automatic", automatic}, {"auto", automatic}, {"sample", sample}, {"part", part}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, SparseFormat& into) {
  static constexpr std::array<Word<SparseFormat>, 2> kWords = {
      {{"csr", SparseFormat::csr}, {"dense", SparseFormat::dense}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, Collate& into) {
  static constexpr std::array<Word<Collate>, 3> kWords = {
      {{"stack", Collate::stack}, {"pad", Collate::pad}, {"ragged", Collate::ragged}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, CachePolicy& into) {
  static constexpr std::array<Word<CachePolicy>, 3> kWords = {{{"lru", CachePolicy::lru},
                                                               {"clairvoyant", CachePolicy::clairvoyant},
                                                               {"keep_first", CachePolicy::keep_first}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, RowReads& into) {
  static constexpr std::array<Word<RowReads>, 4> kWords = {{{"automatic", RowReads::automatic},
                                                            {"auto", RowReads::automatic},
                                                            {"always", RowReads::always},
                                                            {"never", RowReads::never}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, OnError& into) {
  static constexpr std::array<Word<OnError>, 3> kWords = {
      {{"fail", OnError::fail}, {"skip", OnError::skip}, {"replace", OnError::replace}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, OutputLayout& into) {
  static constexpr std::array<Word<OutputLayout>, 2> kWords = {
      {{"nchw", OutputLayout::nchw}, {"channels_last", OutputLayout::channels_last}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, OutputMemory& into) {
  static constexpr std::array<Word<OutputMemory>, 2> kWords = {
      {{"ring", OutputMemory::ring}, {"consumer", OutputMemory::consumer}}};
  convert_word(name, value, kWords, into);
}

void convert(const char* name, nb::handle value, Shard& into) { convert_word(name, value, kShards, into); }

void convert(const char* name, nb::handle value, Uneven& into) { convert_word(name, value, kUneven, into); }

const char* word_of(Shard shard) { return std::ranges::find(kShards, shard, &Word<Shard>::value)->text; }

const char* word_of(Uneven uneven) { return std::ranges::find(kUneven, uneven, &Word<Uneven>::value)->text; }

}  // namespace h5feed::python
