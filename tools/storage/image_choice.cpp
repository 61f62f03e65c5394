// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/image_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/byte_units.hpp"
#include "dataset/dataset_state.hpp"
#include "dataset/geometry.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::cli {
namespace {

// Usual names of labels, the most usual one first.
constexpr std::array<std::string_view, 5> kUsualNames = {"labels", "label", "targets", "target", "y"};

std::string_view group_of(std::string_view path) { return path.substr(0, path.rfind('/')); }
std::string_view name_of_path(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool one_number_a_row(const DatasetEntry& entry) {
  return entry.numeric && (entry.shape.size() == 1 || (entry.shape.size() == 2 && entry.shape[1] == 1));
}

// Ends the name of the table with the shapes of images of variable length.
constexpr std::string_view kShapes = "_shapes";

bool is_table_of_shapes(const DatasetEntry& entry) {
  return entry.numeric && entry.shape.size() == 2 && entry.shape[1] == 3 && entry.path.ends_with(kShapes);
}

std::vector<DatasetEntry> image_datasets(const std::vector<DatasetEntry>& datasets) {
  std::vector<DatasetEntry> images;
  for (const DatasetEntry& entry : datasets) {
    const auto dtype = entry.numeric ? dtype_from_name(entry.type_text) : std::nullopt;
    if (dtype && looks_like_images(entry.shape, *dtype)) images.push_back(entry);
  }
  return images;
}

// Returns whether the layout has to be stated.
bool needs_layout(const DatasetEntry& entry) {
  const auto dtype = dtype_from_name(entry.type_text);
  return entry.shape.size() > 2 && !(dtype && looks_like_images(entry.shape, *dtype));
}

// Returns the options that name a dataset; offers the largest dataset, usually the training set. Empty if
// no dataset of the file can be fed.
std::string suggestion(const DatasetEntry* chosen, const std::vector<DatasetEntry>& datasets,
                       const std::string& file, std::string_view command) {
  if (chosen == nullptr) return {};
  std::string text =
      fmt::format(". Try: h5feed {} {} --data {}{}", command, shell_word(file),
                  shell_word(chosen->path.substr(1)), needs_layout(*chosen) ? " --input-layout none" : "");
  const Companions companions(datasets);
  const std::string labels = companions.labels(*chosen);
  const bool takes_labels = command != "tune";
  if (takes_labels && !labels.empty() && labels != chosen->path)
    text += " --target " + shell_word(labels.substr(1));
  if (const std::string table = companions.table_of_shapes(*chosen); !table.empty())
    text += " --image-shapes " + shell_word(table.substr(1));
  return text;
}

// Returns an empty text if the library's own message is as good.
std::string choice_error(const DatasetOptions& options, std::string_view command) {
  const std::string file = options.files.front().string();
  const auto opened = open_isolated(options.files.front());
  const auto datasets = opened->list_datasets();
  const auto images = image_datasets(datasets);
  if (images.size() == 1) return {};
  const auto largest = [](const std::vector<DatasetEntry>& entries) -> const DatasetEntry* {
    const DatasetEntry* best = nullptr;
    for (const DatasetEntry& entry : entries) {
      if (!entry.numeric || entry.shape.empty()) continue;
      if (best == nullptr || entry.shape.size() > best->shape.size() ||
          (entry.shape.size() == best->shape.size() && entry.shape.front() > best->shape.front())) {
        best = &entry;
      }
    }
    return best;
  };
  if (images.size() > 1)
    return which_images(file, images) + suggestion(largest(images), datasets, file, command);
  // Bytes of variable length are encoded images, and what lies beside them their labels.
  const auto encoded = std::ranges::find_if(datasets, [&](const DatasetEntry& entry) {
    return entry.type_text == "variable-length" && opened->describe_ragged(entry.path);
  });
  if (encoded != datasets.end() && command != "tune")
    return no_images_text(*opened, datasets) + suggestion(&*encoded, datasets, file, command);
  return no_images_text(*opened, datasets) + suggestion(largest(datasets), datasets, file, command);
}

}  // namespace

std::size_t label_rank(std::string_view path) {
  const auto usual = std::find(kUsualNames.begin(), kUsualNames.end(), name_of_path(path));
  return static_cast<std::size_t>(usual - kUsualNames.begin());
}

Companions::Companions(const std::vector<DatasetEntry>& datasets) {
  for (const DatasetEntry& entry : datasets) {
    if (is_table_of_shapes(entry)) tables_.insert(entry.path);
    if (!one_number_a_row(entry)) continue;
    const Labels found = {entry.path, label_rank(entry.path)};
    const auto [best, first] = labels_.try_emplace({group_of(entry.path), entry.shape.front()}, found);
    if (!first && found.rank < best->second.rank) best->second = found;
  }
}

std::string Companions::labels(const DatasetEntry& images) const {
  if (images.shape.empty()) return {};
  const auto best = labels_.find({group_of(images.path), images.shape.front()});
  return best == labels_.end() ? std::string() : std::string(best->second.path);
}

std::string Companions::table_of_shapes(const DatasetEntry& images) const {
  const std::string table = images.path + std::string(kShapes);
  return !images.numeric && tables_.contains(table) ? table : std::string();
}

bool holds_unreadable_numbers(const DatasetEntry& entry) {
  if (entry.numeric || !entry.problem.empty()) return false;
  // The texts of H5File's types.
  return std::ranges::any_of(
      std::array<std::string_view, 4>{"integer", "floats", "bitfields", "enumeration"},
      [&](std::string_view word) { return entry.type_text.find(word) != std::string::npos; });
}

bool named_as_labels(std::string_view path) { return label_rank(path) < kUsualNames.size(); }

std::string why_no_labels(const DatasetEntry& images, const std::vector<DatasetEntry>& datasets) {
  const DatasetEntry* nearest = nullptr;
  for (const DatasetEntry& entry : datasets) {
    if (entry.path == images.path || !named_as_labels(entry.path) ||
        group_of(entry.path) != group_of(images.path)) {
      continue;
    }
    if (nearest == nullptr || label_rank(entry.path) < label_rank(nearest->path)) nearest = &entry;
  }
  if (nearest == nullptr) return {};
  const std::string path = printable(nearest->path);
  if (!nearest->problem.empty()) return fmt::format("{} cannot be read", path);
  if (!nearest->numeric) {
    return fmt::format(
        "{} {} ({})", path,
        holds_unreadable_numbers(*nearest) ? "is of a type that h5feed cannot read" : "holds no numbers",
        printable(nearest->type_text));
  }
  if (nearest->shape.empty()) return fmt::format("{} is a single value", path);
  if (nearest->shape.front() != images.shape.front()) {
    return fmt::format("{} has {} rows, not {}", path, format_count(nearest->shape.front()),
                       format_count(images.shape.front()));
  }
  return one_number_a_row(*nearest)
             ? std::string()
             : fmt::format("{} has several numbers per row; --target {} delivers them as stored", path, path);
}

Dataset open_dataset(const DatasetOptions& options, std::string_view command) {
  try {
    return Dataset::open(isolated(options));
  } catch (const DatasetError&) {
    if (!options.data.empty()) throw;
    const std::string text = choice_error(options, command);
    if (text.empty()) throw;
    throw DatasetError(text);
  }
}

}  // namespace h5feed::cli
