// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/reading_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "base/files/file_list.hpp"
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

namespace fs = std::filesystem;

// How an epoch ended: with an error, after so many batches, or without one.
struct EpochEnd {
  std::string error = {};
  std::int64_t batches = 0;
};

// Reads the first batches of an epoch. Throws errors that are not about the data, such as of a thread that
// cannot be started.
EpochEnd read_batches(const Dataset& dataset, const Examined& examined,
                      std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const ScopedLogSink quiet(ignore_log);
  EpochEnd end;
  try {
    DataLoader loader(dataset, loader_options(examined.settings, examined.num_workers));
    for (; end.batches < most && loader.next(); ++end.batches) check_interrupted();
  } catch (const FileError& error) {
    end.error = error.what();
  } catch (const DatasetError& error) {
    end.error = error.what();
  } catch (const ChunkError& error) {
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

// Returns that of the files which the error names, else the first.
std::string named_file(const std::vector<fs::path>& files, std::string_view error) {
  const auto named = std::ranges::find_if(
      files, [&](const fs::path& file) { return error.starts_with(file.string() + ':'); });
  return (named != files.end() ? *named : files.front()).string();
}

// Returns the first file in which samples cannot be read.
std::string first_damaged_file(const Examined& examined) {
  const std::vector<fs::path> files = expand_files(examined.settings.dataset.files);
  if (files.size() == 1) return files.front().string();
  Examined strict = examined;
  strict.settings.loader.on_error = OnError::fail;
  return named_file(files, read_batches(examined.dataset, strict).error);
}

std::string check_mend(const std::string& file, const std::string& options = {}) {
  return fmt::format("h5feed check {}{} --bad-list bad.tsv  # lists all that cannot be read",
                     shell_word(file), options);
}

// Does without samples that cannot be read as the settings do, else as they can: batches of one sample cannot
// lose any.
OnError way_without(const Examined& examined) {
  const OnError given = examined.settings.loader.on_error;
  if (given != OnError::fail) return given;
  return examined.options.batched ? OnError::skip : OnError::replace;
}

// The samples of an epoch, and those of them that cannot be read.
struct BadShare {
  std::uint64_t samples = 0;
  std::uint64_t bad = 0;
};

// Reads an epoch without the samples that cannot be read. Nothing where that fails, or takes too long.
std::optional<BadShare> bad_share(const Examined& examined, Clock::time_point deadline) {
  const ScopedLogSink quiet(ignore_log);
  BenchSettings settings = examined.settings;
  settings.loader.on_error = way_without(examined);
  settings.loader.max_bad_share = 1;
  settings.loader.bad_list.clear();
  try {
    DataLoader loader(examined.dataset, loader_options(settings, examined.num_workers));
    while (loader.next()) {
      check_interrupted();
      if (Clock::now() > deadline) return std::nullopt;
    }
    const LoaderStats stats = loader.stats();
    return BadShare{.samples = stats.samples + stats.samples_skipped,
                    .bad = stats.samples_skipped + stats.samples_replaced};
  } catch (const Error&) {
    return std::nullopt;  // for example, no sample is left to replace others
  }
}

// Returns the share with two digits, at least as large.
std::string rounded_up(double share) {
  const double digit = std::pow(10, std::floor(std::log10(share)) - 1);
  return fmt::format("{:.6g}", std::min(1.0, std::ceil(share / digit) * digit));
}

}  // namespace

bool are_encoded_images(const DatasetState& dataset) {
  if (dataset.sample_shape.size() != 3 || !dataset.options.images.shapes.empty()) return false;
  const auto parts = dataset.data.reader->parts();
  const DatasetInfo& info = parts.empty() ? dataset.data.info() : parts.front().reader->info();
  return open_isolated(info.file)->describe_ragged(info.path).has_value();
}

Fault damage_fault(const DatasetState& dataset, const std::string& file, const std::string& what) {
  return {Severity::serious, "damaged", what, {check_mend(file, size_option(dataset))}};
}

Fault opening_fault(const std::vector<fs::path>& files, const BenchSettings& settings,
                    const ChunkError& error) {
  const std::string_view text = error.what();
  const std::string file = named_file(files, text);
  const std::string_view behind_file = text.substr(std::min(text.size(), file.size() + 1));
  const std::string dataset(behind_file.substr(0, behind_file.find(": ")));
  const ImageOptions& images = settings.dataset.images;
  std::string options;
  if (images.height > 0) {
    options = fmt::format(" --image-size {}x{}", images.height, images.width);
  } else if (open_isolated(file)->describe_ragged(dataset)) {
    options = " --image-size HEIGHTxWIDTH";  // which its first image would have told
  }
  return {Severity::serious, "damaged", std::string(text), {check_mend(file, options)}};
}

Fault opening_fault(const FileError& error) {
  // Errors end with what to do, behind a semicolon.
  constexpr std::string_view kBeforeAdvice = "; ";
  const std::string_view text = error.what();
  const std::size_t end = text.rfind(kBeforeAdvice);
  if (end == std::string_view::npos) return {Severity::serious, "unreadable", std::string(text), {}};
  return {Severity::serious,
          "unreadable",
          std::string(text.substr(0, end)),
          {std::string(text.substr(end + kBeforeAdvice.size()))}};
}

std::optional<std::string> skip_mend(const Examined& examined, Clock::time_point deadline) {
  const std::string line = fmt::format("DataLoader(..., on_error=\"{}\"", name_of(way_without(examined)));
  const std::optional<BadShare> bad = bad_share(examined, deadline);
  const double allowed = DataLoaderOptions().max_bad_share;
  if (!bad)
    return fmt::format("{})  # trains without it, if at most {:.3g} % is damaged", line, 100 * allowed);
  if (bad->bad == 0 || bad->bad >= bad->samples) return std::nullopt;
  const double share = static_cast<double>(bad->bad) / static_cast<double>(bad->samples);
  return fmt::format("{}{})  # trains without the {} damaged of {} samples", line,
                     share > allowed ? fmt::format(", max_bad_share={}", rounded_up(share)) : std::string(),
                     format_count(bad->bad), format_count(bad->samples));
}

std::optional<Fault> skipped_fault(const Examined& examined, const Speed& speed, Clock::time_point deadline) {
  const std::string data = printable(short_path(examined.state().data.info().path));
  const std::optional<BadShare> bad = bad_share(examined, deadline);
  const bool seen = speed.samples_done_without() > 0;
  if (bad ? bad->bad == 0 : !seen) return std::nullopt;
  const std::string how_many =
      bad ? fmt::format("{} of {}", format_count(bad->bad), format_count(bad->samples)) : "some";
  Fault fault =
      damage_fault(examined.state(), first_damaged_file(examined),
                   fmt::format("{}: {} samples cannot be read; the settings {} them", data, how_many,
                               examined.settings.loader.on_error == OnError::skip ? "skip" : "replace"));
  if (!bad || bad->bad < bad->samples) fault.severity = Severity::minor;
  return fault;
}

std::optional<Fault> reading_fault(const Examined& examined) {
  const EpochEnd end = read_batches(examined.dataset, examined);
  if (end.error.empty()) return std::nullopt;
  if (differ_in_size(examined, end)) return size_fault(examined);
  return damage_fault(examined.state(), named_file(expand_files(examined.settings.dataset.files), end.error),
                      end.error);
}

}  // namespace h5feed::cli
