// SPDX-License-Identifier: Apache-2.0
#include "dataset/episode_opener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "base/byte_units.hpp"
#include "base/interrupt.hpp"
#include "base/option_spelling.hpp"
#include "base/system_limits.hpp"
#include "base/with_type.hpp"
#include "dataset/episodes/episode_index.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/path_pattern.hpp"
#include "store/hdf5/text_list.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {
namespace {

constexpr std::int64_t kMaxOffset = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMaxWindow = 65'536;

void check_window(const std::string& name, const std::vector<std::int64_t>& window) {
  if (window.size() > kMaxWindow) {
    throw OptionError(fmt::format("{} has {} offsets; it may have {} at most", name,
                                  format_count(window.size()), kMaxWindow));
  }
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (window[i] < -kMaxOffset || window[i] > kMaxOffset) {
      throw OptionError(fmt::format("{}: offset {} is out of range; use {} to {} rows", name, window[i],
                                    -kMaxOffset, kMaxOffset));
    }
    if (i > 0 && window[i] <= window[i - 1]) {
      throw OptionError(fmt::format("{}: offset {} comes after {}; offsets must ascend, each once", name,
                                    window[i], window[i - 1]));
    }
  }
}

bool has_table(const EpisodeOptions& episodes) {
  return episodes.index != EpisodeOptions::Index::datasets && episodes.index != EpisodeOptions::Index::series;
}

void check_options(const DatasetOptions& options, const EpisodeOptions& episodes) {
  if (options.tiles) {
    throw OptionError(
        fmt::format("{} exclude windows and episodes; leave one of them out", spelled("tiles")));
  }
  if (options.sample != SampleUnit::row) {
    throw OptionError(
        fmt::format("{} makes a sample of a whole dataset, and windows and episodes are made of "
                    "rows; use {}",
                    spelled("sample", "dataset"), spelled("sample", "row")));
  }
  const bool needs_table = has_table(episodes);
  if (needs_table != !episodes.table.empty()) {
    throw OptionError(needs_table
                          ? fmt::format("{} is not set; name the dataset that tells the episodes, or use {}",
                                        spelled("episodes.table"), spelled("episodes.index", "datasets"))
                          : fmt::format("{} needs an index of lengths, ends or ids; set {}",
                                        spelled("episodes.table"), spelled("episodes.index")));
  }
  if (episodes.index == EpisodeOptions::Index::series && !episodes.only.empty()) {
    throw OptionError(fmt::format("{} lists episodes, and all rows of {} are one; leave it unset",
                                  spelled("episodes.only"), spelled("episodes.index", "series")));
  }
  for (const auto& [name, missing] : {std::pair("episodes.missing_before", episodes.missing_before),
                                      std::pair("episodes.missing_after", episodes.missing_after)}) {
    if (missing >= -1) continue;
    throw OptionError(
        fmt::format("{} must be 0 or more, or -1 for any number; got {}", spelled(name), missing));
  }
  check_window(spelled("window"), options.window);
  check_window(spelled("target_window"), options.target_window);
  if (!options.target_window.empty() && options.target.empty())
    throw OptionError(fmt::format("{} needs a target; set {}", spelled("target_window"), spelled("target")));
}

void check_field_options(const FieldOptions& field, const EpisodeOptions& episodes) {
  check_window(fmt::format("field \"{}\": window", field.name), field.window);
  if (!field.window.empty() && field.per != FieldUnit::row) {
    throw OptionError(
        fmt::format("field \"{}\": window needs a row of the field for each row of the data; "
                    "leave per unset, or the window",
                    field.name));
  }
  if (field.per == FieldUnit::episode && episodes.index == EpisodeOptions::Index::series) {
    throw OptionError(fmt::format("field \"{}\": all rows of {} are one episode; use per file, or row",
                                  field.name, spelled("episodes.index", "series")));
  }
}

// Throws if a field has the name of one that tells which rows of a window exist.
void check_valid_names(const DatasetOptions& options) {
  std::vector<std::string> taken;
  if (!options.window.empty()) taken.emplace_back("data.valid");
  if (!options.target_window.empty()) taken.emplace_back("target.valid");
  for (const FieldOptions& field : options.fields) {
    if (!field.window.empty()) taken.push_back(fmt::format("{}.valid", field.name));
  }
  for (const FieldOptions& field : options.fields) {
    if (std::ranges::find(taken, field.name) == taken.end()) continue;
    throw OptionError(
        fmt::format("field \"{}\" has the name of the field that tells which rows of a window "
                    "exist; use another name",
                    field.name));
  }
}

