// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/reading_faults.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/joined_reader.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/image_choice.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::cli {
namespace {

// How an epoch ended: with an error, after so many batches, or without one.
struct EpochEnd {
  std::string error = {};
  std::int64_t batches = 0;
};

// Reads the first batches of an epoch.
EpochEnd read_batches(const Dataset& dataset, const Examined& examined,
                      std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const ScopedLogSink quiet(ignore_log);
  EpochEnd end;
  try {
    DataLoader loader(dataset, loader_options(examined.settings, examined.num_workers));
    for (; end.batches < most && loader.next(); ++end.batches) check_interrupted();
  } catch (const Error& error) {
    end.error = error.what();
  }
  return end;
}

// Returns height and width of the first image, which those of all are taken for. Tiles hide them.
std::pair<std::uint64_t, std::uint64_t> first_size(const DatasetState& dataset) {
  if (dataset.tiling) {
    DatasetOptions whole = dataset.options;
    whole.tiles.reset();
    return first_size(*DatasetAccess::state(open_dataset(whole, "doctor")));
  }
  const DatasetInfo& info = dataset.data.info();
  return {info.shape.at(1), info.shape.at(2)};
}

// Encoded images are read as if they had the size of the first one. If that is why an epoch fails, its batch
// of that error is read once all are scaled to that size.
bool differ_in_size(const Examined& examined, const EpochEnd& end) {
  DatasetOptions scaled = examined.settings.dataset;
  if (scaled.images.height != 0 || !are_encoded_images(examined.state())) return false;
  const auto [height, width] = first_size(examined.state());
  scaled.images.height = static_cast<std::int64_t>(height);
  scaled.images.width = static_cast<std::int64_t>(width);
  try {
    return read_batches(open_dataset(scaled, "doctor"), examined, end.batches + 1).error.empty();
  } catch (const Error&) {
    return false;  // for example, a file was removed
  }
}

Fault size_fault(const Examined& examined) {
  const auto [height, width] = first_size(examined.state());
  return {Severity::serious,
          "image_sizes",
          fmt::format("{}: the images differ in size, and a batch has images of one",
                      printable(examined.settings.dataset.data)),
          {fmt::format("h5feed doctor {} --image-size {}x{}  # scales all to the size of the first",
                       examined.typed, height, width),
           fmt::format("Dataset.open(..., images={{\"height\": {}, \"width\": {}}})", height, width)}};
}

// `check` decodes encoded images only if it is told their size.
std::string size_option(const DatasetState& dataset) {
  if (!are_encoded_images(dataset)) return {};
  const auto [height, width] = first_size(dataset);
  return fmt::format(" --image-size {}x{}", height, width);
}

// Returns the file that the error names, of those with samples; else the first one as typed.
std::string named_file(const Examined& examined, std::string_view error) {
  for (const JoinedPart& part : examined.state().data.reader->parts()) {
    const std::string& file = part.reader->info().file;
    if (error.starts_with(file + ':')) return file;
  }
  return examined.settings.file();
}

}  // namespace

bool are_encoded_images(const DatasetState& dataset) {
  if (dataset.sample_shape.size() != 3 || !dataset.options.images.shapes.empty()) return false;
  const auto parts = dataset.data.reader->parts();
  const DatasetInfo& info = parts.empty() ? dataset.data.info() : parts.front().reader->info();
  return open_isolated(info.file)->describe_ragged(info.path).has_value();
}

Fault damage_fault(const DatasetState& dataset, const std::string& file, const std::string& what) {
  return {
      Severity::serious,
      "damaged",
      what,
      {fmt::format("h5feed check {}{} --bad-list bad.tsv  # lists all that cannot be read", shell_word(file),
                   size_option(dataset)),
       "DataLoader(..., on_error=\"skip\")  # trains without it, if no more than max_bad_share is damaged"}};
}

std::optional<Fault> reading_fault(const Examined& examined) {
  const EpochEnd end = read_batches(examined.dataset, examined);
  if (end.error.empty()) return std::nullopt;
  if (differ_in_size(examined, end)) return size_fault(examined);
  return damage_fault(examined.state(), named_file(examined, end.error), end.error);
}

}  // namespace h5feed::cli
