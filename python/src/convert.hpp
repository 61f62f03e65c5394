// SPDX-License-Identifier: Apache-2.0
// Conversion of option values from Python.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/sample_reader.hpp"

namespace h5feed::python {

namespace nb = nanobind;

/// `num_workers`: a number, or "auto".
struct WorkerCount {
  std::int64_t count = 0;
};

/// Raises TypeError for a value that is not what the option `name` expects.
[[noreturn]] void wrong_type(const char* name, const char* expected, nb::handle value);

// Each converts `value` of the option `name`. They raise TypeError for a value of the wrong type and
// ValueError for a word that the option does not have; both name the option.
void convert(const char* name, nb::handle value, bool& into);
void convert(const char* name, nb::handle value, double& into);
void convert(const char* name, nb::handle value, std::int64_t& into);
void convert(const char* name, nb::handle value, std::uint64_t& into);
void convert(const char* name, nb::handle value, std::string& into);
void convert(const char* name, nb::handle value, std::chrono::milliseconds& into);
void convert(const char* name, nb::handle value, std::vector<double>& into);
void convert(const char* name, nb::handle value, std::vector<std::int64_t>& into);
void convert(const char* name, nb::handle value, std::vector<std::filesystem::path>& into);
void convert(const char* name, nb::handle value, std::vector<FieldOptions>& into);
void convert(const char* name, nb::handle value, DType& into);
void convert(const char* name, nb::handle value, TileExtent& into);
void convert(const char* name, nb::handle value, GpuCacheBytes& into);
void convert(const char* name, nb::handle value, LoaderDevice& into);
void convert(const char* name, nb::handle value, WorkerCount& into);
void convert(const char* name, nb::handle value, Shuffle& into);
void convert(const char* name, nb::handle value, InputLayout& into);
void convert(const char* name, nb::handle value, SampleUnit& into);
void convert(const char* name, nb::handle value, Isolation& into);
void convert(const char* name, nb::handle value, ImageColor& into);
void convert(const char* name, nb::handle value, TileEdges& into);
void convert(const char* name, nb::handle value, TileTurns& into);
void convert(const char* name, nb::handle value, EpisodeOptions::Index& into);
void convert(const char* name, nb::handle value, EpisodeOptions::Anchors& into);
void convert(const char* name, nb::handle value, EpisodeOptions::Fill& into);
void convert(const char* name, nb::handle value, FieldUnit& into);
void convert(const char* name, nb::handle value, SplitBy& into);
void convert(const char* name, nb::handle value, Collate& into);
void convert(const char* name, nb::handle value, Shard& into);
void convert(const char* name, nb::handle value, Uneven& into);
void convert(const char* name, nb::handle value, CachePolicy& into);
void convert(const char* name, nb::handle value, RowReads& into);
void convert(const char* name, nb::handle value, OnError& into);
void convert(const char* name, nb::handle value, std::filesystem::path& into);
void convert(const char* name, nb::handle value, OutputLayout& into);
void convert(const char* name, nb::handle value, OutputMemory& into);
void convert(const char* name, nb::handle value, Normalize& into);
void convert(const char* name, nb::handle value, ImageOptions& into);
void convert(const char* name, nb::handle value, TileOptions& into);
void convert(const char* name, nb::handle value, EpisodeOptions& into);
void convert(const char* name, nb::handle value, SparseFormat& into);
void convert(const char* name, nb::handle value, std::vector<SparseOptions::Column>& into);
void convert(const char* name, nb::handle value, SparseOptions& into);
void convert(const char* name, nb::handle value, Augment::RandomCrop& into);
void convert(const char* name, nb::handle value, Augment::RandomResizedCrop& into);
void convert(const char* name, nb::handle value, Augment& into);
void convert(const char* name, nb::handle value, Echo& into);

template <typename T>
void convert(const char* name, nb::handle value, std::optional<T>& into) {
  if (value.is_none()) {
    into.reset();
    return;
  }
  T converted{};  // not into.emplace(): Clang 14 finds no constructor of a class within a class
  convert(name, value, converted);
  into = std::move(converted);
}

/// Returns the word of a value, as `convert` takes it.
const char* word_of(Shard shard);
const char* word_of(Uneven uneven);

/// The keyword arguments of a call, each taken once.
class Keywords {
 public:
  /// Takes a copy of the dictionary.
  explicit Keywords(const nb::dict& given);
  /// Converts the argument `name` into `into`, if it was given.
  template <typename T>
  void take(const char* name, T& into) {
    if (const nb::object value = pop(name); value.is_valid()) convert(name, value, into);
  }
  /// Removes and returns the argument; invalid if it was not given.
  nb::object pop(const char* name);
  /// Raises TypeError if an argument is left, and names it.
  void finish(const char* function) const;

 private:
  nb::dict given_;
};

/// Returns the options of `Dataset.open`.
DatasetOptions dataset_options(const nb::dict& given);
/// Takes the options of a loader, except samplers and callbacks.
void take_loader_options(Keywords& given, DataLoaderOptions& options);
/// Returns the options of a reader.
SampleReaderOptions reader_options(const nb::dict& given);

}  // namespace h5feed::python