// Returns the values of a dataset of integers.
std::vector<std::int64_t> integers_of(const ChunkReader& reader, const char* option) {
  const DatasetInfo& info = reader.info();
  if (!is_integer(info.dtype) || info.shape.empty() || info.row_elements() != 1) {
    throw DatasetError(
        fmt::format("{}:{} ({}): {} must be one-dimensional, of integers; name another dataset", info.file,
                    short_path(info.path), info.shape_text(), spelled(option)));
  }
  const ByteBuffer stored = read_all(reader, system_limits().cpus);
  std::vector<std::int64_t> values(static_cast<std::size_t>(info.rows()));
  with_type_of(info.dtype, [&](auto typed) {
    using T = decltype(typed);
    if constexpr (std::is_integral_v<T>) {
      const T* const from = reinterpret_cast<const T*>(stored.data());
      std::ranges::transform(std::span(from, values.size()), values.begin(),
                             [](T value) { return static_cast<std::int64_t>(value); });
    }
  });
  return values;
}

}  // namespace

bool in_episodes(const DatasetOptions& options) noexcept {
  return options.episodes || !options.window.empty() || !options.target_window.empty() ||
         std::ranges::any_of(options.fields, [](const FieldOptions& field) {
           return !field.window.empty() || field.per != FieldUnit::row;
         });
}

SampleUnit default_unit(const DatasetOptions& options, const FieldOptions& field) noexcept {
  if (field.per == FieldUnit::row) return options.sample;
  const bool table = options.episodes && has_table(*options.episodes);
  return field.per == FieldUnit::episode && table ? SampleUnit::row : SampleUnit::dataset;
}

RowCount row_count_of(const DatasetOptions& options, const std::vector<std::int64_t>& window,
                      FieldUnit per) noexcept {
  if (per != FieldUnit::row) return RowCount::any;
  const bool datasets = !options.episodes || options.episodes->index == EpisodeOptions::Index::datasets;
  return !window.empty() && datasets ? RowCount::one_more : RowCount::same;
}

EpisodeOpener::EpisodeOpener(const DatasetOptions& options, std::size_t num_files,
                             std::shared_ptr<FilePool> pool)
    : options_(options.episodes.value_or(EpisodeOptions())), pool_(std::move(pool)) {
  check_options(options, options_);
  for (const FieldOptions& field : options.fields) check_field_options(field, options_);
  if (options_.missing_before != 0 || options_.missing_after != 0) check_valid_names(options);
  uses_.push_back({{options.window}, FieldUnit::row});
  uses_.push_back({{options.target_window}, FieldUnit::row});
  for (const FieldOptions& field : options.fields) uses_.push_back({{field.window}, field.per});
  if (!has_table(options_)) return;
  table_.emplace(FieldSpec{.path = options_.table,
                           .option = {.name = "episodes.table"},
                           .num_files = num_files,
                           .row_count = RowCount::any},
                 pool_);
}

std::vector<std::int64_t> EpisodeOpener::table_values() {
  return integers_of(*table_->found().joined(), "episodes.table");
}

// Finds out whether a field has one row more than the data in each episode.
void EpisodeOpener::set_extra_rows(const PartOpener& data, const PartOpener& field, FieldUse& use) const {
  if (field.row_count() != RowCount::one_more || field.kept().size() != data.kept().size()) return;
  for (std::size_t i = 0; i < data.kept().size(); ++i) {
    const std::uint64_t extra = field.kept()[i].rows - data.kept()[i].rows;
    if (i == 0) use.window.extra_rows = extra;
    if (extra == use.window.extra_rows && extra <= 1) continue;
    throw DatasetError(fmt::format(
        "{} has {} rows, {} has {}; a field with a window needs as many rows as the data in every "
        "episode, or one more in every episode",
        field.kept()[i].path, format_count(field.kept()[i].rows), data.kept()[i].path,
        format_count(data.kept()[i].rows)));
  }
}

void EpisodeOpener::check_field(const PartOpener& data, const PartOpener& field, const FieldUse& use,
                                std::uint64_t files, std::uint64_t episodes) const {
  std::uint64_t rows = 0;
  bool one_each = true;
  for (const PartRows& part : field.kept()) {
    one_each = one_each && part.file == rows;
    rows += part.rows;
  }
  if (use.per == FieldUnit::file && (rows != files || !one_each)) {
    throw DatasetError(fmt::format("{} has {} rows in {} {}; a field per file needs one in each",
                                   field.pattern(), format_count(rows), format_count(files),
                                   files == 1 ? "file" : "files"));
  }
  if (use.per == FieldUnit::episode && rows != episodes) {
    throw DatasetError(
        fmt::format("{} has {} rows, {} has {} episodes; a field per episode needs one for each",
                    field.pattern(), format_count(rows), data.pattern(), format_count(episodes)));
  }
}

void EpisodeOpener::refuse_windows(const std::string& place, std::span<const Episode> episodes) const {
  if (episodes.empty())
    throw DatasetError(fmt::format("{}: no episode takes part; leave {} unset for all of them", place,
                                   spelled("episodes.only")));
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  for (const FieldUse& use : uses_) {
    before = std::max(before, use.window.before());
    after = std::max(after, use.window.after());
  }
  throw DatasetError(
      fmt::format("{}: the windows reach {} rows back and {} ahead, and the longest episode has {}; use "
                  "shorter windows, or "
                  "let rows be missing with {} and {}",
                  place, format_count(before), format_count(after),
                  format_count(std::ranges::max(episodes, {}, &Episode::rows).rows),
                  spelled("episodes.missing_before"), spelled("episodes.missing_after")));
}

void EpisodeOpener::find(std::span<const std::filesystem::path> files,
                         std::span<const PartOpener* const> fields) {
  const PartOpener& data = *fields.front();
  std::vector<EpisodeFile> found(files.size());
  std::uint64_t end = 0;
  for (const PartRows& part : data.kept()) {
    const auto names = wildcard_names(part.path, data.pattern());
    found[part.file].datasets.push_back({part.path, {names.begin(), names.end()}, part.rows});
    end += part.rows;
    if (part.rows > 0) ends_.push_back(end);
  }
  if (table_) {
    const std::vector<std::int64_t> values = table_values();
    auto next = values.begin();
    for (const PartRows& part : table_->kept()) {
      const auto part_end = next + static_cast<std::ptrdiff_t>(part.rows);
      found[part.file].table.insert(found[part.file].table.end(), next, part_end);
      next = part_end;
    }
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    found[i].file = files[i].string();
    if (options_.only.empty()) continue;
    check_interrupt();
    const auto [file, path] = pool_->follow_links(pool_->open(files[i]), options_.only);
    const PathOption option{.name = "episodes.only"};
    if (auto names = read_text_list(*file, path, option)) {
      found[i].only_names = std::move(*names);
    } else {
      if (file->list_one(path).type_text == "bool") {
        throw DatasetError(
            fmt::format("{}:{}: {} holds booleans; list the numbers or names of the episodes to keep",
                        files[i].string(), short_path(path), spelled(option.name)));
      }
      const auto reader = open_chunk_reader(file, file->describe(path, option));
      if (reader->info().rows() > 0) found[i].only_numbers = integers_of(*reader, "episodes.only");
    }
  }
  const EpisodeIndex index = find_episodes(options_, found);
  std::vector<FieldWindow> windows;
  for (std::size_t number = 0; number < fields.size(); ++number) {
    if (fields[number] == nullptr) continue;
    set_extra_rows(data, *fields[number], uses_[number]);
    check_field(data, *fields[number], uses_[number], files.size(), index.all);
    if (uses_[number].per == FieldUnit::row) windows.push_back(uses_[number].window);
  }
  // The groups of a series do not end with its datasets either.
  if (options_.index == EpisodeOptions::Index::series) ends_ = {end};
  anchors_ = std::make_shared<const Anchors>(index.episodes, options_, windows, index.file_ends);
  if (anchors_->num_samples() == 0)
    refuse_windows(fmt::format("{}: {}", files.front().string(), data.pattern()), index.episodes);
}

SampleRows EpisodeOpener::rows_of(std::size_t field) const {
  return SampleRows::of_anchors(anchors_, uses_[field].window, uses_[field].per, options_.fill);
}

Episodes EpisodeOpener::finish(const DatasetState& state) const {
  std::uint64_t min_rows = 0;
  for (std::size_t number = 0; number < state.num_fields(); ++number) {
    const Field* const field = state.field(number);
    if (field == nullptr || field->is_resident() || uses_[number].per != FieldUnit::row) continue;
    min_rows = std::max(min_rows, least_group_rows(uses_[number].window, field->map.rows().rows_per_chunk()));
  }
  return {.anchors = anchors_,
          .groups = group_anchors(*anchors_, state.data.map.rows(), ends_, min_rows, uses_[kData].window)};
}

}  // namespace h5feed
